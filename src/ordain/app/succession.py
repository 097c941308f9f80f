"""Going on with a run by another plan: what is kept, whether the run can be replaced, and what records that it is. The
transaction that starts a successor ends its predecessor; no other way leads from one to the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ordain.core.approval.approval import Approval, Continuation, Principal
from ordain.core.approval.diff.difference import PlanDifference, concern_words, difference, summary
from ordain.core.ledger import chain
from ordain.core.lineage.lineage import PlanState
from ordain.core.lineage.replan import causes_of, not_passed, remainder_of, replan_fault
from ordain.core.lineage.subset import subset_faults
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.model import Plan, check_of, contract_of
from ordain.core.plan.value import Instant, RunId, StepId
from ordain.core.policy.tier import tier_of
from ordain.core.report.report import by_word
from ordain.core.report.succession import WEAKER, KeptStep, Successor
from ordain.core.run.event import RunCancelled, RunEnded, RunOpened, Unasked
from ordain.core.run.inheritance import FormerStep, Inheritance, inherited, is_at_rest
from ordain.core.run.run_state import AT_WORK, RunState
from ordain.core.run.step_event import StepState
from ordain.core.text.problem import refuse
from ordain.engine.shield import BoundFiles
from ordain.ports.ledger import Append
from ordain.records.surroundings import Surroundings


class GoingOn(NamedTuple):
    """The run that a plan would go on with, as it stands, and what is taken over."""

    former: RunState
    head: str
    inheritance: Inheritance

    @property
    def binding(self) -> Continuation:
        return Continuation(run_id=self.former.run_id, head=self.head, kept=self.inheritance.kept)


def going_on(here: Surroundings, state: PlanState, plan: Plan) -> GoingOn | None:
    """What a proposed successor would go on with; None for every other plan."""
    if state.continues is None or plan_id(plan) != state.plan_id:
        return None
    former, _, head = here.records.run(state.continues)
    return GoingOn(former, head, inherited(former, plan, state.again_from))


def refuse_unready(here: Surroundings, former: RunState) -> None:
    """Raise Refused where somebody is at work on a run, or nobody knows whether something of it happened."""
    run_id = former.run_id
    if former.finished:
        return
    holder = here.ports.lock.holder(run_id)
    if holder is not None:
        detail = f"Process {holder.pid} is at work on {run_id}, which this goes on with."
        raise refuse("E_RUN_BUSY", detail, "Wait until it waits, or have it stop:", command=f"ordain pause {run_id}")
    if not is_at_rest(former):
        names = ", ".join(f"`{name}`" for name in (*former.doubtful, *former.active))
        asked = bool(former.doubtful)
        raise refuse(
            "E_SUCCESSOR_DOUBT",
            f"Nobody knows whether {names} of {run_id} happened, and it must not happen twice.",
            "Say what you know of it first." if asked else "Let that be settled first.",
            command=f"ordain answer {run_id}/{next(iter(former.doubtful))}" if asked else f"ordain resume {run_id}",
        )


def replacing(
    here: Surroundings, going: GoingOn, run_id: RunId, by: Principal, now: Instant
) -> tuple[tuple[RunEnded, ...], tuple[Append, ...]]:
    """What ends the run that is gone on with, in the transaction that starts `run_id`: for the lineage, and for the
    streams of that run and of the locks that it holds. Nothing where it has ended already."""
    former = going.former
    if former.finished:
        return (), ()
    event = RunCancelled(by=by, status="replaced", replaced_by=run_id)
    stream = f"run/{former.run_id}"
    head = chain.head_after(going.head, stream, former.size, (event,), now)
    here.ports.shell.sweep(f"{former.workspace_identity.id}/{former.run_id}/", again=True)
    append = Append(stream=stream, expected=former.size, events=(event,), epoch=former.epoch or None)
    ended = RunEnded(run_id=former.run_id, status="replaced", head=head)
    return (ended,), (append, *here.records.giving_back(former, "replaced"))


def opened_after(opened: RunOpened, going: GoingOn) -> RunOpened:
    """The first event of a run with what it takes over."""
    former, taken = going.former, going.inheritance
    # A signal that came while the run before had not got to it yet is heard by this one.
    signals = {key: min(size, former.signals.get(key, 0)) for key, size in opened.signals.items()}
    return replace(
        opened,
        continues=former.run_id,
        first_run=former.first_run,
        may_keep=taken.kept,
        unfolds_again=taken.unfolds_again,
        spent=taken.spent,
        signals={key: size for key, size in signals.items() if size},
    )


def former_steps(state: RunState) -> dict[StepId, FormerStep]:
    """What was seen of the steps of a run, for the one that goes on with it."""
    protected = state.protected or {}
    return {
        step_id: FormerStep(
            outcome=record.outcome,
            evidence=record.evidence,
            run_id=record.kept_from or state.run_id,
            word=by_word(state, step_id) or "",
            protected={**(protected if state.protects(step_id) else {}), **(record.protected or {})},
        )
        for step_id, record in state.steps.items()
    }


def bound_files(here: Surroundings, state: RunState, approval: Approval | None) -> BoundFiles | None:
    """The files that commands read as they were bound; None where the run began before they were."""
    bound = state.operands
    if approval is not None and bound is None:
        bound = approval.base.operands if approval.base.commands else None
    if bound is None:
        return None
    return BoundFiles(
        state,
        bound,
        tools={**here.ports.toolbox.definitions(), **state.limits_in_force.handlers},
        scripts=here.scripts(state.plan),
        contents=here.contents,
        shown=here.shown_path,
        real=here.ports.workspace.real_path,
    )


# --- Without asking --------------------------------------------------------------------------------------------------


def unasked_or_why(
    here: Surroundings, state: PlanState, plan: Plan, going: GoingOn
) -> tuple[Unasked | None, Sequence[str]]:
    """Why nobody need be asked about a successor: a person said so of a plan that it is a part of. Else why not."""
    records, former = here.records, going.former
    approval_id, permission = records.start_of(former.run_id, former.lineage)
    if permission is None or approval_id is None or not permission.approval.allow_subset:
        return None, ()
    approval = permission.approval
    approved = records.plan(former.lineage, approval.plan_id)
    causes, remainder = causes_of(former), remainder_of(plan, former, going.inheritance.kept)
    faults = [*_said_since(here, state, former), *subset_faults(approved, plan, set(_failed(here, former)))]
    faults += _changed_since(here, approval, approved, going)
    pending = next((name for name, one in state.replans.items() if one.open or one.remainder == remainder), "")
    own = pending if pending in state.replans and state.replans[pending].run_id == former.run_id else ""
    most = here.snapshot.settings.max_replans
    if (fault := replan_fault(state, causes, remainder, most=most, besides=own)) is not None:
        faults.append(fault.detail.rstrip("."))
    if faults:
        return None, faults
    return Unasked(approval_id=approval_id, causes=causes, remainder=remainder), ()


def _failed(here: Surroundings, former: RunState) -> Iterator[StepId]:
    """The steps that were begun in this run or in one before it and have not passed since."""
    yield from not_passed(former)
    run = former
    while run.continues is not None:
        run = here.records.run(run.continues)[0]
        for name in not_passed(run):
            if name not in former.steps or former.steps[name].state is not StepState.PASSED:
                yield name


def _said_since(here: Surroundings, state: PlanState, former: RunState) -> Iterator[str]:
    """What somebody said of the run since: nobody goes on unasked against it."""
    if former.paused_by is not None:
        yield f"{former.paused_by.name} paused the run, and a person lets it go on"
    if state.answers_sent or (state.stop_asked is not None and state.stop_asked_at >= former.executor_at):
        yield "an answer to the run was not carried out yet"
    if former.finished and any(isinstance(one.event, RunCancelled) for one in here.records.run_events(former.run_id)):
        yield "the run was ended before its end, and a person lets it go on"
    if former.aborted_by is not None and any(one.decisions for one in former.accounts.values()):
        yield "a person decided about a budget, and the run was aborted"
    for name, record in former.steps.items():
        if record.decided_by is not None and (record.state is not StepState.PASSED or check_of(former.step(name))):
            yield f"a person decided about `{name}`"


def _changed_since(here: Surroundings, approval: Approval, approved: Plan, going: GoingOn) -> Iterator[str]:
    """What is not as it was when that was approved, but for what the run has written: steps look at that."""
    base, now = approval.base, here.base(approved)
    there = approval.workspace
    if (there.path, there.device, there.inode) != here.ports.workspace.identity():
        yield "this is another directory than the one it was approved for"
    approver = here.snapshot.workspace.approvers.get(approval.key or "")
    if (approver is not None and approver.revoked_at is not None) or (
        approval.key is None and here.snapshot.settings.require_signature
    ):
        yield "it was not signed with a key that counts now"
    if (base.tools, base.definitions) != (now.tools, now.definitions):
        yield "the tools or agents are not those that it was approved with"
    if base.config != now.config:
        yield "the configuration is not the one that it was approved under"
    if base.git_head != now.git_head:
        yield "another commit is checked out than when it was approved"
    if base.environment is None or any(here.misfits(base.environment)):
        yield "the environment is not the one that it was approved in"
    if approval.tier != tier_of(approved, here.snapshot.settings.tier):
        yield "the trust tier is not the one that it was approved for"
    files, kept = bound_files(here, going.former, approval), set(going.inheritance.kept)
    for step in going.former.plan.steps if files is not None else ():
        if step.id not in kept and files is not None and (fault := files.fault(step.id)) is not None:
            yield f"`{step.id}`: {fault}"


# --- For whoever approves it -----------------------------------------------------------------------------------------


def successor(here: Surroundings, state: PlanState, plan: Plan) -> Successor | None:
    """A proposed successor as an approver must see it, against the plan that it would replace."""
    going = going_on(here, state, plan)
    if going is None:
        return None
    former, settings = going.former, here.snapshot.settings
    changed = difference(former.plan, plan, here.tools(settings, former.plan, plan), settings)
    weaker = [one for one in changed.concerns if one.kind in WEAKER]
    wider = [one for one in changed.concerns if one.kind not in WEAKER]
    kept = set(going.inheritance.kept)
    inside = {name.partition("[")[0].partition("/")[0] for name in kept}
    unasked, faults = unasked_or_why(here, state, plan, going)
    version = state.version(state.plan_id)
    return Successor(
        binding=going.binding,
        run_id=former.run_id,
        run_status=former.status or "open",
        previous_plan_id=former.plan_id,
        version=version.number if version is not None else len(state.revisions),
        reason=version.reason if version is not None else "",
        causes=tuple(one for one in causes_of(former) if not one.startswith(":")),
        kept=tuple(_kept(former, name) for name in going.inheritance.kept),
        runs=tuple(step.id for step in plan.steps if step.id not in kept and step.id not in inside),
        runs_partly=tuple(step.id for step in plan.steps if step.id in inside and step.id not in kept),
        uncertain=tuple(_uncertain(former)),
        wider=tuple(detail for _, detail in concern_words(wider)),
        weaker=tuple(detail for _, detail in concern_words(weaker)),
        summary=summary(changed),
        changes=PlanDifference(fields=changed.fields, steps=changed.steps, fallbacks=changed.fallbacks),
        approved_before=former.plan_id in state.approved_at,
        unasked=unasked is not None,
        why_asked=tuple(faults),
    )


def _kept(former: RunState, name: StepId) -> KeptStep:
    record, step = former.steps[name], former.step(name)
    passed = record.state is StepState.PASSED
    return KeptStep(
        step=name,
        run_id=record.kept_from or former.run_id,
        passed=passed,
        contract=contract_of(step) is not None or not passed,
        word=by_word(former, name) or "",
    )


def _uncertain(former: RunState) -> Iterator[StepId]:
    """Steps that were under way when their run was ended, of which nobody looked whether they happened."""
    for name, record in former.steps.items():
        begun = record.state is StepState.CANCELLED and record.attempts and record.outcome is None
        at_work = record.state in AT_WORK - {StepState.WAITING, StepState.ESCALATED}
        if (begun and not record.gathers and name not in former.groups) or at_work:
            yield name
