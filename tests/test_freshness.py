"""Nothing stale is believed: while a verb is under way a key is revoked, a `deny` is trusted, `ordain.toml` is edited
or an operand is swapped, at every call of a port in turn. And a verb looks once at what cannot have changed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from inspect import iscoroutinefunction
from typing import Any

import msgspec
import pytest

from ordain.records import records, snapshot
from tests.build import plan, step
from tests.scenario import KIM, ROBOT, twin_ports
from tests.twins.execution import ScriptedShell
from tests.twins.ledger import MemoryLedger
from tests.twins.workspace import MemoryKeyring, MemoryWorkspace, MemoryWriterLock
from tests.words import (
    App,
    Append,
    ApprovalGiven,
    ApproverRevoked,
    Ask,
    AttemptStarted,
    Channel,
    ConfigTrusted,
    Credential,
    DecisionGiven,
    Event,
    Instant,
    LedgerAccess,
    PlanId,
    Ports,
    Principal,
    Refused,
    RunStarted,
    StopOrder,
    refuse,
)

PAT = Principal(name="pat", channel=Channel.TERMINAL)
KIMS, PATS = Credential(name="kim", passphrase="kim's own"), Credential(name="pat", passphrase="pat's own")
SIGNED = "[approval]\nrequire_signature = true\n"
DENIED = f'{SIGNED}[policy]\ndeny = ["shell"]\n'
ASK = step("q", action=Ask(question="Go on?", choices=("yes", "no")))
PLAN = plan(step("a", run="cat in.txt"), step("b", run="cat in.txt"), ASK, title="Look")
WATCHED = ("workspace", "keyring", "shell", "lock", "secrets", "host", "clock", "ids", "stop_switch", "notifier")


class Watched:
    """A port that tells of each call before it is made."""

    def __init__(self, port: Any, name: str, before: Callable[[str], None]) -> None:
        self._port, self._name, self._before = port, name, before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            self._before(f"{self._name}.{name}")
            return await found(*args, **kwargs)

        def called(*args: Any, **kwargs: Any) -> Any:
            self._before(f"{self._name}.{name}")
            given = found(*args, **kwargs)
            return Watched(given, self._name, self._before) if name == "sealed" else given

        return awaited if iscoroutinefunction(found) else called


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """Do what waits for nothing, also while a verb is under way."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


class Site:
    """A plan that kim's signature approves, over watched twins; and an App of somebody else, whom nobody watches."""

    def __init__(self) -> None:
        self.ledger, self.workspace, self.keyring = MemoryLedger(), MemoryWorkspace(), MemoryKeyring()
        self.workspace.documents["in.txt"] = b"good"
        self.shell, self.calls, self.at = ScriptedShell(), [], 0
        self.change: Callable[[], None] = lambda: None
        self.changed_at: int | None = None
        self.looks: list[tuple[str, bool, bytes]] = []
        ports = twin_ports(self.ledger, self.workspace, keyring=self.keyring, shell=self.shell, lock=MemoryWriterLock())
        self.other = App(ports)
        at_once(self.other.approvals.enroll(KIMS, KIM))
        at_once(self.other.approvals.enroll(PATS, PAT, KIMS))
        self.trust(SIGNED)
        self.app = App(self.watched(ports))

    def watched(self, ports: Ports) -> Ports:
        ledger: Any = Watched(self.ledger, "ledger", self.before)
        access = LedgerAccess(lambda: ledger, exists=lambda: True, empty=MemoryLedger)
        others = {name: Watched(getattr(ports, name), name, self.before) for name in WATCHED}
        return msgspec.structs.replace(ports, ledger=access, **others)

    def before(self, call: str) -> None:
        self.calls.append(call)
        if len(self.calls) == self.at:
            self.changed_at = len(list(self.ledger.everything()))
            self.change()
        self.looks.append((call, self.changed_at is not None, self.workspace.documents["in.txt"]))

    def trust(self, text: str) -> None:
        self.workspace.configuration_text = text.encode()
        at_once(self.other.approvals.trust(self.other.approvals.configuration()[1], PAT, PATS))

    def after(self) -> list[Event]:
        """What was recorded after the change."""
        found = {(one.stream, one.seq): one.event for name in self.ledger.streams("") for one in self.ledger.read(name)}
        assert self.changed_at is not None
        return [found[entry.stream, entry.seq] for entry in list(self.ledger.everything())[self.changed_at :]]

    # --- What somebody does meanwhile ---

    def revoke(self) -> None:
        at_once(self.other.approvals.revoke_approver("kim", PAT, "gone", PATS))

    def deny(self) -> None:
        self.trust(DENIED)

    def edit(self) -> None:
        self.workspace.configuration_text = b"[run]\nconcurrency = 2\n"

    def stop(self) -> None:
        assert self.other.ports.stop_switch is not None
        self.other.ports.stop_switch.turn_on(StopOrder(everywhere=False))

    def swap(self) -> None:
        self.workspace.documents["in.txt"] = b"evil"


# --- The verbs, from where they are asked --------------------------------------------------------------------------


async def prepared(site: Site) -> PlanId:
    return (await site.other.plans.prepare_plan(PLAN, ROBOT)).review.plan_id


async def approved(site: Site) -> PlanId:
    identity = await prepared(site)
    await site.other.approvals.approve(identity, KIM, credential=KIMS)
    return identity


async def carried_out(site: Site) -> str:
    """A run that has come to its question."""
    return (await site.other.runs.commit(await approved(site), ROBOT)).questions[0].item


async def prepare(site: Site) -> Callable[[], Coroutine[Any, Any, Any]]:
    return lambda: site.app.plans.prepare_plan(PLAN, ROBOT)


async def approve(site: Site) -> Callable[[], Coroutine[Any, Any, Any]]:
    identity = await prepared(site)
    return lambda: site.app.approvals.approve(identity, KIM, credential=KIMS)


async def commit(site: Site) -> Callable[[], Coroutine[Any, Any, Any]]:
    identity = await approved(site)
    return lambda: site.app.runs.commit(identity, ROBOT)


async def approve_and_commit(site: Site) -> Callable[[], Coroutine[Any, Any, Any]]:
    identity = await prepared(site)
    shown = site.other.plans.review(identity)
    return lambda: site.app.runs.approve_and_commit(shown, KIM, credential=KIMS)


async def answer(site: Site) -> Callable[[], Coroutine[Any, Any, Any]]:
    item = await carried_out(site)
    return lambda: site.app.answers.answer(item, "yes", KIM, credential=KIMS)


async def resume(site: Site) -> Callable[[], Coroutine[Any, Any, Any]]:
    item = await carried_out(site)
    await site.other.answers.answer(item, "yes", KIM, credential=KIMS)
    return lambda: site.app.runs.resume(None)


async def rerun(site: Site) -> Callable[[], Coroutine[Any, Any, Any]]:
    item = await carried_out(site)
    await site.other.answers.answer(item, "yes", KIM, credential=KIMS)
    report = await site.other.runs.resume(None)
    await site.other.approvals.approve(report.plan_id, KIM, credential=KIMS)
    return lambda: site.app.runs.rerun(report.run_id, ROBOT)


VERBS = (prepare, approve, commit, approve_and_commit, answer, resume, rerun)


def lived(verb: Callable[[Site], Any], change: str = "", at: int = 0) -> tuple[Site, str]:
    """One life with a change at this call, and how the verb ended."""
    site = Site()

    async def life() -> str:
        work = await verb(site)
        site.calls.clear()
        site.looks.clear()
        site.shell.calls.clear()
        site.at, site.change = at, getattr(site, change) if change else site.change
        try:
            await work()
        except Refused as refused:
            return refused.problems[0].code
        return "done"

    return site, asyncio.run(life())


def wrong(site: Site, change: str, ended: str) -> list[str]:
    """What was believed that was no longer so."""
    if site.changed_at is None:
        return []
    own = (ApproverRevoked, ConfigTrusted)
    after = [event for event in site.after() if not isinstance(event, own)]
    found = []
    if change == "revoke":
        found += ["a revoked key approved" for event in after if isinstance(event, ApprovalGiven)]
        found += ["a revoked key's approval was spent" for event in after if isinstance(event, RunStarted)]
        found += ["a revoked key answered" for event in after if isinstance(event, DecisionGiven)]
    if change == "deny":
        found += ["what is denied was approved" for event in after if isinstance(event, ApprovalGiven)]
        found += ["what is denied was started" for event in after if isinstance(event, RunStarted)]
        commands = [event for event in after if isinstance(event, AttemptStarted) and event.step != "q"]
        found += ["more than what was being begun went on"] * (len(commands) > 1)
    begun = next((number for number, look in enumerate(site.looks) if look[0] == "ledger.append"), len(site.looks))
    if change in ("edit", "swap") and any(isinstance(event, RunStarted) for event in after):
        file = {"edit": ("workspace.configuration",), "swap": ("workspace.contents", "workspace.digests")}[change]
        seen = [late for call, late, _ in site.looks[:begun] if call in file]
        # It was looked at on the last occasion, and that is believed which was seen then.
        found += ["it was looked at again and not believed"] * (True in seen)
        waited = next(number for number, look in enumerate(site.looks) if look[0] == "lock.claim")
        found += ["it was not looked at again once the run was claimed"] * site.looks[waited][1]
    if change == "swap":
        last: bytes | None = None
        for call, _, content in site.looks:
            last = content if call in ("workspace.contents", "workspace.digests") else last
            found += ["a command ran on what was seen to be swapped"] * (call == "shell.run" and last == b"evil")
    return [f"{what} ({ended})" for what in found]


@pytest.mark.part(of=57)
@pytest.mark.parametrize("offset", range(1, 9))
@pytest.mark.parametrize("change", ["revoke", "deny", "edit", "swap"])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: str(verb.__name__))
def test_nothing_stale_is_believed(verb: Callable[[Site], Any], change: str, offset: int) -> None:
    site, ended = lived(verb)
    assert ended == "done", ended
    for at in range(offset, len(site.calls) + 1, 8):
        changed, ended = lived(verb, change, at)
        assert wrong(changed, change, ended) == [], f"{change} before call {at}: {changed.calls[at - 1]}"


def test_no_step_begins_once_work_is_stopped() -> None:
    at = lived(commit)[0].calls.index("shell.run") + 1
    stopped, ended = lived(commit, "stop", at)
    assert ended == "E_STOPPED"
    assert not any(isinstance(event, AttemptStarted) for event in stopped.after())


@pytest.mark.parametrize(("conflicts", "ended"), [(2, "done"), (3, "E_LEDGER_CONFLICT")])
def test_a_start_is_tried_three_times(conflicts: int, ended: str) -> None:
    site, tried = Site(), 0

    async def life() -> str:
        nonlocal tried
        work = await commit(site)
        real = site.ledger.append

        async def late(at: Instant, *appends: Append) -> Any:
            nonlocal tried
            if any(isinstance(event, RunStarted) for append in appends for event in append.events):
                tried += 1
                if tried <= conflicts:
                    raise refuse("E_LEDGER_CONFLICT", "Somebody else wrote first.")
            return await real(at, *appends)

        site.ledger.append = late  # type: ignore[method-assign]
        try:
            await work()
        except Refused as refused:
            return refused.problems[0].code
        return "done"

    assert (asyncio.run(life()), tried) == (ended, 3)
    assert bool(site.shell.calls) == (ended == "done")


# --- How often is looked -------------------------------------------------------------------------------------------


def looks(steps: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a run of so many steps, from being prepared to its end, asks what."""
    counted: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        real = getattr(module, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            counted[name] += 1
            return real(*args, **kwargs)

        watching.setattr(module, name, counting)

    site = Site()
    twins = App(msgspec.structs.replace(site.other.ports, shell=ScriptedShell()))
    site.trust('[policy]\nallow = ["shell"]\n')

    async def run() -> None:
        prepared = await twins.plans.prepare_plan(plan(*(step(f"s{n}", run="true") for n in range(steps))), KIM)
        report = await twins.runs.commit(prepared.review.plan_id, KIM)
        assert report.status == "completed"

    with monkeypatch.context() as watching:
        for module, name in (
            (snapshot, "in_force"),
            (snapshot, "take"),
            (snapshot.Snapshot, "is_current"),
            (records, "apply_workspace"),
            (records, "apply_lineage"),
            (records, "apply"),
        ):
            count(module, name)
        asyncio.run(run())
    return counted


def test_a_run_takes_the_settings_once_and_folds_each_event_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = looks(2, monkeypatch)
    assert found.pop("is_current") <= 15  # one for each step, and the moments of preparing, starting and ending
    assert found == {
        "in_force": 1,
        "take": 1,
        "apply_workspace": 5,  # each event once: opened, two enrolled, twice trusted
        "apply_lineage": 4,  # prepared (tried before it is recorded), started, ended
        "apply": 1,  # the run's first event; the engine folds the others itself
    }


def test_each_step_costs_one_look_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = looks(2, monkeypatch), looks(12, monkeypatch)
    assert many - few == {"is_current": 10}
