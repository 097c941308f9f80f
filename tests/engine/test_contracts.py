"""Contracts in whole lives: protected files, proof that a contract can be broken, expressions; crashes everywhere."""

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.build import step
from tests.engine.test_life import settle
from tests.scenario import ROBOT, Scenario
from tests.words import (
    Continue,
    Contract,
    ContractSeen,
    CustomCondition,
    Escalate,
    FilesProtected,
    Finished,
    NoCheck,
    ProtectedChanged,
    Refused,
    Retry,
    Skip,
    ToolResult,
    Verification,
    refuse,
)

WELL = Finished(duration_ms=1, exit_code=0)
TESTS = {"tests/a.py": b"assert a", "tests/b.py": b"assert b", "src/a.py": b"a"}


def guarded(*steps, protect=("tests/**",), **fields) -> Scenario:
    """A scenario in a workspace with tests that nobody may change."""
    life = Scenario(*steps, protect=protect, **fields)
    life.workspace.documents.update(TESTS)
    return life


def doing(life: Scenario, change, *, times: int | None = None, exit_code: int = 0):
    """A command that does something to the workspace's documents, so many times; then it does nothing."""
    left = itertools.count() if times is None else iter(range(times))

    async def command(_):
        if next(left, None) is not None:
            change(life.workspace.documents)
        life.world.boundary()
        return Finished(duration_ms=1, exit_code=exit_code)

    return command


def edit(documents):
    documents["tests/a.py"] = b"assert True"


def remove(documents):
    del documents["tests/b.py"]


def add(documents):
    documents["tests/new.py"] = b"assert new"


NEW = {"path": "tests/new.py", "content": "assert new"}


def calling(life: Scenario, change):
    async def call(*_, **more):
        change(life.workspace.documents)
        return ToolResult()

    return call


def found_tests(life: Scenario) -> dict[str, bytes]:
    return {path: data for path, data in life.workspace.documents.items() if path in TESTS}


def events(life: Scenario, kind: type) -> list:
    return [event for _, event in life.history() if isinstance(event, kind)]


def report(life: Scenario, name: str):
    assert life.report is not None
    return next(one for one in life.report.steps if one.id == name)


# --- Protected files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contract", [None, "check a"])
@pytest.mark.parametrize(("change", "words"), [(edit, "`tests/a.py` has changed"), (remove, "`tests/b.py` is gone")])
def test_a_protected_file_that_changed_fails_the_step_and_is_put_back(change, words, contract):
    life = guarded(step("a", contract=contract))
    life.script(a=doing(life, change)).approve().run()
    assert life.status() == "failed"
    found = report(life, "a")
    assert (found.error, found.tampered) == ("F_CONTRACT_TAMPERED", (words,))
    assert words in found.evidence
    assert found_tests(life) == TESTS


def test_new_files_are_tampering_and_set_aside():
    life = guarded(step("a", contract="check a", on_failure=Retry(max_attempts=2)))
    life.script(a=doing(life, add, times=1)).approve().run()
    assert "tests/new.py" not in life.workspace.documents
    (tampered,) = events(life, ProtectedChanged)
    assert (tampered.files, tampered.steps) == (("`tests/new.py` is new",), ("a",))


@pytest.mark.parametrize(
    "path", ["tests/conftest.py", "conftest.py", "tests/test_a/__init__.py", "json.py", "pytest.ini"]
)
def test_new_files_that_change_how_protected_ones_are_loaded_are_tampering(path):
    life = guarded(step("a"), protect=("tests/test_*.py",))
    life.workspace.documents["tests/test_a.py"] = b"assert a"
    life.script(a=doing(life, lambda documents: documents.update({path: b"evil", "src/x.py": b"x"}))).approve().run()
    assert (life.status(), report(life, "a").error) == ("failed", "F_CONTRACT_TAMPERED")
    assert path not in life.workspace.documents and "src/x.py" in life.workspace.documents


def test_caches_are_no_tampering_and_gone_before_the_contract():
    seen = []
    life = guarded(step("a", contract="look"))
    cached = {"tests/__pycache__/a.cpython-311.pyc": b"evil", "tests/.pytest_cache/x": b"x"}

    async def look(_):
        seen.append("tests/__pycache__/a.cpython-311.pyc" in life.workspace.documents)
        life.workspace.documents.update(cached)
        return WELL

    life.shell.script["look"] = look
    life.script(a=doing(life, lambda documents: documents.update(cached))).approve().run()
    assert (life.status(), seen) == ("completed", [False])


def test_new_files_that_a_step_may_write_are_allowed_and_protected_from_the_steps_after():
    life = guarded(step("a", tool="write_file", args=NEW), step("b", on_failure=Continue()))
    life.toolbox.call = calling(life, add)

    def spoil(documents):
        documents["tests/new.py"] = b"assert True"

    life.script(b=doing(life, spoil)).approve().run()
    life.expect(a="passed", b="failed")
    assert life.workspace.documents["tests/new.py"] == b"assert new"


def test_a_step_may_mend_the_new_files_it_made_itself():
    life = guarded(step("a", tool="write_file", args=NEW, contract="check a", on_failure=Retry(max_attempts=3)))
    drafts = iter([b"one", b"two"])

    def drafting(documents):
        documents["tests/new.py"] = next(drafts)
        if documents["tests/new.py"] == b"two":
            life.world.effects.append("a")

    life.toolbox.call = calling(life, drafting)
    life.approve().run()
    assert (life.status(), life.workspace.documents["tests/new.py"]) == ("completed", b"two")


def test_files_are_put_back_before_the_next_attempt_and_the_contract_is_not_asked():
    seen = []
    life = guarded(step("a", contract="look", on_failure=Retry(max_attempts=2)))

    async def a(_):
        seen.append(("effect", found_tests(life) == TESTS))
        if len(seen) == 1:
            edit(life.workspace.documents)
        return WELL

    async def look(_):
        seen.append(("contract", found_tests(life) == TESTS))
        return WELL

    life.script(a=a)
    life.shell.script["look"] = look
    life.approve().run()
    assert life.status() == "completed"
    assert seen == [("effect", True), ("effect", True), ("contract", True)]


@pytest.mark.parametrize("policy", [Skip(), Continue()])
def test_files_are_put_back_before_the_run_goes_on_whatever_became_of_the_step(policy):
    life = guarded(step("a", on_failure=policy), step("b", needs=()), concurrency=1)
    seen = []

    async def b(_):
        seen.append(found_tests(life) == TESTS)
        return WELL

    life.script(a=doing(life, edit, exit_code=1), b=b).approve().run()
    assert seen == [True]
    assert "exit status 1; protected files changed" in report(life, "a").evidence
    assert report(life, "a").error == "F_CONTRACT_TAMPERED"


def test_a_contract_that_changes_protected_files_is_broken_though_it_exits_with_0():
    """A contract runs what the step has made; that could mend the tests while they are read."""
    life = guarded(step("a", contract="look"))
    life.shell.script["look"] = doing(life, edit)
    life.approve().run()
    assert (life.status(), report(life, "a").error) == ("failed", "F_CONTRACT_TAMPERED")
    assert found_tests(life) == TESTS


def test_what_changes_while_several_steps_are_at_work_counts_against_all_of_them():
    life = guarded(step("a", needs=()), step("b", needs=()), on_failure=Continue())
    done = asyncio.Event()

    async def a(_):
        edit(life.workspace.documents)
        await done.wait()
        return WELL

    async def b(_):
        for _ in range(5):
            await asyncio.sleep(0)
        return WELL

    life.script(a=a, b=b).approve()

    def watch(recorded):
        if isinstance(recorded.event, ProtectedChanged):
            done.set()

    asyncio.run(life.app.runs.commit(str(life.plan_id), ROBOT, watch))
    life.expect(a="failed", b="failed")
    (changed,) = events(life, ProtectedChanged)
    assert sorted(changed.steps) == ["a", "b"]


def test_what_changes_while_nobody_is_at_work_is_put_back_and_is_nobodys_fault():
    life = guarded(step("a", on_failure=Escalate()), step("b")).script(a=1).approve().run()
    edit(life.workspace.documents)
    life.script(a=0).answer("a", "retry").resume()
    life.expect(a="passed", b="passed")
    assert [event.steps for event in events(life, ProtectedChanged)] == [()]
    assert found_tests(life) == TESTS


def test_a_steps_own_protection_is_its_own_affair():
    life = guarded(step("a", protect=("tests/a*",)), step("b", needs="a"), protect=())
    life.script(b=doing(life, edit)).approve().run()
    assert (life.status(), life.workspace.documents["tests/a.py"]) == ("completed", b"assert True")
    life = guarded(step("a", protect=("tests/a*",)), protect=())
    life.script(a=doing(life, edit)).approve().run()
    assert (life.status(), found_tests(life)) == ("failed", TESTS)


def test_content_is_kept_under_seals_and_never_hashed_in_the_open():
    life = guarded(step("a")).approve().run()
    (kept,) = events(life, FilesProtected)
    assert set(kept.of_plan) == {"tests/a.py", "tests/b.py"}
    for path, file in kept.of_plan.items():
        assert file.seal.startswith("hmac-sha256:")
        assert life.ledger.kept(file.seal) == TESTS[path]


def test_too_much_to_protect_is_refused_before_anything_is_spent():
    life = guarded(step("a")).approve()
    life.protection.files_max = 1
    with pytest.raises(Refused) as refused:
        life.run()
    assert [problem.code for problem in refused.value.problems] == ["E_PROTECT"]
    life.protection.files_max = 10
    assert life.run().status() == "completed"


def test_too_much_that_came_to_be_while_it_ran_fails_the_step_before_its_effect():
    life = guarded(step("a", tool="write_file", args=NEW), step("b"))
    life.protection.files_max = 2
    life.toolbox.call = calling(life, add)
    life.approve().run()
    assert report(life, "b").error == "F_PROTECT_FAILED"
    assert "b" not in life.world.effects


def test_a_run_stops_where_a_file_cannot_be_put_back_and_goes_on_when_it_can():
    life = guarded(step("a", on_failure=Retry(max_attempts=2)))
    life.script(a=doing(life, edit, times=1)).approve()
    restore = life.protection.restore

    async def refusing(files):
        raise refuse("E_PROTECT", "The protected file cannot be put back.")

    life.protection.restore = refusing
    with pytest.raises(Refused) as refused:
        life.run()
    assert [problem.code for problem in refused.value.problems] == ["E_PROTECT", "F_RUN_STOPPED"]
    life.protection.restore = restore
    life.resume().answer("a", "did-not").resume()
    assert (life.status(), found_tests(life)) == ("completed", TESTS)


def test_a_person_may_still_pass_a_step_that_changed_protected_files():
    life = guarded(step("a", contract="check a", on_failure=Escalate()))
    life.script(a=doing(life, edit)).approve().run().answer("a", "pass").resume()
    assert (life.status(), report(life, "a").evidence) == ("completed", "unverified: kim said so (pass)")
    assert found_tests(life) == TESTS


def test_a_stopped_step_leaves_no_changed_file_behind():
    life = guarded(step("long", needs=()), step("bad", needs=()))

    async def long(_):
        edit(life.workspace.documents)
        await asyncio.Event().wait()

    async def bad(_):
        for _ in range(5):
            await asyncio.sleep(0)
        return Finished(duration_ms=1, exit_code=1)

    life.script(long=long, bad=bad).approve().run()
    life.expect(long="cancelled", bad="failed")
    assert found_tests(life) == TESTS


# --- Red, then green -------------------------------------------------------------------------------------------------


def proving(**fields) -> Scenario:
    return Scenario(step("a", contract="check a", proof="red-then-green", **fields))


def test_a_contract_that_was_seen_broken_may_hold():
    life = proving().approve().run()
    assert (life.status(), life.world.effects) == ("completed", ["a"])
    (seen,) = events(life, ContractSeen)
    assert seen.evidence.verdict.value == "broken"
    found = report(life, "a")
    assert found.seen_before is not None and found.seen_before.exit_code == 1
    assert found.verified is not None and found.verified.exit_code == 0


def test_a_contract_that_holds_already_lets_nothing_begin():
    life = proving(on_failure=Retry(max_attempts=3))
    life.world.effects.append("a")
    life.approve().run()
    assert (life.status(), life.world.effects) == ("failed", ["a"])
    assert (report(life, "a").error, report(life, "a").attempts) == ("F_CONTRACT_GREEN_BEFORE", 3)
    assert "do a" not in [command.text for command in life.shell.calls]


def test_a_contract_that_cannot_be_judged_before_lets_nothing_begin():
    life = proving(on_failure=Escalate())
    life.shell.script["check a"] = Finished(duration_ms=60_000, timed_out=True)
    life.approve().run()
    life.expect(a="escalated")
    assert (report(life, "a").error, life.world.effects) == ("F_CONTRACT_INCONCLUSIVE", [])


def test_red_once_is_enough_for_all_attempts():
    """The first attempt does its work, and its contract cannot be judged; the second finds it done."""
    life = proving(on_failure=Retry(max_attempts=2))
    answers = iter([1, Finished(duration_ms=1, timed_out=True), 0])

    async def check(_):
        answer = next(answers)
        return answer if isinstance(answer, Finished) else Finished(duration_ms=1, exit_code=answer)

    life.shell.script["check a"] = check
    life.approve().run()
    assert (life.status(), life.world.effects) == ("completed", ["a", "a"])


# --- Other verifications ---------------------------------------------------------------------------------------------


def verified(strategy, **fields) -> Scenario:
    return Scenario(replace(step("a", **fields), verification=Verification(strategy=strategy)))


def saying(output: bytes) -> Finished:
    return Finished(duration_ms=1, exit_code=0, output=output, output_bytes=len(output))


@pytest.mark.parametrize(
    ("expression", "status", "error"),
    [
        ('output.contains("ok") && exit_code == 0', "completed", None),
        ('steps["a"].output.matches("^ok")', "completed", None),
        ('output == "exit_code=0"', "failed", "F_CONTRACT_BROKEN"),
        ("int(output) > 0", "failed", "F_CONTRACT_INCONCLUSIVE"),
    ],
)
def test_an_expression_is_asked_of_what_the_harness_saw(expression, status, error):
    life = verified(CustomCondition(name="fine", expression=expression)).script(a=saying(b"ok then")).approve().run()
    assert (life.status(), report(life, "a").error) == (status, error)
    if error is None:
        assert report(life, "a").evidence == "verification held"


def test_an_expression_can_be_asked_again_after_a_crash():
    life = verified(CustomCondition(name="fine", expression='output.contains("ok")')).script(a=saying(b"ok")).approve()
    for boundary in range(1, 60):
        life = Scenario(plan=life.plan).script(a=saying(b"ok")).approve().crash_at(boundary).run()
        if "verifying" in life.states().values():
            break
    settle(life)
    assert (life.status(), report(life, "a").attempts) == ("completed", 1)


def test_no_check_passes_on_the_steps_own_result():
    assert verified(NoCheck()).approve().run().status() == "completed"
    assert verified(NoCheck()).script(a=1).approve().run().status() == "failed"


def test_a_contract_is_held_by_its_output_too():
    contract = Contract(command="look", stdout="^3 passed$")
    for output, status in ((b"3 passed", "completed"), (b"13 passed", "failed")):
        life = verified(contract)
        life.shell.script["look"] = saying(output)
        assert life.approve().run().status() == status


def test_evidence_says_what_was_run_with_what_and_where():
    life = Scenario(step("a", contract="check a"))
    life.workspace.head = "c0ffee"
    life.shell.environment = lambda names: {"PATH": "/bin", "HOME": "/home/kim-secret"}
    life.approve().run()
    found = report(life, "a").verified
    assert found is not None
    assert (found.git_head, found.env_names) == ("c0ffee", ("HOME", "PATH"))
    assert found.env_seal.startswith("hmac-sha256:") and found.command_sha256.startswith("sha256:")
    assert "kim-secret" not in repr(life.history())


# --- Crashes ---------------------------------------------------------------------------------------------------------


def hostile() -> Scenario:
    """Steps that change protected files once each; two want proof; one edits through a tool, with a sound contract."""
    life = guarded(
        step("write", tool="write_file", args={"path": "a.txt", "content": "one"}),
        step("a", contract="check a", proof="red-then-green"),
        step("b", needs="a", protect=("src/**",)),
        step(
            "edit",
            needs="b",
            tool="edit_file",
            args={"path": "a.txt", "old": "one", "new": "two"},
            contract="a is two",
            proof="red-then-green",
        ),
        on_failure=Retry(max_attempts=9),
    )
    guilty = {"a": edit, "b": lambda documents: documents.update({"src/a.py": b"spoilt"})}

    def once(name):
        async def command(_):
            life.world.boundary()
            guilty.pop(name, lambda documents: None)(life.workspace.documents)
            life.world.boundary()
            life.world.effects.append(name)
            life.world.boundary()
            return WELL

        return command

    async def is_two(_):
        assert found_tests(life) == TESTS, "a contract ran while protected files were changed"
        return Finished(duration_ms=1, exit_code=0 if life.toolbox.files.get("a.txt") == "two" else 1)

    async def check_a(_):
        assert found_tests(life) == TESTS, "a contract ran while protected files were changed"
        return Finished(duration_ms=1, exit_code=0 if "a" in life.world.effects else 1)

    life.script(a=once("a"), b=once("b"))
    life.shell.script |= {"a is two": is_two, "check a": check_a}
    return life


def boundaries() -> int:
    life = hostile().approve()
    life.world.new_executor()
    asyncio.run(life.app.runs.commit(str(life.plan_id), ROBOT))
    return life.world.boundaries


def finish(life: Scenario) -> None:
    settle(life, limit=12)
    assert life.status() == "completed"
    assert found_tests(life) == TESTS
    assert life.toolbox.files == {"a.txt": "two"}
    blamed = {name for event in events(life, ProtectedChanged) for name in event.steps}
    assert blamed == {"a", "b"}, "a change was put back and never recorded, or an innocent step was blamed"


def test_the_hostile_life_goes_through_everything():
    life = hostile().approve().run()
    assert [event.steps for event in events(life, ProtectedChanged)] == [("a",), ("b",)]
    finish(life)


@pytest.mark.part(of=12)
@pytest.mark.parametrize("first", range(1, boundaries() + 1))
def test_stop_at_every_boundary(first):
    life = hostile().approve().crash_at(first).run()
    assert life.crashed
    finish(life)


@pytest.mark.part(of=27)
@pytest.mark.parametrize("second", range(1, boundaries() + 4, 3))
def test_stop_again_during_recovery(second):
    for first in range(second % 3 + 3, boundaries(), 4):
        life = hostile().approve().crash_at(first).run()
        if life.run_id() is None:
            continue
        life.crash_at(second).resume()
        if not life.crashed:
            assert life.report is not None
            for question in life.report.questions:
                life.answer(question.step, "happened" if question.step in life.world.effects else "did-not")
        finish(life)


def test_a_doubt_that_is_said_to_have_happened_does_not_hide_a_changed_file():
    """The effect changed a test, the executor died, and a person says that it happened."""
    life = guarded(step("a", contract="look", on_failure=Escalate()))

    async def dies(_):
        edit(life.workspace.documents)
        life.world.dead = True
        life.world.boundary()

    life.script(a=dies).approve().run().resume()
    life.expect(a="in_doubt")
    assert found_tests(life) == TESTS
    life.answer("a", "happened").resume()
    life.expect(a="escalated")
    assert report(life, "a").error == "F_CONTRACT_TAMPERED"
    assert "look" not in [command.text for command in life.shell.calls]


CHANGES = st.sampled_from(["edit", "remove", "add", "nothing", "spoil new"])


@pytest.mark.slow
@given(
    st.lists(st.tuples(CHANGES, st.booleans(), st.sampled_from([0, 0, 1])), min_size=1, max_size=5),
    st.integers(1, 60),
    st.booleans(),
)
@settings(max_examples=60)
def test_whatever_steps_do_protected_files_are_as_they_were(doings, crash, parallel):
    """Any steps, any crash: old files are never lost, and no step that changed one passes."""
    life = guarded(
        *(
            step(f"s{n}", needs=() if parallel else None, contract=f"check s{n}" if checked else None, idempotent=True)
            for n, (_, checked, _) in enumerate(doings)
        ),
        on_failure=Continue(),
    )
    acts = {
        "edit": edit,
        "remove": lambda documents: documents.pop("tests/b.py", None),
        "add": add,
        "nothing": lambda documents: None,
        "spoil new": lambda documents: documents.update({"tests/new.py": b"spoilt"}),
    }

    def command(name, act, status):
        async def run(_):
            acts[act](life.workspace.documents)
            life.world.boundary()
            life.world.effects.append(name)
            return Finished(duration_ms=1, exit_code=status)

        return run

    life.script(**{f"s{n}": command(f"s{n}", act, status) for n, (act, _, status) in enumerate(doings)})
    life.approve().crash_at(crash).run()
    settle(life)
    assert found_tests(life) == TESTS
    for n, (act, _, _) in enumerate(doings):
        if act in ("edit", "remove"):
            assert life.states()[f"s{n}"] in ("failed", "cancelled")
