"""A run of opaque steps, killed at random, whose checks are asked in doubt: final and truthful, truthful, without an
answer, and wrong.

Executors, commands, ledger and signals are real. The sandbox is a stand-in for bubblewrap that holds nothing: what is
tried here is who is asked and what that may lead to.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

from tests.crash.process import KIM, Warm
from tests.crash.site import Seen, Site, look_at
from tests.words import BashShell, DecisionGiven, DoubtChecked, StepState, open_at_terminal

__all__ = ["STEPS", "CheckedLife", "stand_in"]

_STAND_IN = """#!{python} -IS
import os, sys
descriptor = int(sys.argv[2])
words = [word.decode() for word in os.pread(descriptor, 1 << 20, 0).split(b"\\0")]
given = words[words.index("--clearenv") + 1 :]
env = dict(zip(given[1::3], given[2::3]))
if (child := os.fork()) == 0:
    directory = words[words.index("--chdir") + 1]
    os.chdir(directory if os.path.isdir(directory) else "/")
    os.execvpe(sys.argv[4], sys.argv[4:], env)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
code = code if code >= 0 else 128 - code
os.pwrite(int(words[words.index("--json-status-fd") + 1]), b'{{"exit-code": %d}}' % code, 0)
os._exit(code)
"""

_DONE = 'grep -qxF "$ORDAIN_STEP $ORDAIN_STEP_KEY" {effects}'
CHECKS = {"final": _DONE, "truthful": _DONE, "unknown": "exit 3", "wrong": "exit 1"}
"""What is asked, by kind."""
STEPS = (*(f"tool-{kind}" for kind in CHECKS), *(f"own-{kind}" for kind in CHECKS if kind != "final"))
_ROUNDS_MAX = 40


def stand_in(folder: Path) -> Path:
    """A program that is called like bubblewrap, and runs what it is given."""
    program = folder / "bwrap"
    program.write_text(_STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    return program


class CheckedLife:
    """One run that is killed at random moments until it has ended."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self.effects = folder / "effects.log"
        self.effects.touch()
        does = f'sleep 0.2; echo "$ORDAIN_STEP $ORDAIN_STEP_KEY" >> {self.effects}; sleep 0.2'
        checks = {kind: check.format(effects=self.effects) for kind, check in CHECKS.items()}
        handlers = [
            f"[actions.{kind}]\ncommand = ['bash', '-c', {does!r}]\nhappened = {check!r}\n"
            + "happened_final = true\n" * (kind == "final")
            for kind, check in checks.items()
        ]
        steps = [f"{{id: tool-{kind}, needs: [], action: {{type: custom, action_type: {kind}}}}}" for kind in checks]
        steps += [
            f"{{id: own-{kind}, needs: [], happened: {_quoted(check)}, "
            f"action: {{type: run, command: {_quoted(does)}}}}}"
            for kind, check in checks.items()
            if kind != "final"
        ]
        lines = "".join(f"  - {step}\n" for step in steps)
        document = f"title: Pay\ntier: 1\nconcurrency: {len(STEPS)}\nsteps:\n{lines}".encode()
        self.site = Site(folder, warm, document)
        (self.site.workspace / "ordain.toml").write_text("\n".join(handlers))
        self.counted: Counter[str] = Counter()
        asyncio.run(self._approve(document))

    async def _approve(self, document: bytes) -> None:
        os.environ["ORDAIN_HOME"] = str(self.site.home)
        app = open_at_terminal(self.site.workspace, exact=True)
        await app.approvals.trust(app.approvals.configuration()[1], KIM)
        await app.plans.prepare(document, "pay.yaml", KIM)
        await app.approvals.approve(self.site.plan_id, KIM)
        await app.close()

    def look(self) -> Seen:
        """What the ledger says, seen in a copy."""
        return look_at(self.site.copied())

    def times(self, step: str) -> int:
        return [line.split()[0] for line in self.effects.read_text().splitlines()].count(step)

    def live(self, seed: int, deaths: int) -> Counter[str]:
        """Be killed so often, if that is possible, and come to an end. Raises AssertionError where an effect was had
        twice, or somebody was asked who need not be."""
        chance, site = random.Random(seed), self.site
        for _ in range(_ROUNDS_MAX):
            runs = self.look().runs
            verb = site.start("resume", runs[0].run_id) if runs else site.start("commit")
            if self.counted["deaths"] < deaths:
                time.sleep(chance.uniform(0.05, 0.9))
                with contextlib.suppress(ProcessLookupError):  # it was faster
                    verb.kill()
            told = verb.end()
            assert not told.bug, told.bug
            if told.status == -9:
                self._died()
            for item in told.questions if told.status != -9 else ():
                step = item.partition("/")[2].partition("@")[0]  # the same step may be asked about again
                word = "happened" if self.times(step) else "did-not"
                assert site.run("answer", item, word).status in (0, 3, 130)
            assert all(self.times(step) <= 1 for step in STEPS), self.effects.read_text()
            if any(run.finished for run in self.look().runs):  # whoever carried it out may have died after that
                self._ended()
                return self.counted
        raise AssertionError(f"seed {seed}: it never ended")

    def _died(self) -> None:
        """Note a death, and in how many steps that were at work."""
        at_work = [
            step for run in self.look().runs for step, one in run.steps.items() if one.state is StepState.RUNNING
        ]
        self.counted["deaths"] += 1
        self.counted["deaths inside"] += bool(at_work)
        self.counted["steps killed"] += len(at_work)

    def _ended(self) -> None:
        seen = self.look()
        (run,) = seen.runs
        assert run.status == "completed" and all(self.times(step) == 1 for step in STEPS), self.effects.read_text()
        answered = {one.event.step for one in seen.events if isinstance(one.event, DecisionGiven)}
        checked = [one.event for one in seen.events if isinstance(one.event, DoubtChecked)]
        assert "tool-final" not in answered, "somebody was asked about what a final and truthful check knows"
        for event in checked:
            self.counted[f"{event.step}: {event.to.value}"] += 1
        again = {step for step, one in run.steps.items() if one.attempts > 1} - answered
        assert again <= {"tool-final"}, f"run again, and nobody said so: {again}"

    def close(self) -> None:
        for run in self.look().runs:
            BashShell(self.site.workspace).sweep(f"{run.workspace_identity.id}/")


def _quoted(text: str) -> str:
    """A text as YAML has it in single quotes."""
    return "'" + text.replace("'", "''") + "'"
