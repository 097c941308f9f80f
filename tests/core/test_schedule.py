"""The pure pair: random plans, random fates, and the questions answered the slow way beside the fast one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.approval.approval import Channel, Principal, WorkspaceIdentity
from ordain.core.lineage.decision import decided, questions
from ordain.core.plan.failure import Abort, Continue, Escalate, Retry, Skip
from ordain.core.plan.tool import DEFINITIONS
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.policy.settings import Limits
from ordain.core.run.consequence import consequence
from ordain.core.run.event import ExecutorStarted, ProtectedChanged, RunFinished, RunOpened
from ordain.core.run.run_state import SATISFIES, IllegalTransition, RunState
from ordain.core.run.schedule import (
    End,
    SettleByContract,
    Start,
    Stop,
    Verify,
    Wake,
    decide,
    doubt,
    ended,
    judged,
    settled,
    why_waiting,
)
from ordain.core.run.state import apply
from ordain.core.run.step_event import (
    AttemptEnded,
    AttemptStarted,
    ContractHeld,
    ContractSeen,
    DoubtReferred,
    DoubtSettled,
    Evidence,
    FilesProtected,
    Outcome,
    ProtectedFile,
    Settlement,
    StepState,
    Verdict,
)
from tests.build import plan, step
from tests.history import replay
from tests.rows import each
from tests.scenario import check_evidence

LIMITS = Limits(concurrency=2, step_timeout_ms=1000, contract_timeout_ms=1000, on_failure=Abort(), env=())
KIM = Principal(name="kim", channel=Channel.TERMINAL)
WORKSPACE = WorkspaceIdentity(id="WS-1", path="/w", device=1, inode=1)
OPENED = RunOpened(run_id=RunId("RUN-1"), plan_id=PlanId("plan:0"), lineage="l", workspace=WORKSPACE, limits=LIMITS)
POLICIES = st.sampled_from(
    [
        None,
        Abort(),
        Skip(),
        Continue(),
        Escalate(),
        Retry(max_attempts=3, initial_delay_ms=10, backoff_multiplier=2),
        Retry(max_attempts=2, then=Escalate()),
        Retry(max_attempts=2, initial_delay_ms=5, increment_ms=5, then=Skip()),
    ]
)


@st.composite
def plans(draw):
    """Any acyclic order, forwards and backwards."""
    count = draw(st.integers(1, 7))
    order = draw(st.permutations(range(count)))
    steps = []
    for index in range(count):
        earlier = [f"s{other}" for other in range(count) if order[other] < order[index]]
        needs = tuple(sorted(draw(st.sets(st.sampled_from(earlier), max_size=3)))) if earlier else ()
        kind = draw(st.sampled_from(["run", "run!", "read_file", "write_file", "edit_file"]))
        steps.append(
            step(
                f"s{index}",
                tool=None if kind.startswith("run") else kind,
                idempotent=True if kind == "run!" else None,
                needs=needs,
                contract=draw(st.sampled_from([None, "check"])),
                on_failure=draw(POLICIES),
            )
        )
    return plan(*steps, on_failure=draw(POLICIES), concurrency=draw(st.sampled_from([None, 1, 3])))


class Life:
    """Carries a plan out with a fate drawn by hypothesis instead of a world."""

    def __init__(self, made, data):
        self.data, self.plan = data, made
        self.now = Instant(1000)
        self.history = []
        self.patience = 6
        """How often fate may make a step begin again; without a bound a life could go on for ever."""
        self.state = RunState(made)
        self.record(OPENED)
        self.record(ExecutorStarted(epoch=1, pid=1, boot_id="b"))

    def record(self, event):
        apply(self.state, event, self.now)
        self.history.append((self.now, event))

    def luck(self, *choices):
        return self.data.draw(st.sampled_from(choices))

    def evidence(self):
        verdict = self.luck(Verdict.HELD, Verdict.HELD, Verdict.BROKEN, Verdict.INCONCLUSIVE)
        return Evidence(verdict=verdict, duration_ms=1, exit_code=0 if verdict is Verdict.HELD else 1)

    def check_questions(self):
        """The incremental answers against the slow ones."""
        state = self.state
        slow_ready = [
            index
            for index, one in enumerate(self.plan.steps)
            if state.steps[one.id].state is StepState.PENDING
            and all(state.steps[need].state in SATISFIES for need in one.needs)
        ]
        delayed = [index for index in slow_ready if state.steps[self.plan.steps[index].id].not_before is not None]
        assert state.ready == [index for index in slow_ready if index not in delayed]
        assert state.delayed == sorted((state.steps[self.plan.steps[index].id].not_before, index) for index in delayed)
        assert state.unsatisfied == sum(record.state not in SATISFIES for record in state.steps.values())
        active = {
            name for name, record in state.steps.items() if record.state in (StepState.RUNNING, StepState.VERIFYING)
        }
        assert set(state.active) == active
        assert len(active) <= (self.plan.concurrency or LIMITS.concurrency)
        for one in self.plan.steps:
            waits = state.steps[one.id].state in (StepState.PENDING, StepState.IN_DOUBT, StepState.ESCALATED)
            assert (why_waiting(state, one.id, self.now) is not None) == waits

    def live(self):
        for _ in range(300):
            self.check_questions()
            effects = decide(self.state, self.now)
            assert effects == decide(self.state, self.now), "same in, same out"
            running = [name for name in self.state.active if self.state.steps[name].state is StepState.RUNNING]
            if self.state.finished:
                assert effects == ()
                return
            if running and self.patience and self.luck(True, False, False, False):
                self.patience -= 1
                self.crash()
                continue
            moves = [effect for effect in effects if not isinstance(effect, Wake)]
            moves += [("ends", name) for name in running]
            if moves:
                self.perform(self.luck(*moves))
            elif effects:
                self.now = max(effect.at for effect in effects)
            else:
                asked = questions(self.state)
                assert asked, "nothing to do, nobody to ask, and not finished: wedged"
                question = self.luck(*asked)
                again = ("retry", "did-not") if self.patience == 0 else ()
                word = self.luck(*(choice.word for choice in question.choices if choice.word not in again))
                self.patience -= word in ("retry", "did-not")
                self.record(decided(self.state, question, word, KIM))
        raise AssertionError("it never ended")

    def perform(self, move):
        match move:
            case Start(step=name):
                attempt = self.state.steps[name].attempts + 1
                self.record(AttemptStarted(step=name, attempt=attempt, key="k"))
                if self.luck(True, False) and self.state.step(name).verification:
                    operand = self.luck(None, "before")
                    self.record(ContractSeen(step=name, attempt=attempt, evidence=self.evidence(), operand=operand))
            case ("ends", name):
                error = self.luck(None, None, "F_STEP_FAILED")
                outcome = Outcome(duration_ms=1, exit_code=1 if error else 0, error=error)
                self.record(ended(self.state, name, outcome, self.now, stopped=False))
            case Stop(step=name):
                outcome = Outcome(duration_ms=1, error="F_STEP_STOPPED")
                self.record(ended(self.state, name, outcome, self.now, stopped=True))
            case Verify(step=name):
                self.record(judged(self.state, name, self.evidence(), self.now))
            case SettleByContract(step=name):
                self.record(settled(self.state, name, self.evidence(), self.luck(None, "before", "after")))
            case End(status=status, reason=reason):
                self.record(RunFinished(status=status, reason=reason))

    def crash(self):
        self.record(ExecutorStarted(epoch=self.state.epoch + 1, pid=1, boot_id="b"))
        for name in list(self.state.active):
            if self.state.steps[name].state is StepState.RUNNING:
                found = doubt(self.state, name, DEFINITIONS)
                self.record(found)
                if found.settle is Settlement.AGAIN:
                    self.record(DoubtSettled(step=name, attempt=found.attempt, to=StepState.PENDING, reason="r"))


@given(plans(), st.data())
def test_every_life_ends_with_every_step_accounted_for(made, data):
    life = Life(made, data)
    life.live()
    states = [record.state for record in life.state.steps.values()]
    assert (life.state.status == "completed") == all(state in SATISFIES for state in states)
    assert all(state in {*SATISFIES, StepState.FAILED, StepState.CANCELLED} for state in states)
    assert replay(made, life.history) == life.state
    check_evidence(replay(made, life.history), [event for _, event in life.history])


@given(plans(), st.data())
def test_apply_refuses_what_the_table_does_not_allow(made, data):
    """Any event after any history either fits the table or is refused; a refusal changes no step."""
    life = Life(made, data)
    name = made.steps[0].id
    verdict = Evidence(verdict=Verdict.HELD, duration_ms=1)
    attempts = [
        ContractHeld(step=name, attempt=0, evidence=verdict),
        AttemptEnded(step=name, attempt=0, outcome=Outcome(duration_ms=1), to=StepState.PASSED),
        DoubtSettled(step=name, attempt=0, to=StepState.PASSED, reason="agent said so"),
        RunFinished(status="completed"),
        AttemptStarted(step=StepId("nobody"), attempt=1, key="k"),
        RunOpened(run_id=RunId("x"), plan_id=PlanId("y"), lineage="l", workspace=WORKSPACE, limits=LIMITS),
        ExecutorStarted(epoch=1, pid=1, boot_id="b"),
    ]
    before = {key: record.state for key, record in life.state.steps.items()}
    for event in attempts:
        with pytest.raises(IllegalTransition):
            apply(life.state, event, life.now)
    assert {key: record.state for key, record in life.state.steps.items()} == before


@each(
    "made, seen, settle",
    [
        (step("a", tool="read_file"), None, Settlement.AGAIN),
        (step("a", tool="write_file"), None, Settlement.AGAIN),
        (step("a", tool="write_file", idempotent=False), None, Settlement.PERSON),
        (step("a", tool="edit_file", contract="c"), None, Settlement.AGAIN),
        (step("a", tool="edit_file", contract="c"), Verdict.BROKEN, Settlement.CONTRACT),
        (step("a", tool="edit_file", contract="c"), Verdict.HELD, Settlement.PERSON),
        (step("a", tool="edit_file", contract="c"), Verdict.INCONCLUSIVE, Settlement.PERSON),
        (step("a", tool="edit_file"), None, Settlement.PERSON),
        (step("a"), None, Settlement.PERSON),
        (step("a", contract="c"), None, Settlement.PERSON),
        (step("a", idempotent=True), None, Settlement.AGAIN),
        (step("a", tool="unknown_tool"), None, Settlement.PERSON),
        (step("a", contract="c", proof="red-then-green"), None, Settlement.AGAIN),
        (step("a", contract="c", proof="red-then-green"), Verdict.HELD, Settlement.AGAIN),
        (step("a", contract="c", proof="red-then-green"), Verdict.INCONCLUSIVE, Settlement.AGAIN),
        (step("a", contract="c", proof="red-then-green"), Verdict.BROKEN, Settlement.PERSON),
        (step("a", protect=("tests/**",)), None, Settlement.AGAIN),
        (step("a", tool="edit_file", contract="c", protect=("x",)), Verdict.BROKEN, Settlement.AGAIN),
    ],
)
def test_the_table_of_doubt(made, seen, settle):
    state = replay(
        plan(made),
        [
            (Instant(0), OPENED),
            (Instant(0), ExecutorStarted(epoch=1, pid=1, boot_id="b")),
            (Instant(0), AttemptStarted(step=made.id, attempt=1, key="k")),
        ],
    )
    if seen is not None:
        apply(state, ContractSeen(step=made.id, attempt=1, evidence=Evidence(verdict=seen, duration_ms=1)), Instant(0))
    assert doubt(state, made.id, DEFINITIONS).settle is settle


@each(
    "before, now, verdict, to",
    [
        ("x", "x", Verdict.BROKEN, "pending"),
        ("x", "x", Verdict.HELD, "pending"),
        ("x", "y", Verdict.HELD, "passed"),
        ("x", "y", Verdict.BROKEN, "in_doubt"),
        ("x", "y", Verdict.INCONCLUSIVE, "in_doubt"),
        ("x", None, Verdict.BROKEN, "in_doubt"),
        (None, None, Verdict.HELD, "passed"),
        (None, None, Verdict.BROKEN, "in_doubt"),
    ],
)
def test_how_a_contract_settles_a_doubt(before, now, verdict, to):
    """A broken contract alone does not say that the effect did not happen; only what it changes can."""
    made = step("a", tool="edit_file", contract="c")
    state = replay(
        plan(made),
        [
            (Instant(0), OPENED),
            (Instant(0), ExecutorStarted(epoch=1, pid=1, boot_id="b")),
            (Instant(0), AttemptStarted(step=made.id, attempt=1, key="k")),
        ],
    )
    seen = Evidence(verdict=Verdict.BROKEN, duration_ms=1)
    apply(state, ContractSeen(step=made.id, attempt=1, evidence=seen, operand=before), Instant(0))
    apply(state, doubt(state, made.id, DEFINITIONS), Instant(0))
    apply(state, settled(state, made.id, Evidence(verdict=verdict, duration_ms=1), now), Instant(0))
    assert state.steps[made.id].state.value == to


@pytest.mark.parametrize("policy", [Retry(max_attempts=100, initial_delay_ms=1000, backoff_multiplier=1e10)])
def test_no_backoff_is_longer_than_a_day_or_overflows(policy):
    made = plan(step("a", on_failure=policy))
    state = replay(made, [(Instant(0), OPENED)])
    state.steps[StepId("a")].failures = 98
    assert consequence(state, StepId("a"), Instant(0)).not_before == 86_400_000


def test_a_turn_costs_what_changes_not_what_there_is():
    """10,000 independent steps: each turn looks at the front of the ready list only."""
    made = plan(*(step(f"s{index}", needs=()) for index in range(10_000)))
    state = replay(made, [(Instant(0), OPENED)])
    looked = 0

    class Counting(list):
        def __iter__(self):
            nonlocal looked
            for item in super().__iter__():
                looked += 1
                yield item

    state.ready = Counting(state.ready)
    assert decide(state, Instant(0)) == (Start(StepId("s0")), Start(StepId("s1")))
    assert looked <= 3


def failed_once(count, **fields):
    """The state of a run of so many steps, each of which failed at the instant of its number and is tried again
    100 ms later."""
    made = plan(*(step(f"s{index}", needs=()) for index in range(count)), **fields)
    state = replay(made, [(Instant(0), OPENED)])
    outcome = Outcome(duration_ms=1, error="F_STEP_FAILED")
    for index, one in enumerate(made.steps[: count - 1]):
        later = Instant(index + 100)
        apply(state, AttemptStarted(step=one.id, attempt=1, key="k"), Instant(index))
        apply(
            state,
            AttemptEnded(step=one.id, attempt=1, outcome=outcome, to=StepState.PENDING, not_before=later),
            Instant(index),
        )
    return state


def test_a_turn_costs_no_more_where_thousands_wait_for_their_next_attempt():
    state = failed_once(10_000)
    looked = 0

    class Counting(list):
        def __iter__(self):
            nonlocal looked
            for item in super().__iter__():
                looked += 1
                yield item

    state.ready, state.delayed = Counting(state.ready), Counting(state.delayed)
    assert decide(state, Instant(0)) == (Start(StepId("s9999")), Wake(Instant(100)))
    assert decide(state, Instant(20_000)) == (Start(StepId("s0")), Start(StepId("s1")))
    assert looked <= 10


def test_what_was_begun_before_goes_first_once_its_time_has_come():
    state = failed_once(3)
    assert decide(state, Instant(99)) == (Start(StepId("s2")), Wake(Instant(100)))
    assert decide(state, Instant(100)) == (Start(StepId("s0")), Start(StepId("s2")))
    assert decide(state, Instant(101)) == (Start(StepId("s0")), Start(StepId("s1")))


def begun(made, **fields):
    """The state of a run whose first step was begun."""
    return replay(
        plan(made, **fields),
        [
            (Instant(0), OPENED),
            (Instant(0), ExecutorStarted(epoch=1, pid=1, boot_id="b")),
            (Instant(0), AttemptStarted(step=made.id, attempt=1, key="k")),
        ],
    )


def test_a_step_whose_files_were_kept_may_have_begun():
    state = begun(step("a"), protect=("tests/**",))
    assert doubt(state, StepId("a"), DEFINITIONS).settle is Settlement.AGAIN
    apply(state, FilesProtected(step=StepId("a"), attempt=1), Instant(0))
    assert doubt(state, StepId("a"), DEFINITIONS).settle is Settlement.PERSON


HELD = Evidence(verdict=Verdict.HELD, duration_ms=1, exit_code=0)
WENT_WELL = Outcome(duration_ms=1, exit_code=0)
CHANGED = ProtectedChanged(files=("`tests/a` has changed",), steps=(StepId("a"),))


@pytest.mark.parametrize("contract", [None, "c"])
def test_no_evidence_passes_an_attempt_during_which_protected_files_changed(contract):
    state = begun(step("a", contract=contract), protect=("tests/**",))
    apply(state, CHANGED, Instant(0))
    to = StepState.VERIFYING if contract else StepState.PASSED
    with pytest.raises(IllegalTransition):
        apply(state, AttemptEnded(step=StepId("a"), attempt=1, outcome=WENT_WELL, to=to), Instant(0))
    event = ended(state, StepId("a"), WENT_WELL, Instant(0), stopped=False)
    assert (event.outcome.error, event.to) == ("F_CONTRACT_TAMPERED", StepState.FAILED)


def test_a_contract_that_held_while_protected_files_changed_is_broken():
    state = begun(step("a", contract="c"))
    apply(state, ended(state, StepId("a"), WENT_WELL, Instant(0), stopped=False), Instant(0))
    apply(state, CHANGED, Instant(0))
    with pytest.raises(IllegalTransition):
        apply(state, ContractHeld(step=StepId("a"), attempt=1, evidence=HELD), Instant(0))
    event = judged(state, StepId("a"), HELD, Instant(0))
    assert (event.evidence.verdict, event.evidence.error) == (Verdict.BROKEN, "F_CONTRACT_TAMPERED")


def test_a_doubt_is_not_settled_well_where_protected_files_changed():
    made = step("a", tool="edit_file", contract="c")
    state = begun(made)
    seen = Evidence(verdict=Verdict.BROKEN, duration_ms=1)
    apply(state, ContractSeen(step=made.id, attempt=1, evidence=seen, operand="x"), Instant(0))
    apply(state, CHANGED, Instant(0))
    apply(state, doubt(state, made.id, DEFINITIONS), Instant(0))
    with pytest.raises(IllegalTransition):
        apply(state, DoubtSettled(step=made.id, attempt=1, to=StepState.PASSED, reason="r"), Instant(0))
    assert isinstance(settled(state, made.id, HELD, "y"), DoubtReferred)


def test_nobody_is_blamed_who_was_not_at_work_and_no_file_becomes_another():
    state = begun(step("a"), protect=("x",))
    file = ProtectedFile(seal="s", size=1)
    kept = FilesProtected(step=StepId("a"), attempt=1, of_plan={"x": file})
    apply(state, kept, Instant(0))
    for event in (kept, ProtectedChanged(files=("f",), steps=(StepId("nobody"),))):
        with pytest.raises(IllegalTransition):
            apply(state, event, Instant(0))
    apply(state, ended(state, StepId("a"), WENT_WELL, Instant(0), stopped=False), Instant(0))
    with pytest.raises(IllegalTransition):
        apply(state, CHANGED, Instant(0))
