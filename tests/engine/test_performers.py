"""Every action is performed by somebody, and nobody performs what is no action."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import pytest

from ordain.engine.perform import table
from tests.rows import each
from tests.words import ELSEWHERE, PERFORMERS, WATCHERS, Action, about

ACTIONS = get_args(Action)
TABLES = {"PERFORMERS": PERFORMERS, "WATCHERS": WATCHERS, "ELSEWHERE": ELSEWHERE}


@each("kind", ACTIONS, ids=lambda kind: kind.__name__)
def test_every_action_is_performed_or_says_that_it_is_not(kind: Any) -> None:
    tables = [name for name, table in TABLES.items() if kind in table]
    name = f"{kind.__name__} ({kind.__module__})"
    if about(kind).unsupported:
        assert tables == [], f"{name} says that it is unsupported, and is in {tables}."
        return
    assert len(tables) == 1, f"{name} is in {tables or 'no table'} of engine/perform/table.py; one performs it."
    assert ("WATCHERS" in tables) == (about(kind).waits == "outside"), f"Only what waits is watched: {name}."


@pytest.mark.parametrize("name", TABLES)
def test_no_stranger_is_performed(name: str) -> None:
    assert set(TABLES[name]) <= set(ACTIONS), f"{name} performs what is not in Action (core/plan/model.py)."


@each("path", sorted(Path(table.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_only_one_module_reaches_for_the_shell_and_the_toolbox(path: Path) -> None:
    """A performer that called them itself could forget the step's key, the control files or the time that is left."""
    reached = [name for name in ("ports.shell", "ports.toolbox") if name in path.read_text()]
    wanted = f"{path.name}: call `run_command` or `call_tool` (engine/perform/effects.py) instead of {reached}."
    assert not reached or path.stem == "effects", wanted


def test_what_is_performed_elsewhere_is_there() -> None:
    assert [module for module in ELSEWHERE.values() if find_spec(module) is None] == []
