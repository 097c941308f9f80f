"""The commands for machines: mcp, skill."""

from __future__ import annotations

import click

from ordain import __version__
from ordain.core.problem import refuse
from ordain.interfaces.cli.shell import FINE, Session, command
from ordain.interfaces.cli.writing import NEW_MODE, make_parents, write_new
from ordain.interfaces.results.around import SkillResult
from ordain.interfaces.skill import skill_text

__all__ = ["mcp", "skill"]


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


@command()
@click.option("-o", "output", metavar="FILE", help="Write it to this new file, with the directories it lies in.")
def skill(session: Session, output: str | None) -> int:
    """Print what models that work with Ordain should know: when to plan, how to write plans and contracts, what
    refusals mean. With -o it becomes a skill that an agent loads by itself.

    Example: ordain skill -o .claude/skills/ordain/SKILL.md
    """
    text = skill_text()
    if output is not None:
        make_parents(output)
        write_new(output, [text.encode()], mode=NEW_MODE)
    if session.json:
        session.answer(SkillResult(text=text, version=__version__, written=output))
    elif output is not None:
        session.say([f"Wrote {output}."])
    else:
        click.echo(text, nl=False)
    return FINE
