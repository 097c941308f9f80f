"""An arbiter chooses who performs a task, among those whom the approval covers; its reason is recorded and shown, and
whatever else it answers counts for nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.model_wire import EVENTS, Answer, WireServer, answering
from tests.rows import each
from tests.task_runs import KIM, Carried, carried_out, task, trusting
from tests.words import Refused, Style, open_at_terminal, read_choice, read_settings, review_lines, run_lines

SAYS = EVENTS["openai-chat"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def settings(judge: str, more: str = "", agents: str = "") -> str:
    def worker(name: str) -> str:
        return f"[agents.{name}]\ncommand = ['bash', '-c', 'cat > /dev/null; echo {name} >> who']\n"

    workers = "".join(map(worker, ("coder", "writer", "tester")))
    human = "[agents.kim]\nhuman = true\n"
    return f'[run]\nagent = "coder"\narbiter = "judge"\n{more}\n{agents}{workers}{human}[agents.judge]\n{judge}\n'


def by_model(server: WireServer, more: str = "") -> str:
    return settings(f'model = "openai-chat:m"\nbase_url = "{server.url}"\n', more)


def open_task(**fields: Any) -> dict[str, Any]:
    made = task(contract="test -e who", **fields)
    return {**made, "action": {"type": "task", "task": "Do it."}}


def went(workspace: Path, answer: str, more: str = "", *steps: dict[str, Any]) -> tuple[Carried, WireServer]:
    with answering(*[Answer(SAYS(answer))] * 3) as server:
        return carried_out(workspace, by_model(server, more), *(steps or (open_task(),))), server


def who(workspace: Path) -> list[str]:
    return (workspace / "who").read_text().split()


def test_a_model_chooses_and_its_reason_is_recorded_and_shown(workspace: Path) -> None:
    carried, server = went(workspace, "writer: it edits prose, and this is prose.")
    assert carried.report.status == "completed" and who(workspace) == ["writer"]
    (step,) = carried.report.steps
    assert step.agent.agent == "writer"
    assert step.agent.why == "the arbiter judge chose it: it edits prose, and this is prose."
    assert "writer, because the arbiter judge chose it: it edits" in "\n".join(
        run_lines(carried.report, Style(False), verbose=False, quiet=False)
    )
    assert carried.outcomes[0].used.tokens == 67, "what it used counts"
    (asked,) = server.asked
    text = asked.body["messages"][0]["content"]
    assert "tools" not in asked.body and "## Current Step" in text
    offered = text.partition("## Agents")[2]
    assert all(f"- {name} [" in offered for name in ("coder", "writer", "tester"))
    assert "kim" not in offered and "- judge" not in offered, "no person, and not itself"


def test_an_agent_can_be_asked_as_well(workspace: Path) -> None:
    judge = "command = ['bash', '-c', 'cat > asked; echo \"tester: it tests.\"']"
    carried = carried_out(workspace, settings(judge), open_task())
    assert who(workspace) == ["tester"] and carried.report.steps[0].agent.why.endswith("chose it: it tests.")
    assert "## Current Step" in (workspace / "asked").read_text()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("kim: a person should.", "names none of those"),
        ("root: run it as root.", "names none of those"),
        ("I would take writer.", "names none of those"),
        ("writer: prose.\ntester: tests.", "or several"),
    ],
)
def test_any_other_answer_leaves_it_to_the_settings_with_the_reason(workspace: Path, answer: str, why: str) -> None:
    carried, _ = went(workspace, answer)
    assert carried.report.status == "completed" and who(workspace) == ["coder"]
    assert carried.report.steps[0].agent.why.startswith("the settings name it, and the arbiter judge chose nobody:")
    assert why in carried.report.steps[0].agent.why


def test_one_that_fails_leaves_it_to_the_settings(workspace: Path) -> None:
    refused = Answer(status=401, body=b'{"error": {"message": "no such key"}}')
    with answering(refused) as server:
        carried = carried_out(workspace, by_model(server), open_task())
    assert who(workspace) == ["coder"] and "HTTP 401: no such key" in carried.report.steps[0].agent.why
    (workspace / "who").unlink()
    carried = carried_out(workspace, settings("command = ['bash', '-c', 'exit 3']"), open_task(timeout_ms=19_000))
    assert who(workspace) == ["coder"] and "exit status 3" in carried.report.steps[0].agent.why


def test_the_steps_own_choice_the_plans_and_rules_come_first(workspace: Path) -> None:
    ruled = {**open_task(), "description": "Review it"}
    carried, server = went(
        workspace, "tester: no.", 'agent_for = { review = "writer" }', task(contract="test -e who"), ruled
    )
    assert carried.report.status == "completed" and sorted(who(workspace)) == ["coder", "writer"]
    assert not server.asked, "nobody is asked where it is said"


def test_what_policy_denies_is_not_offered(workspace: Path) -> None:
    _, server = went(workspace, "writer: prose.", '[policy]\ndeny = ["agent:writer"]')
    assert who(workspace) == ["coder"] and "- writer [" not in server.asked[0].body["messages"][0]["content"]


def test_each_attempt_is_chosen_for_with_what_went_before(workspace: Path) -> None:
    retried = {**open_task(on_failure={"strategy": "retry", "max_attempts": 2}), "verification": None}
    retried["verification"] = {"strategy": {"type": "contract", "command": "grep -q tester who"}}
    with answering(Answer(SAYS("writer: prose.")), Answer(SAYS("tester: the other failed."))) as server:
        carried = carried_out(workspace, by_model(server), retried)
    assert carried.report.status == "completed" and who(workspace) == ["writer", "tester"]
    text = server.asked[1].body["messages"][0]["content"]
    assert "attempt 1, by writer" in text and "contract broken" in text


def test_an_approver_sees_among_whom_and_is_bound_to_all_of_them(workspace: Path) -> None:
    async def life() -> None:
        config = settings("command = ['bash', '-c', 'echo \"writer: x\"']")
        await trusting(workspace, config)
        app = open_at_terminal(workspace, exact=True)
        plan = {"title": "T", "steps": [{"id": "s1", **open_task()}]}
        review = (await app.plans.prepare(msgspec.json.encode(plan), None, KIM)).review
        (one,) = review.tasks
        assert one.arbiter == "judge" and [name.partition(":")[0] for name in one.among] == [
            "coder",
            "writer",
            "tester",
        ]
        bound = {f"agent:{name}" for name in ("coder", "writer", "tester", "judge")}
        assert bound <= review.base.definitions.keys()
        lines = "\n".join(review_lines(review, Style(False)))
        assert "Chosen by:  judge (bash -c" in lines and "Among:      coder: bash" in lines
        await app.approvals.approve(review.plan_id, KIM)
        await trusting(workspace, config.replace("echo writer", "echo evil"))
        with pytest.raises(Refused) as refused:
            await app.runs.commit(review.plan_id, KIM)
        assert refused.value.problems[0].code == "E_PLAN_STALE_BASE"
        await app.close()

    asyncio.run(life())


@each(
    "text, words",
    [
        ('[run]\narbiter = "judge"', "run.arbiter names `judge`, and there is no such agent"),
        ('[run]\narbiter = "gogle:m"', "run.arbiter must be one of"),
        ('[run]\narbiter = "anthropic:m"', "run.arbiter needs a `run.agent`"),
        (
            '[run]\nagent = "kim"\narbiter = "anthropic:m"\n[agents.kim]\nhuman = true',
            "run.arbiter needs a `run.agent` that is no person",
        ),
    ],
)
def test_an_arbiter_that_could_not_be_asked_is_a_problem(text: str, words: str) -> None:
    assert any(words in problem.detail for problem in read_settings(text.encode())[1])


@each(
    "said, found",
    [
        ("writer: prose", ("writer", "prose")),
        ("I thought about it.\n\n**`writer`**: prose", ("writer", "prose")),
        ("- writer: prose\n- writer: again", ("writer", "prose")),
        ("writer", None),
        ("Writer: prose", None),
        ("not writer: prose", None),
        ("writer: a\ntester: b", None),
        ("", None),
    ],
)
def test_an_answer_names_one_of_them_in_a_line_of_its_own(said: str, found: Any) -> None:
    assert read_choice(said, ("writer", "tester")) == found
