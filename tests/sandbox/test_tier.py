"""Trust tier 1 from the document to the end of a run: demanded, shown, refused where it cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ordain import Channel, Principal, Refused
from ordain.adapters.process import host as local_host
from ordain.adapters.process import program as system_places
from tests.programs import need
from tests.words import (
    App,
    CommandFact,
    CommandFacts,
    FactNote,
    LineFacts,
    RunOpened,
    Style,
    open_at_terminal,
    review_lines,
    sha256,
)

pytestmark = pytest.mark.slow("runs in sandboxes, by bubblewrap")

KIM = Principal(name="kim", channel=Channel.TERMINAL)
PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need("bwrap")
    monkeypatch.setenv("PATH", PATH)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def plan(*steps: dict[str, Any], **fields: Any) -> bytes:
    named = [{"id": f"s{number}", **step} for number, step in enumerate(steps, 1)]
    return msgspec.json.encode({"title": "T", "steps": named, **fields})


def runs(command: str, **fields: Any) -> dict[str, Any]:
    return {"action": {"type": "run", "command": command}, **fields}


def opened(workspace: Path, settings: str = "") -> App:
    app = open_at_terminal(workspace, exact=True)
    if settings:
        (workspace / "ordain.toml").write_text(settings)
        asyncio.run(trusted(app, settings))
    return app


async def trusted(app: App, settings: str) -> None:
    await app.approvals.trust(sha256(settings.encode()), KIM)


def refused(action: Coroutine[Any, Any, object]) -> list[str]:
    with pytest.raises(Refused) as caught:
        asyncio.run(action)  # type: ignore[arg-type]
    return [problem.code for problem in caught.value.problems]


async def approved(app: App, data: bytes) -> str:
    prepared = await app.plans.prepare(data, None, KIM)
    await app.approvals.approve(prepared.review.plan_id, KIM)
    return str(prepared.review.plan_id)


OUTSIDE = "echo x > ../outside"


def test_a_plan_may_demand_the_sandbox(workspace: Path) -> None:
    app = opened(workspace)

    async def life() -> RunOpened:
        report = await app.runs.commit(await approved(app, plan(runs(OUTSIDE), tier=1)), KIM)
        (found,) = [one.event for one in app.plans.log(report.run_id) if isinstance(one.event, RunOpened)]
        return found

    assert asyncio.run(life()).limits.tier == 1
    assert not (workspace.parent / "outside").exists()


def test_a_command_that_counts_as_reading_is_held_to_that(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = (FactNote(CommandFact.READS),)
    reads = LineFacts(strict=(CommandFacts(program="touch", strict=True, findings=notes),))
    monkeypatch.setattr(local_host, "understanding", lambda *_: lambda text: reads)
    app = opened(workspace)

    async def life() -> str:
        return (await app.runs.commit(await approved(app, plan(runs("touch made"), tier=1)), KIM)).status

    assert asyncio.run(life()) == "failed"
    assert not (workspace / "made").exists()


def test_the_configuration_may_demand_it_of_every_plan(workspace: Path) -> None:
    app = opened(workspace, "[run]\ntier = 1\n[sandbox]\nprocesses = 77\n")

    async def life() -> RunOpened:
        report = await app.runs.commit(await approved(app, plan(runs(f"ulimit -u > seen; {OUTSIDE}"))), KIM)
        (found,) = [one.event for one in app.plans.log(report.run_id) if isinstance(one.event, RunOpened)]
        return found

    run = asyncio.run(life())
    assert not (workspace.parent / "outside").exists()
    assert (workspace / "seen").read_text() == "77\n"
    assert (run.limits.tier, run.limits.sandbox.processes) == (1, 77)


def test_a_plan_in_a_plan_may_demand_it(workspace: Path) -> None:
    inner = {
        "title": "I",
        "plan_version": 1,
        "tier": 1,
        "steps": [{"id": "i", "needs": [], "description": "i", **runs("true")}],
    }
    app = opened(workspace)
    prepared = asyncio.run(app.plans.prepare(plan({"action": {"type": "nested_plan", "plan": inner}}), None, KIM))
    assert prepared.review.tier == 1


def test_an_approver_sees_it(workspace: Path) -> None:
    app = opened(workspace)
    steps = runs("make", network=True, writes=["out/**"]), runs("true")
    review = asyncio.run(app.plans.prepare(plan(*steps, tier=1), None, KIM)).review
    text = "\n".join(review_lines(review, Style(colour=False)))
    for words in ("tier 1, sandboxed", "in a sandbox", "may use the network: s1", "out/**"):
        assert words in text
    assert "your full permissions" not in text


def test_the_approval_is_bound_to_it(workspace: Path) -> None:
    app = opened(workspace, "[run]\ntier = 1\n")
    identity = asyncio.run(approved(app, plan(runs("true"))))
    settings = "[run]\ntier = 0\n"
    (workspace / "ordain.toml").write_text(settings)
    asyncio.run(trusted(app, settings))
    with pytest.raises(Refused) as caught:
        asyncio.run(app.runs.commit(identity, KIM))  # type: ignore[arg-type]
    (problem,) = caught.value.problems
    assert problem.code == "E_PLAN_STALE_BASE"
    assert "the trust tier was 1 and is 0" in " ".join([problem.detail, *problem.hints])


def test_where_it_cannot_be_had_nothing_is_run_instead(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, data = opened(workspace), plan(runs("touch begun"), tier=1)
    identity = asyncio.run(approved(app, data))
    other = asyncio.run(app.plans.prepare(plan(runs("touch other"), tier=1), None, KIM)).review.plan_id
    there = system_places.SYSTEM_DIRECTORIES
    monkeypatch.setattr(system_places, "SYSTEM_DIRECTORIES", ())
    app = open_at_terminal(workspace, exact=True)
    (problem,) = [one for one in app.plans.lint(data).problems if one.code == "E_TIER"]
    assert "bubblewrap is not installed" in problem.detail and "apt-get install bubblewrap" in problem.hints[0]
    assert refused(app.plans.prepare(data, None, KIM)) == ["E_TIER"]
    assert refused(app.approvals.approve(other, KIM)) == ["E_TIER"]
    assert refused(app.runs.commit(identity, KIM)) == ["E_TIER"]
    assert not (workspace / "begun").exists()
    monkeypatch.setattr(system_places, "SYSTEM_DIRECTORIES", there)
    assert asyncio.run(app.runs.commit(identity, KIM)).status == "completed"


def test_a_run_does_not_go_on_without_it(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(workspace)
    failing = runs("test -e begun || { touch begun; false; }", on_failure={"strategy": "escalate"})

    async def life() -> str:
        return str((await app.runs.commit(await approved(app, plan(failing, tier=1)), KIM)).run_id)

    run_id = asyncio.run(life())
    monkeypatch.setattr(system_places, "SYSTEM_DIRECTORIES", ())
    assert refused(open_at_terminal(workspace, exact=True).runs.resume(run_id)) == ["E_TIER"]


@pytest.mark.parametrize("field", [{"writes": ["src/**"]}, {"network": True}, {"network": False}])
def test_what_only_a_sandbox_holds_is_refused_without_one(workspace: Path, field: dict[str, Any]) -> None:
    app = opened(workspace)
    assert refused(app.plans.prepare(plan(runs("true", **field)), None, KIM)) == ["E_NOT_YET"]
    asyncio.run(app.plans.prepare(plan(runs("true", **field), tier=1), None, KIM))


def test_only_commands_are_held_by_it(workspace: Path) -> None:
    tool = {"action": {"type": "tool", "tool": "make_dir", "args": {"path": "d"}}, "writes": ["d/**"]}
    assert refused(opened(workspace).plans.prepare(plan(tool, tier=1), None, KIM)) == ["E_NOT_YET"]


def test_a_pattern_that_cannot_be_held_is_refused(workspace: Path) -> None:
    data = plan(runs("true", writes=["docs/*.md"]), tier=1)
    assert refused(opened(workspace).plans.prepare(data, None, KIM)) == ["E_FIELD_VALUE"]
