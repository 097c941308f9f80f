"""Every action, condition and failure policy is declared in full: each field with its role, each action with an
`about`. Whoever asks for roles then knows it; what is left out here would be seen by nobody."""

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from ordain.core.approval.diff.direction import PLAN, STEP
from ordain.core.plan import action, condition, failure
from ordain.core.plan.action import AcquireLock, Ask, CallTool, Custom, ReleaseLock, RunCommand, RunWorkflow, StoreData
from ordain.core.plan.condition import ApprovalScope, PaneIdle, Precondition, Strategy, Verification, WaitCondition
from ordain.core.plan.failure import FailurePolicy
from ordain.core.plan.model import Action, NestedPlan, Plan, Step
from ordain.core.plan.role import (
    About,
    Duration,
    EffectClass,
    FieldPart,
    Name,
    PathRead,
    PathWritten,
    Payload,
    Prose,
    field_with,
    parts,
    roles,
)
from ordain.core.run.schedule import effect_class
from ordain.documents.markdown.table import PLAN_TABLE, STEP_TABLE
from tests.build import step
from tests.rows import each

DECLARED = [
    *get_args(Action),
    *dict.fromkeys([*get_args(WaitCondition), *get_args(Precondition), *get_args(Strategy)]),
    *get_args(FailurePolicy),
    *(Verification, ApprovalScope),
]


def place(kind: type[Any]) -> str:
    path = Path(inspect.getfile(kind))
    return f"{kind.__name__} in {path.relative_to(path.parents[4])}"


@each("kind", DECLARED, ids=lambda kind: kind.__name__)
def test_every_field_has_a_role(kind: type[msgspec.Struct]) -> None:
    for field in kind.__struct_fields__:
        assert field in roles(kind), f"The field `{field}` of {place(kind)} has no role (ordain/core/plan/role.py)."


@each("kind", get_args(Action), ids=lambda kind: kind.__name__)
def test_every_action_says_what_it_is_like(kind: Any) -> None:
    assert isinstance(getattr(kind, "about", None), About), f"{place(kind)} has no `about: ClassVar[About]`."
    carriers = [name for name, role in roles(kind).items() if isinstance(role, Payload)]
    assert len(carriers) <= 1, f"{place(kind)} has several payloads: {carriers}."


def test_every_declaration_is_an_action_that_a_plan_can_have() -> None:
    """The classes in `core/plan/action.py` are the members of `Action`; `NestedPlan` is with the plan it holds."""
    own = (kind for kind in vars(action).values() if getattr(kind, "__module__", "") == action.__name__)
    every = {kind for kind in own if inspect.isclass(kind) and issubclass(kind, msgspec.Struct)}
    union = set(get_args(Action)) - {NestedPlan}
    assert every == union, f"not in both core/plan/action.py and Action (core/plan/model.py): {every ^ union}"


@pytest.mark.parametrize(
    ("module", "unions"),
    [(condition, (WaitCondition, Precondition, Strategy)), (failure, (FailurePolicy,))],
    ids=["condition", "failure"],
)
def test_every_variant_of_a_module_is_one_that_a_plan_can_have(module: Any, unions: tuple[Any, ...]) -> None:
    """A class with a tag that no union has would be refused in every document, and nobody would say why."""
    own = [kind for kind in vars(module).values() if getattr(kind, "__module__", "") == module.__name__]
    tagged = {kind for kind in own if issubclass(kind, msgspec.Struct) and kind.__struct_config__.tag is not None}
    left_out = tagged - {kind for union in unions for kind in get_args(union)}
    assert left_out == set(), f"in no union of core/plan/{module.__name__.rpartition('.')[2]}.py: {left_out}"


@each("kind", DECLARED, ids=lambda kind: kind.__name__)
def test_a_path_has_the_role_of_a_path(kind: type[msgspec.Struct]) -> None:
    for name, role in roles(kind).items():
        if re.search(r"(^|_)(path|file|dir|folder|directory)s?$", name):
            assert isinstance(role, PathRead | PathWritten), f"`{name}` of {place(kind)} is a path, not {role}."


@pytest.mark.parametrize(("kind", "table"), [(Step, STEP), (Plan, PLAN)], ids=["Step", "Plan"])
def test_every_field_of_a_step_and_a_plan_has_a_direction(kind: type[msgspec.Struct], table: Mapping[str, Any]) -> None:
    left_out = set(kind.__struct_fields__) ^ set(table)
    assert left_out == set(), f"{kind.__name__} and {kind.__name__.upper()} (core/approval/diff/direction.py) differ."


def test_every_field_of_a_step_and_a_plan_has_a_name_in_markdown() -> None:
    """By a table, or in the places named here, which know what several fields say together."""
    headings = {"title", "steps", "fallbacks", "task", "context", "plan_version", "workspace_id"}
    together = {"id", "description", "action", "needs", "verification"}
    for kind, table, elsewhere in ((Plan, PLAN_TABLE, headings), (Step, STEP_TABLE, together)):
        named = {entry.attribute for entry in table.values()} | elsewhere
        left_out = set(kind.__struct_fields__) - named
        assert left_out == set(), f"No field of Markdown (documents/markdown/table.py) says {left_out} of {kind}."


def test_parts_are_the_values_of_roles() -> None:
    task = next(kind for kind in get_args(Action) if kind.__struct_config__.tag == "task")(
        task="a", criteria=("b", "c")
    )
    found = [(part.field, part.value, part.what) for part in parts(task, Prose, Name)]
    assert found == [("task", "a", "task"), ("criteria", "b", "task"), ("criteria", "c", "task")]


def test_a_place_may_have_words_of_its_own() -> None:
    idle = PaneIdle(idle_threshold_ms=5)
    role = roles(PaneIdle)["idle_threshold_ms"]
    assert isinstance(role, Duration)
    assert [*parts(idle, Duration)] == [FieldPart("idle_threshold_ms", role, 5, "time that must be quiet")]
    (inside,) = parts(Verification(strategy=idle), Duration)
    assert inside == FieldPart("idle_threshold_ms", role, 5, "time that the verification waits")


def test_a_field_is_found_by_its_role() -> None:
    kinds = (RunCommand, CallTool, StoreData, RunWorkflow, Custom, AcquireLock)
    assert [field_with(kind, Payload) for kind in kinds] == ["env", "args", "value", "params", "payload", None]


@pytest.mark.parametrize("action", [AcquireLock(lock_name="a"), ReleaseLock(lock_name="a"), Ask(question="?")])
def test_what_is_recorded_with_its_effect_is_done_again_whatever_the_plan_says(action: Action) -> None:
    """`idempotent: false` must send no step to a person that did nothing unless it is recorded."""
    assert effect_class(step("a", action=action, idempotent=False), {}) is EffectClass.REPEATABLE
