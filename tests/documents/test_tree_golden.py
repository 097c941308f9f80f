"""Golden digests of every action, condition and policy in all notations, and the schema of trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import given

from ordain.core.plan.canonical import canonical_bytes, plan_id
from ordain.core.plan.condition import Precondition, Strategy, WaitCondition
from ordain.core.plan.failure import FailurePolicy
from ordain.core.plan.model import Action, Plan
from ordain.documents.markdown.writer import write_markdown
from ordain.documents.reading import read
from ordain.documents.tree_writer import plan_tree, write_json, write_yaml
from ordain.documents.yaml import read_yaml
from ordain.interfaces.cli.cmd_schema import plan_schema
from tests.plans import plans
from tests.rows import each

GOLDEN = json.loads((Path(__file__).parent.parent / "golden/notations.json").read_text())
SCHEMA = plan_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("notation", ["json", "yaml", "markdown"])
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_golden_digests_never_change(name: str, notation: str) -> None:
    """They may change only with the plan version."""
    golden = GOLDEN[name]
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
    bodies = "".join(golden["canonical"] for golden in GOLDEN.values())
    missing = [
        kind.__name__
        for union in (Action, WaitCondition, Precondition, Strategy, FailurePolicy)
        for kind in get_args(union)
        if f'"{kind.__struct_config__.tag_field}":"{kind.__struct_config__.tag}"' not in bodies
    ]
    assert missing == [], f"tests/golden/notations.json has no plan with {missing}."


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
