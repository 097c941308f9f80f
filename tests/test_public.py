"""What users import, and the documents we ship: all of it works as shown."""

import re
from pathlib import Path

import pytest

import ordain
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
    document = read(text.encode(), where)
    assert document.problems == ()
    assert document.plan is not None
    (tmp_path / "VERSION").write_text("0.1.0\n")  # the one file of a reader's own that they speak of
    facts = DirectoryWorkspace(tmp_path).facts(document.plan, DEFINITIONS, Settings(), None)
    problems = lint(document.plan, facts)
    assert [problem for problem in problems if not problem.code.startswith("W_")] == []


def test_there_are_plans_in_the_docs():
    assert len(shown_plans()) >= 3
