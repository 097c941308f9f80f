"""Plans that nobody can read: none is recorded, and one that an older version recorded hides no other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ordain import Channel, Plan, Principal, Refused, open_workspace
from tests.build import plan, step
from tests.interfaces.workspace import Workspace
from tests.words import (
    PLAN_TYPE,
    Append,
    Fallback,
    ForEach,
    Instant,
    NestedPlan,
    PlanId,
    PlanPrepared,
    Retry,
    RunCommand,
    Step,
    StepId,
    canonical_bytes,
    digest,
    edges_fault,
    first_lineage,
)

AGENT = Principal(name="agent", channel=Channel.SCRIPT)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    path = tmp_path / "workspace"
    path.mkdir()
    return Workspace(path)


def step_with(**fields: Any) -> Step:
    return msgspec.structs.replace(step("a", run="true"), **fields)


CYCLE: dict[str, Any] = {}
CYCLE["again"] = CYCLE


@pytest.mark.parametrize(
    "made",
    [
        plan(step_with(on_failure="retry(2)")),
        plan(step_with(on_failure=Retry(max_attempts="2"))),  # type: ignore[arg-type]
        plan(step_with(timeout_ms="30s")),
        plan(step_with(writes="dist/**")),
        plan(step_with(needs="a")),
        plan(step_with(for_each={"in": "${a.output}"})),
        plan(step_with(for_each=ForEach(source="${a.output}", max="many"))),  # type: ignore[arg-type]
        plan(step_with(action="echo hi")),
        plan(step_with(action=RunCommand(command="true", env={"N": 1}))),  # type: ignore[dict-item]
        plan(step("a", tool="write_file", args={"path": object()})),
        plan(step("a", tool="write_file", args=CYCLE)),
        plan(step("a", tool="write_file", args={"path": "x", "content": float("nan")})),
        plan(step("a", tool="write_file", args={"path": "x", "content": "\udc80"})),
        plan(step("a"), budget="$1"),
        plan(step("a"), title=5),  # type: ignore[arg-type]
        plan(step("a"), title=""),
        plan(step("a"), title="  "),
        plan(step("a"), title="two\nlines"),
        plan(step_with(description="")),
        plan(step_with(description="two\nlines")),
        plan(step("a"), fallbacks=(step_with(id=StepId("b"), description=" "),)),
        plan(step("o", action=NestedPlan(plan=plan(step("a"), title="")))),
        plan(step("o", action=NestedPlan(plan=plan(step_with(description="two\nlines"))))),
        msgspec.structs.replace(plan(step("a")), steps=5, title="\ud800"),  # type: ignore[arg-type]
        msgspec.structs.replace(plan(step("a")), steps=("echo hi",)),
        "a plan",
        None,
    ],
)
def test_a_plan_that_could_not_be_read_again_is_refused_and_nothing_is_recorded(workspace: Workspace, made: Any):
    app = open_workspace(workspace.path, exact=True)
    with pytest.raises(Refused) as refused:
        asyncio.run(app.plans.prepare_plan(made, AGENT))
    assert {problem.code for problem in refused.value.problems} == {"E_PLAN_TYPE"}
    assert (app.plans.plan_count(), app.plans.all()) == (0, ())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"on_failure": "retry(2)"}, "`on_failure`"),
        ({"description": ""}, "`description` is empty"),
        ({"description": "two\nlines"}, "`description` has more than one line"),
        ({"action": RunCommand(command="a\ud800b")}, "`action`"),
        ({"action": NestedPlan(plan=plan(step("inner"), title=""))}, "`title` is empty"),
    ],
)
def test_a_refusal_names_step_and_field(workspace: Workspace, fields: dict[str, Any], said: str):
    app = open_workspace(workspace.path, exact=True)
    with pytest.raises(Refused) as refused:
        asyncio.run(app.plans.prepare_plan(plan(step("first"), step_with(**fields)), AGENT))
    (problem,) = refused.value.problems
    assert problem.where is not None
    assert (problem.where.step, said in problem.detail) == ("a", True)


def record_unreadable(workspace: Workspace, expires_in_ms: int = 3_600_000) -> str:
    """Append what version 0.1 appended for one mistyped builder call; the plan's short id."""
    body = plan(step_with(on_failure="retry(2)"), title="Mistyped")
    data = msgspec.json.Encoder(order="sorted").encode(body)
    identity = PlanId("plan:" + digest(PLAN_TYPE, data))
    app = open_workspace(workspace.path, exact=True)
    now = Instant(app.workspace.now())
    event = PlanPrepared(
        plan_id=identity, plan=msgspec.Raw(data), document=None, document_sha256=None, by=AGENT,
        expires_at=Instant(now + expires_in_ms),
    )  # fmt: skip
    recorded = Append(stream=first_lineage(identity), expected=0, events=(event,))
    asyncio.run(app.ports.ledger.open().append(now, recorded))
    asyncio.run(app.close())
    return identity.removeprefix("plan:")[:12]


def test_one_unreadable_plan_hides_no_other_and_can_be_taken_back(workspace: Workspace):
    good = workspace.prepared("small.plan.md")
    bad = record_unreadable(workspace)
    for words in (["list"], ["list", "--all"], ["status"], ["inbox"], ["inbox", "--all"]):
        done = workspace.ordain(*words)
        assert (words, done.status) == (words, 0)
        assert good in done.out and bad in done.out and "on_failure" in done.out and "newer version" not in done.out
        answer = workspace.ordain("robot", *words)
        data = json.loads(answer.out)
        assert (words, answer.status, data["ok"]) == (words, 0, True)
        lines = data["data"].get("plans", data["data"].get("items"))
        assert len(lines) == 2 and f"cancel {bad}" in answer.out and "on_failure" in answer.out
    for words in (["stats"], ["suggest"], ["audit", "verify"], ["show", good], ["simulate", good], ["guard", "report"]):
        done = workspace.ordain(*words)
        assert "Traceback" not in done.out + done.err and "E_PLAN_UNREADABLE" not in done.out + done.err, words
    told = workspace.ordain("audit", "verify")
    assert (told.status, "Ledger verified." in told.out) == (0, True)
    assert f"The plan {bad} in event 1 cannot be read by this version" in told.out
    audited = json.loads(workspace.ordain("robot", "audit", "verify").out)["data"]
    assert (audited["good"], audited["findings"], len(audited["unreadable"])) == (True, [], 1)
    shown = workspace.ordain("show", bad)
    assert (shown.status, "E_PLAN_UNREADABLE" in shown.err + shown.out) == (2, True)
    assert f"ordain cancel {bad}" in shown.err + shown.out
    # Others are prepared, approved and carried out as if it were not there.
    assert workspace.started("large.plan.md")[1].status == 0
    assert workspace.ordain("cancel", bad).status == 0
    assert "unreadable" not in workspace.ordain("list").out + workspace.ordain("inbox").out


def test_what_ran_out_of_time_unread_stops_no_proposal(workspace: Workspace):
    record_unreadable(workspace, expires_in_ms=-1)
    app = open_workspace(workspace.path, exact=True)
    assert asyncio.run(app.plans.expire_overdue()) == 1
    assert asyncio.run(app.plans.prepare_plan(Plan.build("Good").step("a", run="true").done(), AGENT)).lineage
    assert [line.status for line in app.plans.all()] == ["expired", "proposed"]


def test_an_agent_sees_its_other_plans(workspace: Workspace):
    app = open_workspace(workspace.path, exact=True)
    asyncio.run(app.plans.prepare_plan(Plan.build("Good").step("x", run="true").done(), AGENT))
    asyncio.run(app.close())
    record_unreadable(workspace)
    app = open_workspace(workspace.path, exact=True)
    assert [line.status for line in app.plans.lines(app.plans.owned(AGENT))] == ["proposed", "unreadable"]


def crowd(count: int) -> list[Step]:
    """Steps of which each waits for all before it: count * (count - 1) / 2 edges."""
    names = [f"s{number}" for number in range(count)]
    return [step(name, run="true", needs=tuple(names[:at])) for at, name in enumerate(names)]


def test_dependencies_beyond_the_limit_are_refused_before_anything_is_made_of_them(workspace: Workspace, monkeypatch):
    def graph(*_: Any) -> None:
        raise AssertionError("a graph was made")

    for place in ("ordain.core.lint.rules", "ordain.adapters.workspace.directory", "ordain.core.lint.unsupported"):
        monkeypatch.setattr(f"{place}.Survey", graph)
    app = open_workspace(workspace.path, exact=True)
    crowded = plan(*crowd(633))
    with pytest.raises(Refused) as refused:
        asyncio.run(app.plans.prepare_plan(crowded, AGENT))
    assert [problem.code for problem in refused.value.problems] == ["E_PLAN_TOO_MANY_EDGES"]
    report = app.plans.lint(canonical_bytes(crowded), "x.json")
    assert [problem.code for problem in report.problems] == ["E_PLAN_TOO_MANY_EDGES"]


def test_implied_dependencies_count_too(monkeypatch):
    monkeypatch.setattr("ordain.core.plan.graph.EDGES_MAX", 2_000)

    def referring(name: str, targets: list[str]) -> Step:
        text = " ".join(f"${{{target}.output}}" for target in targets)
        return step(name, tool="write_file", args={"path": "x", "content": text}, needs=())

    names = [f"s{number}" for number in range(50)]
    plain = [step(name, run="true", needs=()) for name in names]
    all_of_them = [referring(f"r{number}", names) for number in range(41)]
    assert edges_fault(plan(*crowd(63))) is None
    assert edges_fault(plan(*crowd(64))) is not None
    assert edges_fault(plan(*plain, *all_of_them[:40])) is None
    assert edges_fault(plan(*plain, *all_of_them)) is not None
    # What a fallback refers to, each step that has it waits for.
    undone = [msgspec.structs.replace(one, on_failure=Fallback(steps=(StepId("undo"),))) for one in plain]
    assert edges_fault(plan(*undone, fallbacks=(referring("undo", names[:39]),))) is None
    assert edges_fault(plan(*undone, fallbacks=(referring("undo", names[:41]),))) is not None
    nested = step("n", action=NestedPlan(plan=plan(*crowd(46))))
    assert edges_fault(plan(nested, msgspec.structs.replace(nested, id=StepId("m")))) is not None
