"""Budgets: nothing begins that could spend more than is allowed, and what was spent is what is recorded."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.approval.approval import Channel, Principal, WorkspaceIdentity
from ordain.core.lineage.decision import decided, find_question, questions
from ordain.core.plan.action import RunCommand
from ordain.core.plan.failure import Abort, Continue, Retry
from ordain.core.plan.model import Budget, NestedPlan, Plan
from ordain.core.plan.value import Instant, PlanId, RunId, StepId
from ordain.core.policy.settings import Limits
from ordain.core.run.budget import Held, expected, may_begin, spending, time_left_ms
from ordain.core.run.event import BudgetReached, ExecutorStarted, RunEvent, RunFinished, RunOpened
from ordain.core.run.run_state import IllegalTransition, RunState
from ordain.core.run.schedule import End, Gather, Reach, Start, Stop, Wake, decide, ended
from ordain.core.run.spending import RUN, read_usage, sound_usage
from ordain.core.run.state import apply
from ordain.core.run.step_event import (
    AttemptEnded,
    AttemptStarted,
    DecisionGiven,
    DoubtFound,
    DoubtSettled,
    Outcome,
    Settlement,
    StepState,
    StepUnfolded,
    Usage,
)
from ordain.core.text.problem import Refused
from tests.build import plan, step
from tests.history import replay
from tests.rows import each

KIM = Principal(name="kim", channel=Channel.TERMINAL)
OPENED = RunOpened(
    run_id=RunId("RUN-A"),
    plan_id=PlanId("plan:1"),
    lineage="lineage/PLAN-A",
    workspace=WorkspaceIdentity(id="ws_1", path="/w", device=1, inode=2),
    limits=Limits(concurrency=3, step_timeout_ms=1000, contract_timeout_ms=1000, on_failure=Abort(), env=()),
)
KINDS = ("attempts", "wall_clock_ms", "tokens", "cost_usd")


class Life:
    """One run, carried out by hand: the loop without the world."""

    def __init__(self, made: Plan) -> None:
        self.plan, self.state, self.now = made, RunState(made), Instant(1000)
        self.history: list[tuple[Instant, RunEvent]] = []
        self.fold(OPENED, ExecutorStarted(epoch=1, pid=1, boot_id="b"))

    def fold(self, *events: RunEvent) -> None:
        for event in events:
            apply(self.state, event, self.now)
            self.history.append((self.now, event))

    def turn(self) -> None:
        """Do what is to be done, until nothing is but to wait."""
        while True:
            before = self.state.size
            for effect in decide(self.state, self.now):
                match effect:
                    case Start(step=name):
                        self.start(name)
                    case Reach(event=event):
                        self.fold(event)
                    case Gather(step=name):
                        good = all(self.state.steps[one].satisfies for one in self.state.groups[name].members)
                        outcome = Outcome(duration_ms=0, error=None if good else "F_STEP_FAILED")
                        self.fold(ended(self.state, name, outcome, self.now, stopped=False))
                    case Stop(step=name):
                        outcome = Outcome(duration_ms=0, error="F_STEP_STOPPED")
                        self.fold(ended(self.state, name, outcome, self.now, stopped=True))
                    case End(status=status):
                        self.fold(RunFinished(status=status))
                    case Wake():
                        pass
                    case other:
                        raise AssertionError(other)
            if self.state.size == before:
                return

    def start(self, name: StepId) -> None:
        kept = may_begin(self.state, name, self.now)
        if isinstance(kept, BudgetReached):
            self.fold(kept)
        elif kept is None:
            attempt, nested = self.state.steps[name].attempts + 1, self.state.step(name).action
            if isinstance(nested, NestedPlan):
                count = len(nested.plan.steps)
                self.fold(StepUnfolded(step=name, attempt=attempt, kind="nested", count=count))  # type: ignore[arg-type]
            else:
                self.fold(AttemptStarted(step=name, attempt=attempt, key="k"))

    def end(self, name: str, *, after: int = 0, error: str | None = None, **used: float) -> Life:
        self.now = Instant(self.now + after)
        outcome = Outcome(duration_ms=after, error=error, used=Usage(**used) if used else None)  # type: ignore[arg-type]
        self.fold(ended(self.state, StepId(name), outcome, self.now, stopped=False))
        self.turn()
        return self

    def crash(self, away: int) -> None:
        """The executor dies; another one comes a while later."""
        self.now = Instant(self.now + away)
        self.fold(ExecutorStarted(epoch=self.state.epoch + 1, pid=1, boot_id="b"))
        for name in list(self.state.active):
            attempt = self.state.steps[name].attempts
            self.fold(
                DoubtFound(step=name, attempt=attempt, settle=Settlement.AGAIN, reason="r"),
                DoubtSettled(step=name, attempt=attempt, to=StepState.PENDING, reason="r"),
            )

    def answer(self, word: str, item: str = "RUN-A") -> Life:
        self.fold(decided(self.state, find_question(self.state, item), word, KIM))
        self.turn()
        return self

    def running(self) -> list[str]:
        return list(self.state.active)


def life(*steps: object, **fields: object) -> Life:
    begun = Life(plan(*steps, **fields))  # type: ignore[arg-type]
    begun.turn()
    return begun


def of(name: str, **limits: float) -> object:
    """A step that needs nothing, with a budget."""
    return replace(step(name, needs=()), budget=Budget(**limits))  # type: ignore[arg-type]


# --- Reserving -------------------------------------------------------------------------------------------------------


def test_a_step_begins_only_where_its_budget_fits_beside_those_at_work():
    run = life(of("a", tokens=60), of("b", tokens=60), of("c", tokens=40), budget=Budget(tokens=100))
    assert run.running() == ["a", "c"]
    assert isinstance(may_begin(run.state, StepId("b"), run.now), Held)
    assert run.end("a", tokens=20).running() == ["c"], "20 and 40 and 60 are more than 100"
    assert run.end("c", tokens=20).running() == ["b"], "what was not spent is free again"


def test_what_was_reported_counts_and_not_what_was_reserved():
    run = life(of("a", tokens=60), of("b", tokens=60), budget=Budget(tokens=100)).end("a", tokens=41)
    assert not run.running()
    (question,) = questions(run.state)
    assert question.item == "RUN-A/.budget"
    assert question.text == (
        "The budget of the plan allows 100 tokens, which is not enough for `b`: it may need 60 tokens. What now?"
    )


def test_a_step_that_says_nothing_begins_while_nothing_is_spent_beyond_the_limit():
    run = life(step("a"), step("b"), step("c"), budget=Budget(cost_usd=1.5)).end("a", cost_usd=1.5)
    assert run.running() == ["b"], "all is spent, and nothing says that it needs any"
    assert not run.end("b", cost_usd=0.000000001).running()
    assert questions(run.state)[0].text == "The budget of the plan is reached: $1.50. What now?"


def test_sums_of_money_are_exact():
    run = life(step("a"), step("b"), step("c"), budget=Budget(cost_usd=0.3)).end("a", cost_usd=0.1)
    assert run.end("b", cost_usd=0.2).running() == ["c"], "a tenth and two tenths are three"


def test_attempts_are_counted_whatever_became_of_them():
    again = Retry(max_attempts=5, initial_delay_ms=0)
    run = life(step("a", on_failure=again), step("b"), budget=Budget(attempts=3))
    run.end("a", error="F_STEP_FAILED").end("a", error="F_STEP_FAILED").end("a")
    assert not run.running()
    assert [one.spent for one in spending(run.state, run.now) if one.what == "attempts"] == [3]


def test_steps_that_work_at_the_same_time_share_it():
    run = life(of("a", wall_clock_ms=600), of("b", wall_clock_ms=600), budget=Budget(wall_clock_ms=1000))
    assert run.running() == ["a", "b"]
    run.end("a", after=400).end("b", after=200)
    assert [one.spent for one in spending(run.state, run.now) if one.what == "wall_clock_ms" and one.step is None] == [
        600
    ]


def test_a_steps_own_budget_counts_over_its_attempts_and_limits_the_next():
    again = Retry(max_attempts=5, initial_delay_ms=0)
    run = life(replace(step("a", on_failure=again), budget=Budget(wall_clock_ms=1000, tokens=50)))
    assert time_left_ms(run.state, StepId("a"), run.now) == 1000
    run.end("a", after=300, error="F_STEP_FAILED", tokens=20)
    assert time_left_ms(run.state, StepId("a"), run.now) == 700
    run.end("a", after=10, error="F_STEP_FAILED", tokens=30)
    (question,) = questions(run.state)
    assert (question.item, run.running()) == ("RUN-A/.budget/a", [])
    assert run.answer("extend").running() == ["a"]


# --- Time ------------------------------------------------------------------------------------------------------------


def test_the_time_is_over_at_its_instant_and_not_when_a_step_ends():
    run = life(step("a"), step("b"), budget=Budget(wall_clock_ms=5000))
    assert decide(run.state, run.now) == (Wake(Instant(run.now + 5000)),)
    run.now = Instant(run.now + 5000)
    run.turn()
    assert isinstance(run.history[-1][1], BudgetReached)
    assert run.running() == ["a"] and not questions(run.state), "what is under way comes to its end first"
    run.end("a", after=1000)
    assert not run.running() and not run.state.finished
    assert "6 s at work (measured)" in questions(run.state)[0].detail


def test_nobody_is_asked_when_nothing_is_left_to_do():
    run = life(step("a"), budget=Budget(wall_clock_ms=5000))
    run.now = Instant(run.now + 6000)
    run.turn()
    run.end("a")
    assert run.state.status == "completed"


def test_time_in_which_somebody_is_waited_for_does_not_count():
    run = life(step("a"), step("b"), step("c"), budget=Budget(wall_clock_ms=1000, attempts=1)).end("a", after=600)
    run.now = Instant(run.now + 10**9)
    run.answer("unlimited").end("b", after=300)
    assert run.running() == ["c"]


def test_work_that_a_crash_cut_counts_until_something_was_recorded_last():
    run = life(replace(step("a", needs=())), step("b", needs=()), step("c"), budget=Budget(wall_clock_ms=10_000))
    run.end("b", after=700)
    run.crash(away=10**8)
    assert run.state.accounts[RUN].total("wall_clock_ms", run.now) == 700


# --- Scopes ----------------------------------------------------------------------------------------------------------


def nested(name: str, *steps: object, budget: Budget | None = None, **fields: object) -> object:
    inner = plan(*steps, budget=budget)  # type: ignore[arg-type]
    return replace(step(name, needs=(), action=NestedPlan(plan=inner)), **fields)  # type: ignore[arg-type]


def test_the_budget_of_a_nested_plan_holds_only_its_steps():
    run = life(nested("n", step("x"), step("y"), budget=Budget(tokens=10)), step("a", needs=()), step("b"))
    assert run.running() == ["a", "n/x"]
    run.end("n/x", tokens=11).end("a")
    assert run.running() == ["b"], "it is not of that plan"
    (question,) = questions(run.state)
    assert question.item == "RUN-A/.budget/n"
    assert run.answer("unlimited").running() == ["b", "n/y"]


def test_what_a_nested_plan_spends_is_spent_from_all_that_it_is_in():
    run = life(nested("n", step("x"), step("y"), budget=Budget(tokens=1000)), step("b"), budget=Budget(tokens=1000))
    assert run.end("n/x", tokens=900).end("n/y", tokens=200).running() == []
    assert [one.item for one in questions(run.state)] == ["RUN-A/.budget"]


def test_steps_inside_spend_what_the_step_around_them_has_reserved():
    around = nested("n", of("x", tokens=60), budget=Budget(tokens=60))
    run = life(around, of("b", tokens=50), of("c", tokens=40), budget=Budget(tokens=100))
    assert run.running() == ["c", "n/x"]


def test_ending_a_nested_plan_for_its_budget_ends_the_run():
    run = life(nested("n", step("x"), step("y"), budget=Budget(attempts=1))).end("n/x").answer("abort")
    assert (run.state.status, run.state.steps[StepId("n/y")].state) == ("failed", StepState.CANCELLED)


# --- Answers ---------------------------------------------------------------------------------------------------------


def test_extending_allows_the_same_amount_from_what_was_spent():
    run = life(*(step(name) for name in "abcd"), budget=Budget(tokens=10)).end("a", tokens=100)
    run.answer("extend").end("b", tokens=9).end("c", tokens=2)
    assert not run.running()
    assert [one.item for one in questions(run.state)] == ["RUN-A/.budget@2"]
    with pytest.raises(Refused, match="another question"):
        run.answer("extend", "RUN-A/.budget")
    assert run.answer("unlimited", "RUN-A/.budget@2").end("d", tokens=10**6).state.status == "completed"


def test_a_limit_that_was_taken_away_leaves_the_others():
    run = life(*(step(name) for name in "abc"), budget=Budget(tokens=10, attempts=2)).end("a", tokens=11)
    assert run.answer("unlimited").end("b").running() == []
    assert questions(run.state)[0].text == "The budget of the plan is reached: 2 attempts. What now?"


def test_abort_ends_the_run():
    run = life(step("a"), step("b"), budget=Budget(attempts=1)).end("a").answer("abort")
    assert run.state.status == "failed"


def reached() -> Life:
    return life(step("a"), step("b"), budget=Budget(attempts=1)).end("a")


@each(
    "event",
    [
        AttemptStarted(step=StepId("b"), attempt=1, key="k"),
        BudgetReached(step=StepId(".budget"), what="attempts", spent=1, reserved=0, limit=1, wanted=1),
        BudgetReached(step=StepId(".budget/a"), what="attempts", spent=1, reserved=0, limit=1, wanted=1),
        DecisionGiven(step=StepId(".budget/a"), choice="extend", by=KIM, to=StepState.PENDING),
        DecisionGiven(step=StepId(".budget"), choice="retry", by=KIM, to=StepState.PENDING),
        DecisionGiven(step=StepId(".budget"), choice="abort", by=KIM, to=StepState.PENDING),
        DecisionGiven(step=StepId(".budget"), choice="extend", by=KIM, to=StepState.FAILED, aborts=True),
        RunFinished(status="completed"),
    ],
)
def test_nothing_gets_past_a_reached_budget(event: RunEvent):
    run = reached()
    with pytest.raises(IllegalTransition):
        apply(run.state, event, run.now)
    assert run.state == replay(run.plan, run.history), "what is refused changes nothing"


@pytest.mark.parametrize(
    "said", [{"spent": 0}, {"limit": 2}, {"what": "tokens"}, {"wanted": 0, "spent": 1, "limit": 2}]
)
def test_a_budget_is_reached_only_as_it_is(said: dict[str, object]):
    run = reached()
    event, again = run.history[-1][1], replay(run.plan, run.history[:-1])
    assert isinstance(event, BudgetReached)
    with pytest.raises(IllegalTransition):
        apply(again, replace(event, **said), run.now)


# --- What is expected ------------------------------------------------------------------------------------------------


def test_what_is_left_is_estimated_from_earlier_runs():
    run = reached()
    from ordain.core.plan.canonical import action_digest

    went = [Outcome(duration_ms=ms, used=Usage(tokens=ms)) for ms in (1000, 3000, 90_000)]
    found = expected(run.state, RUN, {action_digest(RunCommand(command="do b")): went})
    assert (found.steps, found.known, found.wall_clock_ms, found.tokens, found.cost_usd) == (1, 1, 3000, 3000, None)
    assert expected(run.state, RUN, {}).known == 0


# --- Reports ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "used", "wrong"),
    [
        (b"", None, 0),
        (b'{"tokens": 5}\n\n{"tokens": 6, "cost_usd": 0.1}\n{"cost_usd": 0.2}', Usage(tokens=11, cost_usd=0.3), 0),
        (b'{"tokens": 5, "model": "m"}', Usage(tokens=5), 0),
        (b'{"tokens": 0}', Usage(tokens=0), 0),
        (b'{"tokens": -1}\n{"tokens": "1"}\n{"tokens": 1.5}\n[1]\n\xff\n{"tok', None, 6),
        (b'{"cost_usd": -1}\n{"cost_usd": NaN}\n{"cost_usd": 1e300}\n{"tokens": 99999999999999999999}', None, 4),
        (b"{}", None, 0),
    ],
)  # fmt: skip
def test_a_report_is_lines_of_json(text: bytes, used: Usage | None, wrong: int):
    assert read_usage(text) == (used, wrong)


def test_what_a_tool_reports_is_kept_only_where_it_can_be():
    assert sound_usage(Usage(tokens=3, cost_usd=0.5)) == Usage(tokens=3, cost_usd=0.5)
    assert sound_usage(Usage(tokens=-3)) is None
    assert sound_usage(Usage(cost_usd=float("inf"))) is None


# --- Whatever happens ------------------------------------------------------------------------------------------------

LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "attempts": st.integers(1, 6),
        "wall_clock_ms": st.integers(1, 60),
        "tokens": st.integers(1, 60),
        "cost_usd": st.integers(1, 60).map(lambda cents: cents / 100),
    },
)
BUDGETS = st.one_of(st.none(), LIMITS.map(lambda limits: Budget(**limits)))  # type: ignore[arg-type]
POLICY = st.sampled_from([None, Continue(), Retry(max_attempts=3, initial_delay_ms=5, then=Continue())])


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    names = "abcdef"[: draw(st.integers(1, 6))]
    steps = [
        replace(
            step(
                name,
                needs=tuple(draw(st.sets(st.sampled_from(names[:index])))) if index else (),
                on_failure=draw(POLICY),
            ),
            budget=draw(BUDGETS),
        )
        for index, name in enumerate(names)
    ]
    return plan(*steps, budget=draw(BUDGETS), on_failure=Continue())


@dataclass
class Tally:
    """What one account has, found out from the events alone, each time anew."""

    limits: dict[str, int]
    given: dict[str, int]
    spent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))


def tally(budget: Budget | None) -> Tally:
    amounts = {kind: getattr(budget, kind) for kind in KINDS if getattr(budget, kind, None) is not None}
    limits = {kind: round(amount * 10**9) if kind == "cost_usd" else amount for kind, amount in amounts.items()}
    return Tally(dict(limits), dict(limits))


def at_work(history: list[tuple[Instant, RunEvent]], names: set[str], now: Instant) -> int:
    """How many milliseconds any of these steps was at work."""
    busy: set[int] = set()
    since: dict[str, Instant] = {}
    last = Instant(0)
    for at, event in history:
        match event:
            case AttemptStarted(step=name):
                since[name] = at
            case AttemptEnded(step=name):
                busy |= set(range(since[name], at)) if name in names else set()
                del since[name]
            case ExecutorStarted():
                for name, begun in since.items():
                    busy |= set(range(begun, last)) if name in names else set()
                since = {}
        last = at
    for name, begun in since.items():
        busy |= set(range(begun, now)) if name in names else set()
    return len(busy)


def check(made: Plan, history: list[tuple[Instant, RunEvent]]) -> dict[str, Tally]:
    """That nothing began which could spend more than is allowed; what every account has at the end."""
    names = {str(one.id) for one in made.steps}
    accounts = {str(one.id): tally(one.budget) for one in made.steps} | {"": tally(made.budget)}
    running: set[str] = set()
    asked: dict[str, str] = {}

    def spent(owner: str, kind: str, upto: int, at: Instant) -> int:
        if kind == "wall_clock_ms":
            return at_work(history[:upto], {owner} if owner else names, at)
        return accounts[owner].spent[kind]

    for index, (at, event) in enumerate(history):
        match event:
            case AttemptStarted(step=name):
                assert not asked.get("") and not asked.get(name), "it began although a person was asked"
                for kind in KINDS:
                    own, whole = accounts[name], accounts[""]
                    left = {
                        one: max(accounts[one].limits[kind] - spent(one, kind, index, at), 0)
                        for one in {*running, name}
                        if kind in accounts[one].limits
                    }
                    if kind in own.limits:
                        assert left[name] > 0, "nothing was left of its own"
                    need = left.pop(name, 1 if kind in ("attempts", "wall_clock_ms") else 0)
                    others = max([0, *left.values()]) if kind == "wall_clock_ms" else sum(left.values())
                    needed = max(others, need) if kind == "wall_clock_ms" else others + need
                    if kind in whole.limits and (kind != "wall_clock_ms" or need >= others):
                        assert spent("", kind, index, at) + needed <= whole.limits[kind], f"{name} began, {kind}"
                for owner in (name, ""):
                    accounts[owner].spent["attempts"] += 1
                running.add(name)
            case AttemptEnded(step=name, outcome=outcome):
                running.discard(name)
                for owner in (name, ""):
                    if outcome.used is not None:
                        accounts[owner].spent["tokens"] += outcome.used.tokens or 0
                        accounts[owner].spent["cost_usd"] += round((outcome.used.cost_usd or 0) * 10**9)
            case ExecutorStarted():
                running.clear()
            case BudgetReached(step=name, what=what):
                owner = name.partition("/")[2]
                assert owner not in asked, "asked twice"
                asked[owner] = what
            case DecisionGiven(step=name, choice=choice):
                owner = name.partition("/")[2]
                what, account = asked.pop(owner), accounts[owner]
                if choice == "unlimited":
                    del account.limits[what]
                elif choice == "extend":
                    account.limits[what] = max(account.limits[what], spent(owner, what, index, at))
                    account.limits[what] += account.given[what]
    for owner, account in accounts.items():
        account.spent["wall_clock_ms"] = spent(owner, "wall_clock_ms", len(history), history[-1][0])
    return accounts


@given(plans(), st.integers(0, 2**32))
def test_never_does_a_step_begin_that_could_exceed(made: Plan, seed: int):
    chance, run = random.Random(seed), Life(made)
    for _ in range(80):
        run.turn()
        if run.state.finished:
            break
        run.now = Instant(run.now + chance.choice([0, 1, 7, 20]))
        if chance.random() < 0.1:
            run.crash(away=chance.choice([0, 50]))
        elif run.running() and chance.random() < 0.8:
            used = {"tokens": chance.randrange(40), "cost_usd": chance.randrange(40) / 100}
            run.end(chance.choice(run.running()), error=chance.choice([None, None, "F_STEP_FAILED"]), **used)
        elif asked := questions(run.state):
            run.answer(chance.choice(["extend", "unlimited", "extend", "abort"]), chance.choice(asked).item)
    else:
        raise AssertionError("it never ended")
    assert run.state == replay(made, run.history)
    for owner, account in check(made, run.history).items():
        if owner == "" or StepId(owner) in run.state.accounts:
            assert run.state.accounts[StepId(owner)].spent == account.spent
