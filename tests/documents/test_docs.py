"""docs/plan-format.md tells the truth: its documents are read, and every name of the format is in it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec.structs import replace

from ordain.core.lint.unsupported import not_yet_refused
from ordain.core.plan.action import (
    AcquireLock,
    Ask,
    CallTool,
    Custom,
    MarkEventHandled,
    ReleaseLock,
    RunCommand,
    RunWorkflow,
    SendText,
    StoreData,
    Task,
    ValidateApproval,
    WaitFor,
    WaitForFile,
)
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.condition import ApprovalScope, Pattern, Precondition, Strategy, WaitCondition
from ordain.core.plan.failure import FailurePolicy
from ordain.core.plan.model import Action, Budget, ForEach, NestedPlan, Parameter, Plan, Step
from ordain.documents.markdown.front_matter import FOR_READERS
from ordain.documents.markdown.table import PLAN_FIELDS, STEP_FIELDS
from ordain.documents.reading import read
from ordain.documents.shape import RECORD_FIELDS, STEP_RECORD_FIELDS
from tests.build import plan, step
from tests.rows import each

PAGE = (Path(__file__).parents[2] / "docs/plan-format.md").read_text()
FENCES = re.findall(r"^(`{3,})(\w+)\n(.*?)^\1$", PAGE, re.DOTALL | re.MULTILINE)
DOCUMENTS = [(language, text) for _, language, text in FENCES if language != "text"]
WORDS = set(re.findall(r"[a-z_]+", PAGE))
not_yet = partial(not_yet_refused, tools={}, panes=False, tier=0)


@pytest.mark.parametrize(("language", "text"), DOCUMENTS)
def test_its_documents_are_read(language: str, text: str) -> None:
    document = read(text.encode())
    assert document.problems == ()
    assert document.notation == {"md": "markdown"}.get(language, language)


def test_there_are_documents_in_all_notations() -> None:
    assert {language for language, _ in DOCUMENTS} == {"markdown", "md", "yaml", "json"}


def test_the_smallest_plan_is_the_same_in_json() -> None:
    first, second = (read(text.encode()).plan for _, text in DOCUMENTS[:2])
    assert first is not None
    assert second is not None
    assert plan_id(first) == plan_id(second)


HEADINGS = ("# Title", "## Steps", "## Fallbacks")


def test_every_field_is_in_it() -> None:
    shown = {PLAN_FIELDS.shown(name) for name in PLAN_FIELDS.names} | STEP_FIELDS.names | STEP_FIELDS.aliases.keys()
    shown |= {*FOR_READERS, *RECORD_FIELDS, *STEP_RECORD_FIELDS, *HEADINGS}
    assert {name for name in shown if f"`{name}`" not in PAGE} == {"Title"}  # which is written `title`


@each("kind", [Action, Precondition, Strategy, WaitCondition, FailurePolicy, Plan, Step, Budget])
def test_every_variant_and_its_fields_are_in_it(kind: Any) -> None:
    for variant in get_args(kind) or (kind, ForEach, Parameter):
        tag, names = variant.__struct_config__.tag, {field.encode_name for field in msgspec.structs.fields(variant)}
        left_out = ({tag} - {None} | names) - set(WORDS)
        assert left_out == set(), f"docs/plan-format.md does not tell of {left_out} ({variant.__name__})."


ACTIONS: tuple[Action, ...] = (
    RunCommand(command="true"),
    CallTool(tool="read_file"),
    Task(task="x"),
    SendText(text="x"),
    WaitFor(condition=Pattern(rule_id="r"), timeout_ms=1),
    AcquireLock(lock_name="l"),
    ReleaseLock(lock_name="l"),
    StoreData(key="k", value=1),
    RunWorkflow(workflow_id="w"),
    MarkEventHandled(event_id=1),
    ValidateApproval(scope=ApprovalScope(action_kind="run")),
    NestedPlan(plan=plan(step("a"))),
    Ask(question="?"),
    Custom(action_type="c"),
    WaitForFile(path="x"),
)


def test_it_names_the_actions_that_are_not_carried_out_and_no_others() -> None:
    assert {type(action) for action in ACTIONS} == set(get_args(Action)), "Every action has a sample in ACTIONS."
    section = PAGE.partition("\n## Read and checked, not yet carried out\n")[2]
    refused = {str(action.__struct_config__.tag) for action in ACTIONS if not_yet(plan(step("a", action=action)))}
    named = {str(action.__struct_config__.tag) for action in ACTIONS if f"`{action.__struct_config__.tag}`" in section}
    assert named == refused


@each("field", ["writes", "budget", "model", "network", "worktree", "pool", "when", "approval"])
def test_it_names_the_fields_that_are_not_carried_out_and_no_others(field: str) -> None:
    values: dict[str, Any] = {"writes": ("x",), "budget": Budget(tokens=1), "network": True, "worktree": True}
    given = replace(step("a"), **{field: values.get(field, "ask")})
    section = PAGE.partition("\n## Read and checked, not yet carried out\n")[2]
    assert (f"`{field}`" in section) == bool(not_yet(plan(given)))


def test_what_is_about_one_attempt_is_refused_of_a_step_that_holds_a_plan() -> None:
    around = step("a", action=NestedPlan(plan=plan(step("b"))), contract="check b")
    for given in (replace(around, timeout_ms=1), replace(around, proof="red-then-green")):
        assert [problem.code for problem in not_yet(plan(given))] == ["E_NOT_YET"]
    assert not_yet(plan(around)) == ()
