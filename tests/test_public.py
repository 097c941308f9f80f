"""What users import, and the documents we ship: all of it works as shown."""

import re
from functools import reduce
from pathlib import Path

import pytest

import ordain
from tests.rows import each
from tests.scenario import twin_ports
from tests.twins.ledger import MemoryLedger
from tests.words import DEFINITIONS, DirectoryWorkspace, Settings, lint, read

ROOT = Path(__file__).parent.parent


def test_public_names_are_sorted_and_there():
    assert ordain.__all__ == sorted(ordain.__all__)
    for name in ordain.__all__:
        assert getattr(ordain, name) is not None
    with pytest.raises(AttributeError):
        _ = ordain.nothing


def shown_plans() -> list[tuple[str, str]]:
    """Every whole plan in the README and the docs."""
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        fences = re.findall(r"^(`{3,})markdown\n(.*?)^\1\s*$", page.read_text(), re.DOTALL | re.MULTILINE)
        found += [(f"{page.name}-{index}", text) for index, (_, text) in enumerate(fences)]
    return found


@pytest.mark.parametrize(("where", "text"), [pytest.param(*one, id=one[0]) for one in shown_plans()])
def test_plans_in_the_docs_are_good(where, text, tmp_path):
    document = read(text.encode(), where, lambda path: b"# Checks\n\n1. `true`\n")  # what is included is a reader's own
    assert document.problems == ()
    assert document.plan is not None
    (tmp_path / "VERSION").write_text("0.1.0\n")  # the one file of a reader's own that they speak of
    facts = DirectoryWorkspace(tmp_path).facts(document.plan, DEFINITIONS, Settings(), None)
    problems = lint(document.plan, facts)
    assert [problem for problem in problems if not problem.code.startswith("W_")] == []


def test_there_are_plans_in_the_docs():
    assert len(shown_plans()) >= 3


@each(
    "old, new",
    [
        ("prepare", "plans.prepare"),
        ("approve", "approvals.approve"),
        ("commit", "runs.commit"),
        ("answer", "answers.answer"),
        ("settings", "workspace.settings"),
        ("record_refusal", "refusals.record"),
        ("signal", "signals.give"),
        ("guarding", "guard"),
    ],
)
def test_an_old_name_of_a_verb_works_and_says_where_it_is_now(old: str, new: str) -> None:
    app = ordain.App(twin_ports(MemoryLedger()))
    with pytest.warns(DeprecationWarning, match=f"App.{old} is App.{new} now"):
        found = getattr(app, old)
    assert found == reduce(getattr, new.split("."), app)


def test_a_verb_that_is_called_like_its_subject_now_can_be_called_too() -> None:
    app = ordain.App(twin_ports(MemoryLedger()))
    for subject in (app.plans, app.topics, app.refusals):
        with pytest.warns(DeprecationWarning):
            assert tuple(subject()) == ()


def test_no_other_name_is_a_verb() -> None:
    app = ordain.App(twin_ports(MemoryLedger()))
    for name in ("nothing", "_gate", "_records"):
        assert not hasattr(app, name)
