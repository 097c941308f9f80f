"""The built-in tools within a run: what is handed over, what is kept of a result, and what becomes of a crash."""

import asyncio
import os
import shutil
import threading

import pytest

from ordain.adapters.tools import file as moving
from tests.build import step
from tests.scenario import Crash, Scenario
from tests.words import (
    ARTIFACT_BYTES_MAX,
    OUTPUT_BYTES_MAX,
    AttemptEnded,
    Command,
    DoubtSettled,
    Escalate,
    Finished,
    Outcome,
    Sink,
    ToolResult,
    Whole,
    built_in_tools,
    whole_seal,
)


def outcome(life: Scenario, name: str = "a") -> Outcome:
    return next(event.outcome for _, event in life.history() if isinstance(event, AttemptEnded) and event.step == name)


# --- Commands ----------------------------------------------------------------------------------------------------


def test_a_program_is_handed_over_word_by_word_and_otherwise_like_a_command():
    argv = ["printf", "%s", "a b", "$${HOME}"]
    life = Scenario(
        step("a", tool="exec", args={"argv": argv, "env": {"X": "1"}}, timeout_ms=5000),
        step("b", run="printf x", timeout_ms=5000),
    )
    assert life.approve().run().status() == "completed"
    program, command = life.shell.calls
    assert program.argv == ("printf", "%s", "a b", "${HOME}")
    assert (program.text, command.argv) == ("printf %s 'a b' '${HOME}'", ())
    assert program.env.pop("X") == "1"
    assert program.env.keys() == command.env.keys() and program.timeout_ms == command.timeout_ms
    assert program.mark == command.mark.replace("/b/", "/a/")


def test_a_call_of_the_shell_does_what_run_does():
    life = Scenario(step("a", tool="shell", args={"command": "do it $${x}", "env": {"X": "$${y}"}}))
    assert life.approve().run().status() == "completed"
    assert life.world.effects == ["it $${x}"], "bash gets it as it is written"
    assert life.shell.calls[0].env["X"] == "${y}"
    assert outcome(life).exit_code == 0


@pytest.mark.parametrize(
    ("finished", "error", "detail"),
    [
        (Finished(duration_ms=1, exit_code=3, output=b"no", output_bytes=2), "F_STEP_FAILED", "exit status 3"),
        (Finished(duration_ms=1, signal=9), "F_STEP_FAILED", "killed by SIGKILL"),
        (Finished(duration_ms=1, fault="not there"), "F_STEP_FAILED", "could not be started: not there"),
        (Finished(duration_ms=1, timed_out=True), "F_STEP_TIMEOUT", "did not end within 600 s"),
        (
            Finished(duration_ms=1, timed_out=True, still_there="it is stuck"),
            "F_STEP_TIMEOUT",
            "did not end within 600 s, and could not be ended: it is stuck",
        ),
    ],
)
@pytest.mark.parametrize("tool", ["exec", "shell"])
def test_a_program_that_fails_fails_its_step(tool, finished, error, detail):
    args = {"argv": ["do", "a"]} if tool == "exec" else {"command": "do a"}
    life = Scenario(step("a", tool=tool, args=args)).script(a=finished).approve().run()
    seen = outcome(life.expect(a="failed"))
    assert (seen.error, seen.detail, seen.exit_code) == (error, detail, finished.exit_code)
    assert seen.output_tail == finished.output.decode()


OPAQUE = [
    ("exec", {"argv": ["do", "mail"]}),
    ("shell", {"command": "do mail"}),
    ("http_request", {"method": "POST", "url": "http://host/mail"}),
]


@pytest.mark.part(of=3)
@pytest.mark.parametrize(("tool", "args"), OPAQUE)
def test_what_nobody_can_tell_is_done_once_or_asked_about(tool, args):
    """Killed at every boundary; a person who knows the truth answers."""

    def fresh() -> Scenario:
        life = Scenario(step("a", tool=tool, args=args), step("b"))
        life.toolbox.answers["POST http://host/mail"] = ToolResult(output=b"", output_bytes=0)
        return life.approve()

    asked = 0
    for at in range(1, 100):
        life = fresh().crash_at(at).run()
        if not life.crashed:
            break
        while life.run_id() is None or life.app.runs.run(life.run_id()).status not in ("completed", "failed"):
            life = life.run() if life.run_id() is None else life.resume()
            assert life.report is not None
            for question in life.report.questions:
                asked += 1
                sent = {"a": {"mail", "http_request ."}, "b": {"b"}}[question.step]
                life.answer(question.step, "did-not" if sent.isdisjoint(life.world.effects) else "happened")
        life.expect(a="passed", b="passed")
        assert len([effect for effect in life.world.effects if effect != "b"]) == 1, f"killed at boundary {at}"
    assert asked > 2


# --- Files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "args", "left"),
    [("move", {"path": "a", "to": "b"}, {"b": "1"}), ("delete", {"path": "a"}, {})],
)
def test_a_move_or_delete_with_a_good_contract_settles_itself(tool, args, left):
    """Killed at every boundary: in the end it happened exactly once, and nobody was asked."""
    killed = 0
    for at in range(1, 100):
        life = Scenario(step("a", tool=tool, args=args, contract="a is gone"))
        life.toolbox.files["a"] = "1"

        async def gone(command, life=life):
            return Finished(duration_ms=1, exit_code=1 if "a" in life.toolbox.files else 0)

        life.shell.script["a is gone"] = gone
        life.approve().crash_at(at).run()
        if not life.crashed:
            break
        killed += 1
        if life.run_id() is None:
            life.run()
        elif life.app.runs.run(life.run_id()).status != "completed":
            life.resume()
        life.expect(a="passed")
        assert life.toolbox.files == left
        assert life.world.effects.count(f"{tool} a") == 1, f"killed at boundary {at}"
    assert killed > 8


@pytest.mark.parametrize(("tool", "args"), [("move", {"path": "a", "to": "b"}), ("delete", {"path": "a"})])
def test_without_a_contract_a_person_is_asked(tool, args):
    life = Scenario(step("a", tool=tool, args=args))
    life.toolbox.files["a"] = "1"
    life.approve()
    real = life.toolbox.call

    async def dying(*call, **more):
        await real(*call, **more)
        life.world.dead = True
        life.world.boundary()

    life.toolbox.call = dying
    life.run()
    assert life.crashed
    life.toolbox.call = real
    life.resume().expect(a="in_doubt").answer("a", "happened").resume().expect(a="passed")


def test_a_tree_that_was_being_deleted_when_the_executor_died_is_deleted_to_the_end(tmp_path, monkeypatch):
    """It is gone from its path, so the contract holds; but what is left beside it is found, and it is gone on with."""
    for name in ("x", "y"):
        (tmp_path / "d" / name).mkdir(parents=True)
    life = Scenario(step("a", tool="delete", args={"path": "d", "recursive": True}, contract="d is gone"))

    async def gone(command):
        return Finished(duration_ms=1, exit_code=1 if (tmp_path / "d").exists() else 0)

    life.shell.script["d is gone"] = gone
    life.toolbox = built_in_tools(tmp_path)
    life.app = life.new_app()
    life.approve()

    def dies(name, dir_fd):
        os.rmdir(f"{name}/x", dir_fd=dir_fd)
        raise Crash("while it was taken away")

    with monkeypatch.context() as patched:
        patched.setattr(moving.shutil, "rmtree", dies)
        life.run()
    assert life.crashed and os.listdir(tmp_path) == [".ordain-deleted-d"]
    life.resume().expect(a="passed")
    assert os.listdir(tmp_path) == []
    settled = [event for _, event in life.history() if isinstance(event, DoubtSettled)]
    assert [event.to.value for event in settled] == ["pending"]
    assert shutil.rmtree is moving.shutil.rmtree


# --- Results ----------------------------------------------------------------------------------------------------


def kept(life: Scenario) -> bytes | None:
    return life.ledger.kept(outcome(life).output_seal)


def artifact(life: Scenario) -> bytes | None:
    parts = life.ledger.artifact(outcome(life).output_seal)
    return b"".join(parts) if parts is not None else None


SIZES = [OUTPUT_BYTES_MAX - 1, OUTPUT_BYTES_MAX, OUTPUT_BYTES_MAX + 1, 3 * OUTPUT_BYTES_MAX]


@pytest.mark.parametrize("size", SIZES)
def test_a_long_result_is_kept_whole_as_an_artifact(size):
    text = "ä" * (size // 2) + "x" * (size % 2)
    life = Scenario(step("a", tool="read_file", args={"path": "f"}))
    life.toolbox.files["f"] = text
    life.prepare().run()
    seen = outcome(life)
    assert (seen.output_bytes, seen.whole_seal) == (size, "")
    long = size > OUTPUT_BYTES_MAX
    assert (kept(life), artifact(life)) == ((None, text.encode()) if long else (text.encode(), None))
    assert life.report is not None
    assert life.report.steps[0].evidence == "result observed by Ordain"


@pytest.mark.parametrize(("size", "room"), [(ARTIFACT_BYTES_MAX + 1, True), (3_000_000, False)])
def test_of_what_is_not_kept_whole_the_end_is_and_all_of_it_is_committed_to(size, room):
    parts = None if size > ARTIFACT_BYTES_MAX else lambda: iter([b"x" * size])
    end, whole = b"x" * OUTPUT_BYTES_MAX, Whole(size=size, sha256=b"\1" * 32, parts=parts)
    answer = ToolResult(output=end, output_bytes=size, whole=whole)
    life = Scenario(step("a", tool="http_request", args={"url": "http://host/"}))
    life.toolbox.answers["GET http://host/"] = answer
    life.ledger.room_bytes = None if room else 0
    life.approve().run()
    seen = outcome(life)
    assert (kept(life), artifact(life), seen.output_bytes) == (end, None, size)
    assert seen.whole_seal == whole_seal(life.ledger.seal, whole.sha256, size)
    assert (b"\1" * 32).hex() not in str(seen)
    assert life.report is not None
    want = "" if room else ", for want of room"
    said = f"result observed by Ordain; only the last 1 MiB of its {size:,} bytes are kept{want}"
    assert life.report.steps[0].evidence == said


def test_artifacts_of_one_append_have_to_fit_together(monkeypatch):
    size = 3_000_000
    end = b"x" * OUTPUT_BYTES_MAX

    def done(digest: bytes) -> Finished:
        whole = Whole(size=size, sha256=digest * 32, parts=lambda: iter([digest * size]))
        return Finished(duration_ms=1, exit_code=0, output=end, output_bytes=size, whole=whole)

    async def at_once(work, *args, **named):
        return work(*args, **named)

    monkeypatch.setattr(asyncio, "to_thread", at_once)  # both end in one append
    life = Scenario(step("a"), step("b", needs=())).script(a=done(b"1"), b=done(b"2"))
    life.ledger.room_bytes = 5_000_000
    assert life.approve().run().status() == "completed"
    cut = [name for name in "ab" if outcome(life, name).whole_seal]
    assert len(cut) == 1
    assert outcome(life, cut[0]).output_seal == life.ledger.seal(end)


def test_other_steps_go_on_while_secrets_are_looked_for_in_a_long_output(monkeypatch):
    size, went_on, find = 3_000_000, threading.Event(), Sink.hidden
    waited = []

    def find_slowly(self, parts, *, whole):
        found = list(parts)
        if sum(map(len, found)) == size:
            waited.append(went_on.wait(5))
        return find(self, found, whole=whole)

    async def second(command: Command) -> Finished:
        went_on.set()
        return Finished(duration_ms=1, exit_code=0, output=b"", output_bytes=0)

    monkeypatch.setattr(Sink, "hidden", find_slowly)
    whole = Whole(size=size, sha256=b"\1" * 32, parts=lambda: iter([b"x" * size]))
    long = Finished(duration_ms=1, exit_code=0, output=b"x" * OUTPUT_BYTES_MAX, output_bytes=size, whole=whole)
    life = Scenario(step("a"), step("b", needs=())).script(a=long, b=second)
    assert (life.approve().run().status(), waited) == ("completed", [True])


def test_what_an_attempt_wrote_that_failed_is_kept_whole_too():
    size = 3_000_000
    whole = Whole(size=size, sha256=b"\1" * 32, parts=lambda: iter([b"x" * size]))
    end = b"x" * OUTPUT_BYTES_MAX
    life = Scenario(step("a")).script(
        a=Finished(duration_ms=1, exit_code=1, output=end, output_bytes=size, whole=whole)
    )
    life.approve().run()
    seen = outcome(life)
    assert (seen.error, artifact(life)) == ("F_STEP_FAILED", b"x" * size)
    assert (seen.output_seal, seen.whole_seal) == (whole_seal(life.ledger.seal, b"\1" * 32, size), "")


def test_an_artifact_of_a_step_that_spoilt_protected_files_is_kept_too():
    size = 3_000_000
    whole = Whole(size=size, sha256=b"\1" * 32, parts=lambda: iter([b"x" * size]))
    life = Scenario(step("a", protect=("t",)))
    life.workspace.documents["t"] = b"good"

    async def spoils(command: Command) -> Finished:
        assert command.whole
        life.workspace.documents["t"] = b"bad"
        return Finished(duration_ms=1, exit_code=0, output=b"x", output_bytes=size, whole=whole)

    life.script(a=spoils).approve().run()
    assert outcome(life).error == "F_CONTRACT_TAMPERED"
    assert artifact(life) == b"x" * size


def test_the_same_is_said_of_a_command_and_of_a_step_with_a_contract():
    long = Finished(duration_ms=1, exit_code=0, output=b"x" * OUTPUT_BYTES_MAX, output_bytes=5_000_000)
    life = Scenario(step("a"), step("b", contract="look")).script(a=long, b=long).approve().run()
    assert life.report is not None
    assert [one.evidence for one in life.report.steps] == [
        "exit status 0, observed by Ordain; only the last 1 MiB of its 5,000,000 bytes are kept",
        "contract held (exit status 0); only the last 1 MiB of its 5,000,000 bytes are kept",
    ]


def test_an_answer_is_kept_as_it_came_and_shown_also_when_it_was_not_wanted():
    life = Scenario(step("a", tool="http_request", args={"url": "http://host/"}), on_failure=Escalate())
    life.toolbox.answers["GET http://host/"] = ToolResult(output=b"\xff\x00", output_bytes=2)
    life.approve().run()
    assert (kept(life), outcome(life).error) == (b"\xff\x00", None)
    life = Scenario(step("a", tool="http_request", args={"url": "http://host/"}), on_failure=Escalate())
    life.toolbox.answers["GET http://host/"] = ToolResult(
        error="F_STEP_FAILED", detail="the server answered with status 500", output=b"oh no", output_bytes=5
    )
    life.approve().run().expect(a="escalated")
    seen = outcome(life)
    assert (seen.detail, seen.output_tail, kept(life)) == ("the server answered with status 500", "oh no", b"oh no")


def test_a_request_that_takes_too_long_is_cut():
    cut = []

    async def forever(*call, **more):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cut.append(call[0])
            raise

    life = Scenario(step("a", tool="http_request", args={"url": "http://host/"}, timeout_ms=20))
    life.toolbox.call = forever
    life.approve().run().expect(a="failed")
    assert (cut, outcome(life).error) == (["http_request"], "F_STEP_TIMEOUT")


def test_a_tool_that_gives_nothing_back_has_no_output():
    life = Scenario(step("a", tool="write_file", args={"path": "a.txt", "content": "x"}))
    assert life.approve().run().status() == "completed"
    seen = outcome(life)
    assert (seen.output_tail, seen.output_bytes, seen.output_seal) == ("", 0, "")
