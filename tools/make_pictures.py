"""Pictures of ordain at a real terminal, for the docs: each command runs in tmux, and its screen becomes an SVG.

`make pictures` writes docs/pictures/. Needs tmux. The history that `ordain stats` counts is made with the twins that
the tests use: weeks of runs in a moment, and the same ones every time.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import pwd
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from ordain.adapters.ledger.sqlite import SqliteLedger  # noqa: E402
from ordain.adapters.state.directory import shelf_path  # noqa: E402
from ordain.app.app import App  # noqa: E402
from ordain.ports.process import Command, Finished  # noqa: E402
from tests.scenario import KIM, twin_ports  # noqa: E402
from tests.twins.execution import CountingIds, ManualClock, ScriptedShell  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 110
LINE, CHARACTER, MARGIN = 19, 8.43, 14
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea"}

PLAN = """\
# Release greet 1.1.0

**Context:** The script and its version go out together.
**On failure:** escalate

## Steps

### 1. Raise the version

**id:** raise
**tool:** edit_file
**args:**
```yaml
path: VERSION
old: "1.0.0"
new: "1.1.0"
```
**contract:** grep -x 1.1.0 VERSION

### 2. Check the script

**id:** check
**needs:** none
**run:** bash -n greet.sh

### 3. Package it

**id:** package
**needs:** raise, check
**run:** tar -czf greet.tar.gz greet.sh VERSION
**contract:** tar -xzOf greet.tar.gz VERSION | grep -x 1.1.0
**on_fail:** retry(1), then escalate

### 4. Say so in the log

**id:** log
**needs:** raise
**run:** echo "1.1.0" >> CHANGES
**contract:** grep -x 1.1.0 CHANGES

### 5. Announce it

**id:** announce
**needs:** package, log
**run:** echo "greet 1.1.0 is out" >> outbox.txt
**idempotent:** false
"""
CHANGED = (
    PLAN.replace("**contract:** grep -x 1.1.0 CHANGES\n", "")
    .replace("bash -n greet.sh", "bash greet.sh --self-test")
    .replace("**On failure:** escalate", "**On failure:** continue")
)
MIGRATE = """\
# Move payments to the new cluster

## Steps

### 1. Point the service at the new host

**id:** point
**tool:** edit_file
**args:**
```yaml
path: service.env
old: "db-old.internal"
new: "db-new.internal"
```
**contract:** grep -x DB_HOST=db-new.internal service.env

### 2. Test it

**id:** test
**run:** make test
**contract:** grep -qx passed report.txt

### 3. Deploy it

**id:** deploy
**run:** kubectl --context staging apply -f service.yaml

### 4. Clean up

**id:** clean
**run:** timeout 60 kubectl --context prod delete namespace payments

### 5. Push the change

**id:** push
**run:** git push --force-with-lease origin main
"""
SHOTS = {
    "review": "show migrate.plan.md",
    "show": "show release.plan.md",
    "graph": "show --graph release.plan.md",
    "diff": "diff release.plan.md changed.plan.md",
    "simulate": "simulate release.plan.md",
    "stats": "stats",
}

BUILD = """\
# Build greet everywhere

## Steps

### 1. Find out where

**id:** places
**run:** printf '%s\\n' linux-x64 linux-arm64 macos-arm64 windows-x64

### 2. Build it there

**id:** build
**for_each:** {in: "${places.output}", max: 10, concurrency: 2}
**run:** for part in core cli docs tests; do echo "[$PLACE] building $part"; sleep 0.8; done
**env:**
- PLACE=${item}
**on_fail:** retry(1)

### 3. Ask for the name

**id:** name
**needs:** none
**action:**
```yaml
type: ask
question: What is this release called?
```

### 4. Put it together

**id:** package
**needs:** build
**run:** echo "$NAME"
**env:**
- NAME=${name.output}
"""

NIGHTLY = """\
# Nightly check of greet, night {night}

## Steps

### 1. Fetch what is new

**id:** fetch
**run:** git pull --ff-only
**on_fail:** retry(2)

### 2. Build it

**id:** build
**run:** make -j4
**contract:** ./greet --version

### 3. Test it

**id:** test
**run:** pytest -q
**contract:** grep -x passed report.txt
**on_fail:** retry(1), then escalate

### 4. Publish the page

**id:** publish
**run:** rsync -a site/ web:/srv/greet/
**on_fail:** escalate
"""
SECOND, HOUR, DAY = 1000, 3_600_000, 86_400_000
FIRST_NIGHT = 1_791_075_600_000
NIGHTS, RUNS = 26, 40
USUAL = {
    "git pull --ff-only": (4 * SECOND, 0.12, 1, "fatal: unable to access the remote"),
    "make -j4": (160 * SECOND, 0.0, 2, ""),
    "./greet --version": (1 * SECOND, 0.04, 127, "bash: line 1: ./greet: No such file or directory"),
    "pytest -q": (420 * SECOND, 0.0, 1, ""),
    "grep -x passed report.txt": (2 * SECOND, 0.2, 1, ""),
    "rsync -a site/ web:/srv/greet/": (25 * SECOND, 0.15, 127, "bash: line 1: rsync: command not found"),
}
"""How long each command takes, how often it goes wrong, and how."""


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ordain-") as folder:
        home = Path(folder)
        workspace = home / "greet"
        workspace.mkdir()
        for name, text in (
            ("release.plan.md", PLAN),
            ("changed.plan.md", CHANGED),
            ("build.plan.md", BUILD),
            ("migrate.plan.md", MIGRATE),
            ("service.env", "DB_HOST=db-old.internal\n"),
            ("service.yaml", "kind: Deployment\n"),
            ("Makefile", "test:\n\techo passed > report.txt\n"),
            ("VERSION", "1.0.0\n"),
            ("greet.sh", "echo hello\n"),
            ("CHANGES", "1.0.0\n"),
        ):
            (workspace / name).write_text(text)
        asyncio.run(_live(home / "state", workspace))
        for name, command in SHOTS.items():
            screen = _screen(home, workspace, command)
            # What differs from one making to the next is not worth a difference in the repository.
            screen = screen.replace(str(workspace), "/home/kim/greet")
            (PICTURES / f"{name}.svg").write_text(_svg(screen))
            print(f"docs/pictures/{name}.svg")
        (PICTURES / "live.svg").write_text(_svg(_run_under_way(home, workspace)))
        print("docs/pictures/live.svg")


async def _live(state: Path, workspace: Path) -> None:
    """A month of nightly runs, recorded in the workspace's real ledger."""
    shelf = shelf_path(state, workspace)
    shelf.mkdir(parents=True, mode=0o700)
    for made in (state, state / "workspaces"):
        made.chmod(0o700)
    ledger = SqliteLedger.open(shelf / "ledger.db")
    clock, fate, shell = ManualClock(FIRST_NIGHT), random.Random(4), ScriptedShell()
    for text, usual in USUAL.items():
        shell.script[text] = _taking(clock, fate, *usual)
    app = App(twin_ports(ledger, clock=clock, ids=CountingIds(), shell=shell, boot_id=""))
    for night in sorted(fate.choices(range(NIGHTS), k=RUNS)):
        clock.advance(max(FIRST_NIGHT + night * DAY + fate.randrange(HOUR) - clock.now(), 0))
        document = NIGHTLY.format(night=night + 1).encode()
        plan_id = (await app.plans.prepare(document, "nightly.plan.md", KIM)).review.plan_id
        clock.advance(fate.randrange(2, 40) * 60 * SECOND)
        if fate.random() < 0.1:
            await app.plans.reject(plan_id, KIM, "Not on the night before the release.")
            continue
        await app.approvals.approve(plan_id, KIM)
        report = await app.runs.commit(plan_id, KIM)
        while report.questions:
            clock.advance(fate.randrange(5, 90) * 60 * SECOND)
            await app.answers.answer(report.questions[0].item, fate.choice(["retry", "retry", "skip", "abort"]), KIM)
            clock.advance(fate.randrange(120) * SECOND)
            report = await app.runs.resume(report.run_id)
    await ledger.close()


def _taking(
    clock: ManualClock, fate: random.Random, usual_ms: int, wrong: float, status: int, said: str
) -> Callable[[Command], Awaitable[Finished]]:
    """A command that takes about as long as usual."""

    async def run(command: Command) -> Finished:
        took = round(usual_ms * fate.uniform(0.7, 1.6))
        clock.advance(took)
        failed = fate.random() < wrong
        output = said.encode() if failed else b""
        return Finished(duration_ms=took, exit_code=status if failed else 0, output=output, output_bytes=len(output))

    return run


def _screen(home: Path, workspace: Path, command: str) -> str:
    """What stands on a terminal after the command, with its colours."""
    with _terminal(home, workspace, f"{command}; echo DONE") as terminal:
        shown, done = terminal.until(r"\n(?:\x1b\[[0-9;]*m)*DONE")
        return f"\x1b[1m$ ordain {command}\x1b[0m\n" + shown[: done.start()]


def _run_under_way(home: Path, workspace: Path) -> str:
    """What stands there while a run goes on, from the yes on."""
    command = "run build.plan.md"
    with _terminal(home, workspace, command) as terminal:
        _, asked = terminal.until(r"short id \((\w+)\)")
        terminal.type(asked[1])
        shown, _ = terminal.until(r"(?s)building docs.*building docs.*(?:ask|name)")
    shown = re.sub(r"RUN-[A-Z2-7]{16}", "RUN-Q5ZKL2VXCTN7AE4M", shown)
    return f"\x1b[1m$ ordain {command}\x1b[0m\n  …\n" + shown[re.search(r"(?m)^.*short id", shown).start() :]  # type: ignore[union-attr]


class _Terminal:
    """A terminal of tmux in which ordain runs."""

    def __init__(self, tmux: list[str], env: dict[str, str]) -> None:
        self._tmux, self._env = tmux, env

    def until(self, pattern: str) -> tuple[str, re.Match[str]]:
        """What stands there, with its colours, once it matches; and where it does."""
        for _ in range(400):
            capture = [*self._tmux, "capture-pane", "-p", "-e"]
            shown = subprocess.run(capture, env=self._env, check=True, capture_output=True, text=True).stdout
            if found := re.search(pattern, shown):
                return shown, found
            time.sleep(0.05)
        raise TimeoutError(pattern)

    def type(self, line: str) -> None:
        subprocess.run([*self._tmux, "send-keys", line, "Enter"], env=self._env, check=True)


@contextlib.contextmanager
def _terminal(home: Path, workspace: Path, command: str) -> Iterator[_Terminal]:
    tmux = ["tmux", "-u", "-S", str(home / f"socket-{command.split()[0]}{len(command)}"), "-f", "/dev/null"]
    # The account's own home, for another is called unusual; what it configures stays out.
    env = {"PATH": os.environ["PATH"], "HOME": pwd.getpwuid(os.getuid()).pw_dir, "XDG_CONFIG_HOME": str(home)}
    env |= {"ORDAIN_HOME": str(home / "state"), "TERM": "xterm-256color"}
    env |= {"LC_ALL": "C.UTF-8", "SHELL": "/bin/sh", "PYTHONPATH": str(ROOT / "src")}
    ordain = shlex.join([sys.executable, "-m", "ordain"])
    shell = f"cd {shlex.quote(str(workspace))}; {ordain} {command}; sleep 60"
    subprocess.run([*tmux, "new-session", "-d", "-x", str(COLUMNS), "-y", "120", shell], env=env, check=True)
    try:
        yield _Terminal(tmux, env)
    finally:
        subprocess.run([*tmux, "kill-server"], env=env, check=False)


def _svg(screen: str) -> str:
    lines = screen.rstrip("\n").split("\n")
    width, height = round(COLUMNS * CHARACTER + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
    rows = [
        f'<text x="{MARGIN}" y="{MARGIN + LINE * number + 14}" xml:space="preserve">{_spans(line)}</text>'
        for number, line in enumerate(lines)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="#e6edf3">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )


def _spans(line: str) -> str:
    """A line with its colours as SVG; only what ordain itself uses is known."""
    made: list[str] = []
    style: dict[str, str] = {}
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b"):
            for code in part[2:-1].split(";"):
                _apply(code, style)
        elif part:
            said = "".join(f' {name}="{value}"' for name, value in style.items())
            text = html.escape(part)
            made.append(f"<tspan{said}>{text}</tspan>" if said else text)
    return "".join(made)


def _apply(code: str, style: dict[str, str]) -> None:
    match code:
        case "" | "0":
            style.clear()
        case "1":
            style["font-weight"] = "bold"
        case "2":
            style["fill-opacity"] = "0.6"
        case "22":
            style.pop("font-weight", None)
            style.pop("fill-opacity", None)
        case "39":
            style.pop("fill", None)
        case _ if code in COLOURS:
            style["fill"] = COLOURS[code]


if __name__ == "__main__":
    main()
