"""What one document includes of others, read without a workspace: bounded, in its place, and the same plan."""

from __future__ import annotations

import json

import pytest

from ordain.core.plan.canonical import plan_id
from ordain.core.plan.model import nested_plan_of
from ordain.core.text.problem import Problem
from ordain.documents.reading import read

STEP = "# Outer\n\n## Steps\n\n### 1. Check\n\n**include:** {}\n"
INNER = "# Inner\n\n1. `make test`\n"
TREE = {"title": "Outer", "steps": [{"description": "Check", "include": "{}"}]}


def outer(file: str) -> list[bytes]:
    return [STEP.format(file).encode(), json.dumps(TREE).replace("{}", file).encode()]


def codes(data: bytes, fetched: dict[str, str]) -> list[tuple[str, str | None]]:
    def fetch(path: str) -> bytes | Problem:
        found = fetched.get(path)
        return found.encode() if found is not None else Problem(code="E_INCLUDE", detail=f"{path} is not there.")

    return [(one.code, one.where and one.where.file) for one in read(data, "outer", fetch).problems]


def test_it_is_the_plan_with_the_other_one_inside() -> None:
    found = [read(data, fetch=lambda path: INNER.encode()).plan for data in outer("a.md")]
    inner = read(INNER.encode()).plan
    assert inner is not None
    for plan in found:
        assert plan is not None
        held = nested_plan_of(plan.steps[0])
        assert held is not None and plan_id(held) == plan_id(inner)
    assert len({plan_id(plan) for plan in found if plan is not None}) == 1


@pytest.mark.parametrize("file", ["../a.md", "/a.md", "~/a.md", "b/../../a.md", "", ".ordain/a.md"])
def test_a_path_that_leads_out_is_never_fetched(file: str) -> None:
    asked: list[str] = []

    def fetch(path: str) -> bytes:
        asked.append(path)
        return INNER.encode()

    for data in outer(file):
        assert read(data, fetch=fetch).plan is None
    assert asked == []


def test_an_endless_chain_is_followed_no_further_than_plans_may_stand_inside_one_another() -> None:
    asked: list[str] = []

    def fetch(path: str) -> bytes:
        asked.append(path)
        return STEP.format(f"x{path}").encode()

    assert [one.code for one in read(outer("a.md")[0], fetch=fetch).problems] == ["E_PLAN_NESTING"]
    assert len(asked) == 3


def test_plans_written_inside_what_is_included_count_too() -> None:
    deep = json.dumps({"title": "1", "steps": [{"action": {"type": "nested_plan", "plan": json.loads(tree(1))}}]})
    assert codes(outer("a.json")[0], {"a.json": deep}) == []
    deep = json.dumps({"title": "1", "steps": [{"action": {"type": "nested_plan", "plan": json.loads(tree(2))}}]})
    assert codes(outer("a.json")[0], {"a.json": deep}) == [("E_PLAN_NESTING", "outer")]


def tree(depth: int) -> str:
    inner = {"type": "nested_plan", "plan": json.loads(tree(depth - 1))} if depth else {"type": "run", "command": "id"}
    return json.dumps({"title": str(depth), "steps": [{"id": "a", "action": inner}]})


def test_what_is_included_is_bounded_together() -> None:
    large = json.dumps({**json.loads(tree(0)), "notes": ["x" * 2**20]})
    steps = "".join(f"### {n}. S{n}\n\n**include:** large.json\n\n" for n in range(1, 19))
    found = codes(f"# Many\n\n## Steps\n\n{steps}".encode(), {"large.json": large})
    assert found and set(found) == {("E_INCLUDE", "outer")}


def test_without_anything_to_fetch_from_nothing_is_included() -> None:
    for data in outer("a.md"):
        assert [one.code for one in read(data).problems] == ["E_INCLUDE"]


def test_each_problem_is_in_its_own_file() -> None:
    files = {
        "a.md": STEP.format("b.md") + "\n### 3. Odd\n\n**run:** id\n",
        "b.md": "# B\n\n## Steps\n\n### 1. B\n\n**rum:** id\n",
    }
    for data in outer("a.md"):
        assert {file for _, file in codes(data, files)} == {"a.md", "b.md"}
