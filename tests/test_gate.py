"""The gate under attack: what was shown is what can start, no agent approves, one approval starts one run.

Each refusal is looked at whole: its code, what it recorded (nothing, unless it says so), and that nothing was run.
"""

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.build import plan, step
from tests.rows import each
from tests.scenario import KIM, ROBOT, Scenario, twin_ports
from tests.twins.execution import ScriptedShell
from tests.twins.workspace import MemoryKeyring, MemoryWorkspace, MemoryWriterLock
from tests.words import (
    WORKSPACE_STREAM,
    App,
    Append,
    Approval,
    ApprovalExpired,
    ApprovalGiven,
    ApproverEnrolled,
    ApproverRevoked,
    Channel,
    ConfigTrusted,
    Credential,
    EffectClass,
    Escalate,
    Event,
    Gate,
    Holder,
    Instant,
    Ledger,
    Permission,
    Plan,
    PlanExpired,
    PlanId,
    PlanPrepared,
    PlanState,
    Principal,
    Records,
    Refused,
    RequestRefused,
    RunOpened,
    RunStarted,
    SendText,
    Settings,
    Signature,
    SignatureRefused,
    Situation,
    SqliteLedger,
    Surroundings,
    audit,
    canonical_bytes,
    fingerprint,
    limits,
    plan_id,
    proof_of,
    public_half,
    revocation,
    signed,
    signed_bytes,
)

PAT = Principal(name="pat", channel=Channel.TERMINAL)
KIMS, PATS = Credential(name="kim", passphrase="kim's own"), Credential(name="pat", passphrase="pat's own")
HOUR, DAY = 3_600_000, 86_400_000

Work = Coroutine[Any, Any, Any]


def do(work: Work) -> Any:
    return asyncio.run(work)


def events(ledger: Ledger) -> list[Event]:
    """Everything that was ever recorded, in order."""
    found = [ledger.read(stream) for stream in ledger.streams("")]
    by_place = {(one.stream, one.seq): one.event for recorded in found for one in recorded}
    return [by_place[entry.stream, entry.seq] for entry in ledger.everything()]


def refused(life: Scenario, work: Work, *recorded: type) -> list[str]:
    """The codes of a refusal that ran nothing and recorded exactly these kinds of event, besides that it was one."""
    before, effects = len(events(life.ledger)), list(life.world.effects)
    with pytest.raises(Refused) as caught:
        do(work)
    kinds = [type(event) for event in events(life.ledger)[before:]]
    assert tuple(kind for kind in kinds if kind is not RequestRefused) == recorded
    assert life.world.effects == effects
    return [problem.code for problem in caught.value.problems]


def trust(life: Scenario, text: str, credential: Credential | None = None) -> None:
    life.workspace.configuration_text = text.encode()
    do(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM, credential))


def forge(life: Scenario, stream: str, *written: Event) -> None:
    """What somebody appends who can write the ledger: the chain is good, and nobody was asked."""
    append = Append(stream=stream, expected=life.ledger.size(stream), events=written)
    do(life.ledger.append(life.clock.now(), append))


def lineage(life: Scenario) -> str:
    return life.ledger.streams("lineage/")[0]


def state(life: Scenario, stream: str | None = None) -> PlanState:
    return Records(life.ledger).lineage(stream or lineage(life))


def permission(life: Scenario) -> Permission:
    """The newest approval that is good for something."""
    return next(reversed(state(life).permissions.values()))


def commit(life: Scenario, ref: str | None = None) -> Work:
    return life.app.runs.commit(ref or str(life.plan_id), ROBOT)


def runs(life: Scenario) -> int:
    return len(life.ledger.streams("run/"))


def prepared_event(made: Plan, identity: PlanId | None = None) -> PlanPrepared:
    return PlanPrepared(
        plan_id=identity or plan_id(made),
        plan=msgspec.Raw(canonical_bytes(made)),
        document=None,
        document_sha256=None,
        by=ROBOT,
        expires_at=Instant(2_000_000_000_000),
    )


# --- The corpus, row by row --------------------------------------------------------------------------------------

Row = Callable[[Scenario], Work]
ROWS: list[tuple[Row, str, tuple[type, ...]]] = []


def row(code: str, *recorded: type) -> Callable[[Row], Row]:
    """A row of the corpus: brings a scenario to the point and returns what must be refused with this code."""

    def add(prepare: Row) -> Row:
        ROWS.append((prepare, code, recorded))
        return prepare

    return add


@row("E_PLAN_NOT_FOUND")
def unknown_id(life: Scenario) -> Work:
    return commit(life.approve(), "deadbeef")


@row("E_PLAN_NOT_FOUND")
def unknown_id_approved(life: Scenario) -> Work:
    return life.prepare().app.approvals.approve("plan:" + "0" * 64, KIM)


@row("E_PLAN_NOT_FOUND")
def unknown_lineage(life: Scenario) -> Work:
    return commit(life.approve(), "PLAN-NOBODY")


@row("E_PLAN_NOT_FOUND")
def a_document_that_nobody_prepared(life: Scenario) -> Work:
    return commit(life.approve(), "tidy.plan.md")


@row("E_PLAN_AMBIGUOUS")
def ambiguous_digits(life: Scenario) -> Work:
    life.approve()
    other = PlanId(str(life.plan_id)[:20] + "0" * (len(str(life.plan_id)) - 20))
    forge(life, "lineage/PLAN-OTHER", prepared_event(plan(step("b")), other))
    return commit(life, str(life.plan_id)[5:13])


@row("E_PLAN_AMBIGUOUS")
def ambiguous_lineage(life: Scenario) -> Work:
    do(life.approve().app.plans.prepare_plan(plan(step("b")), KIM))
    return commit(life, "PLAN-")


@row("E_PLAN_EXPIRED", PlanExpired)
def proposal_too_old_to_approve(life: Scenario) -> Work:
    life.prepare().clock.advance(7 * DAY)
    return life.app.approvals.approve(str(life.plan_id), KIM)


@row("E_PLAN_EXPIRED", PlanExpired)
def proposal_too_old_to_start(life: Scenario) -> Work:
    life.prepare().clock.advance(7 * DAY)
    return commit(life)


@row("E_PLAN_APPROVAL_MISSING")
def nothing_approved(life: Scenario) -> Work:
    return commit(life.prepare())


@row("E_PLAN_APPROVAL_MISSING")
def another_revision_approved(life: Scenario) -> Work:
    life.approve()
    do(life.app.plans.revise(str(life.plan_id), ROBOT, b"# Other\n\n1. `do b`\n", None))
    return commit(life, lineage(life).removeprefix("lineage/"))


@row("E_PLAN_SUPERSEDED")
def the_old_revision_by_its_id(life: Scenario) -> Work:
    life.approve()
    do(life.app.plans.revise(str(life.plan_id), ROBOT, b"# Other\n\n1. `do b`\n", None))
    return commit(life)


@row("E_PLAN_HASH_MISMATCH")
def approval_of_another_digest(life: Scenario) -> Work:
    given = permission(life.approve()).approval
    do(life.app.plans.revise(str(life.plan_id), ROBOT, b"# Other\n\n1. `do b`\n", None))
    forge(life, lineage(life), ApprovalGiven(approval=replace(given, approval_id="APPROVAL-X")))
    return commit(life, lineage(life).removeprefix("lineage/"))


@row("E_PLAN_HASH_MISMATCH")
def approval_of_other_kinds_of_action(life: Scenario) -> Work:
    given = permission(life.approve()).approval
    do(life.app.approvals.revoke(str(life.plan_id), KIM))
    odd = replace(given, approval_id="APPROVAL-X", action_kinds=("tool:list_files",))
    forge(life, lineage(life), ApprovalGiven(approval=odd))
    return commit(life)


@row("E_PLAN_HASH_MISMATCH")
def plan_swapped(life: Scenario) -> Work:
    life.approve()
    forge(life, lineage(life), prepared_event(plan(step("evil")), life.plan_id))
    return commit(life)


@row("E_PLAN_HASH_MISMATCH")
def plan_swapped_before_approval(life: Scenario) -> Work:
    life.prepare()
    forge(life, lineage(life), prepared_event(plan(step("evil")), life.plan_id))
    return life.app.approvals.approve(str(life.plan_id), KIM)


@row("E_PLAN_HASH_MISMATCH")
def fallback_body_swapped(life: Scenario) -> Work:
    shown, run = (plan(step("a"), fallbacks=(step("mend", run=text, needs=()),)) for text in ("do b", "do evil"))
    forge(life, "lineage/PLAN-F", prepared_event(run, plan_id(shown)))
    return life.app.approvals.approve(plan_id(shown), KIM)


@row("E_PLAN_WORKSPACE")
def another_workspace(life: Scenario) -> Work:
    life.approve().workspace.place = ("/elsewhere", 1, 1)
    return commit(life)


@row("E_PLAN_WORKSPACE")
def the_directory_replaced(life: Scenario) -> Work:
    life.approve().workspace.place = ("/workspace", 1, 2)
    return commit(life)


@row("E_PLAN_WORKSPACE")
def an_approval_from_another_ledger(life: Scenario) -> Work:
    given = permission(life.approve()).approval
    do(life.app.approvals.revoke(str(life.plan_id), KIM))
    foreign = replace(given, approval_id="APPROVAL-X", workspace=replace(given.workspace, id="WS-OTHER"))
    forge(life, lineage(life), ApprovalGiven(approval=foreign))
    return commit(life)


@row("E_PLAN_STALE_BASE")
def what_was_shown_is_not_what_is_there(life: Scenario) -> Work:
    shown = life.prepare().app.plans.review(str(life.plan_id))
    life.workspace.configuration_text = b"[run]\nconcurrency = 2\n"
    return life.app.approvals.approve(str(life.plan_id), KIM, shown)


@row("E_PLAN_STALE_BASE")
def what_was_shown_was_another_directory(life: Scenario) -> Work:
    shown = life.prepare().app.plans.review(str(life.plan_id))
    life.workspace.place = ("/elsewhere", 1, 1)
    return life.app.runs.approve_and_commit(shown, KIM)


@row("E_APPROVAL_EXPIRED", ApprovalExpired)
def approval_expired(life: Scenario) -> Work:
    life.approve().clock.advance(4 * HOUR)
    return commit(life)


@row("E_APPROVAL_EXPIRED")
def approval_dated_in_the_future(life: Scenario) -> Work:
    life.approve().clock.advance(-61_000)
    return commit(life)


@row("E_APPROVAL_EXPIRED", ApprovalExpired)
def clock_went_back_within_one_boot(life: Scenario) -> Work:
    life.approve().clock.advance(4 * HOUR)
    life.clock.advance(-4 * HOUR)
    return commit(life)


@row("E_APPROVAL_SPENT")
def approval_used_and_the_plan_prepared_again(life: Scenario) -> Work:
    return commit(life.approve().run().prepare())


@row("E_APPROVAL_REVOKED")
def approval_revoked(life: Scenario) -> Work:
    do(life.approve().app.approvals.revoke(permission(life).approval.approval_id, ROBOT))
    return commit(life)


@row("E_APPROVAL_REVOKED")
def plan_rejected_and_prepared_again(life: Scenario) -> Work:
    do(life.approve().app.plans.reject(str(life.plan_id), KIM, "Not yet."))
    return commit(life.prepare())


@row("E_PLAN_REJECTED")
def plan_rejected(life: Scenario) -> Work:
    do(life.approve().app.plans.reject(str(life.plan_id), KIM, "Not yet."))
    return commit(life)


@row("E_PLAN_STAGE")
def plan_cancelled(life: Scenario) -> Work:
    do(life.approve().app.plans.cancel(str(life.plan_id), KIM))
    return commit(life)


@row("E_PLAN_STAGE")
def plan_archived(life: Scenario) -> Work:
    do(life.approve().approve().app.plans.cancel(str(life.plan_id), KIM))
    do(life.app.plans.archive(str(life.plan_id), KIM))
    return commit(life)


@row("E_RUN_OPEN")
def a_second_run_beside_the_first(life: Scenario) -> Work:
    return commit(life.approve().approve().script(a=1).run().prepare())


@row("E_RUN_OPEN")
def an_approval_while_it_runs(life: Scenario) -> Work:
    return life.approve().script(a=1).run().app.approvals.approve(str(life.plan_id), KIM)


@row("E_APPROVAL_CHANNEL")
def approving_as_a_robot(life: Scenario) -> Work:
    return life.prepare().app.approvals.approve(str(life.plan_id), ROBOT)


@row("E_APPROVAL_CHANNEL")
def approving_from_a_script(life: Scenario) -> Work:
    return life.prepare().app.approvals.approve(str(life.plan_id), Principal(name="kim", channel=Channel.SCRIPT))


@row("E_APPROVAL_CHANNEL")
def approving_from_code(life: Scenario) -> Work:
    shown = life.prepare().app.plans.review(str(life.plan_id))
    return life.app.runs.approve_and_commit(shown, Principal(name="kim", channel=Channel.LIBRARY))


@row("E_APPROVAL_CHANNEL")
def a_robot_with_a_persons_passphrase(life: Scenario) -> Work:
    do(life.prepare().app.approvals.enroll(KIMS, KIM))
    return life.app.approvals.approve(str(life.plan_id), ROBOT, None, KIMS)


@row("E_APPROVAL_CHANNEL")
def an_agents_approval_written_into_the_ledger(life: Scenario) -> Work:
    given = permission(life.approve()).approval
    do(life.app.approvals.revoke(str(life.plan_id), KIM))
    forge(life, lineage(life), ApprovalGiven(approval=replace(given, approval_id="APPROVAL-X", approver=ROBOT)))
    return commit(life)


@row("E_APPROVAL_SELF")
def the_preparer_under_separate(life: Scenario) -> Work:
    trust(life, "[approval]\nseparate = true\n")
    return life.prepare().app.approvals.approve(str(life.plan_id), KIM)


@row("E_APPROVAL_SELF")
def the_preparer_hidden_behind_a_robot(life: Scenario) -> Work:
    trust(life, "[approval]\nseparate = true\n")
    do(life.prepare().app.plans.prepare_plan(life.plan, ROBOT))
    return life.app.approvals.approve(str(life.plan_id), KIM)


@row("E_APPROVAL_SELF")
def the_preparer_with_a_key(life: Scenario) -> Work:
    trust(life, "[approval]\nseparate = true\n")
    do(life.prepare().app.approvals.enroll(KIMS, KIM))
    return life.app.approvals.approve(str(life.plan_id), PAT, None, KIMS)


@row("E_APPROVAL_APPROVER")
def not_among_the_approvers(life: Scenario) -> Work:
    trust(life, '[approval]\napprovers = ["pat"]\n')
    return life.prepare().app.approvals.approve(str(life.plan_id), KIM)


@row("E_APPROVAL_SIGNATURE")
def missing_signature(life: Scenario) -> Work:
    return demanding(life).prepare().app.approvals.approve(str(life.plan_id), KIM)


@row("E_APPROVAL_SIGNATURE")
def missing_signature_on_the_spot(life: Scenario) -> Work:
    return life.app.runs.approve_and_commit(demanding(life).prepare().app.plans.review(str(life.plan_id)), KIM)


@row("E_APPROVAL_SIGNATURE")
def unknown_key(life: Scenario) -> Work:
    return demanding(life).prepare().app.approvals.approve(str(life.plan_id), KIM, None, PATS)


@row("E_APPROVAL_SIGNATURE")
def a_key_that_is_not_kept_here(life: Scenario) -> Work:
    demanding(life).prepare()
    life.keyring.kept["kim"] = (hashlib.sha256(b"another").digest(), KIMS.passphrase)
    return life.app.approvals.approve(str(life.plan_id), KIM, None, KIMS)


@row("E_APPROVAL_SIGNATURE", SignatureRefused)
def wrong_passphrase(life: Scenario) -> Work:
    return (
        demanding(life).prepare().app.approvals.approve(str(life.plan_id), KIM, None, replace(KIMS, passphrase="guess"))
    )


@row("E_APPROVAL_RATE")
def sixth_wrong_passphrase_in_a_minute(life: Scenario) -> Work:
    guess_wrong(demanding(life).prepare(), 5)
    return life.app.approvals.approve(str(life.plan_id), KIM, None, replace(KIMS, passphrase="guess"))


@row("E_PROPOSALS_TOO_MANY")
def the_21st_pending_proposal_of_one_agent(life: Scenario) -> Work:
    for number in range(20):
        do(life.app.plans.prepare_plan(plan(step(f"s{number}")), ROBOT))
    return life.app.plans.prepare_plan(plan(step("one-more")), ROBOT)


def demanding(life: Scenario) -> Scenario:
    """A workspace where kim is enrolled and only signed approvals count."""
    do(life.app.approvals.enroll(KIMS, KIM))
    trust(life, "[approval]\nrequire_signature = true\n", KIMS)
    return life


def guess_wrong(life: Scenario, times: int) -> None:
    for _ in range(times):
        with pytest.raises(Refused) as caught:
            do(life.app.approvals.approve(str(life.plan_id), KIM, None, replace(KIMS, passphrase="guess")))
        assert caught.value.problems[0].code == "E_APPROVAL_SIGNATURE"


@each("prepare, code, recorded", ROWS, ids=[one[0].__name__ for one in ROWS])
def test_the_corpus_of_approval_and_commit(prepare, code, recorded):
    life = Scenario(step("a", on_failure=Escalate()))
    work = prepare(life)
    started = runs(life)
    assert refused(life, work, *recorded) == [code]
    assert runs(life) == started


def test_the_21st_pending_proposal_is_only_the_agents_limit():
    life = Scenario(step("a"))
    for number in range(20):
        do(life.app.plans.prepare_plan(plan(step(f"s{number}")), ROBOT))
    life.prepare()
    do(life.app.plans.prepare_plan(plan(step("other")), replace(ROBOT, name="another")))
    do(life.app.plans.prepare_plan(plan(step("s3")), ROBOT))  # known already
    do(life.app.plans.cancel(plan_id(plan(step("s3"))), ROBOT))
    do(life.app.plans.prepare_plan(plan(step("one-more")), ROBOT))


def test_panes_are_compared_when_it_starts(monkeypatch):
    """No plan that uses them can be prepared yet; what compares them is there already."""
    life = Scenario(step("a"))
    made = plan(replace(step("a"), action=SendText(text="hi", pane="build")))
    forge(life, "lineage/PLAN-P", prepared_event(made))
    there: dict[str, Any] = {"panes": {"build": "tmux:1/%3/99"}}
    real = Surroundings.situation

    async def situation(here: Surroundings, about: Plan) -> Situation:
        return replace(await real(here, about), **there)

    monkeypatch.setattr(Surroundings, "situation", situation)
    do(life.app.approvals.approve("PLAN-P", KIM))
    there["panes"] = {"build": "tmux:1/%3/100"}
    assert refused(life, commit(life, "PLAN-P")) == ["E_PLAN_PANE_MISMATCH"]
    assert len(state(life).permissions) == 1


# --- Each bound thing, changed and put back ------------------------------------------------------------------------


def place(life: Scenario, *value: Any) -> Callable[[], None]:
    before, life.workspace.place = life.workspace.place, value  # type: ignore[assignment]
    return lambda: setattr(life.workspace, "place", before)


def document(life: Scenario, path: str, data: bytes | None) -> Callable[[], None]:
    files, before = life.workspace.documents, life.workspace.documents.get(path)

    def put(content: bytes | None) -> None:
        files.pop(path, None)
        if content is not None:
            files[path] = content

    put(data)
    return lambda: put(before)


def configuration(life: Scenario, text: bytes | None) -> Callable[[], None]:
    before, life.workspace.configuration_text = life.workspace.configuration_text, text
    return lambda: setattr(life.workspace, "configuration_text", before)


def definition(life: Scenario, **fields: Any) -> Callable[[], None]:
    before = life.toolbox.tools
    life.toolbox.tools = {**before, "edit_file": replace(before["edit_file"], **fields)}
    return lambda: setattr(life.toolbox, "tools", before)


def head(life: Scenario, commit: str | None) -> Callable[[], None]:
    before, life.workspace.head = life.workspace.head, commit
    return lambda: setattr(life.workspace, "head", before)


def back(life: Scenario, milliseconds: int) -> Callable[[], None]:
    life.clock.advance(-milliseconds)
    return lambda: life.clock.set_forward(milliseconds)


def stored_bytes(life: Scenario) -> Callable[[], None]:
    """Somebody edits the plan's bytes where they are stored, and recomputes the chain."""
    real = life.ledger.read

    def swapped(stream: str, after: int = 0) -> Any:
        body = msgspec.Raw(canonical_bytes(plan(step("evil"))))
        return [
            replace(one, event=replace(one.event, plan=body)) if isinstance(one.event, PlanPrepared) else one
            for one in real(stream, after)
        ]

    life.ledger.read = swapped  # type: ignore[method-assign]
    return lambda: setattr(life.ledger, "read", real)


BOUND: dict[str, tuple[Callable[[Scenario], Callable[[], None]], str]] = {
    "path": (lambda life: place(life, "/elsewhere", 1, 1), "E_PLAN_WORKSPACE"),
    "device": (lambda life: place(life, "/workspace", 2, 1), "E_PLAN_WORKSPACE"),
    "inode": (lambda life: place(life, "/workspace", 1, 2), "E_PLAN_WORKSPACE"),
    "file changed": (lambda life: document(life, "src/a.txt", b"two"), "E_PLAN_STALE_BASE"),
    "file gone": (lambda life: document(life, "src/a.txt", None), "E_PLAN_STALE_BASE"),
    "file is a directory": (lambda life: document(life, "src/new.txt/x", b""), "E_PLAN_STALE_BASE"),
    "file is new": (lambda life: document(life, "src/new.txt", b""), "E_PLAN_STALE_BASE"),
    "tool's description": (lambda life: definition(life, description="does more"), "E_PLAN_STALE_BASE"),
    "tool's effect class": (lambda life: definition(life, effect=EffectClass.OPAQUE), "E_PLAN_STALE_BASE"),
    "configuration edited": (lambda life: configuration(life, b"[run]\nconcurrency = 9\n"), "E_PLAN_STALE_BASE"),
    "configuration gone": (lambda life: configuration(life, None), "E_PLAN_STALE_BASE"),
    "commit": (lambda life: head(life, "f" * 40), "E_PLAN_STALE_BASE"),
    "no commit": (lambda life: head(life, None), "E_PLAN_STALE_BASE"),
    "clock": (lambda life: back(life, 2 * HOUR), "E_APPROVAL_EXPIRED"),
    "stored plan": (stored_bytes, "E_PLAN_HASH_MISMATCH"),
}


@pytest.mark.part(of=4)
@pytest.mark.parametrize("with_key", [False, True])
@pytest.mark.parametrize("what", BOUND)
def test_each_bound_thing_changed_is_refused_and_the_same_approval_is_good_when_it_is_put_back(what, with_key):
    change, code = BOUND[what]
    life = Scenario(
        step("look", tool="read_file", args={"path": "src/a.txt"}),
        step("make", tool="write_file", args={"path": "src/new.txt", "content": "x"}),
        step("edit", tool="edit_file", args={"path": "src/new.txt", "old": "x", "new": "y"}),
        step("a"),
    )
    life.workspace.documents["src/a.txt"] = b"one"
    life.toolbox.files["src/a.txt"] = "one"
    life.workspace.head = "0" * 40
    do(life.app.approvals.enroll(KIMS, KIM))
    trust(life, "[approval]\nbind_git_head = true\n", KIMS)
    life.prepare()
    given = do(life.app.approvals.approve(str(life.plan_id), KIM, None, KIMS if with_key else None))
    put_back = change(life)
    for _ in range(2):
        assert refused(life, commit(life)) == [code]
    put_back()
    assert runs(life) == 0
    report = do(commit(life))
    assert (report.status, life.world.effects[-1]) == ("completed", "a")
    assert state(life).ended[given.approval_id].how == report.run_id


def test_a_higher_trust_tier_than_the_one_approved_at_is_another_situation(monkeypatch):
    life = Scenario(step("a")).approve()
    monkeypatch.setattr("ordain.records.surroundings.tier_of", lambda plan, at_least: 1)
    assert refused(life, commit(life)) == ["E_PLAN_STALE_BASE"]
    monkeypatch.undo()
    assert do(commit(life)).status == "completed"


def test_a_refusal_names_everything_that_changed():
    life = Scenario(step("look", tool="read_file", args={"path": "a.txt"}), step("a"))
    life.workspace.documents["a.txt"] = b"one"
    life.approve().workspace.documents["a.txt"] = b"two"
    life.workspace.configuration_text = b"[run]\nconcurrency = 9\n"
    with pytest.raises(Refused) as caught:
        do(commit(life))
    (problem,) = caught.value.problems
    told = " ".join([problem.detail, *problem.hints])
    assert "`a.txt` has changed" in told and "configuration" in told


def test_what_the_plan_does_not_name_may_change():
    life = Scenario(step("look", tool="read_file", args={"path": "a.txt"}), step("a"))
    life.workspace.documents["a.txt"] = b"one"
    life.approve().workspace.documents["b.txt"] = b"new"
    life.workspace.head = "f" * 40  # not bound unless the settings say so
    assert do(commit(life)).status in ("completed", "failed")


# --- One approval, one run -----------------------------------------------------------------------------------------


def test_two_approvals_start_two_runs_and_the_newest_is_used_first():
    life = Scenario(step("a")).approve().approve()
    first, second = state(life).permissions
    life.run()
    assert state(life).ended[second].how == life.run_id()
    life.prepare().run()
    assert state(life).ended[first].how == life.run_id()
    assert refused(life, commit(life.prepare())) == ["E_APPROVAL_SPENT"]
    assert life.world.effects == ["a", "a"]


def test_an_approval_that_is_left_over_can_be_revoked_by_its_name_when_the_plan_has_ended():
    life = Scenario(step("a")).approve().approve()
    left = next(iter(state(life).permissions))
    assert do(life.run().app.approvals.revoke(left.lower(), ROBOT)) == (left,)
    assert refused(life, commit(life.prepare())) == ["E_APPROVAL_REVOKED"]
    assert refused(life, life.app.approvals.revoke(left, KIM)) == ["E_APPROVAL_NOT_FOUND"]


def test_an_approval_left_over_dies_with_the_plan_and_the_plan_can_be_had_again():
    life = Scenario(step("a")).approve().approve().run()
    do(life.app.plans.archive(str(life.plan_id), KIM))
    life.prepare()
    assert refused(life, commit(life)) == ["E_APPROVAL_REVOKED"]
    life.clock.advance(5 * HOUR)
    assert life.prepare().approve().run().status() == "completed"


def test_an_older_approval_that_is_good_is_used_where_a_newer_one_has_run_out():
    """The newer one was given for a shorter time."""
    life = Scenario(step("a"))
    trust(life, '[approval]\nttl = "4h"\n')
    life.approve()
    trust(life, '[approval]\nttl = "1m"\n')
    life.approve()
    trust(life, '[approval]\nttl = "4h"\n')
    life.clock.advance(HOUR)
    assert life.run().status() == "completed"


def test_a_refused_yes_on_the_spot_leaves_no_approval_behind():
    life = Scenario(step("a")).prepare()
    shown = life.app.plans.review(str(life.plan_id))
    life.lock.others["RUN-OTHER"] = Holder(name="RUN-OTHER", pid=7)
    assert refused(life, life.app.runs.approve_and_commit(shown, KIM)) == ["E_WORKSPACE_BUSY"]
    life.lock.others.clear()
    assert refused(life, commit(life)) == ["E_PLAN_APPROVAL_MISSING"]
    assert do(life.app.runs.approve_and_commit(shown, KIM)).status == "completed"


def test_a_proposal_that_was_seen_to_be_too_old_stays_too_old():
    for verb in ("approve", "commit"):
        life = Scenario(step("a")).prepare()
        life.clock.advance(7 * DAY)
        work = life.app.approvals.approve(str(life.plan_id), KIM) if verb == "approve" else commit(life)
        assert refused(life, work, PlanExpired) == ["E_PLAN_EXPIRED"]
        life.clock.advance(-7 * DAY)
        assert refused(life, life.app.approvals.approve(str(life.plan_id), KIM)) == ["E_PLAN_EXPIRED"]
        assert life.prepare().approve().run().status() == "completed"


def test_a_proposal_without_need_of_approval_runs_out_of_time_too():
    life = Scenario(step("look", tool="list_files")).prepare()
    life.clock.advance(7 * DAY)
    assert refused(life, commit(life), PlanExpired) == ["E_PLAN_EXPIRED"]
    life.clock.advance(-7 * DAY)
    assert refused(life, commit(life)) == ["E_PLAN_EXPIRED"]


# --- Signatures ----------------------------------------------------------------------------------------------------

EVE = hashlib.sha256(b"eve").digest()


def signer(name: str) -> Callable[[Approval], Signature]:
    """Signs as whoever has this name in the memory keyring would."""
    seed = EVE if name == "eve" else hashlib.sha256(name.encode()).digest()
    return lambda approval: signed(seed, signed_bytes(approval))


def with_two_approvers(config: str = "") -> Scenario:
    life = demanding(Scenario(step("a")))
    do(life.app.approvals.enroll(PATS, PAT, KIMS))
    if config:
        trust(life, f"[approval]\nrequire_signature = true\n{config}", KIMS)
    life.prepare()
    do(life.app.approvals.approve(str(life.plan_id), PAT, None, PATS))
    return life


def renamed(approval: Approval, **fields: Any) -> Approval:
    return replace(approval, **({"approval_id": "APPROVAL-X", "nonce": "X"} | fields))


def mark(name: str) -> str:
    seed = EVE if name == "eve" else hashlib.sha256(name.encode()).digest()
    return fingerprint(public_half(seed))


Forgery = Callable[[Permission], ApprovalGiven]


def unsigned(true: Permission) -> ApprovalGiven:
    return ApprovalGiven(approval=renamed(true.approval, key=None))


def unsigned_with_a_key(true: Permission) -> ApprovalGiven:
    return ApprovalGiven(approval=renamed(true.approval))


def signed_by_a_stranger(true: Permission) -> ApprovalGiven:
    approval = renamed(true.approval, key=mark("eve"))
    return ApprovalGiven(approval=approval, signature=signer("eve")(approval))


def signed_by_a_stranger_in_a_known_name(true: Permission) -> ApprovalGiven:
    approval = renamed(true.approval)
    return ApprovalGiven(approval=approval, signature=signer("eve")(approval))


def a_strangers_signature_with_a_known_mark(true: Permission) -> ApprovalGiven:
    approval = renamed(true.approval)
    return ApprovalGiven(approval=approval, signature=replace(signer("eve")(approval), key=mark("pat")))


def signature_of_another_approval(true: Permission) -> ApprovalGiven:
    return ApprovalGiven(approval=renamed(true.approval), signature=true.signature)


def edited_after_signing(true: Permission) -> ApprovalGiven:
    approval = renamed(true.approval)
    good = signer("pat")(approval)
    return ApprovalGiven(approval=replace(approval, expires_at=Instant(approval.expires_at + DAY)), signature=good)


def signed_in_another_name(true: Permission) -> ApprovalGiven:
    approval = renamed(true.approval, approver=KIM)
    return ApprovalGiven(approval=approval, signature=signer("pat")(approval))


FORGERIES: list[Forgery] = [
    unsigned,
    unsigned_with_a_key,
    signed_by_a_stranger,
    signed_by_a_stranger_in_a_known_name,
    a_strangers_signature_with_a_known_mark,
    signature_of_another_approval,
    edited_after_signing,
    signed_in_another_name,
]


@each("forgery", FORGERIES, ids=lambda one: one.__name__)
def test_a_forged_approval_starts_nothing_and_does_no_harm_to_a_true_one(forgery):
    life = with_two_approvers()
    true = permission(life)
    do(life.app.approvals.revoke(true.approval.approval_id, PAT))
    forge(life, lineage(life), forgery(true))
    assert refused(life, commit(life)) == ["E_APPROVAL_SIGNATURE"]
    assert runs(life) == 0
    do(life.app.approvals.approve(str(life.plan_id), PAT, None, PATS))
    assert do(commit(life)).status == "completed"


@each("forgery", FORGERIES, ids=lambda one: one.__name__)
def test_a_forgery_beside_a_true_approval_is_passed_over(forgery):
    life = with_two_approvers()
    true = permission(life)
    forge(life, lineage(life), forgery(true))
    report = do(commit(life))
    assert state(life).ended[true.approval.approval_id].how == report.run_id
    assert [one.approval for one in audit(life.ledger.everything(), verify=life.keyring.verify).runs] == ["signed"]


def test_an_approval_by_a_revoked_key_starts_nothing():
    life = with_two_approvers()
    do(life.app.approvals.revoke_approver("pat", KIM, "lost", KIMS))
    assert refused(life, commit(life)) == ["E_APPROVAL_REVOKED"]
    approval = renamed(permission(life).approval)
    forge(life, lineage(life), ApprovalGiven(approval=approval, signature=signer("pat")(approval)))
    assert refused(life, commit(life)) == ["E_APPROVAL_REVOKED"]
    assert refused(life, life.app.approvals.approve(str(life.plan_id), PAT, None, PATS)) == ["E_APPROVAL_SIGNATURE"]


@pytest.mark.parametrize(
    ("config", "code"),
    [('approvers = ["kim"]\n', "E_APPROVAL_APPROVER"), ("separate = true\n", "E_APPROVAL_SELF")],
)
def test_an_enrolled_key_of_somebody_who_may_not_approve_is_refused_at_commit_too(config, code):
    life = with_two_approvers()
    trust(life, f"[approval]\nrequire_signature = true\n{config}", KIMS)
    do(life.app.plans.prepare_plan(life.plan, PAT))
    with pytest.raises(Refused) as caught:
        do(life.app.approvals.approve(str(life.plan_id), PAT, None, PATS))
    assert caught.value.problems[0].code == code
    approval = renamed(permission(life).approval, base=life.app.plans.review(str(life.plan_id)).base)
    forge(life, lineage(life), ApprovalGiven(approval=approval, signature=signer("pat")(approval)))
    assert refused(life, commit(life)) == [code]
    trust(life, "[approval]\nrequire_signature = true\n", KIMS)


def test_a_signed_approval_fits_no_other_lineage_neither_of_the_same_plan_nor_of_another():
    life = with_two_approvers()
    copied = [one.event for one in life.ledger.read(lineage(life))]
    do(commit(life))
    forge(life, "lineage/PLAN-COPY", *copied)  # type: ignore[arg-type]
    assert refused(life, commit(life, "PLAN-COPY")) == ["E_PLAN_EXISTS"]
    assert refused(life, life.app.approvals.approve("PLAN-COPY", PAT, None, PATS)) == ["E_PLAN_EXISTS"]
    forge(life, "lineage/PLAN-EVIL", prepared_event(plan(step("evil"))), copied[-1])  # type: ignore[arg-type]
    assert refused(life, commit(life, "PLAN-EVIL")) == ["E_PLAN_HASH_MISMATCH"]
    assert life.world.effects == ["a"]


def test_a_signed_approval_fits_no_second_time():
    life = with_two_approvers()
    again = next(one.event for one in life.ledger.read(lineage(life)) if isinstance(one.event, ApprovalGiven))
    do(commit(life))
    forge(life, lineage(life), again)
    with pytest.raises(Refused):
        do(commit(life))
    assert (runs(life), life.world.effects) == (1, ["a"])


def test_whoever_drives_the_terminal_without_the_passphrase_gets_no_run():
    """At tier 0 an agent can be a person to every check but the key."""
    life = with_two_approvers()
    do(life.app.approvals.revoke(str(life.plan_id), PAT))
    shown = life.app.plans.review(str(life.plan_id))
    guess = replace(PATS, passphrase="pat's 0wn")
    assert refused(life, life.app.approvals.approve(str(life.plan_id), PAT, shown)) == ["E_APPROVAL_SIGNATURE"]
    wrong = life.app.runs.approve_and_commit(shown, PAT, credential=guess)
    assert refused(life, wrong, SignatureRefused) == ["E_APPROVAL_SIGNATURE"]
    life.workspace.configuration_text = b"[approval]\nrequire_signature = false\n"
    assert refused(life, life.app.approvals.approve(str(life.plan_id), PAT)) == ["E_APPROVAL_SIGNATURE"]
    digest = life.app.approvals.configuration()[1]
    assert refused(life, life.app.approvals.trust(digest, PAT)) == ["E_APPROVAL_SIGNATURE"]
    assert refused(life, life.app.approvals.trust(digest, PAT, guess), SignatureRefused) == ["E_APPROVAL_SIGNATURE"]
    own = Credential(name="eve", passphrase="eve's own")
    assert refused(life, life.app.approvals.enroll(own, PAT)) == ["E_APPROVAL_SIGNATURE"]
    assert refused(life, life.app.approvals.enroll(own, PAT, own)) == ["E_APPROVAL_SIGNATURE"]
    assert refused(life, life.app.approvals.enroll(own, PAT, guess), SignatureRefused) == ["E_APPROVAL_SIGNATURE"]
    assert refused(life, life.app.approvals.revoke_approver("pat", PAT)) == ["E_APPROVAL_SIGNATURE"]
    assert refused(life, life.app.approvals.revoke_approver("kim", PAT, "", own)) == ["E_APPROVAL_SIGNATURE"]
    assert refused(life, commit(life)) == ["E_APPROVAL_REVOKED"]
    assert runs(life) == 0


def test_wrong_passphrases_are_waited_out():
    life = demanding(Scenario(step("a"))).prepare()
    guess_wrong(life, 5)
    right = life.app.approvals.approve(str(life.plan_id), KIM, None, KIMS)
    assert refused(life, right) == ["E_APPROVAL_RATE"]
    assert refused(life, life.app.approvals.enroll(PATS, PAT, KIMS)) == ["E_APPROVAL_RATE"], (
        "nobody's key, for no purpose"
    )
    life.clock.advance(59_999)
    assert refused(life, life.app.approvals.approve(str(life.plan_id), KIM, None, KIMS)) == ["E_APPROVAL_RATE"]
    life.clock.advance(1)
    do(life.app.approvals.approve(str(life.plan_id), KIM, None, KIMS))
    assert do(commit(life)).status == "completed"


def test_four_wrong_passphrases_and_a_restart_forgive_nothing():
    life = demanding(Scenario(step("a"))).prepare()
    guess_wrong(life, 4)
    life.app = life.new_app()
    do(life.app.approvals.approve(str(life.plan_id), KIM, None, KIMS))
    guess_wrong(life, 1)
    life.app = life.new_app()
    assert refused(life, life.app.approvals.approve(str(life.plan_id), KIM, None, KIMS)) == ["E_APPROVAL_RATE"]


def config_trusted(life: Scenario) -> Event:
    text = '[policy]\nallow = ["opaque"]\n'
    return ConfigTrusted(digest="sha256:" + hashlib.sha256(text.encode()).hexdigest(), text=text, by=KIM)


def approver_enrolled(life: Scenario) -> Event:
    key = public_half(EVE)
    proof = signed(EVE, proof_of(str(life.app.workspace.workspace_state().workspace_id), "eve", key))
    return ApproverEnrolled(name="eve", key=key, by=KIM, proof=proof)


def approver_revoked(life: Scenario) -> Event:
    said = revocation(
        str(life.app.workspace.workspace_state().workspace_id), life.ledger.size(WORKSPACE_STREAM) + 1, mark("kim")
    )
    return ApproverRevoked(key=mark("kim"), by=KIM, reason="", signature=signed(EVE, said))


def trusted_text_swapped(life: Scenario) -> Event:
    """A signed event of old, its text replaced: what an editor of the database would do."""
    old = next(one.event for one in life.ledger.read(WORKSPACE_STREAM) if isinstance(one.event, ConfigTrusted))
    return replace(old, text='[policy]\nallow = ["opaque"]\n')


@pytest.mark.parametrize(
    "forged", [config_trusted, approver_enrolled, approver_revoked, trusted_text_swapped], ids=lambda one: one.__name__
)
def test_one_unsigned_event_in_the_workspaces_record_stops_everything(forged):
    life = with_two_approvers()
    ref, shown = str(life.plan_id), life.app.plans.review(str(life.plan_id))
    other = do(life.app.plans.prepare_plan(plan(step("b")), ROBOT)).review.plan_id
    do(life.app.plans.cancel(other, ROBOT))
    forge(life, WORKSPACE_STREAM, forged(life))
    for work in (
        life.app.plans.prepare_plan(plan(step("c")), KIM),
        life.app.plans.revise(ref, KIM, b"# Other\n\n1. `do b`\n", None),
        life.app.approvals.approve(ref, PAT, None, PATS),
        life.app.runs.approve_and_commit(shown, PAT, credential=PATS),
        life.app.runs.commit(ref, ROBOT),
        life.app.approvals.revoke(ref, KIM),
        life.app.plans.reject(ref, KIM, "no"),
        life.app.plans.cancel(ref, KIM),
        life.app.plans.archive(other, KIM),
        life.app.approvals.revoke_approver("pat", KIM, "", KIMS),
    ):
        assert refused(life, work) == ["E_APPROVAL_SIGNATURE"]
    life.clock.advance(8 * DAY)
    assert refused(life, life.app.plans.expire_overdue()) == ["E_APPROVAL_SIGNATURE"]
    for look in (
        life.app.plans.all,
        life.app.workspace.settings,
        life.app.plans.inbox,
        lambda: life.app.plans.review(ref),
    ):
        with pytest.raises(Refused) as caught:
            look()
        assert caught.value.problems[0].code == "E_APPROVAL_SIGNATURE"
    assert runs(life) == 0


# --- Enrolling and trusting ----------------------------------------------------------------------------------------


def test_the_first_approver_is_believed_and_every_other_one_vouched_for():
    life = Scenario(step("a"))
    do(life.app.approvals.enroll(KIMS, KIM))
    assert refused(life, life.app.approvals.enroll(PATS, PAT)) == ["E_APPROVAL_SIGNATURE"]
    assert refused(life, life.app.approvals.enroll(KIMS, KIM, KIMS)) == ["E_APPROVER"]
    do(life.app.approvals.enroll(PATS, PAT, KIMS))
    assert [one.name for one in life.app.workspace.workspace_state().active] == ["kim", "pat"]


def test_an_enrolment_that_is_refused_makes_no_key():
    life = Scenario(step("a"))
    do(life.app.approvals.enroll(KIMS, KIM))
    nobody = Credential(name="nobody", passphrase="whatever it is")
    assert refused(life, life.app.approvals.enroll(PATS, PAT, nobody)) == ["E_APPROVAL_SIGNATURE"]
    assert life.keyring.public_key("pat") is None


def test_a_revoked_key_is_not_enrolled_again():
    life = with_two_approvers()
    do(life.app.approvals.revoke_approver("pat", KIM, "lost", KIMS))
    assert refused(life, life.app.approvals.enroll(PATS, PAT, KIMS)) == ["E_APPROVER"]
    assert [one.name for one in life.app.workspace.workspace_state().active] == ["kim"]


def test_the_last_approver_stays_so_that_somebody_can_sign():
    life = with_two_approvers()
    do(life.app.approvals.revoke_approver("kim", KIM, "left", KIMS))
    assert refused(life, life.app.approvals.revoke_approver("pat", PAT, "left", PATS)) == ["E_APPROVER"]
    do(life.app.approvals.enroll(Credential(name="lee", passphrase="lee's own"), KIM, PATS))
    do(life.app.approvals.revoke_approver("pat", PAT, "left", PATS))


def test_signatures_are_demanded_only_where_somebody_can_sign():
    life = Scenario(step("a"))
    life.workspace.configuration_text = b"[approval]\nrequire_signature = true\n"
    with pytest.raises(Refused) as caught:
        life.app.approvals.configuration()
    assert caught.value.problems[0].code == "E_CONFIG"


def test_a_trust_that_nobody_signed_and_an_enrolment_at_the_same_moment():
    """Whichever is recorded second is refused: an unsigned trust after an enrolment would stop everything for good."""
    life = Scenario(step("a")).prepare()
    life.workspace.configuration_text = b"[run]\nconcurrency = 2\n"
    digest, append = life.app.approvals.configuration()[1], life.ledger.append

    async def late(at: Instant, *appends: Append) -> Any:
        life.ledger.append = append  # type: ignore[method-assign]
        await life.app.approvals.enroll(KIMS, KIM)
        return await append(at, *appends)

    life.ledger.append = late  # type: ignore[method-assign]
    with pytest.raises(Refused) as caught:
        do(life.app.approvals.trust(digest, KIM))
    assert caught.value.problems[0].code == "E_LEDGER_CONFLICT"
    assert life.app.workspace.workspace_state().unsigned == ()


# --- Many at once --------------------------------------------------------------------------------------------------


def an_app(ledger: Ledger, shell: ScriptedShell, workspace: MemoryWorkspace, **ports: Any) -> App:
    return App(twin_ports(ledger, workspace, shell=shell, **ports))


def said(outcome: Any) -> str:
    """The code of a refusal, or `done`."""
    if isinstance(outcome, Refused):
        return outcome.problems[0].code
    if isinstance(outcome, BaseException):
        raise outcome
    return "done"


class Ids:
    """Names that no two apps share."""

    _count = itertools.count(1)

    def mint(self, prefix: str) -> str:
        return f"{prefix}{next(self._count):04d}"


MADE = plan(step("a"))


def at_once(path: Path, attacks: Sequence[Callable[[App], Work]], shell: ScriptedShell, *, threads: bool) -> list[str]:
    """Each by an app of its own over its own connection to one file: in one loop, or each in its own thread."""
    workspace = MemoryWorkspace()

    def an_attack(number: int) -> Work:
        app = an_app(SqliteLedger.open(path), shell, workspace, ids=Ids(), lock=MemoryWriterLock())

        async def attack() -> Any:
            try:
                return await attacks[number](app)
            finally:
                await app.close()

        return attack()

    async def together() -> list[Any]:
        return await asyncio.gather(*(an_attack(number) for number in range(len(attacks))), return_exceptions=True)

    if not threads:
        return [said(one) for one in asyncio.run(together())]

    def alone(number: int) -> Any:
        try:
            return asyncio.run(an_attack(number))
        except Refused as refusal:
            return refusal

    with ThreadPoolExecutor(len(attacks)) as pool:
        return [said(one) for one in pool.map(alone, range(len(attacks)))]


@pytest.mark.parametrize("threads", [False, True])
def test_of_all_who_commit_one_approval_at_once_one_starts_its_run(tmp_path, threads):
    """Each with a lock of its own, so that the ledger alone decides."""
    path, shell = tmp_path / "ledger.db", ScriptedShell()
    ref = plan_id(MADE)
    at_once(path, [lambda app: app.plans.prepare_plan(MADE, ROBOT)], shell, threads=False)
    at_once(path, [lambda app: app.approvals.approve(ref, KIM)], shell, threads=False)
    outcomes = at_once(path, [lambda app: app.runs.commit(ref, ROBOT)] * 6, shell, threads=threads)
    assert set(outcomes) == {"done"}, "the others are told of that run"
    assert len(shell.calls) == 1
    at_once(path, [lambda app: app.plans.prepare_plan(MADE, ROBOT)], shell, threads=False)
    outcomes = at_once(path, [lambda app: app.runs.commit(ref, ROBOT)] * 6, shell, threads=threads)
    assert set(outcomes) == {"E_APPROVAL_SPENT"} and len(shell.calls) == 1


@pytest.mark.part(of=2)
@pytest.mark.parametrize("threads", [False, True])
def test_no_decision_is_lost_when_all_are_made_at_once(tmp_path, threads):
    """Two prepare, two approve, one rejects, one commits, over and over: what was answered `done` is recorded, and
    what was refused is not."""
    path, shell = tmp_path / "ledger.db", ScriptedShell()
    ref = plan_id(MADE)
    at_once(path, [lambda app: app.plans.prepare_plan(MADE, KIM)], shell, threads=False)
    verbs: dict[str, Callable[[App], Work]] = {
        "plan_prepared": lambda app: app.plans.prepare_plan(MADE, KIM),
        "approval_given": lambda app: app.approvals.approve(ref, KIM),
        "plan_rejected": lambda app: app.plans.reject(ref, KIM, "Not yet."),
        "run_started": lambda app: app.runs.commit(ref, ROBOT),
    }
    kinds = ["plan_prepared", "approval_given", "plan_rejected", "run_started", "approval_given", "plan_prepared"]
    counted = dict.fromkeys(verbs, 0) | {"plan_prepared": 1}
    for _ in range(4):
        outcomes = at_once(path, [verbs[kind] for kind in kinds], shell, threads=threads)
        for kind, outcome in zip(kinds, outcomes, strict=True):
            counted[kind] += outcome == "done"
            assert outcome == "done" or outcome.startswith("E_"), outcome
            assert outcome != "E_LEDGER_CONFLICT"
    ledger = SqliteLedger.open(path)
    recorded = [type(event).__struct_config__.tag for event in events(ledger)]
    assert {kind: recorded.count(kind) for kind in verbs} == counted
    assert len(shell.calls) == counted["run_started"]
    (summary,) = ledger.plans()
    assert summary.state == Records(ledger).lineage(summary.stream)
    assert audit(ledger.everything(), verify=MemoryKeyring().verify).good
    asyncio.run(ledger.close())


# --- Runs that nobody started --------------------------------------------------------------------------------------


@pytest.mark.parametrize("approval_id", [None, "APPROVAL-NONE", "unsigned"])
def test_a_forged_beginning_is_not_gone_on_with_and_the_audit_tells_of_it(approval_id):
    life = demanding(Scenario(step("a"))).prepare()
    stream = lineage(life)
    if approval_id == "unsigned":
        forged = replace(signed_approval(life), key=None)
        forge(life, stream, ApprovalGiven(approval=forged))
        approval_id = forged.approval_id
    identity = PlanId(str(life.plan_id))
    started = RunStarted(run_id="RUN-FORGED", plan_id=identity, approval_id=approval_id, by=KIM)
    opened = RunOpened(
        run_id="RUN-FORGED",
        plan_id=identity,
        lineage=stream,
        workspace=do(Surroundings(life.app.ports).identity()),
        limits=limits(Settings()),
    )
    forge(life, stream, started)
    forge(life, "run/RUN-FORGED", opened)
    code = "E_LEDGER_BROKEN" if approval_id == "APPROVAL-NONE" else "E_APPROVAL_SIGNATURE"
    assert refused(life, life.app.runs.resume("RUN-FORGED")) == [code]
    found = life.app.audits.verify(frozenset({fingerprint(life.keyring.public_key("kim"))}))
    assert any("RUN-FORGED" in finding.sentence for finding in found.findings)


def signed_approval(life: Scenario) -> Approval:
    """What kim signed for this plan, as it stands."""
    permitted = Gate(Surroundings(life.app.ports)).permit(lineage(life), state(life), KIM, None, KIMS)
    return do(permitted).approval


def test_an_honest_signed_run_goes_on_also_when_its_key_was_revoked_since():
    life = Scenario(step("a", on_failure=Escalate())).script(a=1)
    do(life.app.approvals.enroll(KIMS, KIM))
    do(life.app.approvals.enroll(PATS, PAT, KIMS))
    trust(life, "[approval]\nrequire_signature = true\n", KIMS)
    life.prepare()
    do(life.app.approvals.approve(str(life.plan_id), PAT, credential=PATS))
    assert do(commit(life)).status == "waiting"
    do(life.app.approvals.revoke_approver("pat", KIM, credential=KIMS))
    run_id = next(iter(state(life).runs))
    do(life.app.answers.answer(f"{run_id}/a", "skip", KIM, credential=KIMS))
    assert do(life.app.runs.resume(run_id)).status == "completed"


def test_a_run_that_policy_lets_start_unasked_is_no_finding():
    life = Scenario(step("a", tool="list_files", args={"path": "."}))
    life.prepare()
    do(commit(life))
    assert life.app.audits.verify().good


def test_a_signed_approval_of_another_place_or_time_does_not_carry_a_forged_beginning():
    life = demanding(Scenario(step("a"))).prepare()
    do(life.app.approvals.approve(str(life.plan_id), KIM, credential=KIMS))
    approval = permission(life).approval
    begun = life.clock.now()
    life.clock.advance(90 * DAY)  # long past; the forger dates the start back
    started = RunStarted(run_id="RUN-FORGED", plan_id=approval.plan_id, approval_id=approval.approval_id, by=KIM)
    opened = RunOpened(
        run_id="RUN-FORGED",
        plan_id=approval.plan_id,
        lineage=lineage(life),
        workspace=approval.workspace,
        limits=limits(Settings()),
    )
    stream = lineage(life)
    appends = (
        Append(stream=stream, expected=life.ledger.size(stream), events=(started,)),
        Append(stream="run/RUN-FORGED", expected=0, events=(opened,)),
    )
    do(life.ledger.append(begun, *appends))
    assert refused(life, life.app.runs.resume("RUN-FORGED")) == ["E_APPROVAL_EXPIRED"]
    life.workspace.place = ("/elsewhere", 1, 1)
    assert refused(life, life.app.runs.resume("RUN-FORGED"))[0] == "E_PLAN_WORKSPACE"


def test_a_run_that_may_not_go_on_can_be_ended_and_the_plan_goes_on():
    life = Scenario(step("a", on_failure=Escalate()), step("b")).script(a=1).approve().run()
    assert life.status() == "waiting"
    do(life.app.approvals.enroll(KIMS, KIM))
    trust(life, "[approval]\nrequire_signature = true\n", KIMS)
    assert refused(life, life.app.runs.resume(None)) == ["E_APPROVAL_SIGNATURE"]
    report = do(life.app.runs.cancel_run(str(life.run_id()), ROBOT, "begun before signatures"))
    assert (report.status, [one.state.value for one in report.steps]) == ("cancelled", ["cancelled", "cancelled"])
    assert state(life).stage == "cancelled"
    assert refused(life, life.app.runs.cancel_run(str(life.run_id()), ROBOT)) == ["E_RUN_ENDED"]
    life.prepare()
    do(life.app.approvals.approve(str(life.plan_id), KIM, credential=KIMS))
    assert permission(life).signature is not None
    assert life.app.audits.verify().good
