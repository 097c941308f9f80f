"""Stands between a client and its MCP server on stdio and notes every message: `python tap.py NOTES COMMAND…`.

What passes is not changed, nor understood.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any


def main(notes: str, command: list[str]) -> int:
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None and server.stdout is not None
    writing = threading.Lock()

    def pass_on(who: str, source: IO[bytes], sink: IO[bytes]) -> None:
        for line in iter(source.readline, b""):
            with writing, open(notes, "a", encoding="utf-8") as file:
                file.write(json.dumps({"from": who, "line": line.decode()}) + "\n")
            sink.write(line)
            sink.flush()
        sink.close()

    # A client may end without closing our input: then nobody waits for this thread.
    threading.Thread(target=pass_on, args=("client", sys.stdin.buffer, server.stdin), daemon=True).start()
    pass_on("server", server.stdout, sys.stdout.buffer)
    return server.wait()


def messages(notes: Path) -> list[dict[str, Any]]:
    """Everything that passed, in either direction."""
    return [json.loads(json.loads(line)["line"]) for line in notes.read_text().splitlines()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
