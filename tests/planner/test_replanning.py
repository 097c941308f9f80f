"""A run that stopped goes on by what a planner proposes: the rest of its plan, or advice about one step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.planner.planners import BY, SETTINGS, Asking, codes, submits
from tests.twins.model import Move, ScriptedModel, calls
from tests.words import (
    App,
    Channel,
    Given,
    Planned,
    Principal,
    Refused,
    ReplanBegun,
    Replanner,
    ReplanRequest,
    problems_of,
)

KIM = Principal(name="kim", channel=Channel.TERMINAL)

EIGHT = """\
# Eight steps

## Steps

{steps}
"""


def document(fifth: str = "grep -x nope e.txt", policy: str = "replan", **others: str) -> str:
    """Eight steps that write their names; the contract of the fifth is wrong."""
    steps = []
    for number, name in enumerate("abcdefgh", 1):
        run = others.get(name, f"echo {name} >> {name}.txt")
        contract = fifth if name == "e" else f"grep -x {name} {name}.txt"
        steps.append(
            f"### {number}. Step {name}\n\n**id:** {name}\n**run:** {run}\n**contract:** {contract}\n"
            + (f"**on_fail:** {policy}\n" if name == "e" else "")
        )
    return EIGHT.format(steps="\n".join(steps))


def rest(names: str = "efgh", fifth: str = "grep -x e e.txt", **others: str) -> str:
    steps = []
    for number, name in enumerate(names, 1):
        run = others.get(name, f"echo {name} >> {name}.txt")
        contract = fifth if name == "e" else f"grep -x {name} {name}.txt"
        steps.append(f"### {number}. Step {name}\n\n**id:** {name}\n**run:** {run}\n**contract:** {contract}\n")
    return "# The rest\n\n## Steps\n\n" + "\n".join(steps)


class Replanning(Asking):
    """A run that waits at its fifth step."""

    def started(self, text: str, moves: Iterable[Move] = (), *, allow_subset: bool = False) -> Any:
        """Prepare, approve and run a document; whoever its failure policy asks makes these moves."""
        self.model = ScriptedModel(moves)

        async def work(app: App) -> Any:
            prepared = await app.plans.prepare(text.encode(), None, KIM)
            review = msgspec.structs.replace(prepared.review, allow_subset=allow_subset)
            return await app.runs.approve_and_commit(review, KIM)

        return self.life(work)

    def life(self, work: Callable[[App], Any]) -> Any:
        async def life() -> Any:
            app = self.app()
            try:
                return await work(app)
            finally:
                await app.close()

        return asyncio.run(life())

    def app(self) -> App:
        app = super().app()
        app = App(msgspec.structs.replace(app.ports, terminal=True))
        app.go_on = Replanner(app).go_on
        return app

    def replan(self, run: str, moves: Iterable[Move], **request: Any) -> Planned:
        self.model = ScriptedModel(moves)
        return self.life(lambda app: Replanner(app).replan(ReplanRequest(run=run, **request), BY, tell=lambda n: None))

    def approved(self, plan: str) -> Any:
        async def work(app: App) -> Any:
            return await app.runs.approve_and_commit(app.plans.review(plan), KIM)

        return self.life(work)

    def tries(self, report: Any) -> list[Any]:
        async def read(app: App) -> list[Any]:
            records = app.here.records
            return [*records.lineage(records.find_plan(report.plan_id)).replans.values()]

        found: list[Any] = self.life(read)
        return found

    def lines(self) -> dict[str, int]:
        return {path.stem: len(path.read_text().split()) for path in sorted(self.path.glob("?.txt"))}


@pytest.fixture
def asking(tmp_path: Path) -> Replanning:
    return Replanning(tmp_path, SETTINGS)


def test_a_failed_step_is_replanned_and_a_person_approves_what_changed(asking: Replanning) -> None:
    report = asking.started(document(), [submits(rest())])
    assert report.status == "waiting" and asking.lines() == dict.fromkeys("abcde", 1)
    told = asking.told()
    assert "PASSED and is kept" in told and "grep -x nope e.txt" in told and "exit status 1" in told
    (line,) = asking.life(lambda app: _async(app.plans.all()))
    assert line.continues == report.run_id and line.proposer.channel is Channel.PLANNER
    review = asking.life(lambda app: _async(app.plans.review(line.plan_id)))
    assert review.requires_approval
    assert [one.step for one in review.successor.kept] == list("abcde")
    known = asking.life(lambda app: app.plans.known(review, KIM)).known
    assert (known.holding, known.broken) == ((), 3), "that the contracts of kept steps hold is nothing against them"
    assert asking.approved(line.plan_id).status == "completed"
    assert asking.lines() == dict.fromkeys("abcdefgh", 1)


async def _async(value: Any) -> Any:
    return value


def test_on_request_a_run_that_ended_goes_on_too(asking: Replanning) -> None:
    report = asking.started(document(policy="abort"))
    assert report.status == "failed"
    planned = asking.replan(report.run_id, [submits(rest())], reason="The file holds an e.")
    assert planned.prepared is not None and "The file holds an e." in asking.told()
    assert asking.approved(planned.prepared.review.plan_id).status == "completed"
    assert asking.lines() == dict.fromkeys("abcdefgh", 1)


def test_problems_of_a_rest_go_back_with_its_own_lines(asking: Replanning) -> None:
    report = asking.started(document(policy="abort"))
    bad = rest().replace("**run:** echo f >> f.txt", "**tool:** edit_fil")
    planned = asking.replan(report.run_id, [submits(bad), submits(rest())])
    assert planned.prepared is not None and planned.rounds == 2
    line = bad.split("\n").index("### 2. Step f") + 1
    told = asking.told(1)
    assert "E_TOOL_UNKNOWN" in told and f"line {line}, step `f`" in told


def test_the_same_rest_goes_back_under_any_names(asking: Replanning) -> None:
    report = asking.started(document(policy="abort"))
    same = rest(fifth="grep -x nope e.txt")
    renamed = same.replace("**id:** e", "**id:** renamed")
    planned = asking.replan(report.run_id, [submits(same), submits(renamed)])
    assert planned.prepared is None
    assert "E_REPLAN_STALLED" in asking.told(1) and "E_REPLAN_STALLED" in codes(problems_of(planned))


@pytest.mark.parametrize(
    "weaker",
    [
        rest().replace("**contract:** grep -x e e.txt\n", ""),
        rest().replace("**contract:** grep -x e e.txt\n", "").replace("**id:** e", "**id:** renamed"),
    ],
    ids=["dropped", "renamed"],
)
def test_a_check_is_not_dropped(asking: Replanning, weaker: str) -> None:
    report = asking.started(document(policy="abort"))
    planned = asking.replan(report.run_id, [submits(weaker), submits(weaker)])
    assert planned.prepared is None and "E_REPLAN_UNVERIFIED" in codes(problems_of(planned))


def test_only_steps_can_be_handed_in(asking: Replanning) -> None:
    report = asking.started(document(policy="abort"))
    more = rest() + "\n## Fallbacks\n\n### x. Push\n\n**run:** git push --force\n"
    planned = asking.replan(report.run_id, [submits("# Nothing"), submits(more), submits(rest())])
    assert planned.prepared is not None and planned.rounds == 3
    assert "E_REPLAN_REST" in asking.told(1) and "E_REPLAN_REST" in asking.told(2)
    assert "Fallbacks" not in planned.document


def test_a_step_is_replanned_once_for_one_cause_also_when_nothing_came_of_it(asking: Replanning) -> None:
    report = asking.started(document(policy="abort"))
    planned = asking.replan(report.run_id, [calls(("give_up", {"reason": "I do not know."}))])
    assert codes(problems_of(planned)) == ["E_PLANNER_GAVE_UP"]
    with pytest.raises(Refused) as refused:
        asking.replan(report.run_id, [submits(rest())])
    assert codes(refused.value.problems) == ["E_REPLAN_LIMIT"]


def test_where_no_planner_answers_the_person_is_asked_as_ever(asking: Replanning) -> None:
    report = asking.started(document(), [calls(("give_up", {"reason": "Ask somebody."}))])
    assert report.status == "waiting"
    assert [one.step for one in report.questions] == ["e"]
    (line,) = asking.life(lambda app: _async(app.plans.all()))
    assert line.continues is None


FLAKY = """\
# Four steps

## Steps

### 1. A

**id:** a
**run:** echo a >> a.txt

### 2. B

**id:** b
**run:** test -e marker || {{ touch marker; exit 1; }}; echo b >> b.txt
**contract:** grep -x b b.txt
**on_fail:** replan
{extra}
### 3. D

**id:** d
**needs:** b
**run:** echo d >> d.txt
"""
LOG = """\

### 3. C

**id:** c
**needs:** b
**tool:** write_file
**args:**
```yaml
path: c.txt
content: c
```
"""


@pytest.mark.parametrize("allowed", [True, False])
def test_an_approval_that_allows_a_subset_goes_on_unasked_by_one(asking: Replanning, allowed: bool) -> None:
    whole = FLAKY.format(extra=LOG).replace("### 3. D", "### 4. D")
    left = FLAKY.format(extra="").partition("### 2.")[2]
    report = asking.started(whole, [submits(f"# Rest\n\n## Steps\n\n### 2.{left}")], allow_subset=allowed)
    if not allowed:
        assert report.status == "waiting" and asking.lines() == {"a": 1}
        return
    assert report.status == "completed"
    assert asking.lines() == {"a": 1, "b": 1, "d": 1}
    assert [one.id for one in report.steps] == ["a", "b", "d"]
    assert [one.kept_from is not None for one in report.steps] == [True, False, False]


def test_what_is_no_subset_asks_a_person_whatever_the_approval_allows(asking: Replanning) -> None:
    report = asking.started(document(), [submits(rest(e="echo e > e.txt; touch extra"))], allow_subset=True)
    assert report.status == "waiting" and not (asking.path / "extra").exists()


# --- Advice ----------------------------------------------------------------------------------------------------------


def advice(**said: Any) -> Any:
    return submits(json.dumps({"reason": "because", **said}))


def test_advice_to_try_another_command(asking: Replanning) -> None:
    text = document(fifth="grep -x e e.txt", e="exit 3", policy="recover")
    report = asking.started(text, [advice(advice="retry", command="echo e >> e.txt")])
    assert report.status == "waiting"
    (line,) = asking.life(lambda app: _async(app.plans.all()))
    assert (line.continues, line.reason) == (report.run_id, "because")
    assert asking.approved(line.plan_id).status == "completed"
    assert asking.lines() == dict.fromkeys("abcdefgh", 1)


def test_advice_to_do_something_before(asking: Replanning) -> None:
    text = document(fifth="grep -x e e.txt", e="cp before.txt e.txt", policy="abort")
    report = asking.started(text)
    steps = "## Steps\n\n### 1. Make it\n\n**id:** make-it\n**needs:** d\n**run:** echo e > before.txt\n"
    steps += "**contract:** grep -x e before.txt\n"
    planned = asking.replan(report.run_id, [advice(advice="insert", steps=steps)], recover=True)
    assert planned.prepared is not None
    plan = planned.prepared.review.plan
    assert [one.id for one in plan.steps] == [*"abcd", "make-it", *"efgh"]
    assert asking.approved(planned.prepared.review.plan_id).status == "completed"


def test_advice_to_leave_it_out(asking: Replanning) -> None:
    report = asking.started(document(policy="abort"))
    planned = asking.replan(report.run_id, [advice(advice="skip")], recover=True)
    assert planned.prepared is not None
    assert [one.id for one in planned.prepared.review.plan.steps] == list("abcdfgh")
    assert asking.approved(planned.prepared.review.plan_id).status == "completed"


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"advice": "approve"}, "E_REPLAN_ADVICE"),
        ({"advice": "retry"}, "E_REPLAN_ADVICE"),
        ({"advice": "retry", "args": {"x": 1}}, "E_REPLAN_ADVICE"),
        ({"advice": "retry", "command": "exit 3"}, "E_REPLAN_ADVICE"),
        ({"advice": "assign", "agent": "somebody"}, "E_REPLAN_ADVICE"),
        ({"advice": "insert", "steps": "do it"}, "E_REPLAN_REST"),
        ({"advice": "insert", "steps": "## Steps\n\n### 1. A\n\n**id:** a\n**run:** true\n"}, "E_STEP_ID"),
        ({"advice": "skip", "then": "git push"}, "E_REPLAN_ADVICE"),
    ],
)
def test_advice_that_is_none_goes_back(asking: Replanning, wrong: Any, expected: str) -> None:
    report = asking.started(document(e="exit 3", policy="abort"))
    planned = asking.replan(report.run_id, [advice(**wrong), advice(**wrong)], recover=True)
    assert planned.prepared is None and planned.rounds == 2
    (wrong_code,) = codes(problems_of(planned))[1:]
    assert wrong_code == expected


def test_a_task_is_given_to_another_agent(tmp_path: Path) -> None:
    agents = '[agents.first]\ncommand = ["false"]\n\n[agents.second]\ncommand = ["touch", "done"]\n'
    asking = Replanning(tmp_path, SETTINGS + agents)
    text = "# Task\n\n## Steps\n\n### 1. Do it\n\n**id:** do\n**agent:** first\n**task:** Touch `done`.\n"
    report = asking.started(text + "**contract:** test -e done\n")
    planned = asking.replan(report.run_id, [advice(advice="assign", agent="second")], recover=True)
    assert planned.prepared is not None
    assert asking.approved(planned.prepared.review.plan_id).status == "completed"


# --- Who may, and when -----------------------------------------------------------------------------------------------


def test_nothing_to_replan(asking: Replanning) -> None:
    report = asking.started(document(fifth="grep -x e e.txt"))
    assert report.status == "completed"
    with pytest.raises(Refused) as refused:
        asking.replan(report.run_id, [])
    assert codes(refused.value.problems) == ["E_REPLAN_NOTHING"]


def test_without_a_name_the_run_that_does_not_get_on_is_meant(asking: Replanning) -> None:
    """`ordain replan` alone never means a run that completed, and its commands name replan."""

    def meant() -> Any:
        return asking.life(lambda app: _async(app.runs.stuck_run()))

    for name in "ab":  # two completed runs of two plans
        assert asking.started(document(fifth="grep -x e e.txt").replace("Eight", name)).status == "completed"
    with pytest.raises(Refused) as refused:
        meant()
    assert codes(refused.value.problems) == ["E_RUN_NOT_FOUND"]
    failed = [asking.started(document(policy="abort").replace("Eight", name)).run_id for name in "cd"]
    with pytest.raises(Refused) as refused:
        meant()
    assert codes(refused.value.problems) == ["E_RUN_AMBIGUOUS"]
    assert {*refused.value.problems[0].hints} == {f"ordain replan {run}" for run in failed}
    waits = asking.started(document(policy="escalate").replace("Eight", "e"))
    assert waits.status == "waiting" and meant() == waits.run_id


def test_a_try_that_was_killed_counts(asking: Replanning) -> None:
    report = asking.started(document(policy="abort"))

    def killed(request: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asking.replan(report.run_id, [killed])
    assert [one.error for one in asking.tries(report)] == ["F_REPLAN_KILLED"]
    with pytest.raises(Refused) as refused:
        asking.replan(report.run_id, [submits(rest())])
    assert codes(refused.value.problems) == ["E_REPLAN_LIMIT"]


def test_a_try_whose_process_died_counts_and_the_next_one_says_so(asking: Replanning) -> None:
    report = asking.started(document(policy="abort"))
    by = Principal(name="ordain", channel=Channel.PLANNER)
    dead = ReplanBegun(replan="REPLAN-DEAD", run_id=report.run_id, step="e", cause="another one", by=by)

    async def record(app: App) -> None:
        stream = app.here.records.find_plan(report.plan_id)
        await app.here.records.decide(stream, lambda state: dead, app.here.now())

    asking.life(record)
    assert asking.replan(report.run_id, [submits(rest())]).prepared is not None
    assert [one.error for one in asking.tries(report)] == ["F_REPLAN_KILLED", ""]


def test_a_persons_answer_comes_before_a_planners(asking: Replanning) -> None:
    report = asking.started(document(policy="escalate"))

    def answered(request: Any) -> Any:
        async def answer(app: App) -> None:
            await app.answers.answer(f"{report.run_id}/e", Given(word="skip"), KIM)

        with ThreadPoolExecutor() as pool:
            pool.submit(asking.life, answer).result()
        return submits(rest())

    with pytest.raises(Refused) as refused:
        asking.replan(report.run_id, [answered])
    assert codes(refused.value.problems) == ["E_REPLAN_OVERTAKEN"]
    (line,) = asking.life(lambda app: _async(app.plans.all()))
    assert line.continues is None


def test_where_nobody_is_configured_no_try_is_spent(tmp_path: Path) -> None:
    asking = Replanning(tmp_path, "")
    report = asking.started(document())
    assert report.status == "waiting" and asking.tries(report) == []
    with pytest.raises(Refused) as refused:
        asking.replan(report.run_id, [])
    assert codes(refused.value.problems) == ["E_PLANNER_NONE"] and asking.tries(report) == []


def test_no_more_than_three_tries_in_a_lineage(asking: Replanning) -> None:
    """A planner that fails each time in another way is stopped by the count alone."""
    text = document(fifth="grep -x e e.txt", e="exit 3", policy="abort")
    report = asking.started(text)
    for status in (4, 5, 6):
        planned = asking.replan(report.run_id, [submits(rest(e=f"exit {status}"))])
        assert planned.prepared is not None
        report = asking.approved(planned.prepared.review.plan_id)
        assert report.status == "failed"
    with pytest.raises(Refused) as refused:
        asking.replan(report.run_id, [submits(rest())])
    assert codes(refused.value.problems) == ["E_REPLAN_LIMIT"]
    assert asking.lines() == dict.fromkeys("abcd", 1)
