"""The commands around plans: init, explain."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ordain.core.codes import PAGES
from ordain.core.problem import Problem, Refused, closest, refuse
from ordain.documents.configuration import CONFIGURATION_FILE, TEMPLATE
from ordain.interfaces.cli.shell import FINE, Session, command

__all__ = ["explain", "init"]


@command()
def init(session: Session) -> int:
    """Make the current directory a workspace: write an ordain.toml that lists every setting with its default.

    Nothing that is there is overwritten. Example: ordain init
    """
    target = Path(click.get_current_context().find_root().obj or ".") / CONFIGURATION_FILE
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    except FileExistsError:
        raise refuse("E_CONFIG", f"{target} is there already; it was left as it is.", command="ordain trust") from None
    except OSError as error:
        raise refuse("E_CONFIG", f"{target} cannot be written: {os.strerror(error.errno or 0).lower()}.") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(TEMPLATE)
    following = ["ordain run DOCUMENT", "ordain trust"]
    if session.json:
        session.answer({"written": str(target)}, next_=following)
    else:
        session.say([f"Wrote {target}: every setting, at its default. After you change it: ordain trust"])
    return FINE


@command()
@click.argument("code")
def explain(session: Session, code: str) -> int:
    """Show the page about a problem's code.

    Example: ordain explain E_CONTRACT_VACUOUS
    """
    page = PAGES.get(code.upper())
    if page is None:
        problem = Problem(code="E_CODE_UNKNOWN", detail=f"There is no code {code}.", hints=closest(code.upper(), PAGES))
        raise Refused([problem])
    if session.json:
        session.answer({"code": code.upper(), "summary": page.summary, "meaning": page.meaning, "remedy": page.remedy})
    else:
        session.say([session.style.bold(f"{code.upper()}: {page.summary}"), "", page.meaning, "", page.remedy])
    return FINE
