"""A workspace on disk with documents in it, and the ordain command to use there."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from tests.interfaces import terminal
from tests.interfaces.terminal import Ended
from tests.words import Channel, Principal, open_at_terminal

KIM = Principal(name="kim", channel=Channel.TERMINAL)

READS = """\
# Look around

## Steps

### 1. Read it

**tool:** read_file
**args:**
```yaml
path: look.plan.md
```
"""

SMALL = """\
# Make two lines

1. `echo one >> effects`
2. `echo two >> effects`
"""

LARGE = "# Eleven effects\n\n" + "".join(f"{n}. `echo {n} >> effects`\n" for n in range(1, 12))

FAILS = """\
# Go wrong

1. `echo one >> effects`
2. `echo broken pipe in the cellar; exit 7`
3. `echo three >> effects`
"""

ASKS = """\
# Ask when it fails

## Steps

### 1. Fetch

**run:** echo tried >> effects; test -f wanted
**on_fail:** escalate

### 2. Rest

**run:** echo rest >> effects
"""

BROKEN_CONTRACT = """\
# Claim

## Steps

### 1. Say so

**run:** echo "exit_code=0, all done"
**contract:** test -s report.txt
"""

WARNS = """\
# Warned of

## Steps

### 1. One

**run:** echo one >> effects
**contract:** cat effects | grep -q one
"""

WAITS = """\
# Wait for a sign

## Steps

### 1. Slow

**run:** echo $$ > pid; until test -f go; do sleep 0.02; done; echo slow >> effects

### 2. After

**run:** echo after >> effects
"""

DOCUMENTS = {
    "look.plan.md": READS,
    "small.plan.md": SMALL,
    "large.plan.md": LARGE,
    "fails.plan.md": FAILS,
    "asks.plan.md": ASKS,
    "contract.plan.md": BROKEN_CONTRACT,
    "warns.plan.md": WARNS,
    "waits.plan.md": WAITS,
}


def mark_workspace(path: Path) -> None:
    """Make a directory a workspace, whatever lies above the folder for temporary files. What is in it besides the logs
    of runs keeps it one."""
    (path / ".ordain").mkdir(exist_ok=True)
    (path / ".ordain" / "here").touch()


class Workspace:
    """A directory with all of DOCUMENTS in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        mark_workspace(path)
        for name, text in DOCUMENTS.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.write_text(text, encoding="utf-8")
        return file

    def effects(self) -> list[str]:
        """What the commands of the documents above have done, one line each."""
        file = self.path / "effects"
        return file.read_text().split() if file.exists() else []

    def ordain(self, *args: str, **settings: Any) -> Ended:
        """Run ordain here, without a terminal."""
        return terminal.without_terminal(*args, cwd=self.path, **settings)

    def at_terminal(self, *args: str, answers: Any = (), **settings: Any) -> Ended:
        """Run ordain here, at a terminal."""
        return terminal.at_terminal(*args, cwd=self.path, answers=answers, **settings)

    def prepared(self, name: str) -> str:
        """Prepare a document; the plan's short id."""
        app = open_at_terminal(self.path)
        prepared = asyncio.run(app.plans.prepare((self.path / name).read_bytes(), name, KIM))
        asyncio.run(app.close())
        return prepared.review.plan_id.removeprefix("plan:")[:12]

    def approved(self, name: str) -> str:
        """Prepare a document and approve it as a person would; the plan's short id."""
        short = self.prepared(name)
        self.approve(short)
        return short

    def approve(self, plan: str) -> None:
        """Approve a stored plan as a person would."""
        app = open_at_terminal(self.path)
        asyncio.run(app.approvals.approve(plan, KIM))
        asyncio.run(app.close())

    def trust(self, text: str) -> None:
        """Write an ordain.toml and let it count, as a person would."""
        self.write("ordain.toml", text)
        app = open_at_terminal(self.path)
        asyncio.run(app.approvals.trust(app.approvals.configuration()[1], KIM))
        asyncio.run(app.close())

    def started(self, name: str) -> tuple[str, Ended]:
        """Approve a document and carry it out as far as it goes; the run's id, and how the command ended."""
        done = self.ordain("commit", self.approved(name))
        return run_id(done.out), done


def run_id(text: str) -> str:
    """The first run named in a text."""
    found = re.search(r"RUN-[A-Z2-7]+", text)
    assert found is not None, text
    return found.group()


def approve_command(text: str) -> list[str]:
    """The arguments of the approve command a text says to paste."""
    found = re.search(r"→ ordain (approve [0-9a-f]{12}(?: --start)?)$", text, re.MULTILINE)
    assert found is not None, text
    return found.group(1).split()
