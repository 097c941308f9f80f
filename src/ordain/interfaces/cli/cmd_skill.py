"""The command that prints what models should know: skill."""

from __future__ import annotations

from pathlib import Path

import click

from ordain import __version__
from ordain.interfaces.cli.output_file import NEW_MODE, make_parents, write_new, write_whole
from ordain.interfaces.cli.session import FINE, Session, command
from ordain.interfaces.skill import is_skill, skill_text
from ordain.interfaces.view.result import SkillResult


@command()
@click.option("-o", "output", metavar="FILE", help="Write it to this file, new or an older skill of ours.")
def skill(session: Session, output: str | None) -> int:
    """Print what models that work with Ordain should know: when to plan, how to write plans and contracts, what
    refusals mean. With -o it becomes a skill that an agent loads by itself.

    Example: ordain skill -o .claude/skills/ordain/SKILL.md
    """
    text = skill_text()
    if output is not None:
        make_parents(output)
        if is_skill(Path(output)):
            write_whole(output, text.encode())
        else:
            write_new(output, [text.encode()], mode=NEW_MODE)
    if session.json:
        session.answer(SkillResult(text=text, version=__version__, written=output))
    elif output is not None:
        session.say([f"Wrote {output}."])
    else:
        click.echo(text, nl=False)
    return FINE
