"""The kill harness: a real `ordain` process, killed with SIGKILL at a seeded moment, resumed until the run ends.

The plan mixes every effect class. Opaque steps write one line each to a file outside ordain's sight; that file is the
truth the harness compares with what ordain believes. Doubts are answered from it, as a careful person would.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from ordain.adapters.processes import mark_of
from ordain.assemble import open_workspace
from ordain.core.approval import Channel, Principal
from ordain.core.report import RunReport

KIM = Principal(name="kim", channel=Channel.TERMINAL)

DOCUMENT = """\
---
type: plan
---

# Survive

**Concurrency:** 3

## Steps

### 1. First

**run:** sleep 0.05; echo first >> effects.log; sleep 0.05

### 2. Write

**needs:** none
**tool:** write_file
**args:**
```yaml
path: settings.txt
content: "mode = one"
```

### 3. Edit

**needs:** write
**tool:** edit_file
**args:**
```yaml
path: settings.txt
old: one
new: two
```
**contract:** grep two settings.txt

### 4. Second

**needs:** first
**run:** echo second >> effects.log; sleep 0.1
**contract:** grep -x second effects.log

### 5. Messy

**needs:** none
**run:** (sleep 300; echo late >> effects.log) & setsid -f sleep 300; echo messy >> effects.log

### 6. Last

**needs:** second, edit, messy
**run:** echo last >> effects.log
**contract:** test "$(sort -u effects.log | wc -l)" -eq 4
"""

OPAQUE = ("first", "second", "messy", "last")


class Victim:
    """One workspace with one approved plan."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "ws"
        self.workspace.mkdir()
        self.effects = self.workspace / "effects.log"
        self.home = folder / "state"
        self.deaths = 0
        os.environ["ORDAIN_HOME"] = str(self.home)

        async def prepared() -> str:
            app = open_workspace(self.workspace, exact=True)
            plan = await app.prepare(DOCUMENT.encode(), "survive.plan.md", KIM)
            await app.approve(plan.review.plan_id, KIM)
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

    def report(self) -> RunReport | None:
        """How the run stands, read from the ledger."""
        app = open_workspace(self.workspace, exact=True)
        review = app.review(self.plan_id)
        report = review.run
        asyncio.run(app.close())
        return report

    def answer_truthfully(self, report: RunReport) -> int:
        happened = Counter(self.effects.read_text().split()) if self.effects.exists() else Counter()

        async def answered() -> None:
            app = open_workspace(self.workspace, exact=True)
            for question in report.questions:
                assert question.kind == "doubt", question
                await app.answer(question.item, "happened" if happened[question.step] else "did-not", KIM)
            await app.close()

        asyncio.run(answered())
        return len(report.questions)

    def leftovers(self, run_id: str) -> list[int]:
        """Processes that outlive their run; one that was killed may take a moment to be gone on a busy machine."""
        end = time.monotonic() + 5
        while True:
            pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
            found = [pid for pid in pids if f"/{run_id}/" in (mark_of(pid) or "")]
            if not found or time.monotonic() > end:
                return found
            time.sleep(0.02)


def kill_and_resume(folder: Path, seed: int, duration_s: float) -> Victim:
    """One seeded life: killed at least once if fate allows, resumed until it ends; then everything is compared."""
    chance = random.Random(seed)
    victim = Victim(folder)
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
    """What ordain believes against the world: every opaque effect once, none lost, nobody left behind."""
    report = victim.report()
    assert report is not None
    effects = Counter(victim.effects.read_text().split())
    assert report.status == "completed", f"{life}: {report}"
    assert effects == Counter(OPAQUE), f"{life}: {effects}"
    assert (victim.workspace / "settings.txt").read_text() == "mode = two", life
    assert victim.leftovers(report.run_id) == [], f"{life}: orphans"


def undisturbed(folder: Path) -> float:
    """How long the run takes when nobody disturbs it: the span over which kills are spread."""
    victim = Victim(folder)
    started = time.monotonic()
    assert victim.ordain("commit", victim.plan_id) == 0
    return time.monotonic() - started
