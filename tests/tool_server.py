"""A small MCP server of tools over standard input and output, well-behaved or not, as its first argument says.

With a second argument, a file, it does not serve the description in its own text but the one in that file; one that
counts writes its calls there.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
READS = {"readOnlyHint": True}


def tools(manner: str) -> list[dict[str, Any]]:
    said = Path(sys.argv[2]).read_text() if len(sys.argv) > 2 and manner != "counts" else "Say it again."
    found = [
        {"name": "echo", "description": said, "inputSchema": TEXT, "annotations": READS},
        {"name": "fail", "description": "Fail.", "inputSchema": {"type": "object"}},
        {"name": "environment", "description": "Names of variables.", "inputSchema": {"type": "object"}},
        {"name": "die", "description": "End.", "inputSchema": {"type": "object"}},
        {"name": "hang", "description": "Take long.", "inputSchema": {"type": "object"}},
        {"name": "big", "description": "Give much.", "inputSchema": {"type": "object"}},
        {"name": "tell", "description": "Tell how far it has come.", "inputSchema": {"type": "object"}},
        {"name": "no good name!", "description": "Nobody can call this.", "inputSchema": {"type": "object"}},
    ]
    many = 10_000 if manner == "many" else 0
    return found + [{"name": f"t{number}", "inputSchema": {"type": "object"}} for number in range(many)]


def call(name: str, args: dict[str, Any], token: object) -> dict[str, Any]:
    match name:
        case "tell":
            said = {"progressToken": token, "progress": 2, "total": 3, "message": "packing the\nboxes"}
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": said}), flush=True)
            time.sleep(0.3)
            return {"content": [{"type": "text", "text": "told"}]}
        case "echo":
            return {"content": [{"type": "text", "text": args["text"]}], "structuredContent": {"said": args["text"]}}
        case "fail":
            return {"content": [{"type": "text", "text": "the printer\nis on fire"}], "isError": True}
        case "environment":
            return {"content": [{"type": "text", "text": " ".join(sorted(os.environ))}]}
        case "big":
            return {"content": [{"type": "text", "text": "x" * 3_000_000}]}
        case "die":
            os._exit(3)
        case _:
            time.sleep(600)
            raise AssertionError


def _called(manner: str, params: dict[str, Any]) -> dict[str, Any]:
    if manner == "counts":
        with Path(sys.argv[2]).open("a") as calls:
            calls.write(f"{params['name']}\n")
    return call(params["name"], params.get("arguments") or {}, params.get("_meta", {}).get("progressToken"))


def main(manner: str) -> None:
    if manner == "silent":
        time.sleep(600)
    if manner == "garbage":
        while True:
            print("Welcome to the server!", flush=True)
    if manner == "leaves":
        # One that gets away, as far as a process can.
        subprocess.Popen(["sleep", "600"], start_new_session=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        match asked["method"]:
            case "initialize":
                answer["result"] = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "small", "version": "1"},
                }
            case "tools/list":
                answer["result"] = {"tools": tools(manner)}
            case "tools/call":
                answer["result"] = _called(manner, asked["params"])
            case _:
                answer["error"] = {"code": -32601, "message": "not here"}
        print("not a message", flush=True)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
