"""Whole lives of plans, in memory: order, parallelism, failure policies, people, crashes at every boundary."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.build import plan, step
from tests.rows import each
from tests.scenario import KIM, ROBOT, Scenario
from tests.words import (
    Abort,
    AttemptEnded,
    AttemptStarted,
    Continue,
    Escalate,
    Finished,
    Holder,
    Refused,
    Retry,
    RunCommand,
    Skip,
    refuse,
)


def codes(refused: pytest.ExceptionInfo[Refused]) -> list[str]:
    return [problem.code for problem in refused.value.problems]


def test_steps_run_in_order_and_the_run_completes():
    life = Scenario(step("a"), step("b"), step("c")).approve().run()
    assert (life.status(), life.world.effects) == ("completed", ["a", "b", "c"])


def test_independent_steps_run_at_once_up_to_the_plans_concurrency():
    most = now = 0

    async def busy(command):
        nonlocal most, now
        now += 1
        most = max(most, now)
        for _ in range(5):
            await asyncio.sleep(0)
        now -= 1
        return Finished(duration_ms=1, exit_code=0)

    names = "abcdef"
    life = Scenario(*(step(name, needs=()) for name in names), concurrency=3)
    life.script(**dict.fromkeys(names, busy)).approve().run()
    assert (life.status(), most) == ("completed", 3)


def test_a_step_may_need_a_later_one():
    life = Scenario(step("a", needs="b"), step("b", needs=())).approve().run()
    assert life.world.effects == ["b", "a"]


def test_a_failure_aborts_by_default_and_names_what_did_not_run():
    life = Scenario(step("a"), step("b"), step("c")).script(b=1).approve().run()
    assert life.status() == "failed"
    life.expect(a="passed", b="failed", c="cancelled")
    assert life.world.effects == ["a"]


def test_an_abort_that_comes_as_a_step_ends_by_itself_ends_the_run_all_the_same():
    """The abort is recorded; while that becomes durable, the step that it would stop ends."""
    life = Scenario(step("a", needs=()), step("b", needs=()))
    aborting = asyncio.Event()

    async def until_the_abort(command):
        await aborting.wait()
        return Finished(duration_ms=1, exit_code=0)

    append = life.ledger.append

    async def slow(at, *appends):
        recorded = await append(at, *appends)
        if any(isinstance(event, AttemptEnded) for one in appends for event in one.events):
            aborting.set()
            for _ in range(10):  # the other step has all the time in the world to end now
                await asyncio.sleep(0)
        return recorded

    life.ledger.append = slow
    life.script(a=1, b=until_the_abort).approve().run()
    assert life.status() == "failed"
    life.expect(a="failed", b="passed")


def test_an_abort_stops_what_is_under_way():
    stopped = []

    async def forever(command):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(command.text)
            raise
        raise AssertionError

    async def later(command):
        for _ in range(5):
            await asyncio.sleep(0)
        return Finished(duration_ms=1, exit_code=1)

    life = Scenario(step("long", needs=()), step("bad", needs=())).script(long=forever, bad=later).approve().run()
    life.expect(long="cancelled", bad="failed")
    assert stopped == ["do long"]


def test_a_step_that_ends_by_itself_while_the_abort_is_being_recorded_is_just_ended():
    """Found by the simulator (seed 1092): it was to be stopped and was no longer there, which broke the loop."""
    life = Scenario(step("bad", needs=()), step("other", needs=())).script(bad=1)
    append, failing = life.ledger.append, asyncio.Event()

    async def other(command):
        await failing.wait()
        return Finished(duration_ms=1, exit_code=0)

    async def slow(at, *appends):
        if any(getattr(event, "aborts", False) for one in appends for event in one.events):
            failing.set()
            for _ in range(5):
                await asyncio.sleep(0)
        return await append(at, *appends)

    life.ledger.append = slow
    life.script(other=other).approve().run()
    life.expect(bad="failed", other="passed")


def test_continue_lets_the_rest_go_on_and_none_ready_is_not_complete():
    life = Scenario(step("a", on_failure=Continue()), step("b", needs="a"), step("c", needs=())).script(a=1)
    life.approve().run()
    assert life.status() == "failed"
    life.expect(a="failed", b="cancelled", c="passed")


def test_skip_satisfies_needs():
    life = Scenario(step("a", on_failure=Skip()), step("b", needs="a")).script(a=1).approve().run()
    assert life.status() == "completed"
    life.expect(a="skipped", b="passed")


def test_retry_waits_as_told_and_then_passes():
    tries = []

    async def third_time(command):
        tries.append(life.clock.now())
        return Finished(duration_ms=1, exit_code=0 if len(tries) == 3 else 1)

    policy = Retry(max_attempts=4, initial_delay_ms=1000, backoff_multiplier=2)
    life = Scenario(step("a", on_failure=policy)).script(a=third_time)
    life.approve().run()
    assert life.status() == "completed"
    assert [tries[1] - tries[0], tries[2] - tries[1]] == [1000, 2000]


def test_retries_run_out_and_then_follows_what_was_said():
    life = Scenario(step("a", on_failure=Retry(max_attempts=3, then=Escalate()))).script(a=1).approve().run()
    assert life.status() == "waiting"
    assert life.expect(a="escalated").shell.calls.__len__() == 3


def test_the_plans_policy_follows_a_retry_without_then():
    life = Scenario(step("a", on_failure=Retry(max_attempts=2)), on_failure=Skip()).script(a=1).approve().run()
    life.expect(a="skipped")


@pytest.mark.parametrize(
    ("word", "state", "status"),
    [("retry", "passed", "completed"), ("skip", "skipped", "completed"), ("pass", "passed", "completed")],
)
def test_an_escalation_is_decided_by_a_person_in_another_process(word, state, status):
    life = Scenario(step("a", on_failure=Escalate()), step("b")).script(a=1).approve().run()
    assert life.status() == "waiting"
    life.script(a=0).answer("a", word).resume()
    assert life.status() == status
    life.expect(a=state, b="passed")


def test_a_person_may_abort():
    life = Scenario(step("a", on_failure=Escalate()), step("b")).script(a=1).approve().run().answer("a", "abort")
    life.resume()
    assert life.status() == "failed"
    life.expect(a="failed", b="cancelled")


def test_a_pass_by_decision_is_called_unverified():
    life = Scenario(step("a", on_failure=Escalate())).script(a=1).approve().run().answer("a", "pass").resume()
    assert life.report is not None
    assert life.report.steps[0].evidence == "unverified: kim said so (pass)"


def test_a_contract_decides_not_the_commands_own_word():
    async def liar(command):
        return Finished(duration_ms=1, exit_code=0, output=b"exit_code=0\nall tests passed")

    life = Scenario(step("a", contract="check a")).script(a=liar).approve().run()
    assert life.status() == "failed"
    assert life.report is not None
    assert life.report.steps[0].error == "F_CONTRACT_BROKEN"


def test_a_contract_that_times_out_is_inconclusive_and_does_not_pass():
    life = Scenario(step("a", contract="slow"))
    life.shell.script["slow"] = Finished(duration_ms=60_000, timed_out=True)
    life.approve().run()
    assert life.report is not None
    assert (life.status(), life.report.steps[0].error) == ("failed", "F_CONTRACT_INCONCLUSIVE")


def test_tools_are_called_with_exactly_the_approved_arguments():
    life = Scenario(
        step("w", tool="write_file", args={"path": "a.txt", "content": "hi"}),
        step("r", tool="read_file", args={"path": "a.txt"}),
    )
    life.approve().run()
    assert life.toolbox.calls == [
        ("write_file", {"path": "a.txt", "content": "hi"}),
        ("read_file", {"path": "a.txt"}),
    ]
    assert life.report is not None
    assert life.report.steps[1].output_tail == "hi"


def test_a_broken_observer_changes_nothing():
    life = Scenario(step("a")).approve()

    def observer(recorded):
        raise RuntimeError("observer")

    report = asyncio.run(life.app.runs.commit(str(life.plan_id), ROBOT, observer))
    assert report.status == "completed"


# --- Crashes ---------------------------------------------------------------------------------------------------------


def mixed() -> Scenario:
    """Every effect class: a read, a repeatable write, a checkable edit with a sound contract, opaque commands."""
    return Scenario(
        step("read", tool="list_files"),
        step("write", tool="write_file", args={"path": "a.txt", "content": "one"}),
        step("edit", tool="edit_file", args={"path": "a.txt", "old": "one", "new": "two"}, contract="a is two"),
        step("mail"),
        step("checked", contract="check checked"),
        step("side", needs="write", idempotent=True),
    )


def with_contract(life: Scenario) -> Scenario:
    async def is_two(command):
        return Finished(duration_ms=1, exit_code=0 if life.toolbox.files.get("a.txt") == "two" else 1)

    life.shell.script["a is two"] = is_two
    return life


def settle(life: Scenario, *, limit: int = 10) -> None:
    """Resume until the end, answering each doubt with the truth, as a careful person would."""
    for _ in range(limit):
        run_id = life.run_id()
        if run_id is None:
            life.run()
        elif (ended := life.app.runs.run(run_id)).status in ("completed", "failed"):
            life.report = ended  # it died right after the last word was recorded
            return
        else:
            life.resume()
        assert life.report is not None
        if life.report.status in ("completed", "failed"):
            return
        for question in life.report.questions:
            life.answer(question.step, "happened" if question.step in life.world.effects else "did-not")
    raise AssertionError("the run never ended")


def boundaries() -> int:
    life = with_contract(mixed()).approve()
    life.world.new_executor()
    asyncio.run(life.app.runs.commit(str(life.plan_id), ROBOT))
    return life.world.boundaries


@each("first", range(1, boundaries() + 1))
def test_stop_at_every_boundary(first):
    life = with_contract(mixed()).approve().crash_at(first).run()
    assert life.crashed
    settle(life)
    assert life.status() == "completed"
    once = [effect for effect in life.world.effects if effect in ("mail", "checked")]
    assert sorted(once) == ["checked", "mail"], "an opaque effect happened twice or was lost"
    assert life.toolbox.files == {"a.txt": "two"}
    assert life.world.effects.count("edit_file a.txt") == 1


@pytest.mark.part(of=12)
@pytest.mark.parametrize("second", range(1, boundaries() + 4, 2))
def test_stop_again_during_recovery(second):
    for first in range(second % 3 + 3, boundaries(), 5):
        life = with_contract(mixed()).approve().crash_at(first).run()
        if life.run_id() is None:
            continue
        life.crash_at(second).resume()
        if not life.crashed:
            assert life.report is not None
            for question in life.report.questions:
                life.answer(question.step, "happened" if question.step in life.world.effects else "did-not")
        settle(life)
        once = [effect for effect in life.world.effects if effect in ("mail", "checked")]
        assert sorted(once) == ["checked", "mail"]
        assert life.toolbox.files == {"a.txt": "two"}
        assert life.world.effects.count("edit_file a.txt") == 1


def test_an_opaque_step_in_flight_is_in_doubt_and_is_not_run_again_unasked():
    life = Scenario(step("mail")).approve()
    crashed = next(
        at
        for at in range(1, 20)
        if Scenario(step("mail")).approve().crash_at(at).run().states().get("mail") == "running"
    )
    life.crash_at(crashed).run().resume()
    assert life.status() == "waiting"
    life.expect(mail="in_doubt")
    effects = list(life.world.effects)
    life.resume()
    assert life.world.effects == effects, "asking again must not do it again"
    assert life.report is not None
    assert [choice.word for choice in life.report.questions[0].choices] == ["happened", "did-not", "abort"]


def test_it_happened_still_has_to_face_the_contract():
    life = Scenario(step("a", contract="check a"), on_failure=Escalate()).approve()

    async def dies(command):
        life.world.dead = True
        life.world.boundary()

    life.script(a=dies).run().resume()
    life.expect(a="in_doubt").answer("a", "happened").resume()
    life.expect(a="escalated")


def test_a_crash_while_verifying_just_verifies_again():
    life = Scenario(step("a", contract="look")).approve()

    async def dies(command):
        life.shell.script["look"] = 0
        life.world.dead = True
        life.world.boundary()

    life.shell.script["look"] = dies
    life.run().resume()
    assert (life.status(), life.world.effects) == ("completed", ["a"])


def test_what_the_old_executor_left_running_is_killed_first():
    life = Scenario(step("a")).approve().crash_at(6).run()
    life.resume()
    assert life.shell.swept[-1].startswith("WS-")
    kinds = [type(event).__name__ for _, event in life.history()]
    assert kinds.count("ExecutorStarted") == 2


def test_an_abort_with_another_step_in_doubt_still_ends():
    """One step in doubt is aborted by a person while another waits to be settled by its contract."""
    life = with_contract(
        Scenario(
            step("write", tool="write_file", args={"path": "a.txt", "content": "one"}),
            step("mail", needs="write"),
            step(
                "edit",
                needs="write",
                tool="edit_file",
                args={"path": "a.txt", "old": "one", "new": "two"},
                contract="a is two",
            ),
        )
    ).approve()

    for at in range(1, 60):
        attempt = with_contract(Scenario(plan=life.plan)).approve().crash_at(at).run()
        if attempt.states() != {"write": "passed", "mail": "running", "edit": "running"}:
            continue
        attempt.crash_at(5).resume()  # after it claimed the run and recorded the doubt
        if attempt.states().get("mail") == "in_doubt":
            attempt.answer("mail", "abort").resume()
            assert attempt.status() == "failed", (at, attempt.states())
            break
    else:
        raise AssertionError("the situation never came about")


def test_a_read_only_step_with_a_contract_needs_approval():
    """A contract can do whatever a command can; it must not slip past policy."""
    with pytest.raises(Refused) as refused:
        Scenario(step("a", tool="list_files", contract="touch proof")).prepare().run()
    assert codes(refused) == ["E_PLAN_APPROVAL_MISSING"]


# --- Approval and commit ---------------------------------------------------------------------------------------------


def test_a_plan_that_only_reads_needs_nobody():
    life = Scenario(step("a", tool="list_files")).prepare().run()
    assert life.status() == "completed"


def test_nothing_starts_without_an_approval():
    with pytest.raises(Refused) as refused:
        Scenario(step("a")).prepare().run()
    assert codes(refused) == ["E_PLAN_APPROVAL_MISSING"]


def test_one_approval_starts_one_run():
    life = Scenario(step("a")).approve().run()
    first, told = life.run_id(), len(life.history())
    assert (life.run().run_id(), len(life.history()), life.world.effects) == (first, told, ["a"])
    life.prepare()
    with pytest.raises(Refused) as refused:
        life.run()
    assert codes(refused) == ["E_APPROVAL_SPENT"], "preparing again must not revive the approval"


def test_robots_cannot_approve_answer_or_trust():
    life = Scenario(step("a", on_failure=Escalate())).script(a=1).approve().run()
    life.workspace.configuration_text = b"[run]\nconcurrency = 2\n"
    for work in (
        life.app.approvals.approve(str(life.plan_id), ROBOT),
        life.app.answers.answer(f"{life.run_id()}/a", "pass", ROBOT),
        life.app.approvals.trust(life.app.approvals.configuration()[1], ROBOT),
    ):
        with pytest.raises(Refused) as refused:
            asyncio.run(work)
        assert codes(refused) == ["E_APPROVAL_CHANNEL"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda life: life.clock.advance(-3_600_000), "E_APPROVAL_EXPIRED"),
        (lambda life: setattr(life.workspace, "place", ("/workspace", 1, 2)), "E_PLAN_WORKSPACE"),
        (lambda life: setattr(life.workspace, "place", ("/elsewhere", 1, 1)), "E_PLAN_WORKSPACE"),
    ],
)
def test_each_bound_thing_that_changed_refuses_and_consumes_nothing(change, code):
    life = Scenario(step("a")).approve()
    place, now = life.workspace.place, life.clock.now()
    change(life)
    with pytest.raises(Refused) as refused:
        life.run()
    assert codes(refused) == [code]
    life.workspace.place = place
    life.clock.advance(now - life.clock.now())
    assert life.run().status() == "completed", "the approval is still good for the true situation"


def test_what_was_seen_to_expire_never_revives():
    life = Scenario(step("a")).approve()
    life.clock.advance(4 * 3_600_000)
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            life.run()
        assert codes(refused) == ["E_APPROVAL_EXPIRED"]
        life.clock.advance(-4 * 3_600_000)  # somebody sets the clock back


def test_a_clock_set_back_before_anybody_looked_revives_nothing_within_one_boot():
    life = Scenario(step("a")).approve()
    life.clock.advance(4 * 3_600_000)
    life.clock.advance(-4 * 3_600_000)
    with pytest.raises(Refused) as refused:
        life.run()
    assert codes(refused) == ["E_APPROVAL_EXPIRED"]


def test_a_changed_tool_definition_voids_the_approval():
    from msgspec.structs import replace

    life = Scenario(step("w", tool="write_file", args={"path": "a", "content": "b"})).approve()
    tools = dict(life.toolbox.definitions())
    tools["write_file"] = replace(tools["write_file"], description="something else")
    life.toolbox.tools = tools
    with pytest.raises(Refused) as refused:
        life.run()
    assert codes(refused) == ["E_PLAN_STALE_BASE"]


def test_configuration_counts_only_once_trusted_and_a_change_voids_approvals():
    life = Scenario(step("a"))
    life.workspace.configuration_text = b'[policy]\nallow = ["opaque"]\n'
    life.prepare()
    with pytest.raises(Refused) as refused:
        life.run()
    assert codes(refused) == ["E_PLAN_APPROVAL_MISSING"], "an untrusted file must not allow anything"
    life.approve()
    asyncio.run(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM))
    assert life.run().status() == "completed"
    denied = Scenario(step("a")).approve()
    denied.workspace.configuration_text = b'[policy]\ndeny = ["shell"]\n'
    asyncio.run(denied.app.approvals.trust(denied.app.approvals.configuration()[1], KIM))
    with pytest.raises(Refused) as refused:
        denied.run()
    assert codes(refused) == ["E_POLICY_DENIED"]


def test_an_expired_proposal_cannot_be_approved():
    life = Scenario(step("a")).prepare()
    life.clock.advance(8 * 86_400_000)
    with pytest.raises(Refused) as refused:
        life.approve()
    assert codes(refused) == ["E_PLAN_EXPIRED"]


def test_only_one_executor_at_a_time():
    life = Scenario(step("a")).approve()
    life.lock.others["RUN-OTHER"] = Holder(name="RUN-OTHER", pid=7)
    with pytest.raises(Refused) as refused:
        life.run()
    assert codes(refused) == ["E_WORKSPACE_BUSY"]
    life.lock.others.clear()
    assert life.run().status() == "completed"


def test_a_fenced_executor_cannot_write():
    from tests.words import Append, ExecutorStarted

    life = Scenario(step("a"), step("b"))

    async def taken_over(command):
        run_id = life.run_id()
        size = len(life.ledger.read(f"run/{run_id}"))
        event = ExecutorStarted(epoch=2, pid=2, boot_id="boot")
        append = Append(stream=f"run/{run_id}", expected=size, events=(event,), new_epoch=2)
        await life.ledger.append(life.clock.now(), append)
        return Finished(duration_ms=1, exit_code=0)

    life.script(a=taken_over).approve()
    with pytest.raises(Refused) as refused:
        life.run()
    assert codes(refused) == ["E_FENCED", "F_RUN_STOPPED"]
    assert life.world.effects == [], "b was never begun"


@pytest.mark.parametrize("at", range(1, 5))
def test_a_ledger_that_cannot_be_written_stops_the_run_and_nothing_goes_on(at):
    """The disk is full at the n-th append: no effect without its intent, and the run can be resumed."""
    life = Scenario(step("a"), step("b", tool="write_file", args={"path": "x", "content": "y"})).approve()
    real, count = life.ledger.append, 0

    async def full(now, *appends):
        nonlocal count
        count += 1
        if count >= at:
            raise refuse("E_LEDGER_IO", "no space left on device")
        return await real(now, *appends)

    life.ledger.append = full
    with pytest.raises(Refused) as refused:
        life.run()
    started = [event.step for _, event in life.history() if isinstance(event, AttemptStarted)]
    assert [name for name in ("a",) if name in life.world.effects and name not in started] == []
    assert codes(refused) == (["E_LEDGER_IO"] if at == 1 else ["E_LEDGER_IO", "F_RUN_STOPPED"])
    life.ledger.append = real
    life.world.new_executor()
    settle(life)
    assert life.status() == "completed"
    assert life.world.effects.count("a") == 1


def test_the_lineage_commits_to_the_head_of_the_finished_run():
    life = Scenario(step("a")).approve().run()
    lineage = life.ledger.read(life.ledger.streams("lineage/")[0])
    run = life.ledger.read(f"run/{life.run_id()}")
    assert lineage[-1].event.head == run[-1].head


def test_a_plan_from_a_newer_version_is_refused():
    with pytest.raises(Refused) as refused:
        Scenario(plan=plan(step("a")).__class__(plan_version=2, title="t", steps=plan(step("a")).steps)).prepare()
    assert codes(refused) == ["E_PLAN_VERSION"]


def test_an_abort_says_why():
    life = Scenario(step("a", on_failure=Abort(message="the tests are red"))).script(a=1).approve().run()
    assert life.report is not None
    assert (life.status(), life.report.reason) == ("failed", "the tests are red")


def test_an_edit_that_happened_is_not_repeated_because_its_contract_is_broken_for_another_reason():
    """`new` contains `old`, so a second edit would succeed and do harm; the contract also wants something else."""
    for at in range(1, 60):
        life = Scenario(
            step("write", tool="write_file", args={"path": "v", "content": "x = 1"}),
            step("edit", tool="edit_file", args={"path": "v", "old": "x = 1", "new": "x = 10"}, contract="never"),
        )
        life.shell.script["never"] = 1
        life.approve().crash_at(at).run()
        if not life.crashed:
            break
        if life.run_id() is not None and life.app.runs.run(life.run_id()).status == "stopped":
            life.resume()
        assert life.toolbox.files.get("v") in (None, "x = 1", "x = 10"), f"killed at boundary {at}"


def test_a_sibling_that_makes_the_contract_hold_does_not_pass_an_edit_that_never_ran():
    for at in range(1, 60):
        life = Scenario(
            step("write", tool="write_file", args={"path": "v", "content": "1"}),
            step(
                "edit",
                tool="edit_file",
                args={"path": "v", "old": "1", "new": "2"},
                needs="write",
                contract="check other",
            ),
            step("other", needs="write", idempotent=True),
        )
        life.approve().crash_at(at).run()
        if not life.crashed:
            break
        settle(life)
        assert life.toolbox.files["v"] == "2", f"killed at boundary {at}: {life.states()}"


def test_a_claim_needs_an_approver_whatever_policy_allows():
    life = Scenario(step("mail", idempotent=True))
    life.workspace.configuration_text = b'[policy]\nallow = ["opaque"]\n'
    asyncio.run(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM))
    with pytest.raises(Refused) as refused:
        life.prepare().run()
    assert codes(refused) == ["E_PLAN_APPROVAL_MISSING"]


@pytest.mark.parametrize("after", [None, b"", b'[policy]\nallow = ["opaque"]\n', b"not toml"])
def test_what_was_trusted_stays_in_force_whatever_becomes_of_the_file(after):
    life = Scenario(step("a", tool="list_files"))
    life.workspace.configuration_text = b'[policy]\ndeny = ["reads"]\n'
    asyncio.run(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM))
    life.workspace.configuration_text = after
    with pytest.raises(Refused) as refused:
        life.prepare()
    assert codes(refused) == ["E_POLICY_DENIED"]
    assert [problem.code for problem in life.app.workspace.settings()[2]] == ["W_CONFIG_UNTRUSTED"]


def test_a_run_goes_on_only_in_the_directory_it_was_begun_in():
    life = Scenario(step("a", on_failure=Escalate()), step("b")).script(a=1).approve().run().answer("a", "skip")
    life.workspace.place = ("/workspace", 1, 2)
    with pytest.raises(Refused) as refused:
        life.resume()
    assert codes(refused) == ["E_PLAN_WORKSPACE"]
    assert life.world.effects == []


def test_preparing_twice_at_once_makes_one_lineage():
    life = Scenario(step("a"))

    async def both():
        await asyncio.gather(*(life.app.plans.prepare_plan(life.plan, KIM) for _ in range(8)))

    asyncio.run(both())
    assert len(life.app.plans.all()) == 1


def test_a_tool_that_breaks_fails_its_step_where_that_does_no_harm():
    life = Scenario(step("look", tool="list_files"))

    async def broken(tool, args, key, **more):
        raise RuntimeError("bug")

    life.toolbox.call = broken
    life.prepare().run()
    assert life.report is not None
    assert (life.status(), "the tool broke" in life.report.steps[0].evidence) == ("failed", True)


def test_stopping_in_the_last_step_still_ends_the_run():
    life = Scenario(step("a"))

    async def stopping(command):
        life.app.runs.stop()
        return Finished(duration_ms=1, exit_code=0)

    life.script(a=stopping).approve().run()
    assert life.status() == "completed"


def test_a_busy_ledger_is_waited_for():
    life = Scenario(step("a")).approve()
    real, busy = life.ledger.append, [True, True, True]

    async def append(now, *appends):
        if len(appends) == 1 and busy:
            busy.pop()
            raise refuse("E_LEDGER_BUSY", "locked")
        return await real(now, *appends)

    life.ledger.append = append
    assert life.run().status() == "completed"


def test_a_command_and_its_contract_get_the_steps_variables():
    """As they were approved, with `$${` for a literal `${`."""
    seen = []

    async def note(command):
        seen.append((command.text, command.env.get("WHO"), command.env.get("OPTIONS")))
        return Finished(duration_ms=1, exit_code=0)

    action = RunCommand(command="greet", env={"WHO": "$${kim}", "OPTIONS": "--pretend"})
    life = Scenario(replace(step("a", contract='greeted "$WHO"'), action=action))
    life.shell.script |= {"greet": note, 'greeted "$WHO"': note}
    life.approve().run()
    assert life.status() == "completed"
    # What the contract does not name itself can not change what it proves.
    assert set(seen) == {("greet", "${kim}", "--pretend"), ('greeted "$WHO"', "${kim}", None)}
