"""Golden digests of every action, condition and policy in all notations, and the schema of trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import given
from msgspec.structs import replace

from ordain.core.plan.action import WaitFor
from ordain.core.plan.canonical import canonical_bytes, plan_id
from ordain.core.plan.condition import Precondition, Strategy, Verification, WaitCondition
from ordain.core.plan.failure import FailurePolicy
from ordain.core.plan.model import Action, Plan
from ordain.documents.markdown.writer import write_markdown
from ordain.documents.reading import read
from ordain.documents.tree_writer import plan_tree, write_json, write_yaml
from ordain.documents.yaml import read_yaml
from ordain.interfaces.cli.cmd_schema import plan_schema
from tests.build import plan, step
from tests.documents.test_docs import ACTIONS
from tests.interfaces.golden import WRITE
from tests.plans import plans
from tests.rows import each
from tests.sample import sample

NOTATIONS = Path(__file__).parent.parent / "golden/notations.json"
GOLDEN = json.loads(NOTATIONS.read_text())
UNIONS = (Action, WaitCondition, Precondition, Strategy, FailurePolicy)
SCHEMA = plan_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("notation", ["json", "yaml", "markdown"])
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_golden_digests_never_change(name: str, notation: str) -> None:
    """They may change only with the plan version."""
    check_notation(GOLDEN[name], notation)


def check_notation(golden: dict[str, Any], notation: str) -> None:
    document = read("\n".join(golden[notation]).encode())
    assert document.problems == ()
    assert document.notation == notation
    assert document.plan is not None
    assert canonical_bytes(document.plan).decode() == golden["canonical"]
    assert plan_id(document.plan) == golden["plan_id"]
    for write in (write_json, write_yaml, write_markdown):
        again = read(write(document).encode())
        assert again.plan is not None
        assert plan_id(again.plan) == golden["plan_id"]
    assert write_markdown(document).split("\n") == golden["markdown"]


def test_every_variant_is_golden() -> None:
    """`ORDAIN_WRITE_GOLDEN=1` adds a plan for each that has none, and changes no other."""
    missing = _missing()
    if missing and WRITE:
        GOLDEN.update((_name(kind), golden_of(kind)) for kind in missing)
        NOTATIONS.write_text(json.dumps(GOLDEN, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        missing = _missing()
    assert not missing, (
        f"tests/golden/notations.json has no plan with {', '.join(kind.__name__ for kind in missing)}. Add one:\n"
        "    ORDAIN_WRITE_GOLDEN=1 .venv/bin/pytest tests/documents/test_tree_golden.py"
    )


@each("kind", dict.fromkeys(kind for union in UNIONS for kind in get_args(union)), ids=lambda kind: kind.__name__)
def test_what_would_be_added_is_sound(kind: Any) -> None:
    golden = golden_of(kind)
    assert _mark(kind) in golden["canonical"]
    for notation in ("json", "yaml", "markdown"):
        check_notation(golden, notation)


def _missing() -> list[Any]:
    bodies = "".join(golden["canonical"] for golden in GOLDEN.values())
    return [kind for union in UNIONS for kind in get_args(union) if _mark(kind) not in bodies]


def _mark(kind: Any) -> str:
    return f'"{kind.__struct_config__.tag_field}":"{kind.__struct_config__.tag}"'


def _name(kind: Any) -> str:
    tag = kind.__struct_config__.tag
    return tag if tag not in GOLDEN else kind.__name__


def golden_of(kind: Any) -> dict[str, Any]:
    """A plan with a variant in all notations, its canonical bytes and its id."""
    made = _plan_with(kind)
    return {
        "yaml": write_yaml(made).split("\n"),
        "json": [*json.dumps(plan_tree(made), ensure_ascii=False, indent=1).split("\n"), ""],
        "markdown": write_markdown(made).split("\n"),
        "canonical": canonical_bytes(made).decode(),
        "plan_id": plan_id(made),
    }


def _plan_with(kind: Any) -> Plan:
    if kind in get_args(Action):
        found = next((action for action in ACTIONS if type(action) is kind), None)
        assert found is not None, f"ACTIONS in tests/documents/test_docs.py has no {kind.__name__}; add one."
        return plan(step("a", action=found))
    given = sample(kind)
    if kind in get_args(WaitCondition):
        return plan(step("a", action=WaitFor(condition=given, timeout_ms=1000)))
    if kind in get_args(Precondition):
        return plan(replace(step("a"), preconditions=(given,)))
    if kind in get_args(Strategy):
        return plan(replace(step("a"), verification=Verification(strategy=given)))
    return plan(step("a", on_failure=given), fallbacks=(step("undo", needs=()),))


# --- The schema ------------------------------------------------------------------------------------------------------


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@each("name", sorted(GOLDEN))
def test_golden_plans_are_of_the_schema(name: str) -> None:
    VALIDATOR.validate(json.loads("\n".join(GOLDEN[name]["json"])))
    VALIDATOR.validate(read_yaml("\n".join(GOLDEN[name]["yaml"]), depth_max=40).value)


@given(plans())
def test_every_written_plan_is_of_the_schema(plan: Plan) -> None:
    VALIDATOR.validate(plan_tree(plan))


RUN = {"type": "run", "command": "x"}


@each(
    "tree, valid",
    [
        ({"title": "T", "steps": [{"action": RUN}]}, True),
        ({"title": "T", "steps": [{"action": RUN, "id": None, "needs": [1, "a"], "timeout_ms": None}]}, True),
        ({"title": "T", "steps": [{"action": RUN}], "notes": {"a": "b"}, "owner": 1, "fallbacks": None}, True),
        (
            {
                "title": "T",
                "steps": [{"action": RUN, "on_failure": {"strategy": "fallback", "steps": [{"action": RUN}]}}],
            },
            True,
        ),
        ({"title": "T", "steps": []}, False),
        ({"title": "T", "steps": [{"action": RUN}], "approved": True}, False),
        ({"title": "T", "steps": [{"action": RUN, "approved": True}]}, False),
        ({"title": "T", "steps": [{}]}, False),
        ({"title": "T", "steps": [{"action": {"type": "rum"}}]}, False),
        ({"title": "T", "steps": [{"action": RUN, "id": "7"}]}, False),
        ({"title": "T", "steps": [{"action": RUN, "id": "none"}]}, False),
        ({"title": "a\nb", "steps": [{"action": RUN}]}, False),
        ({"title": "T", "plan_version": 2, "steps": [{"action": RUN}]}, False),
    ],
)
def test_the_schema_agrees_with_the_reader(tree: dict[str, Any], valid: bool) -> None:
    assert VALIDATOR.is_valid(tree) is valid
    document = read(json.dumps(tree).encode())
    readable = all(problem.code == "W_FOREIGN_ID" for problem in document.problems)
    assert readable is valid
