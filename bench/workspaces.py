"""Workspaces with settings that count, as if a person had trusted them."""

from __future__ import annotations

import os
from pathlib import Path

from ordain.assemble.workspace import open_at_terminal
from ordain.core.approval.approval import Channel, Principal

__all__ = ["trust"]

_BY = Principal(name="bench", channel=Channel.TERMINAL)


async def trust(home: Path, workspace: Path, settings: str) -> None:
    """Write the settings of a workspace and let them count."""
    (workspace / "ordain.toml").write_text(settings)
    before = os.environ.get("ORDAIN_HOME")
    os.environ["ORDAIN_HOME"] = str(home)
    try:
        app = open_at_terminal(workspace, exact=True)
        await app.approvals.trust(app.approvals.configuration()[1], _BY)
        await app.close()
    finally:
        del os.environ["ORDAIN_HOME"]
        if before is not None:
            os.environ["ORDAIN_HOME"] = before
