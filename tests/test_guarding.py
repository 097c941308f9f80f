"""What becomes of calls outside of any run: judged, noted, refused where the settings say so, whatever else breaks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.build import plan, step
from tests.scenario import KIM, twin_ports
from tests.twins.ledger import MemoryLedger
from tests.twins.workspace import MemorySecrets, MemorySightings, MemoryWorkspace
from tests.words import (
    ABOUT_MAX,
    PER_HOUR,
    App,
    Call,
    CallRule,
    CallStanding,
    Channel,
    EffectClass,
    Guard,
    Instant,
    Met,
    PlanId,
    Principal,
    Refused,
    RequestRefused,
    Seen,
    Settings,
    Sighting,
    ToolDefinition,
    refuse,
    short_id,
)

CLIENT = Principal(name="assistant", channel=Channel.MCP)
SEEN = Seen(by=CLIENT, agent="assistant", through="gateway", session="one")
SEND = ToolDefinition(name="mail:send", description="Send", effect=EffectClass.OPAQUE, schema={"type": "object"})
ENFORCE = '[guard]\nmode = "enforce"\n'
SECRET = "hunter2-correct-horse"


class BrittleLedger(MemoryLedger):
    """A ledger that can no longer be read, or written."""

    unreadable = unwritable = False
    slow: asyncio.Event | None = None

    def read(self, *args: Any, **named: Any) -> Any:
        return self._no() if self.unreadable else super().read(*args, **named)

    def plans(self, *args: Any, **named: Any) -> Any:
        return self._no() if self.unreadable else super().plans(*args, **named)

    async def append(self, at: Instant, *appends: Any) -> Any:
        if self.slow is not None:
            await self.slow.wait()
        return self._no() if self.unwritable else await super().append(at, *appends)

    def _no(self) -> Any:
        raise refuse("E_LEDGER_BROKEN", "The disk is gone.")


class Site:
    """A guard of twins, with a configuration that a person trusted."""

    def __init__(self, settings: str = "") -> None:
        self.ledger, self.sightings, self.workspace = BrittleLedger(), MemorySightings(), MemoryWorkspace()
        self.workspace.configuration_text = settings.encode()
        secrets = MemorySecrets()
        secrets.values["MAIL_TOKEN"] = SECRET
        ports = twin_ports(self.ledger, self.workspace, sightings=self.sightings, secrets=secrets)
        self.app = App(ports)
        asyncio.run(self.app.approvals.trust(self.app.approvals.configuration()[1], KIM))

    def meet(self, tool: str = "mail:send", *, known: bool = True, seen: Seen = SEEN, **args: Any) -> Met:
        call = Call(tool=tool, args=args, definition=SEND if known else None)
        return asyncio.run(self.app.guard.meet(call, seen))

    def propose(self, by: Principal = KIM, **args: Any) -> PlanId:
        whole = plan(step("send", tool="read_file", args=args))
        return asyncio.run(self.app.plans.prepare_plan(whole, by)).review.plan_id

    def approve(self, **args: Any) -> PlanId:
        plan_id = self.propose(**args)
        asyncio.run(self.app.approvals.approve(plan_id, KIM))
        return plan_id

    def read(self, path: str) -> Met:
        return asyncio.run(self.app.guard.meet(Call(tool="read_file", args={"path": path}, definition=READ), SEEN))

    @property
    def noted(self) -> list[Sighting]:
        return self.sightings.noted

    @property
    def refusals(self) -> list[tuple[str, str]]:
        found = (one.event for one in self.app.refusals.newest())
        return [(one.code, one.subject) for one in found if isinstance(one, RequestRefused)]


def test_what_is_guarded_passes_and_is_noted_while_only_watched() -> None:
    site = Site()
    met = site.meet(to="kim@example.com")
    assert (met.judged.standing, met.refused, met.problem and met.problem.code) == (
        CallStanding.GUARDED,
        False,
        "E_TOOL_GUARDED",
    )
    (noted,) = site.noted
    assert (noted.agent, noted.through, noted.session, noted.tool) == ("assistant", "gateway", "one", "mail:send")
    assert (noted.refused, noted.code, json.loads(noted.about)) == (False, "E_TOOL_GUARDED", {"to": "kim@example.com"})
    assert site.refusals == []


def test_what_is_guarded_is_refused_noted_and_recorded_where_rules_are_enforced() -> None:
    site = Site(ENFORCE)
    met = site.meet(to="kim@example.com")
    assert met.refused
    assert [one.refused for one in site.noted] == [True]
    assert site.refusals == [("E_TOOL_GUARDED", 'mail:send {"to": "kim@example.com"}')]


def test_what_is_open_leaves_no_trace() -> None:
    site = Site(ENFORCE + 'open = ["mail:send"]\n[tools.mail]\nmcp = ["mail"]\n')
    met = site.meet(to="kim@example.com")
    assert (met.judged.standing, met.problem, met.refused) == (CallStanding.OPEN, None, False)
    assert (site.noted, site.refusals) == ([], [])


def test_rules_count_from_the_call_after_they_were_trusted() -> None:
    site = Site()
    assert not site.meet().refused
    site.workspace.configuration_text = ENFORCE.encode()
    assert not site.meet().refused
    asyncio.run(site.app.approvals.trust(site.app.approvals.configuration()[1], KIM))
    assert site.meet().refused


def test_secrets_are_taken_out_before_anything_is_noted_or_recorded() -> None:
    site = Site(ENFORCE)
    seen = Seen(by=CLIENT, agent=f"agent {SECRET}", through="gateway", session=f"session {SECRET}")
    met = site.meet(f"mail:{SECRET}", known=False, seen=seen, text=f"it is {SECRET}", **{SECRET: 1})
    assert met.problem is not None
    kept = f"{site.noted} {site.refusals} {met.problem}"
    assert SECRET not in kept
    assert "MAIL_TOKEN" in site.noted[0].about


HOSTILE: list[dict[str, Any]] = [
    {"text": "\ud800"},
    {"\ud800": 1},
    {"text": "x" * 3_000_000},
    {"text": "\x00\x1b[2J\u202e"},
    {"number": float("nan")},
    {"number": 10**400},
    {f"a{number}": number for number in range(5_000)},
    {"object": object()},
]


def deep(levels: int) -> dict[str, Any]:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return {"text": value}


@pytest.mark.parametrize("mode", ["observe", "enforce"])
@pytest.mark.parametrize("args", [*HOSTILE, deep(500), deep(100_000)], ids=range(len(HOSTILE) + 2))
def test_no_arguments_get_past_the_guard_by_breaking_it(mode: str, args: dict[str, Any]) -> None:
    site = Site(f'[guard]\nmode = "{mode}"\n')
    assert site.meet(**args).refused is (mode == "enforce")
    (noted,) = site.noted
    assert len(noted.about) <= ABOUT_MAX
    noted.about.encode()


@pytest.mark.parametrize("args", [*HOSTILE, deep(500), deep(100_000)], ids=range(len(HOSTILE) + 2))
@pytest.mark.parametrize("strict", [True, False])
def test_no_arguments_break_a_rule_about_them(strict: bool, args: dict[str, Any]) -> None:
    named = ("rule:text",)
    rules = {"text": CallRule(tools=("mail:send",), where={"text": "a*b", "number": 5})}
    settings = Settings(rules=rules, guarded=("*", *(named if strict else ())), open_calls=() if strict else named)
    call = Call(tool="mail:send", args=args, definition=SEND)
    assert Guard(settings).judge(call).standing is CallStanding.GUARDED


def test_arguments_that_nobody_can_look_at_open_nothing() -> None:
    site = Site(ENFORCE + 'open = ["mail:send"]\n[tools.mail]\nmcp = ["mail"]\n')
    assert not site.meet(**deep(10)).refused
    assert site.meet(**deep(100)).refused


@pytest.mark.parametrize("name", ["\ud800", "x" * 100_000, "\x1b]0;owned\x07", "", ":", "a:b:c", "path:x"])
def test_no_name_gets_past_the_guard_by_breaking_it(name: str) -> None:
    site = Site(ENFORCE)
    seen = Seen(by=CLIENT, agent=name, through="gateway", session=name)
    met = site.meet(name, known=False, seen=seen)
    assert met.refused
    assert met.problem is not None
    met.problem.detail.encode()
    (noted,) = site.noted
    assert max(map(len, (noted.tool, noted.agent, noted.session))) <= 256
    f"{noted.tool}{noted.agent}{noted.session}".encode()


def test_where_nothing_can_be_recorded_the_answer_is_still_no() -> None:
    site = Site(ENFORCE)
    site.ledger.unwritable = True
    assert site.meet().refused
    assert site.refusals == []
    assert len(site.noted) == 1


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_where_the_record_can_no_longer_be_read_the_rules_stay_what_they_were(mode: str) -> None:
    site = Site(f'[guard]\nmode = "{mode}"\n')
    before = site.meet()
    site.ledger.unreadable = True
    assert site.meet() == before
    assert before.refused is (mode == "enforce")


def test_where_it_never_could_nobody_says_that_a_call_is_open() -> None:
    site = Site()
    site.ledger.unreadable = True
    with pytest.raises(Refused):
        site.meet()


def test_an_agent_that_tries_for_ever_fills_no_ledger() -> None:
    site = Site(ENFORCE)
    for _ in range(PER_HOUR + 40):
        assert site.meet().refused
    assert len(site.refusals) == PER_HOUR


READ = ToolDefinition(name="read_file", description="Read", effect=EffectClass.READS)
ENFORCED_READS = ENFORCE + 'guarded = ["*", "read_file"]\n[policy]\nask = ["reads"]\n'


@pytest.mark.parametrize(
    ("path", "code"), [("a.txt", "E_TOOL_GUARDED"), ("b.txt", "E_TOOL_ARGS_NOT_APPROVED")], ids=["same", "other"]
)
def test_a_call_that_a_person_approved_is_still_not_made_for_whoever_asks(path: str, code: str) -> None:
    site = Site(ENFORCED_READS)
    site.approve(path="a.txt")
    met = site.read(path)
    assert met.refused
    assert met.problem is not None
    assert met.problem.code == code
    assert "`send`" in met.problem.detail


def test_a_call_that_is_taken_back_while_it_is_refused_is_in_the_record() -> None:
    site = Site(ENFORCE)

    async def life() -> None:
        site.ledger.slow = asyncio.Event()
        meeting = asyncio.create_task(site.app.guard.meet(Call(tool="mail:send", definition=SEND), SEEN))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        meeting.cancel()
        await asyncio.gather(meeting, return_exceptions=True)
        assert meeting.cancelled()
        site.ledger.slow.set()
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(life())
    assert [one.event.code for one in site.app.refusals.newest() if isinstance(one.event, RequestRefused)] == [
        "E_TOOL_GUARDED"
    ]


def test_a_call_that_waits_for_approval_is_not_asked_for_again() -> None:
    site = Site(ENFORCED_READS)
    plan_id = site.propose(CLIENT, path="a.txt")
    met = site.read("a.txt")
    assert met.problem is not None
    assert (met.problem.code, met.problem.command) == ("E_TOOL_GUARDED", f"ordain approve {short_id(plan_id)}")
    assert "waits for a person" in met.problem.detail
    assert site.read("b.txt").same is None


def test_a_call_that_was_made_is_not_asked_for_as_if_it_was_not() -> None:
    site = Site(ENFORCED_READS)
    site.workspace.documents["a.txt"] = b"a"
    plan_id = site.approve(path="a.txt")
    run = asyncio.run(site.app.runs.commit(plan_id, KIM))
    seen = Seen(by=KIM, agent="assistant", through="gateway")
    call = Call(tool="read_file", args={"path": "a.txt"}, definition=READ)
    problem = asyncio.run(site.app.guard.meet(call, seen)).problem
    assert problem is not None
    assert (problem.code, problem.command) == ("E_TOOL_GUARDED", f"ordain show {run.run_id}")
    assert f"{run.run_id} made this very call at " in problem.detail


def test_nobody_is_told_what_others_proposed() -> None:
    site = Site(ENFORCED_READS)
    site.propose(path="a.txt")
    assert site.read("a.txt").same is None
    client = Principal(name="other", channel=Channel.MCP)
    site.propose(client, path="b.txt")
    assert site.read("b.txt").same is None
