"""An MCP server that is not there before somebody writes into the pipe of its first argument. As SDKs have it, the
first request decides the era of the session, and what belongs to the other one is an error."""

import json
import sys

with open(sys.argv[1], "rb", buffering=0) as gate:
    gate.read(1)
era = None
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if "id" not in message:
        continue
    era = era or ("modern" if method == "server/discover" else "legacy")
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "slow", "version": "1"}}
    result = {
        "initialize": {"protocolVersion": "2025-11-25", **about} if era == "legacy" else None,
        "server/discover": {"supportedVersions": ["2026-07-28"], **about} if era == "modern" else None,
        "tools/list": {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "said"}]},
    }.get(method)
    said = {"result": result} if result is not None else {"error": {"code": -32600, "message": "the other era"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
