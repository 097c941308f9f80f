"""Results in the seeds' own words and fields: `--json --dialect`. The golden texts are in tests/golden/dialects_out."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from msgspec.structs import replace

from ordain.core.approval.approval import Channel, Principal
from ordain.core.lineage.lineage import Stage
from ordain.core.plan.actions.command import RunCommand
from ordain.core.plan.actions.task import Task
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.failure import Continue, Escalate, Retry
from ordain.core.plan.model import ForEach, Plan
from ordain.core.plan.value import Instant, StepId
from ordain.core.report.report import AttemptOutput, PlanLine
from ordain.core.run.event import Recorded, StepState
from ordain.core.run.run_state import SETTLED, RunState
from ordain.core.run.state import replay
from ordain.documents.dialects.status import PLAN_WORDS, STEP_WORDS
from ordain.interfaces.cli.dialect import dialect_stream, in_dialect
from ordain.interfaces.robot.dialect.document import plan_value
from ordain.interfaces.robot.dialect.state import OUTPUT_DIALECTS, DialectState, OutputDialect, instant_text
from ordain.interfaces.robot.dialect.stream import Begun, DialectStream
from ordain.interfaces.robot.envelope import to_json
from ordain.ports.ports import Finished
from ordain.records.records import Records
from tests.build import plan, step
from tests.interfaces.golden import check_golden
from tests.interfaces.terminal import Background
from tests.interfaces.test_robot import answered, envelope, refused
from tests.interfaces.test_steering import slow
from tests.interfaces.workspace import Workspace
from tests.plans import plans
from tests.scenario import Scenario
from tests.simulation.life import live

FINE, FAILED, REFUSED, WAITING = 0, 1, 2, 3
GOLDEN = Path(__file__).parent.parent / "golden" / "dialects_out"

RUN_STATUSES = {
    *("completed", "failed", "cancelled", "executing", "pausing", "cancelling"),
    *("waiting", "paused", "stopped", "stalled"),
}
"""What the report of a run can say."""
SEED_STEP_WORDS = {
    "s1": {"pending", "in_progress", "complete", "failed", "skipped"},
    "s2": {"pending", "blocked", "ready", "running", "completed", "failed", "skipped"},
    "s3": {"success", "failed"},
    "s4": {"in-progress", "done", "failed", "blocked"},
}
SEED_PLAN_WORDS = {
    "s1": {"draft", "in_progress", "complete", "failed", "replanning"},
    "s2": set(),
    "s3": {"proposed", "approved", "executing", "completed", "failed", "rejected", "cancelled", "stalled"}
    | {"needs_review"},
    "s4": {"draft", "verified", "approved", "in-progress", "done", "failed"},
}


# --- Words -----------------------------------------------------------------------------------------------------------


def test_every_dialect_is_spoken() -> None:
    assert get_args(OutputDialect) == OUTPUT_DIALECTS and set(STEP_WORDS) == set(PLAN_WORDS) == set(OUTPUT_DIALECTS)


@pytest.mark.parametrize("dialect", OUTPUT_DIALECTS)
def test_every_state_and_status_has_its_place_in_the_tables(dialect: OutputDialect) -> None:
    steps, plans = STEP_WORDS[dialect], PLAN_WORDS[dialect]
    assert set(steps) == {*StepState, "blocked", "ready"}
    assert set(plans) == {*Stage, *RUN_STATUSES, "draft", "template", "replanning"}
    assert {word for word in steps.values() if word is not None} == SEED_STEP_WORDS[dialect]
    assert {word for word in plans.values() if word is not None} == SEED_PLAN_WORDS[dialect]


@pytest.mark.parametrize(("name", "words"), [("step words", STEP_WORDS), ("plan words", PLAN_WORDS)])
def test_the_page_has_the_same_tables(name: str, words: Mapping[str, Mapping[str, str | None]]) -> None:
    page = (Path(__file__).parents[2] / "docs/dialects.md").read_text()
    shown = page.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    found: dict[str, dict[str, str | None]] = {dialect: {} for dialect in words}
    for row in shown.strip().splitlines()[2:]:
        ours, *theirs = (cell.strip() for cell in row.strip("|").split("|"))
        for word in re.findall(r"`([^`]+)`", ours):
            for dialect, cell in zip(words, theirs, strict=True):
                found[dialect][word] = None if cell == "–" else cell.strip("`")
    assert found == words


# --- Golden ----------------------------------------------------------------------------------------------------------


def lines_of(values: Iterable[Any]) -> list[str]:
    return [json.dumps(value, ensure_ascii=False) for value in values]


def eventful() -> Scenario:
    """A run with a step of every kind of end, and one that waits for a person."""
    life = Scenario(
        step("read", tool="read_file", args={"path": "notes.txt"}, needs=()),
        step("build", run="do build", contract="check build", on_failure=Retry(max_attempts=2)),
        step("flaky", run="do flaky", needs=(), on_failure=Continue()),
        step("after", run="do after", needs=("flaky",)),
        step("send", run="do send", needs=("read",), on_failure=Escalate()),
        title="Ship it",
        context="Be kind.",
    )
    life.toolbox.files["notes.txt"] = "remember"
    return life.script(flaky=7, send=1).approve().run()


def told(life: Scenario) -> list[Recorded]:
    return list(life.ledger.read(f"run/{life.run_id()}"))


@pytest.mark.parametrize("dialect", OUTPUT_DIALECTS)
def test_a_run_in_a_dialect(dialect: OutputDialect) -> None:
    life = eventful()
    stream = dialect_stream(life.app, dialect)
    lines = [line for one in told(life) for line in stream.lines(one)]
    last = list(stream.close())
    document = in_dialect(life.app, dialect, life.report)
    listed = in_dialect(life.app, dialect, {"plans": life.app.plans(), "count": 1})
    texts = ["# watch", *lines_of(lines), "# when nobody tells any more", *lines_of(last)]
    texts += ["# show RUN", json.dumps(document, indent=2), "# list", json.dumps(listed, indent=2)]
    check_golden(f"run-{dialect}.txt", texts, under=GOLDEN)


@pytest.mark.parametrize("dialect", OUTPUT_DIALECTS)
def test_a_plan_in_a_dialect(dialect: OutputDialect) -> None:
    task = Task(
        task="Find out why.",
        agent="coder",
        instructions="Read the handler first.",
        criteria=("Names the code path",),
        reads=("file:src/auth.py",),
        tools=("mail:read",),
    )
    one = plan(
        replace(step("think", contract="test -s why.md", needs=(), on_failure=Retry(max_attempts=3)), action=task),
        replace(step("fix"), action=Task(task="Mend it.")),
        title="Fix the timeout",
        context="Logins time out.",
        agent="helper",
        model="small",
    )
    value = plan_value(DialectState(plan_id=plan_id(one), plan=one, status="draft"), dialect)
    check_golden(f"plan-{dialect}.txt", [json.dumps(value, indent=2)], under=GOLDEN)


@given(plans())
def test_every_plan_has_a_form_in_every_dialect(one: Plan) -> None:
    assert msgspec.convert(msgspec.to_builtins(one), Plan) == one  # as it is read out of what `--json` says
    for dialect in OUTPUT_DIALECTS:
        value = plan_value(DialectState(plan_id=plan_id(one), plan=one, status="proposed"), dialect)
        assert len(value["steps"]) == len(one.steps)
        assert json.loads(to_json(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize("dialect", OUTPUT_DIALECTS)
def test_a_persons_word_is_called_unverified_in_every_dialect(dialect: OutputDialect) -> None:
    life = Scenario(step("look", run="do look"), step("send", run="do send", on_failure=Escalate())).script(send=1)
    life.approve().run().answer("send", "pass").resume().expect(look="passed", send="passed")
    stream = dialect_stream(life.app, dialect)
    lines = [line for one in told(life) for line in stream.lines(one)]
    document = in_dialect(life.app, dialect, life.report)
    steps = document["checkpoints"] if dialect == "s3" else document["steps"]
    ends = [line for line in lines if {line.get("type"), line.get("status")} & ENDS]
    for look, send in (steps, ends):
        if dialect == "s3":  # its remark about a step says it
            assert "unverified" not in look["result_summary"] and send["result_summary"].startswith("unverified: kim")
        else:
            assert "unverified" not in look and send["unverified"] is True


ENDS = {"STEP_COMPLETED", "completed", "success", "done"}


def test_nothing_of_a_plan_happened_before_it_was_created() -> None:
    life = Scenario(step("one")).approve().run()
    first, created = life.app.plans()[0], {}
    life.clock.advance(5_000)
    life.prepare()
    (line,) = life.app.plans()
    assert line.prepared_at > first.prepared_at == line.opened_at
    for dialect, name in (("s1", "createdAt"), ("s2", "createdAt"), ("s3", "created_at")):
        created[dialect] = in_dialect(life.app, dialect, life.report)[name]
    assert set(created.values()) == {instant_text(first.prepared_at)}


# --- A run as it goes on ---------------------------------------------------------------------------------------------

KIM = Principal(name="kim", channel=Channel.TERMINAL)
ORDER = ("pending", "blocked", "ready", "running")
S1_EVENTS = {"STEP_STARTED": "in_progress", "STEP_COMPLETED": "complete", "STEP_FAILED": "failed"}


def stream_over(one: Plan, history: list[Recorded], dialect: OutputDialect) -> DialectStream:
    line = PlanLine(
        lineage="PLAN-A",
        plan_id=plan_id(one),
        title=one.title,
        status="executing",
        document=None,
        proposer=KIM,
        opened_at=Instant(0),
        prepared_at=Instant(0),
        changed_at=Instant(0),
        expires_at=Instant(0),
        revisions=1,
    )
    return DialectStream(dialect, lambda _: Begun(plan_id(one), one, line, history))


def words_by_step(one: Plan, dialect: OutputDialect, lines: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """What was said of each step of the plan, in order."""
    said: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        match dialect:
            case "s1" if line["type"] in S1_EVENTS:
                said[one.steps[line["stepIndex"]].id].append(S1_EVENTS[line["type"]])
            case "s2":
                assert set(line) <= {"taskId", "stepId", "status", "progress", "result", "logs", "unverified"}
                said[line["stepId"]].append(line["status"])
            case "s3":
                said[one.steps[line["step"] - 1].id].append(line["status"])
            case "s4":
                said[one.steps[line["payload"]["step"] - 1].id].append(line["status"])
            case _:
                assert line["type"] == "PLAN_CREATED"
    return said


def rank(dialect: OutputDialect, word: str) -> int:
    if word == STEP_WORDS[dialect]["running"]:
        return 3
    return ORDER.index(word) if dialect == "s2" and word in ORDER else 4


def sayable(dialect: OutputDialect, word: str | None) -> bool:
    return word is not None and (dialect != "s1" or word in S1_EVENTS.values())


def check_stream(one: Plan, history: list[Recorded], dialect: OutputDialect) -> None:
    stream = stream_over(one, history, dialect)
    lines = [line for recorded in history for line in stream.lines(recorded)] + list(stream.close())
    said = words_by_step(one, dialect, lines)
    assert set(said) <= {step.id for step in one.steps}
    state: RunState = replay(one, [(recorded.at, recorded.event) for recorded in history])  # type: ignore[misc]
    for step_ in one.steps:
        words = said.get(step_.id, [])
        ranks = [rank(dialect, word) for word in words]
        assert ranks == sorted(ranks), (dialect, step_.id, words)
        assert ranks.count(4) <= 1 and set(words) <= SEED_STEP_WORDS[dialect]
        found = state.steps[step_.id].state
        certain = found in SETTLED or found in (StepState.IN_DOUBT, StepState.ESCALATED)
        right = STEP_WORDS[dialect][found]
        if certain and sayable(dialect, right):
            assert words[-1] == right
        else:
            assert 4 not in ranks, "said to have ended, and has not, or not so"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_every_life_goes_one_way_and_ends_in_the_right_word(first: int) -> None:
    ends: set[StepState] = set()
    for seed in range(first, first + 20):
        life = live(seed)
        records = Records(life.ledger)
        assert life.plan_id is not None
        for run_id in records.lineage(records.find_plan(life.plan_id)).runs:
            history = list(life.ledger.read(f"run/{run_id}"))
            for dialect in OUTPUT_DIALECTS:
                check_stream(life.plan, history, dialect)
                # Whoever stops telling anywhere.
                check_stream(life.plan, history[: 1 + seed * 7 % len(history)], dialect)
            state = replay(life.plan, [(one.at, one.event) for one in history])  # type: ignore[misc]
            ends |= {state.steps[one.id].state for one in life.plan.steps}
    assert {StepState.PASSED, StepState.FAILED, StepState.SKIPPED, StepState.CANCELLED} <= ends


def test_a_stream_that_begins_in_the_middle_knows_what_was_before() -> None:
    life = eventful()
    history = told(life)
    at = next(index for index, one in enumerate(history) if getattr(one.event, "step", "") == "build")
    stream = dialect_stream(life.app, "s2")
    first = [(line["stepId"], line["status"]) for line in stream.lines(history[at])]
    assert dict(first)["read"] == "completed" and dict(first)["after"] == "blocked"


def test_the_items_of_a_step_are_its_progress_in_s2_and_nothing_else() -> None:
    each = replace(
        step("each", action=RunCommand(command="do each", env={"X": "${item}"})),
        for_each=ForEach(source="${list.output}", max=10, concurrency=1),
    )
    made = Finished(duration_ms=1, exit_code=0, output=b"[1, 2, 3, 4]", output_bytes=12)
    life = Scenario(step("list", needs=()), each).script(list=made).approve().run()
    assert life.status() == "completed"
    stream = dialect_stream(life.app, "s2")
    lines = [line for one in told(life) for line in stream.lines(one)]
    assert {line["stepId"] for line in lines} == {"list", "each"}
    percents = [line["progress"] for line in lines if line["stepId"] == "each" and "progress" in line]
    assert percents == [25, 50, 75, 100, 100]


def test_what_is_not_verified_yet_has_no_result() -> None:
    life = Scenario(step("build", run="do build", contract="check build", needs=())).approve().run()
    for history in (told(life)[:size] for size in range(1, len(told(life)) + 1)):
        state = replay(life.plan, [(one.at, one.event) for one in history])  # type: ignore[misc]
        standing = DialectState(plan_id=plan_id(life.plan), plan=life.plan, status="executing", state=state)
        (value,) = plan_value(standing, "s2")["steps"]
        assert ("result" in value) is (value["status"] == "completed")


def test_what_a_step_has_written_so_far_is_logs_in_s2() -> None:
    life = eventful()
    history = told(life)
    run_id = life.run_id()
    output = AttemptOutput(at=Instant(1500), stream=f"run/{run_id}", step=StepId("read"), attempt=1, tail="so far")
    stream = dialect_stream(life.app, "s2")
    assert list(stream.lines(output)) == []
    for one in history:
        list(stream.lines(one))
        if getattr(one.event, "step", "") == "read":
            break
    (line,) = stream.lines(output)
    entry = {"timestamp": "1970-01-01T00:00:01.500Z", "message": "so far"}
    assert line == {"taskId": run_id, "stepId": "read", "status": "running", "logs": [entry]}
    for dialect in ("s1", "s3", "s4"):
        assert list(dialect_stream(life.app, dialect).lines(output)) == []


# --- On the command line ---------------------------------------------------------------------------------------------


def printed(text: str) -> tuple[list[Any], dict[str, Any]]:
    *lines, last = text.splitlines(keepends=True)
    return [json.loads(line) for line in lines], envelope(last)


def test_watch_in_s2(workspace: Workspace) -> None:
    run, done = workspace.started("fails.plan.md")
    assert done.status == FAILED
    watched = workspace.ordain("watch", run, "--json", "--dialect", "s2")
    lines, document = printed(watched.out)
    assert (watched.status, document["ok"]) == (FAILED, False)
    assert {line["taskId"] for line in lines} == {run} == {document["data"]["taskId"]}
    last = {line["stepId"]: line for line in lines}
    assert [line["status"] for line in last.values()] == ["completed", "failed", "skipped"]
    failed = list(last.values())[1]["result"]
    assert (failed["ok"], failed["value"]) == (False, "broken pipe in the cellar\n")
    assert failed["error"].startswith("F_") and type(failed["duration"]) is int
    assert [step["status"] for step in document["data"]["steps"]] == ["completed", "failed", "skipped"]


def test_run_in_every_dialect(workspace: Workspace) -> None:
    counts = {"s1": 3, "s2": 3, "s3": 1, "s4": 2}
    for dialect, count in counts.items():
        done = workspace.ordain("run", "look.plan.md", "--json", "--dialect", dialect)
        lines, document = printed(done.out)
        assert (done.status, len(lines), document["ok"]) == (FINE, count, True)
    done = workspace.ordain("run", "small.plan.md", "--json", "--dialect", "s3")
    document = refused(done, "E_PLAN_APPROVAL_MISSING", WAITING)
    assert (document["data"]["status"], document["data"]["tools_required"]) == ("proposed", ["bash"])


TEMPLATE = """\
---
params:
  name: {type: string, required: true}
---
# Greet somebody

## Steps

### 1. Greet

**tool:** write_file
**args:**
```yaml
path: greeting
content: ${params.name}
```
"""


def test_prepare_commit_and_show(workspace: Workspace) -> None:
    data = answered(workspace.ordain("show", "small.plan.md", "--json", "--dialect", "s1"))
    assert (data["status"], data["currentStepIndex"], "createdAt" in data) == ("draft", 0, False)
    (workspace.path / "plans").mkdir()
    workspace.write("plans/template.plan.md", TEMPLATE)
    data = answered(workspace.ordain("show", "plans/template.plan.md", "--json", "--dialect", "s4"))
    assert (data["status"], data["steps"][0]["title"]) == ("draft", "Greet")
    data = answered(workspace.ordain("prepare", "small.plan.md", "--json", "--dialect", "s4"))
    assert (data["type"], data["status"], [step["status"] for step in data["steps"]]) == (
        "plan",
        "verified",
        [None] * 2,
    )
    short = workspace.approved("small.plan.md")
    data = answered(workspace.ordain("commit", short, "--json", "--dialect", "s1"))
    assert (data["status"], [step["status"] for step in data["steps"]]) == ("complete", ["complete"] * 2)
    shown = answered(workspace.ordain("show", short, "--json", "--dialect", "s1"))
    assert shown == data
    run = answered(workspace.ordain("show", short, "--json", "--dialect", "s3"))["execution_session"]
    data = answered(workspace.ordain("show", run, "--json", "--dialect", "s3"))
    assert [line["status"] for line in data["checkpoints"]] == ["success", "success"]
    # Proposed once more, it has not begun.
    workspace.prepared("small.plan.md")
    data = answered(workspace.ordain("show", short, "--json", "--dialect", "s2"))
    assert [step["status"] for step in data["steps"]] == ["pending", "pending"]


def test_list_and_status(workspace: Workspace) -> None:
    workspace.started("asks.plan.md")
    workspace.prepared("small.plan.md")
    for command in ("list", "status"):
        data = answered(workspace.ordain(command, "--json", "--dialect", "s3"))
        head, other = data["plans"]
        assert (head["status"], other["status"]) == ("executing", "proposed")
        assert head["id"].startswith("PLAN-") and head["execution_session"].startswith("RUN-")
        assert {"title", "version", "created_at", "updated_at", "tools_required"} <= set(other)
    data = answered(workspace.ordain("list", "--json", "--dialect", "s2"))
    assert [step["status"] for step in data["plans"][0]["steps"]] == ["failed", "blocked"]


def test_resume(workspace: Workspace) -> None:
    workspace.started("asks.plan.md")
    data = answered(workspace.ordain("resume", "--json", "--dialect", "s4"), WAITING)
    assert (data["status"], data["steps"][0]["status"]) == ("in-progress", "blocked")


def test_a_dialect_is_a_form_of_json_for_whole_plans_and_runs(workspace: Workspace) -> None:
    def usage(*args: str) -> str:
        done = workspace.ordain(*args)
        assert done.status == REFUSED, done
        return done.err + done.out

    assert "goes with --json" in usage("list", "--dialect", "s1")
    assert "goes with --json" in usage("list", "--dialect", "s1", "--format", "toon")
    assert "s0" in usage("list", "--json", "--dialect", "s0")
    assert "No such option" in usage("inbox", "--json", "--dialect", "s1")
    assert "--json alone" in usage("show", "small.plan.md", "--graph", "--json", "--dialect", "s1")
    short = workspace.approved("small.plan.md")
    assert "--json alone" in usage("commit", short, "--detach", "--json", "--dialect", "s1")
    assert workspace.effects() == []


def test_whoever_only_looks_gets_the_steps_as_they_end(workspace: Workspace) -> None:
    run, _ = slow(workspace)
    with Background("watch", run, "--json", "--dialect", "s3", cwd=workspace.path) as watching:
        workspace.write("go", "")
        ended = watching.end()
    lines, document = printed(ended.out)
    assert [(line["step"], line["tool"], line["status"]) for line in lines] == [
        (1, "bash", "success"),
        (2, "bash", "success"),
    ]
    assert document["data"]["result_summary"] == "2 of 2 steps passed"
