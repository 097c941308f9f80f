"""A raw MCP server that says everything that a server may say and hardly any does, in both eras of the protocol.

Its first argument is a file to which it writes every line that it is sent; the second, where there is one, what its
tools' names begin with. Calls of `send` go to `sent.log` beside that file too: an approval is bound to the files that
a contract names, and nothing else appends to this one. Nothing here knows the SDK, so that nothing is made tidy on the
way.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

LOG = Path(sys.argv[1])
PREFIX = sys.argv[2].removeprefix("-") if len(sys.argv) > 2 else ""
ERA = sys.argv[3] if len(sys.argv) > 3 else "both"
VERSION = "2026-07-28"
_lock = threading.Lock()
_more: list[str] = []
_cancelled: set[Any] = set()
_answered: dict[Any, Any] = {}


def say(message: dict[str, Any]) -> None:
    with _lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def tools() -> list[dict[str, Any]]:
    names = ["echo", "odd", "send", "progress", "slow", "crash", "big", "wrong", "sample", "grow", "refuse", *_more]
    return [
        {
            "name": PREFIX + name,
            "description": f"tool {name}",
            "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "x-unknown": {"a": [1, None]}},
            "annotations": {"readOnlyHint": name != "send", "title": None, "x-hint": 1.0},
            "execution": {"taskSupport": "forbidden", "x": 1},
            "x-tool": 12345678901234567890123,
            "_meta": {"vendor/x": None},
        }
        for name in names
    ]


def call(request: Any, params: dict[str, Any]) -> None:
    name, args = params["name"].removeprefix(PREFIX), params.get("arguments") or {}
    token = (params.get("_meta") or {}).get("progressToken")
    result: dict[str, Any] = {"content": [{"type": "text", "text": json.dumps(params, sort_keys=True)}]}
    match name:
        case "send":
            with LOG.with_name("sent.log").open("a") as sent:
                sent.write(f"{json.dumps(args)}\n")
        case "odd":
            result = {
                "content": [
                    {"type": "hologram", "depth": 3, "nothing": None},
                    {"type": "text", "text": "\ud83d\ude00 \u2028", "x-more": {"big": 12345678901234567890123}},
                ],
                "structuredContent": [1, 2.0, None, {"a": 1e-7}],
                "isError": False,
                "x-result": True,
                "_meta": {"vendor/y": {"z": None}},
            }
            say({"jsonrpc": "2.0", "method": "notifications/vendor", "params": {"x": [None, 1.5]}})
        case "progress":
            for done in range(3):
                said = {"progressToken": token, "progress": done, "total": 3, "x-more": None}
                say({"jsonrpc": "2.0", "method": "notifications/progress", "params": said})
        case "slow":
            until = time.monotonic() + float(args.get("n", 10))
            while time.monotonic() < until and request not in _cancelled:
                time.sleep(0.005)
            result["content"][0]["text"] = "cancelled" if request in _cancelled else "slept"
        case "crash":
            os._exit(3)
        case "big":
            result["content"][0]["text"] = "x" * int(args["n"])
        case "wrong":
            say({"jsonrpc": "2.0", "id": request, "error": {"code": -7, "message": "no", "data": {"d": 1}, "x-e": 2}})
            return
        case "sample":
            asked = f"s{request}"
            want = {"messages": [], "maxTokens": 5, "_meta": {"progressToken": 1}}
            say({"jsonrpc": "2.0", "id": asked, "method": "sampling/createMessage", "params": want})
            while asked not in _answered:
                time.sleep(0.005)
            result["content"][0]["text"] = json.dumps(_answered[asked], sort_keys=True)
        case "grow":
            _more.append(f"more{len(_more)}")
            say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        case "refuse":
            result["isError"] = True
    say({"jsonrpc": "2.0", "id": request, "result": {**result, **_era(params)}, "x-envelope": 1})


def _era(params: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What results have in them in the modern era."""
    modern = "io.modelcontextprotocol/protocolVersion" in (params.get("_meta") or {})
    return {"resultType": "complete", **more} if modern else {}


def answer(message: dict[str, Any]) -> None:
    request, params = message["id"], message.get("params") or {}
    match message["method"]:
        case "initialize":
            result = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}, "logging": {}, "x-capability": {"a": None}},
                "serverInfo": {"name": f"odd{PREFIX}", "version": "1", "x-info": 1},
                "instructions": "Be odd.",
            }
        case "server/discover" if ERA == "both":
            result = {
                "resultType": "complete",
                "supportedVersions": [VERSION],
                "capabilities": {"tools": {"listChanged": True}, "x-capability": {"a": None}},
                "instructions": "Be odd.",
                "ttlMs": 0,
                "cacheScope": "private",
            }
        case "tools/list":
            found = tools()
            at = int(params.get("cursor") or 0)
            result = {"x-list": 1, "tools": found[at : at + 5], **_era(params, ttlMs=5, cacheScope="public")}
            if at + 5 < len(found):
                result["nextCursor"] = str(at + 5)
        case "tools/call":
            threading.Thread(target=call, args=(request, params), daemon=True).start()
            return
        case "vendor/method":
            result = {"given": params}
        case _:
            say({"jsonrpc": "2.0", "id": request, "error": {"code": -32601, "message": "Method not found"}})
            return
    say({"jsonrpc": "2.0", "id": request, "result": result})


def main() -> None:
    for line in sys.stdin:
        with LOG.open("a") as log:
            log.write(line)
        message = json.loads(line)
        if "method" not in message:
            _answered[message["id"]] = message.get("result", message.get("error"))
        elif "id" in message:
            answer(message)
        elif message["method"] == "notifications/cancelled":
            _cancelled.add(message["params"]["requestId"])


if __name__ == "__main__":
    main()
