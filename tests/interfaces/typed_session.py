"""A session of a page, typed as it is shown there, and compared line by line with what comes.

A block of text with `$ ` lines is a session; lines that begin with `> ` below such a line go on with the command. `…`
in a line stands for anything, and a line that is only `…` for any lines. The ids of plans and runs, and how long
something took, are never the same twice: an id in the page stands for the one that came in its place, from then on.

What only a person can do is typed at a terminal, with the answers that stand in the page behind the questions.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.interfaces.terminal import at_terminal
from tests.patience import PATIENCE_S

_FILE = re.compile(r"^`([\w./-]+)`:\n\n(`{3,})\w*\n(.*?)^\2$", re.DOTALL | re.MULTILINE)
_PERSON = re.compile(r"ordain (?:approve|answer|trust)\b")
_ASKED = re.compile(r"(?:(Approve .*\? Type yes: )|(To approve, type .*\): )|(Your answer .*\): ?))(\S*)")
_BLOCK = re.compile(r"^```(?:text|console)\n(\$ .*?)^```$", re.DOTALL | re.MULTILINE)
_VARIES = re.compile(
    r"(?P<id>\b(?:(?:RUN|PLAN|APPROVAL)-[A-Z2-7]{16}|[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{12})\b)"
    r"|(?P<date>\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b)|(?P<time>\b\d+(?:\.\d+)? ?(?:ms|s)\b)|(?P<any>…)"
)
_QUESTIONS = ("Type yes: ", "): ", "): ")
"""The ends of the three questions; an id before them is not the same twice."""


def sessions(page: str) -> list[str]:
    """The sessions of a page, in order."""
    return _BLOCK.findall(page)


def files(page: str) -> dict[str, str]:
    """The files that a page shows, each below its name; of one that is shown again, the first."""
    found = _FILE.findall(page)
    return {name: text for name, _, text in reversed(found)}


def typed(session: str, workspace: Path, known: dict[str, str] | None = None) -> dict[str, str]:
    """Type a session and compare; the ids that stand in it, each with the real one."""
    known = {} if known is None else known
    programs = workspace.parent / "programs"
    programs.mkdir(exist_ok=True)
    ordain = programs / "ordain"
    ordain.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ordain "$@"\n')
    ordain.chmod(0o755)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "NO_COLOR": "1", "TERM": "dumb"}
    for command, shown in _commands(session):
        for name, real in known.items():
            command = command.replace(name, real)
        answers = []
        for found in filter(None, map(_ASKED.fullmatch, shown)):
            *asked, said = found.groups()
            (end,) = [end for end, one in zip(_QUESTIONS, asked, strict=True) if one is not None]
            answers.append((end, known.get(said, said)))
        if answers or _PERSON.match(command):
            at = at_terminal(*shlex.split(command)[1:], cwd=workspace, answers=answers, env=env)
            compare(command, shown, at.out.replace("\r", "").rstrip("\n").split("\n"), known)
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=workspace,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
        compare(command, shown, done.stdout.rstrip("\n").split("\n"), known)
    return known


def _commands(session: str) -> Iterator[tuple[str, list[str]]]:
    command, shown = "", list[str]()
    for line in session.removesuffix("\n").split("\n"):
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], []
        elif line.startswith("> ") and not shown:
            command += f"\n{line[2:]}"
        else:
            shown.append(line.replace("~~~", "```"))
    yield command, shown


def compare(command: str, shown: list[str], came: list[str], known: dict[str, str]) -> None:
    """Fail with both where what came is not what is shown."""
    at, came = 0, [line.rstrip() for line in came]
    told = f"$ {command}\n" + "\n".join(came)
    for number, line in enumerate(shown):
        if line.strip() == "…":
            following = shown[number + 1 :]
            while following and at < len(came) and not _fits(following[0], came[at], dict(known)):
                at += 1
            at = at if following else len(came)
            continue
        assert at < len(came), f"{line!r} never came:\n{told}"
        assert _fits(line, came[at], known), f"{line!r} is shown, and {came[at]!r} came:\n{told}"
        at += 1
    assert [line for line in came[at:] if line] == [], f"more came than is shown:\n{told}"


def _fits(shown: str, came: str, known: dict[str, str]) -> bool:
    pattern, at, names = "", 0, list[str]()
    for found in _VARIES.finditer(shown):
        pattern += re.escape(shown[at : found.start()])
        at = found.end()
        if found["any"]:
            pattern += ".*"
        elif found["date"]:
            pattern += "[0-9: -]+"
        elif found["time"]:
            pattern += r"\d+(?:\.\d+)? ?(?:ms|s)"
        elif found["id"] in known:
            pattern += re.escape(known[found["id"]])
        else:
            names.append(found["id"])
            pattern += r"([A-Z0-9a-f-]+)"
    whole = re.fullmatch(pattern + re.escape(shown[at:]), came)
    if whole is None:
        return False
    known.update(zip(names, whole.groups(), strict=True))
    return True
