"""The recipes of docs/recipes: what a person types there, typed; what is shown there, compared."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.interfaces.typed_session import files, sessions, typed
from tests.interfaces.workspace import mark_workspace
from tests.words import read

RECIPES = Path(__file__).parents[2] / "docs/recipes"
NAMES = ("dependency", "incident", "migration", "release")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow("a plan from its first line to its last")) for name in NAMES]
)
def test_the_recipe_goes_as_it_is_shown(name: str, tmp_path: Path) -> None:
    if name == "migration" and shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not installed")
    page = (RECIPES / f"{name}.md").read_text()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    mark_workspace(workspace)
    for file, text in files(page).items():
        (workspace / file).parent.mkdir(parents=True, exist_ok=True)
        (workspace / file).write_text(text)
    known: dict[str, str] = {}
    for session in sessions(page):
        typed(session, workspace, known)


@pytest.mark.parametrize("name", NAMES)
def test_the_plans_of_the_recipe_are_read(name: str) -> None:
    page = (RECIPES / f"{name}.md").read_text()
    plans = {file: text for file, text in files(page).items() if file.endswith(".plan.md")}
    assert plans or "ordain new" in page
    assert [one.code for text in plans.values() for one in read(text.encode()).problems] == []


def test_every_recipe_is_listed_and_typed() -> None:
    assert {file.stem for file in RECIPES.glob("*.md")} == {"README", *NAMES}
    assert all(f"({name}.md)" in (RECIPES / "README.md").read_text() for name in NAMES)
