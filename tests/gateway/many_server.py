"""A small MCP server for one client of many, without the SDK, quick to start: it answers calls in the order in which
they are due, keeps what it was asked in the file of its first argument, and says so when it is another client's.

`python -I -S many_server.py FILE [legacy]`; `legacy` is one that knows the protocol of 2025 only. Tools: `say`, which
answers what it is given after a while, with news before where they are wanted, and `send`, which does the same and
should need a plan.
"""

import heapq
import json
import os
import select
import sys
import time

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
VERSIONS = {"initialize": "2025-11-25", "server/discover": "2026-07-28"}
DUE = []
"""When, in which order, for which request, and what is written then."""


def main():
    buffered, clients, count = b"", set(), 0
    with open(f"{sys.argv[1]}.{os.getpid()}", "a", buffering=1) as kept:
        while True:
            wait = max(0.0, DUE[0][0] - time.monotonic()) if DUE else None
            if select.select([0], [], [], wait)[0]:
                data = os.read(0, 1 << 16)
                if not data:
                    return
                *lines, buffered = (buffered + data).split(b"\n")
                for line in lines:
                    message = json.loads(line)
                    count += 1
                    received(message, count, clients, kept)
            while DUE and DUE[0][0] <= time.monotonic():
                write(heapq.heappop(DUE)[-1])


def received(message, count, clients, kept):
    method, params, number = message.get("method"), message.get("params") or {}, message.get("id")
    if method == "notifications/cancelled":
        found = [entry for entry in DUE if entry[2] == params["requestId"]]
        for entry in found:
            DUE.remove(entry)
        heapq.heapify(DUE)
        if found:
            kept.write(f"cancelled {found[0][3]}\n")
    elif method == "tools/call":
        arguments = params["arguments"]
        text, now = arguments["text"], time.monotonic()
        clients.add(text.partition("-")[0])
        kept.write(f"{params['name']} {text}\n")
        due = now + arguments.get("delay_ms", 0) / 1000
        news, token = arguments.get("news", 0), params.get("_meta", {}).get("progressToken")
        for step in range(news):
            said = {"progressToken": token, "progress": step + 1, "total": news, "message": text}
            at = now + (due - now) * step / news
            told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": said}
            heapq.heappush(DUE, (at, count + step / 100, number, text, told))
        structured = {"text": text, "pid": os.getpid(), "clients": sorted(clients)}
        result = {"content": [{"type": "text", "text": text}], "structuredContent": structured}
        answer(due, count + 0.99, number, text, result)
    elif number is not None and method is not None:
        has = {"capabilities": {"tools": {}}, "serverInfo": {"name": "many", "version": "1"}}
        keep = {"ttlMs": 0, "cacheScope": "private"}
        if method == "server/discover" and "legacy" in sys.argv:
            error = {"code": -32601, "message": "Method not found"}
            heapq.heappush(DUE, (time.monotonic(), count, number, "", {"jsonrpc": "2.0", "id": number, "error": error}))
            return
        found = {
            "initialize": {"protocolVersion": VERSIONS["initialize"], **has},
            "server/discover": {"supportedVersions": [VERSIONS["server/discover"]], **has, **keep},
            "tools/list": {"tools": [{"name": name, "inputSchema": SCHEMA} for name in ("say", "send")], **keep},
        }.get(method, {})
        answer(time.monotonic(), count, number, "", found)


def answer(due, count, number, text, result):
    result["resultType"] = "complete"
    heapq.heappush(DUE, (due, count, number, text, {"jsonrpc": "2.0", "id": number, "result": result}))


def write(message):
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(1, data) :]


main()
