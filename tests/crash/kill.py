"""The kill harness: a real `ordain` process, killed with SIGKILL at a seeded moment, resumed until the run ends.

The plan mixes every effect class (`world`). Doubts are answered from what really happened, as a careful person would.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.crash import world
from tests.crash.process import KIM
from tests.patience import eventually
from tests.words import RunReport, open_at_terminal


class Victim:
    """One workspace with one approved plan."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "ws"
        self.workspace.mkdir()
        world.furnish(self.workspace)
        self.effects = self.workspace / "effects.log"
        self.home = folder / "state"
        self.deaths = 0
        os.environ["ORDAIN_HOME"] = str(self.home)

        async def prepared() -> str:
            app = open_at_terminal(self.workspace, exact=True)
            plan = await app.plans.prepare(world.document("sleep 0.05"), "survive.plan.md", KIM)
            await app.approvals.approve(plan.review.plan_id, KIM)
            await app.close()
            return str(plan.review.plan_id)

        self.plan_id = asyncio.run(prepared())

    def ordain(self, *words: str, kill_after_s: float | None = None) -> int:
        """Run `ordain` for real; with `kill_after_s`, kill it then, unless it was faster."""
        process = subprocess.Popen(
            [sys.executable, "-m", "ordain", "-C", str(self.workspace), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=kill_after_s if kill_after_s is not None else 60)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            # Not communicate: what the executor left running may hold the pipe open, and that is the point.
            status = process.wait()
            assert process.stdout is not None
            process.stdout.close()
            # It may have ended by itself in the very moment it was to be killed.
            assert status in (-signal.SIGKILL, 0, 1, 3), "it did not die as intended"
            self.deaths += status == -signal.SIGKILL
            return status
        assert b"B_BUG" not in output and b"Traceback" not in output, output.decode()
        return process.returncode

    def kill_at_first_effect(self) -> None:
        """Begin the run, and kill it while most of it is still to come."""
        command = [sys.executable, "-m", "ordain", "-C", str(self.workspace), "commit", self.plan_id]
        said = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, start_new_session=True, **said)
        eventually(self.effects.exists, "an effect")
        process.send_signal(signal.SIGKILL)
        self.deaths += process.wait() == -signal.SIGKILL

    def report(self) -> RunReport | None:
        """How the run stands, read from the ledger."""
        app = open_at_terminal(self.workspace, exact=True)
        review = app.plans.review(self.plan_id)
        report = review.run
        asyncio.run(app.close())
        return report

    def answer_truthfully(self, report: RunReport) -> int:
        async def answered() -> None:
            app = open_at_terminal(self.workspace, exact=True)
            for question in report.questions:
                assert question.kind == "doubt", question
                await app.answers.answer(
                    question.item, "happened" if world.happened(self.workspace, question.step) else "did-not", KIM
                )
            await app.close()

        asyncio.run(answered())
        return len(report.questions)


def kill_and_resume(folder: Path, seed: int, duration_s: float, *, surely: bool = False) -> Victim:
    """One seeded life: killed at least once if fate allows, resumed until it ends; then everything is compared.
    To be killed `surely` is to be killed when the first effect is there, however long that takes."""
    chance = random.Random(seed)
    victim = Victim(folder)
    if surely:
        victim.kill_at_first_effect()
    else:
        victim.ordain("commit", victim.plan_id, kill_after_s=chance.uniform(0.05, duration_s))
    for _ in range(30):
        report = victim.report()
        if report is not None and report.status in ("completed", "failed"):
            break
        if report is None:
            words = ("commit", victim.plan_id)
        else:
            victim.answer_truthfully(report)
            words = ("resume", report.run_id)
        again = chance.random() < 0.4
        victim.ordain(*words, kill_after_s=chance.uniform(0.05, duration_s) if again else None)
    else:
        raise AssertionError(f"seed {seed}: wedged")
    compare(victim, f"seed {seed}")
    return victim


def compare(victim: Victim, life: str) -> None:
    """What ordain believes against the world: every effect once, none lost, nobody left behind."""
    report = victim.report()
    assert report is not None
    assert report.status == "completed", f"{life}: {report}"
    steps = {step.id: (step.state, step.attempts) for step in report.steps}
    world.compare(victim.workspace, steps, completed=True)
    assert world.leftovers(report.run_id) == [], f"{life}: orphans"


def undisturbed(folder: Path) -> float:
    """How long the run takes when nobody disturbs it: the span over which kills are spread."""
    victim = Victim(folder)
    started = time.monotonic()
    assert victim.ordain("commit", victim.plan_id) == 0
    return time.monotonic() - started
