"""The main job, on this machine, in about fifteen seconds: a plan is checked, previewed, approved, run, verified by its
contracts, killed with SIGKILL in the middle of a step, and resumed.

Everything shown is the real command with its real output, in a folder and with a state directory of its own that are
thrown away afterwards. What a person would type, the demo types into a pseudo-terminal.
"""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
ORDAIN = [sys.executable, "-m", "ordain"]
COLOUR = sys.stdout.isatty()


CODE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
HALF_CODE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?\Z|\r\Z")


def plain(text: str) -> str:
    """What a program wrote to a terminal, without the codes that move the cursor and colour."""
    text = re.sub(r"\r+\n", "\n", CODE.sub("", text))  # a program's own \r\n leaves the terminal as \r\r\n
    return re.sub(r"[^\n]*\r|[\x00-\x08\x0b-\x1f\x7f]", "", text)


def say(text: str = "") -> None:
    print(f"\x1b[1;34m{text}\x1b[0m" if COLOUR and text else text, flush=True)


def type_command(
    words: list[str], *, answer: tuple[str, str] | None = None, kill_when: Callable[[str], bool] | None = None
) -> tuple[int, str]:
    """Run `ordain …` at a pseudo-terminal, show what it shows, type the answer when asked, kill it when told to."""
    print(f"\n{'$ ordain ' + ' '.join(words)}", flush=True)
    pid, screen = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 80, 140, 0, 0))  # tall enough to need no paging
        os.execv(ORDAIN[0], [*ORDAIN, *words])
    seen, shown, killed = "", "", False
    while True:
        try:
            ready, _, _ = select.select([screen], [], [], 0.05)
            data = os.read(screen, 65536) if ready else b""
        except OSError:  # the other end has gone
            break
        if data:
            seen += data.decode("utf-8", "replace")
            shown += data.decode("utf-8", "replace")
            # What a terminal would draw over itself is left out of a file or pipe; half a code waits for its end.
            if COLOUR or not HALF_CODE.search(shown):
                sys.stdout.write(plain(shown) if not COLOUR else shown.replace("\r\n", "\n"))
                sys.stdout.flush()
                shown = ""
        if answer is not None and answer[0] in seen:
            os.write(screen, (answer[1] + "\n").encode())
            answer = None
        if kill_when is not None and not killed and kill_when(seen):
            os.kill(pid, signal.SIGKILL)
            killed = True
    sys.stdout.write(plain(shown))
    os.close(screen)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), seen


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ordain-demo-") as folder:
        workspace = Path(folder) / "greet"
        shutil.copytree(ROOT / "examples/greet", workspace)
        os.chdir(workspace)
        os.environ["ORDAIN_HOME"] = str(Path(folder) / "state")
        for name in ("LINES", "COLUMNS"):  # the caller's; the pseudo-terminal says its own
            os.environ.pop(name, None)
        if not COLOUR:
            os.environ["NO_COLOR"] = "1"

        say("1. A plan is a document. It is checked before anything runs.")
        type_command(["lint", "release.plan.md"])

        say("\n2. One command previews it, asks for approval, and carries it out. (The demo types `yes` for you.)")
        say("   In the middle of the announcement the executor is killed with SIGKILL, as a crash would.")
        status, seen = type_command(
            ["run", "release.plan.md"],
            answer=("Type yes", "yes"),
            kill_when=lambda screen: "▸ announce" in CODE.sub("", screen),
        )
        assert status == -signal.SIGKILL, f"the executor was to die of SIGKILL; its status is {status}:\n{seen}"
        say("\n   *** killed ***")

        say("\n3. Resume. Finished steps are not repeated. Whether the announcement went out, nobody saw, so it is in")
        say("   doubt: not repeated blindly, not forgotten, but asked about. (The demo types Enter: it stays open.)")
        status, seen = type_command(["resume"], answer=("Your answer", ""))
        found = re.search(r"(RUN-[A-Z2-7]+/announce)", seen)
        assert status == 3 and found, f"a person was to be asked; status {status}"

        sent = Path("outbox.txt").exists()
        say(f"\n4. A person looks: outbox.txt {'is there' if sent else 'is not there'}, so the answer is clear.")
        status, _ = type_command(["answer", found[1], "happened" if sent else "did-not"])
        assert status == 0

        say("\n5. Resume again: the announcement goes out once, the last contract is judged, the run ends.")
        status, _ = type_command(["resume"])
        assert status == 0, f"the run was to complete; status {status}"

        count = Path("outbox.txt").read_text().count("greet 1.1.0 is out")
        say(f"\nThe announcement went out {count} time{'s' * (count != 1)}. Everything above is in the ledger:")
        type_command(["log", found[1].partition("/")[0]])
        say("\nNext: write a plan of your own (README.md shows how) and type: .venv/bin/ordain run YOUR.plan.md")


if __name__ == "__main__":
    main()
