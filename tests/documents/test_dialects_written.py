"""Plans written in the form of the seeds: what a dialect can not say is refused by its name, never lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ordain.core.plan.actions.command import RunCommand
from ordain.core.plan.actions.pane import SendText
from ordain.core.plan.actions.task import Task
from ordain.core.plan.actions.tool import CallTool
from ordain.core.plan.condition import Contract, Verification
from ordain.core.plan.failure import Abort, Fallback, Retry
from ordain.core.plan.model import PLAN_VERSION, Plan, Step
from ordain.documents.dialects.reader import DIALECTS, Dialect
from ordain.documents.dialects.status import status_word
from ordain.documents.dialects.writer import WrittenDialect, write_dialect
from ordain.documents.document import Document
from ordain.documents.reading import read


def sound(document: Document) -> Plan:
    assert document.plan is not None, document.problems
    return document.plan


def written(source: Document | Plan, dialect: Dialect) -> WrittenDialect:
    return write_dialect(Document(plan=source) if isinstance(source, Plan) else source, dialect)


def refused(plan: Plan, dialect: Dialect) -> list[tuple[str | None, str]]:
    made = written(plan, dialect)
    assert made.text is None
    assert {problem.code for problem in made.problems} == {"E_DIALECT"}
    return [(problem.where and problem.where.step, problem.detail) for problem in made.problems]


def one(step: Step | None = None, **fields: Any) -> Plan:
    step = step or Step(id="a", description="A", action=Task(task="A"), needs=())
    return Plan(plan_version=PLAN_VERSION, title="T", steps=(step,), **fields)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_command_is_refused_by_its_step(dialect: Dialect) -> None:
    plan = one(Step(id="a", description="A", action=RunCommand(command="a"), needs=()), workspace_id="w")
    detail = f"Step `a`: `action` is of the type `run`, which dialect {dialect} can not say."
    assert ("a", detail) in refused(plan, dialect)


UNSAYABLE: list[tuple[Dialect, Plan, list[tuple[str | None, str]]]] = [
    ("s1", one(context="Else."), [(None, "The plan's `context` has no place in dialect s1.")]),
    ("s1", one(tier=1), [(None, "The plan's `tier` has no place in dialect s1.")]),
    (
        "s1",
        one(Step(id="b", description="A", action=Task(task="A", reads=("file:x",)), needs=())),
        [("b", "Step `b`: `id` has no place in dialect s1."), ("b", "Step `b`: `reads` has no place in dialect s1.")],
    ),
    (
        "s2",
        one(
            Step(
                id="a",
                description="A",
                action=CallTool(
                    tool="t", operation="o", args={"x": "$HOME", "y": ["${a.output}"], "z": "${a.output.b}"}
                ),
                needs=(),
                on_failure=Abort(),
            )
        ),
        [
            ("a", "Step `a`: `on_failure` has no place in dialect s2."),
            ("a", "Step `a`: `operation` has no place in dialect s2."),
            (
                "a",
                "Step `a`: `args.x` begins with `$` and would be taken for a reference, which dialect s2 can not say.",
            ),
            *(
                (
                    "a",
                    f"Step `a`: `args.{key}` holds a reference that is not the whole result of a step, as a whole "
                    "argument, which dialect s2 can not say.",
                )
                for key in "yz"
            ),
        ],
    ),
    (
        "s3",
        one(Step(id="a", description="A", action=Task(task="B", tools=("t",)), needs=(), timeout_ms=5)),
        [
            ("a", "Step `a`: `timeout_ms` has no place in dialect s3."),
            ("a", "Step `a`: `task` is not the step's title, which dialect s3 can not say."),
            ("a", "Step `a`: `tools` is not one tool with its operation, which dialect s3 can not say."),
        ],
    ),
    (
        "s3",
        one(Step(id="a-b-c", description="A (b: c)", action=Task(task="A (b: c)"), needs=())),
        [
            ("a-b-c", f"Step `a-b-c`: `{name}` would be read otherwise, which dialect s3 can not say.")
            for name in ("id", "description", "task", "tools")
        ],
    ),
    (
        "s4",
        one(
            Step(
                id="a",
                description="A",
                action=Task(task="A"),
                needs=(),
                verification=Verification(strategy=Contract(command="a", stdout="x")),
                on_failure=Retry(max_attempts=3, initial_delay_ms=5),
            )
        ),
        [
            ("a", "Step `a`: `stdout` has no place in dialect s4."),
            ("a", "Step `a`: `on_fail` is `retry(2, 5ms)`, which dialect s4 can not say."),
        ],
    ),
    (
        "s0",
        one(Step(id="a", description="A", action=SendText(text="x", pane="p"), needs=())),
        [
            (None, "The plan's `workspace_id` is not said, and dialect s0 wants it."),
            ("a", "Step `a`: `idempotent` is not said, and dialect s0 wants it."),
            ("a", "Step `a`: `pane` has no place in dialect s0."),
            ("a", "Step `a`: `pane_id` is not said, and dialect s0 wants it."),
        ],
    ),
]


@pytest.mark.parametrize(("dialect", "plan", "details"), UNSAYABLE)
def test_what_a_dialect_can_not_say(dialect: Dialect, plan: Plan, details: list[tuple[str | None, str]]) -> None:
    assert refused(plan, dialect) == details


def test_problems_stand_where_the_step_does() -> None:
    source = read(b"# T\n\n1. A\n2. `b`\n", "fix.plan.md")
    [problem] = [problem for problem in written(source, "s1").problems if "action" in problem.detail]
    assert problem.where is not None
    assert (problem.where.file, problem.where.line, problem.where.step) == ("fix.plan.md", 4, "b")


def test_what_stands_beside_is_left_out_aloud() -> None:
    source = read(b"---\nowner: kim\nstatus: done\n---\n# T\n\n1. A\n\n## Risks\n\nNone.\n")
    made = written(source, "s1")
    assert made.text is not None
    assert "status: complete\n" in made.text
    assert [problem.detail for problem in made.problems] == [
        "Dialect s1 has no place for what stands beside the plan: `owner`.",
        "Dialect s1 has no place for what stands beside the plan: `notes`.",
    ]


def test_status_words() -> None:
    assert [status_word("complete", "step", dialect) for dialect in DIALECTS] == [
        None,
        "complete",
        "completed",
        "success",
        "done",
    ]
    assert [status_word("escalated", "step", dialect) for dialect in DIALECTS] == [
        None,
        "failed",
        "failed",
        "failed",
        "blocked",
    ]
    assert [status_word("verified", "plan", dialect) for dialect in DIALECTS] == [
        None,
        "draft",
        None,
        "proposed",
        "verified",
    ]
    assert [status_word("expired", "plan", dialect) for dialect in DIALECTS] == [None, None, None, "cancelled", "draft"]
    assert [status_word("half done", "step", dialect) for dialect in DIALECTS] == [None] * 5


def test_fallbacks_of_the_first_seed() -> None:
    send = SendText(text="x", pane_id=1)
    undo = Step(id="undo", description="Undo", action=send, needs=(), idempotent=True)
    step = Step(id="a", description="A", action=send, needs=(), idempotent=False, on_failure=Fallback(steps=(undo.id,)))
    plan = one(step, workspace_id="w", fallbacks=(undo,))
    made = written(plan, "s0")
    assert made.text is not None
    assert json.loads(made.text)["steps"][0]["on_failure"]["steps"][0]["step_id"] == "undo"
    assert sound(read(made.text.encode())) == plan
