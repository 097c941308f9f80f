"""The commands for machines: mcp."""

from __future__ import annotations

from ordain.core.problem import refuse
from ordain.interfaces.cli.shell import FINE, Session, command

__all__ = ["mcp"]


@command()
def mcp(session: Session) -> int:
    """Serve agents over MCP on standard input and output: they propose, start and watch plans, and can ask for approval
    but never give it. An agent's settings name this command.

    Example: ordain mcp
    """
    from ordain.assemble import open_workspace
    from ordain.interfaces.mcp.plan_surface import PLAN_SURFACE

    try:
        from ordain.interfaces.mcp.stdio import serve_stdio
    except ImportError as error:
        raise refuse("E_EXTRA_MISSING", f"`ordain mcp` needs a library that is not installed: {error.name}.") from error
    path = session.app.workspace_path
    serve_stdio(PLAN_SURFACE, lambda: open_workspace(path, exact=True), session.by.name)
    return FINE
