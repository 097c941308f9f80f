"""The handler: the payload comes as JSON on standard input, the result goes as JSON to standard output."""

import json
import sys
from pathlib import Path

payload = json.load(sys.stdin)
with Path(sys.argv[1]).open("a") as file:
    file.write(f"to {', '.join(payload['to'])}: {payload['text']}\n")
print(json.dumps({"told": len(payload["to"])}))
