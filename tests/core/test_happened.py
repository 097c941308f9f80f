"""Checks that are asked in doubt whether an effect happened: who is asked, and what an answer may lead to."""

import pytest
from msgspec.structs import replace

from ordain.core.plan.tool import HappenedCheck, declared, definition_digest, happened_check
from ordain.core.run.schedule import answered, doubt, settled
from tests.build import plan, step
from tests.core.test_schedule import OPENED
from tests.history import replay
from tests.words import (
    BUILT_IN,
    AttemptStarted,
    ContractSeen,
    CustomCondition,
    DoubtChecked,
    Evidence,
    ExecutorStarted,
    Facts,
    IllegalTransition,
    Instant,
    ProtectedChanged,
    RunState,
    SettleByCheck,
    Settlement,
    ToolDefinition,
    ToolSource,
    Verdict,
    Verification,
    apply,
    canonical_bytes,
    decide,
    lint,
    plan_id,
    read_settings,
)

PAY = ToolDefinition(name="pay", description="Pay.", effect="opaque", schema={"type": "object"}, happened="paid?")
FINAL = replace(PAY, happened_final=True)


def begun(made, tools, **fields) -> RunState:
    """A run whose only step was at work when its executor died, and is in doubt now."""
    state = replay(
        plan(made, **fields),
        [
            (Instant(0), OPENED),
            (Instant(0), ExecutorStarted(epoch=1, pid=1, boot_id="b")),
            (Instant(0), AttemptStarted(step=made.id, attempt=1, key="k")),
        ],
    )
    return apply(state, doubt(state, made.id, tools), Instant(0))


def seen(verdict: Verdict) -> Evidence:
    return Evidence(verdict=verdict, duration_ms=1)


@pytest.mark.parametrize(
    ("made", "tool", "settle"),
    [
        (step("a", happened="paid?"), PAY, Settlement.CHECK),
        (step("a", tool="pay"), PAY, Settlement.CHECK),
        (step("a", tool="pay"), replace(PAY, happened=""), Settlement.PERSON),
        (step("a", tool="pay"), replace(PAY, effect="repeatable"), Settlement.AGAIN),
        (step("a", tool="pay", idempotent=False), replace(PAY, effect="repeatable"), Settlement.CHECK),
        (step("a", tool="edit_file", happened="edited?"), PAY, Settlement.CHECK),
        (step("a", tool="read_file", happened="read?"), PAY, Settlement.AGAIN),
        (step("a", happened="done?", idempotent=True), PAY, Settlement.AGAIN),
        (step("a", happened="done?", protect=("x",)), PAY, Settlement.AGAIN),
    ],
)
def test_a_check_is_asked_where_a_person_would_be(made, tool, settle):
    state = begun(made, {**BUILT_IN, "pay": tool})
    assert state.steps[made.id].settle is settle
    assert (SettleByCheck(made.id) in decide(state, Instant(1))) is (settle is Settlement.CHECK)


def test_the_tools_check_is_asked_before_the_steps_own_which_is_never_final():
    tools = {"pay": FINAL}
    assert happened_check(step("a", tool="pay", happened="own?"), tools) == HappenedCheck("paid?", "pay", final=True)
    assert happened_check(step("a", happened="own?"), tools) == HappenedCheck("own?")
    assert happened_check(step("a", tool="pay"), {}) is None


CONTRACT, NOTHING = "check a", None
ROWS = [
    # The tool, the step's own check, its contract, whether a sandbox held it, the answer, and where that leads.
    (FINAL, None, NOTHING, True, Verdict.HELD, "passed"),
    (FINAL, None, CONTRACT, True, Verdict.HELD, "verifying"),
    (FINAL, None, CONTRACT, True, Verdict.BROKEN, "pending"),
    (FINAL, None, CONTRACT, True, Verdict.INCONCLUSIVE, "in_doubt"),
    (PAY, None, CONTRACT, True, Verdict.HELD, "verifying"),
    (PAY, None, CONTRACT, True, Verdict.BROKEN, "in_doubt"),
    (PAY, None, CONTRACT, True, Verdict.INCONCLUSIVE, "in_doubt"),
    (None, "own?", NOTHING, True, Verdict.HELD, "passed"),
    (None, "own?", CONTRACT, True, Verdict.BROKEN, "in_doubt"),
    (None, "own?", CONTRACT, True, Verdict.INCONCLUSIVE, "in_doubt"),
    *[(FINAL, None, CONTRACT, False, verdict, "in_doubt") for verdict in Verdict],
    *[(None, "own?", CONTRACT, False, verdict, "in_doubt") for verdict in Verdict],
]


def test_where_each_answer_leads():
    for tool, own, contract, read_only, verdict, to in ROWS:
        made = step("a", tool="pay" if tool else None, happened=own, contract=contract)
        tools = {"pay": tool} if tool else {}
        state = begun(made, tools)
        event = answered(state, made.id, seen(verdict), tools, read_only=read_only)
        apply(state, event, Instant(1))
        record = state.steps[made.id]
        assert record.state.value == to, (tool, own, contract, read_only, verdict)
        assert (record.settle is Settlement.PERSON) is (to == "in_doubt")
        assert record.how == event.reason and record.evidence is event.evidence
        for wrong in ("passed", "verifying", "pending", "in_doubt"):
            if wrong != to:
                with pytest.raises(IllegalTransition):
                    apply(begun(made, tools), replace(event, to=type(event.to)(wrong)), Instant(1))


def test_a_history_in_which_a_check_settles_what_it_may_not_is_refused():
    made = step("a", happened="own?")
    state = begun(made, {})
    event = answered(state, made.id, seen(Verdict.BROKEN), {}, read_only=True)
    pending = type(event.to)("pending")
    for wrong in (
        replace(event, to=pending),
        replace(event, to=pending, final=True),
        replace(event, to=pending, final=True, tool="pay"),
        replace(event, to=pending, final=True, tool="shell"),
    ):
        with pytest.raises(IllegalTransition):
            apply(state, wrong, Instant(1))
    apply(state, event, Instant(1))
    with pytest.raises(IllegalTransition):  # a check is asked once
        apply(state, event, Instant(1))
    with pytest.raises(IllegalTransition):
        apply(begun(step("a"), {}), event, Instant(1))


def test_where_protected_files_changed_or_an_expression_verifies_a_person_is_asked():
    made = step("a", tool="pay")
    state = begun(made, {"pay": FINAL})
    apply(state, ProtectedChanged(files=("f",), steps=(made.id,)), Instant(1))
    for verdict in Verdict:
        event = answered(state, made.id, seen(verdict), {"pay": FINAL}, read_only=True)
        assert event.to.value == "in_doubt"
    asked = Verification(strategy=CustomCondition(name="x", expression="true"))
    state = begun(replace(made, verification=asked), {"pay": FINAL})
    assert answered(state, made.id, seen(Verdict.HELD), {"pay": FINAL}, read_only=True).to.value == "in_doubt"


def test_what_a_contract_cannot_settle_the_check_is_asked_about():
    made = step("a", tool="edit_file", contract="c", happened="edited?")
    state = begun(step("a", tool="edit_file", contract="c"), BUILT_IN)
    state = replay(
        plan(made),
        [
            (Instant(0), OPENED),
            (Instant(0), ExecutorStarted(epoch=1, pid=1, boot_id="b")),
            (Instant(0), AttemptStarted(step=made.id, attempt=1, key="k")),
            (Instant(0), ContractSeen(step=made.id, attempt=1, evidence=seen(Verdict.BROKEN), operand="x")),
        ],
    )
    apply(state, doubt(state, made.id, BUILT_IN), Instant(0))
    apply(state, settled(state, made.id, seen(Verdict.BROKEN), "y", BUILT_IN), Instant(0))
    assert decide(state, Instant(1)) == (SettleByCheck(made.id),)


def test_what_a_registration_declares_is_part_of_the_definition_and_only_of_what_can_be_in_doubt():
    source = ToolSource(url="https://x", happened="paid?", happened_final=True)
    tool = replace(PAY, happened="")
    assert declared(tool, source) == FINAL
    reads = replace(tool, effect=BUILT_IN["read_file"].effect)
    assert declared(reads, source) == reads
    assert declared(PAY, replace(source, happened="", happened_final=False)) == PAY


def test_an_unanswered_check_is_asked_again_by_the_next_executor():
    made = step("a", happened="own?")
    state = begun(made, {})
    apply(state, ExecutorStarted(epoch=2, pid=2, boot_id="b"), Instant(1))
    assert decide(state, Instant(1)) == (SettleByCheck(made.id),)
    assert isinstance(answered(state, made.id, seen(Verdict.HELD), {}, read_only=True), DoubtChecked)


def test_a_check_is_part_of_the_digest_and_none_changes_no_digest():
    made, checked = plan(step("a")), plan(step("a", happened="own?"))
    assert len({plan_id(made), plan_id(checked), plan_id(plan(step("a", happened="other?")))}) == 3
    assert b"happened" not in canonical_bytes(made)
    assert len({definition_digest((one,)) for one in (replace(PAY, happened=""), PAY, FINAL)}) == 3
    assert b"happened" not in canonical_bytes(replace(PAY, happened=""))


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ('[tools.mail]\nmcp = ["m"]\nhappened = "paid?"\nhappened_final = true\n', ""),
        ('[actions.pay]\ncommand = ["m"]\nhappened = "paid?"\n', ""),
        ('[tools.mail]\nmcp = ["m"]\nhappened = " "\n', "must be a command"),
        ('[tools.mail]\nmcp = ["m"]\nhappened_final = true\n', "no `happened` says"),
        ('[actions.pay]\ncommand = ["m"]\nhappened_final = true\n', "no `happened` says"),
    ],
)
def test_a_registration_declares_a_check(settings, fault):
    read, problems = read_settings(settings.encode())
    assert fault in " ".join(problem.detail for problem in problems) if fault else not problems
    if not fault:
        found = (*read.sources.values(), *read.actions.values())
        assert [one.happened for one in found] == ["paid?"]


def test_a_check_is_looked_at_as_a_contract_is():
    said = {
        problem.code: problem.detail
        for text, facts in (
            ("nosuch --has x", Facts(tools=BUILT_IN, missing_programs=frozenset(["nosuch"]))),
            ("if then", Facts(tools=BUILT_IN, shell_faults={"if then": "no"})),
            (" ", Facts(tools=BUILT_IN)),
            ("test ${b.output}", Facts(tools=BUILT_IN)),
        )
        for problem in lint(plan(step("b"), step("a", happened=text)), facts)
    }
    assert said.keys() >= {"W_CONTRACT_PROGRAM", "E_CONTRACT_SYNTAX", "E_REF_PLACE"}
    assert "The check of `a` uses `nosuch`" in said["W_CONTRACT_PROGRAM"]
