"""What understanding a command line costs, beside nothing but tree-sitter's parse of it."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path

from tree_sitter import Language, Parser
from tree_sitter_bash import language

import ordain
from bench.measure import Line, Size, compare
from ordain.adapters.process.shell_text import ShellText
from ordain.core.policy.command_facts import FactReader
from ordain.core.policy.fact import LineFacts
from ordain.core.policy.program_table import ProgramTable

__all__ = ["measure"]

TARGET = 6.0
_LINES = Path(__file__).resolve().parent.parent / "tests" / "commands" / "corpus.jsonl"
_DATA = Path(ordain.__file__).parent / "data"


async def measure(size: Size) -> list[Line]:
    texts = [json.loads(line)["command"] for line in _LINES.read_text().splitlines()]
    count, rounds = size.pick(10_000, 2_000), size.pick(5, 3)
    parse = Parser(Language(language())).parse
    again = list(itertools.islice(itertools.cycle(texts[: count // 4]), count))
    kinds = {
        "command of 10,000, each four times": (again, TARGET),
        "command that is new": (texts, None),
    }
    programs = [path.read_text() for path in sorted((_DATA / "programs").glob("*.toml"))]
    table = ProgramTable(programs, (_DATA / "verbs.toml").read_text())
    _processor(_reader(table), texts)  # the entries that these need are parsed
    lines = []
    for name, (commands, target) in kinds.items():
        encoded = [text.encode() for text in commands]
        pairs = []
        for _ in range(rounds):
            pairs.append((_processor(_reader(table), commands), _processor(parse, encoded)))
        lines.append(
            compare("understood", name, "tree-sitter's parse", pairs, per=len(commands), target=target, note="one core")
        )
    return lines


def _reader(table: ProgramTable) -> Callable[[str], LineFacts]:
    """What reads command lines, and has read none yet."""
    shell = ShellText()
    return FactReader(table, lambda text: shell.scripts([text]).get(text), "/home/kim/project").line


def _processor(work: Callable[..., object], each: list[str] | list[bytes]) -> float:
    """Seconds of processor time for all of them."""
    start = time.process_time()
    for one in each:
        work(one)
    return time.process_time() - start
