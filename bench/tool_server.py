"""A server of one tool over standard input and output that takes next to no time: `echo` says what it is given, as
often as it is told."""

import json
import sys

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}, "times": {"type": "integer"}}}
ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bench", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "echo", "inputSchema": SCHEMA}]},
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "tools/call":
        arguments = message["params"]["arguments"]
        answer["result"] = {"content": [{"type": "text", "text": arguments["text"] * arguments.get("times", 1)}]}
    elif message["method"] in ANSWERS:
        answer["result"] = ANSWERS[message["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
