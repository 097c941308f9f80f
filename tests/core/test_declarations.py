"""What is declared of an action is true of it: a role or an effect class that is wrong is as bad as one left out."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, get_args

import msgspec

from ordain.core.plan.model import Action
from ordain.core.plan.role import EffectClass, PathRead, PathWritten, about, parts, roles
from ordain.engine.perform.table import PERFORMERS, WATCHERS
from tests.documents.test_docs import ACTIONS
from tests.interfaces.golden import check_golden
from tests.rows import each
from tools.mutate import read_mutants

ROOT = Path(__file__).parents[2]
KINDS = get_args(Action)
FORMAT = (ROOT / "docs/plan-format.md").read_text()
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()
IDS = [kind.__struct_config__.tag for kind in KINDS]


def tag(kind: Any) -> str:
    return str(kind.__struct_config__.tag)


def declaration(kind: Any) -> str:
    path = Path(inspect.getfile(kind))
    return f"{path.relative_to(ROOT)} ({kind.__name__})"


def sample(kind: Any) -> Any:
    found = next((action for action in ACTIONS if type(action) is kind), None)
    assert found is not None, f"ACTIONS in tests/documents/test_docs.py has no `{tag(kind)}`; add one."
    return found


def test_the_declarations_are_those_a_person_has_read() -> None:
    """A change here is read by a person: `ORDAIN_WRITE_GOLDEN=1` writes the file anew."""
    lines = []
    for kind in sorted(KINDS, key=tag):
        action, what = sample(kind), about(kind)
        flags = [name for name in ("recorded", "ledger_only", "asks", "held", "unsupported") if getattr(what, name)]
        lines += [
            f"{tag(kind)}: {what.effect}",
            f"  kind {what.kind}, target `{what.target(action)}`, waits for {what.waits or 'nothing'}",
            *([f"  {', '.join(flags)}"] if flags else []),
            f"  did: {what.did.format(action)}",
            f"  changed: {': '.join(what.changed) if what.changed else 'as its effect'}",
            *(f"  {name}: {role}" for name, role in roles(kind).items()),
        ]
    check_golden("actions.txt", lines, under=ROOT / "tests/golden")


@each("kind", KINDS, ids=IDS)
def test_an_approver_sees_every_path_and_what_is_done_to_it(kind: Any) -> None:
    action, what = sample(kind), about(kind)
    read, written = [*parts(action, PathRead)], [*parts(action, PathWritten)]
    for part in (*read, *written):
        assert str(part.value) in what.target(action), f"The target of {declaration(kind)} leaves out `{part.field}`."
    if written:
        assert what.effect is not EffectClass.READS, f"{declaration(kind)} writes a path and says that it only reads."
        assert what.kind in {"write", "move", "delete"}, f"The kind of {declaration(kind)} hides that it writes."
    elif read:
        assert what.kind == "read", f"The kind of {declaration(kind)} does not say that it reads a path."


READING = {"wait_for_file", "validate_approval"}
"""Actions that policy lets run unasked where `reads` is allowed, and that are run again after any crash."""


def test_whatever_only_reads_is_on_this_list() -> None:
    found = {tag(kind) for kind in KINDS if about(kind).effect is EffectClass.READS}
    assert found == READING, (
        "Does it really change nothing? Then add it to READING here; else it is REPEATABLE or OPAQUE."
    )


@each("kind, performer", {**PERFORMERS, **WATCHERS}.items(), ids=lambda one: one.__name__)
def test_every_action_has_its_own_performer(kind: Any, performer: Any) -> None:
    taken = inspect.signature(performer).parameters["action"].annotation
    assert taken == kind.__name__, f"engine/perform/table.py gives {kind.__name__} to {performer}, which takes {taken}."


TESTED = {
    "run": "test_life",
    "tool": "test_tools",
    "store_data": "test_flow",
    "validate_approval": "test_conditions",
    "wait_for": "test_signals",
    "acquire_lock": "test_locks",
    "release_lock": "test_locks",
}
"""Tests with another name than their action. May only shrink."""


@each("kind, performer", {**PERFORMERS, **WATCHERS}.items(), ids=lambda one: one.__name__)
def test_every_performed_action_has_tests_and_a_row_that_breaks_it(kind: Any, performer: Any) -> None:
    test = ROOT / "tests/engine" / f"{TESTED.get(tag(kind), f'test_{tag(kind)}')}.py"
    assert test.is_file(), f"`{tag(kind)}` is performed and has no test: write tests/engine/{test.name}."
    assert kind.__name__ in test.read_text() or tag(kind) in test.read_text(), f"{test.name} does not name {kind}."
    places = {"core/plan/action.py": inspect.getsource(kind), "engine/perform/table.py": inspect.getsource(performer)}
    broken = any(row.old in source for row in read_mutants() for at, source in places.items() if row.file.endswith(at))
    assert broken, f"No row of tests/mutants breaks `{tag(kind)}` (core/plan/action.py or engine/perform/table.py)."


@each("kind", KINDS, ids=IDS)
def test_the_page_on_the_format_shows_its_fields(kind: Any) -> None:
    row = re.search(rf"`{tag(kind)}\{{([^}}]*)\}}`", FORMAT.partition("\n## Actions\n")[2])
    assert row is not None, f'docs/plan-format.md, "Actions", has no row with `{tag(kind)}{{…}}`.'
    shown = set(re.findall(r"[a-z_]+\??", row[1])) - {"or"}
    expected = {f"{field.encode_name}{'' if field.required else '?'}" for field in msgspec.structs.fields(kind)}
    assert shown == expected, f"The row of `{tag(kind)}` in docs/plan-format.md shows other fields than its class has."


@each("kind", KINDS, ids=IDS)
def test_the_page_on_doubt_has_its_effect_class(kind: Any) -> None:
    rows = [row for row in ARCHITECTURE.splitlines() if row.startswith("| ") and f"`{tag(kind)}`" in row]
    if about(kind).unsupported:
        return
    assert rows, f"The table of effect classes in docs/architecture.md has no row with `{tag(kind)}`."
    assert any(str(about(kind).effect) in row.split("|")[2] for row in rows), f"`{tag(kind)}` is {about(kind).effect}."
