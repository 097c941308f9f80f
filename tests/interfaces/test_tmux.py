"""What a person sees on a real screen: ordain in tmux, with text from plans that would rather not be seen."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.interfaces.terminal import ORDAIN
from tests.interfaces.workspace import Workspace
from tests.patience import PATIENCE_S, eventually
from tests.programs import need
from tests.words import visible

T = TypeVar("T")

pytestmark = pytest.mark.slow("a real terminal emulator, by tmux")

# Nothing of the user's own configuration, room for everything, and screens that stay when the command has ended.
SETTINGS = """\
set -g remain-on-exit on
set -g history-limit 50000
set -g status off
"""


class Screen:
    """A tmux server of its own with one pane."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._tmux = [need("tmux"), "-u", "-S", str(directory / "socket"), "-f", str(directory / "settings")]
        (directory / "settings").write_text(SETTINGS)

    def open(self, *args: str, cwd: Path, columns: int = 200, rows: int = 60) -> None:
        """Run ordain in a new pane."""
        command = shlex.join([*ORDAIN, *args])
        size = ["-x", str(columns), "-y", str(rows)]
        # Somebody stays at the terminal, also after an interrupt: tmux itself hides the cursor where nobody does.
        whole = f"trap : INT; {command}; echo ORDAIN EXITED WITH $?; exec sleep 1000"
        self._do("new-session", "-d", *size, "-c", str(cwd), whole)

    def type(self, line: str) -> None:
        self._do("send-keys", "-l", line)
        self._do("send-keys", "Enter")

    def press(self, keys: str) -> None:
        """Type without Enter, or press the key of that name."""
        self._do("send-keys", *([] if keys == "Enter" else ["-l"]), keys)

    def shown(self, *options: str) -> str:
        """Everything that was ever on the screen, long lines whole."""
        return self._do("capture-pane", "-p", "-J", "-S", "-", *options)

    def expect(self, text: str) -> str:
        """Wait until the text is on the screen; the whole screen then."""
        return self._eventually(self.shown, lambda shown: text in shown)

    def resize(self, columns: int, rows: int) -> None:
        self._do("resize-window", "-x", str(columns), "-y", str(rows))

    def now(self) -> list[str]:
        """What is on the screen, line by line."""
        return self._do("capture-pane", "-p").rstrip("\n").split("\n")

    def interrupt(self) -> None:
        self._do("send-keys", "C-c")

    def cursor_visible(self) -> bool:
        return self._do("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def wait(self, wanted: Callable[[list[str]], bool]) -> list[str]:
        """Wait until the screen looks so; its lines then."""
        return self._eventually(self.now, wanted)

    def _eventually(self, look: Callable[[], T], wanted: Callable[[T], bool]) -> T:
        """What is seen when it is as wanted; where it never is, the error says what was there."""
        seen: list[T] = []

        def as_wanted() -> bool:
            seen[:] = [look()]
            return wanted(seen[0])

        try:
            eventually(as_wanted)
        except AssertionError:
            pytest.fail(f"not as wanted:\n{seen[0]}")
        return seen[0]

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _do(self, *words: str) -> str:
        # Said outright: readline, where it is loaded, adds a size of the terminal behind Python's back.
        env = dict(os.environ)
        done = subprocess.run([*self._tmux, *words], env=env, capture_output=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.decode()


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("SHELL", "/bin/sh")
    with tempfile.TemporaryDirectory(prefix="ordain-") as directory:  # a socket's path must be short
        made = Screen(Path(directory))
        try:
            yield made
        finally:
            made.close()


def test_a_plan_is_shown_approved_and_run_at_a_real_terminal(workspace: Workspace, screen: Screen):
    screen.open("run", "small.plan.md", cwd=workspace.path)
    preview = screen.expect("Type yes")
    assert "$ echo one >> effects" in preview and "completed" not in preview
    screen.type("yes")
    report = screen.expect("ORDAIN EXITED WITH 0")
    assert "Status: completed, 2 of 2 steps passed" in report
    assert "1. passed     echo-one-effects" in report
    assert workspace.effects() == ["one", "two"]


HOSTILE = {
    # What the reader accepts → what must be on the screen.
    "pay\u200bpal": "pay‹U+200B›pal",
    "pay\u200cpal": "pay‹U+200C›pal",
    "pay\u200dpal": "pay‹U+200D›pal",
    "word\u2060joiner": "word‹U+2060›joiner",
    "left\u200eright\u200fmarks": "left‹U+200E›right‹U+200F›marks",
    "mark\u061cletter": "mark‹U+61C›letter",
    "mark\ufeffinside": "mark‹U+FEFF›inside",
    "soft\u00adhyphen": "soft‹U+AD›hyphen",
    "tags\U000e0072\U000e006d\U000e007f": "tags‹U+E0072›‹U+E006D›‹U+E007F›",
    "varied\ufe0f\U000e0100\U000e01ef": "varied‹U+FE0F›‹U+E0100›‹U+E01EF›",
    "filler\u3164\u115f\u2800x": "filler‹U+3164›‹U+115F›‹U+2800›x",
    "grapheme\u034fjoiner": "grapheme‹U+34F›joiner",
    "no\u00a0break\u2003space\u3000x": "no‹U+A0›break‹U+2003›space‹U+3000›x",
    "lines\u2028and\u2029paragraphs": "lines‹U+2028›and‹U+2029›paragraphs",
    "private\ue000\U000f0000x": "private‹U+E000›‹U+F0000›x",
    "unassigned\u0378\U000effffx": "unassigned‹U+378›‹U+EFFFF›x",
    "combining e\u0301\u0308 marks": "combining e\u0301\u0308 marks",
    "right-to-left שלום עולם letters": "right-to-left שלום עולם letters",
    "backslashes \\x1b[2J \\u{202e} \\033]0;x\\a": "backslashes \\x1b[2J \\u{202e} \\033]0;x\\a",
    "looks escaped ‹U+202E›": "looks escaped ‹U+2039›U+202E›",
    "long " + "0123456789" * 150 + " end": "long " + "0123456789" * 150 + " end",
    "interlinear\ufff9note\ufffb": "interlinear‹U+FFF9›note‹U+FFFB›",
}


UNSEEN = [
    # Characters that show nothing, or change how others show; one string each.
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180E, 0x200B, 0x200E, 0x200F),
    *(0x2028, 0x2029, 0x2060, 0x2061, 0x2062, 0x2063, 0x2064, 0x206A, 0x206B, 0x206C, 0x206D, 0x206E, 0x206F, 0x2800),
    *(0x3164, 0xFE00, 0xFE01, 0xFE02, 0xFE07, 0xFE0E, 0xFE0F, 0xFEFF, 0xFFA0, 0xFFF9, 0xFFFA, 0xFFFB, 0x110BD),
    *(0x1BCA0, 0x1BCA1, 0x1BCA2, 0x1BCA3, 0x1D173, 0x1D174, 0x1D175, 0x1D17A, 0xE0001, 0xE0020, 0xE0041, 0xE007A),
    *(0xE007F, 0xE0100, 0xE0101, 0xE01EF),
    # Spaces that are none of the keyboard's.
    *(0xA0, 0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x202F),
    *(0x205F, 0x3000),
    # Private and unassigned ones, for which every font has its own answer.
    *(0xE000, 0xE0FF, 0xF8FF, 0xF0000, 0xFFFFD, 0x100000, 0x10FFFD, 0x378, 0x530, 0xFFFF, 0x1FFFF, 0xEFFFF, 0x10FFFF),
]  # fmt: skip
HOSTILE |= {f"x{chr(point)}y": f"x‹U+{point:X}›y" for point in UNSEEN}
HOSTILE |= {
    f"{word}{chr(point)}": f"{word}‹U+{point:X}›"
    for point in (0x200B, 0x2060, 0x3164)
    for word in ("rm", "ls", "curl", "sudo", "git")
}


def hostile_document() -> str:
    """A step for each: in its title, in a command, and in an argument."""
    lines = ["# Hostile", "", "## Steps", ""]
    for number, text in enumerate(HOSTILE, start=1):
        lines += [f"### {2 * number - 1}. Title {number} {text} |", "", f"**id:** run-{number}"]
        lines += ["**run:**", "```", f"echo command {number} '{text}' '|'", "```", ""]
        lines += [f"### {2 * number}. Write {number}", "", f"**id:** write-{number}", "**tool:** write_file"]
        escaped = "".join(one if one.isascii() and one != "\\" else f"\\U{ord(one):08x}" for one in text)
        lines += ["**args:**", "```yaml", "path: x", f'content: "argument {number} {escaped} |"', "```", ""]
    return "\n".join(lines)


def test_hostile_text_is_escaped_on_the_screen(workspace: Workspace, screen: Screen):
    assert len(HOSTILE) >= 120
    workspace.write("hostile.plan.md", hostile_document())
    screen.open("show", "hostile.plan.md", cwd=workspace.path)
    shown = screen.expect("ORDAIN EXITED WITH 0").replace("\n↪ ", "")
    for number, safe in enumerate(HOSTILE.values(), start=1):
        assert f"Title {number} {safe} |" in shown
        exact = safe.replace("e\u0301\u0308", "e‹U+301›‹U+308›")  # marks that make no known letter, in a command
        assert f"$ echo command {number} '{exact}' '|'" in shown
        assert f"content:  argument {number} {safe} |" in shown
    assert all(visible(line).replace("‹U+2039›", "‹") == line for line in shown.split("\n"))


def test_what_a_command_prints_cannot_touch_the_screen(workspace: Workspace, screen: Screen):
    sequences = r"\033[2J\033[H\033]0;pwned\007\033]52;c;cHduZWQ=\007\033[31m\0337\033[?1049h\r\b\033c\302\2332J"
    workspace.write("prints.plan.md", f"# Prints\n\n1. `printf 'before {sequences} after\\n'; exit 1`\n")
    screen.open("run", "prints.plan.md", cwd=workspace.path)
    screen.expect("Type yes")
    screen.type("yes")
    shown = screen.expect("ORDAIN EXITED WITH 1")
    assert "$ printf 'before" in shown  # the preview is still there
    wanted = (
        (
            "before ‹ESC›[2J‹ESC›[H‹ESC›]0;pwned‹BEL›‹ESC›]52;c;cHduZWQ=‹BEL›‹ESC›[31m‹ESC›7‹ESC›[?1049h‹U+D›‹U+8›"
            "‹ESC›c‹U+9B›2J after"
        )
        .replace("‹ESC›", "‹U+1B›")
        .replace("‹BEL›", "‹U+7›")
    )
    assert wanted in shown


# --- A run while it goes on ------------------------------------------------------------------------------------------

SEQUENCES = r"\033[2J\033[H\033]0;pwned\007\033[31m\0337\033[?1049h\033[?25l\b\033c\302\2332J"
UNDER_WAY = f"""\
# Under way

## Steps

### 1. Prints

**run:** printf 'before {SEQUENCES} after\\n'; for i in $(seq 999); do test -f go && break; sleep 0.03; done; test -f go
**needs:** none

### 2. Fails

**run:** exit 3
**needs:** none
**on_fail:** escalate

### 3. After

**run:** echo after
**needs:** prints, fails
"""


def under_way(workspace: Workspace, screen: Screen, columns: int = 100, rows: int = 24) -> list[str]:
    """A run on the screen, one step of which is at work until `go` is there and has written something."""
    workspace.write("way.plan.md", UNDER_WAY)
    short = workspace.approved("way.plan.md")
    screen.open("commit", short, cwd=workspace.path, columns=columns, rows=rows)
    return screen.wait(lambda lines: any("│ before" in line for line in lines))


def test_how_a_run_stands_is_shown_and_its_output_cannot_touch_the_screen(workspace: Workspace, screen: Screen):
    shown = under_way(workspace, screen)
    region = shown[next(number for number, line in enumerate(shown) if line.startswith("Under way  RUN-")) :]
    assert "  ✗ fails: exit status 3 → escalated" in shown
    assert re.fullmatch(r"─+ 0/3  \d s  1 running  1 waiting  1 left", region[1])
    assert re.fullmatch(r"▸ prints  \d s", region[2])
    assert region[3].startswith("    │ before ‹U+1B›[2J‹U+1B›[H‹U+1B›]0;pwned‹U+7›‹U+1B›[31m‹U+1B›7‹U+1B›[?1049h‹U+1B")
    assert re.fullmatch(r"\? fails: waits for a person: ordain answer RUN-\w+/fails", region[4])
    assert region[5:] == ["· after: needs fails (escalated), prints (running)"]
    assert screen.cursor_visible()
    workspace.write("go", "")
    screen.expect("Enter leaves it open")
    screen.type("")
    whole = screen.expect("ORDAIN EXITED WITH 3")
    assert screen.cursor_visible()
    assert whole.count("▸") == 0 and whole.count("Under way  RUN-") == 0, "the region is gone, the report is there"
    assert "Status: waiting, 1 of 3 steps passed" in whole


def test_a_terminal_of_another_size_is_drawn_anew(workspace: Workspace, screen: Screen):
    under_way(workspace, screen)
    narrow, tiny, wide = r"0/3  \d+ s  1 running  1 waiti…", r"0/3  \d+ s  .?…", r"─+ 0/3 .* 1 left"
    progress = {(30, 10): narrow, (12, 4): tiny, (120, 40): wide}
    for (columns, rows), wanted in progress.items():
        screen.resize(columns, rows)

        def drawn(lines: list[str], wanted: str = wanted) -> bool:
            return [bool(re.fullmatch(wanted, line)) for line in lines if "0/3" in line] == [True]

        shown = screen.wait(drawn)
        assert shown[-1].startswith("· after" if rows > 4 else "? fails")
    workspace.write("go", "")
    screen.expect("leaves it open")
    screen.type("")
    assert "Status: waiting" in screen.expect("ORDAIN EXITED WITH 3")


def test_the_cursor_is_there_after_an_interrupt(workspace: Workspace, screen: Screen):
    under_way(workspace, screen)
    screen.interrupt()
    screen.expect("stopping when what is under way has ended")
    screen.interrupt()
    screen.expect("ORDAIN EXITED WITH 130")
    assert screen.cursor_visible()
    assert sum("0/3" in line for line in screen.now()) == 0


def test_who_watches_from_elsewhere_sees_what_a_step_writes(workspace: Workspace, screen: Screen):
    workspace.write("way.plan.md", UNDER_WAY)
    assert workspace.ordain("commit", "--detach", workspace.approved("way.plan.md")).status == 0
    screen.open("watch", cwd=workspace.path, columns=100, rows=24)
    screen.wait(lambda lines: any("│ before ‹U+1B›[2J" in line for line in lines))
    workspace.write("go", "")
    assert "Status: waiting, 1 of 3 steps passed" in screen.expect("ORDAIN EXITED WITH 3")


def test_a_long_plan_is_paged_back_and_forth(workspace: Workspace, screen: Screen):
    steps = "".join(f"{number}. `echo {number} >> effects`\n" for number in range(1, 301))
    steps += "301. `kubectl --context prod delete namespace payments`\n"
    workspace.write("long.plan.md", f"# Long\n\n{steps}")
    screen.open("run", "long.plan.md", cwd=workspace.path, columns=80, rows=24)

    first = screen.wait(lambda lines: "Enter for more" in lines[-1])
    at = next(number for number, line in enumerate(first) if "step 301" in line)
    assert "delete namespace payments" in " ".join(first[at : at + 2]) and first[0].startswith("Plan: Long")
    screen.press("301s")
    screen.wait(
        lambda lines: any("kubectl --context prod delete" in line for line in lines) and "Plan:" not in lines[0]
    )
    screen.press("b")
    screen.wait(lambda lines: any("295. $ echo 295" in line for line in lines) and "the end" not in lines[-1])
    screen.press("g")
    screen.wait(lambda lines: lines[0].startswith("Plan: Long"))
    screen.press("/echo 150")
    screen.press("Enter")
    screen.wait(lambda lines: "150. $ echo 150" in lines[0])
    screen.press("q")
    screen.expect("Not approved; nothing was run.")
    assert workspace.effects() == []


# --- Questions where somebody sits ----------------------------------------------------------------------------------

TALKS = """\
# Talks

## Steps

### 1. Fetch

**run:** echo tried >> effects; echo no mirror answers
**contract:** echo looked for wanted; test -f wanted
**on_fail:** escalate

### 2. Publish

**run:** echo published >> effects
**approval:** ask
"""


def test_one_whole_conversation(workspace: Workspace, screen: Screen):
    """Approved, asked about a failed contract, checked, left open, taken up again, allowed: on one real screen."""
    workspace.write("talks.plan.md", TALKS)
    screen.open("run", "talks.plan.md", cwd=workspace.path, columns=100, rows=50)
    screen.expect("Type yes")
    screen.type("yes")
    asked = screen.expect("Enter leaves it open")
    for words in ("│ no mirror answers", "Contract: echo looked", "│ looked for wanted", "2  check"):
        assert words in asked, words
    screen.type("check")
    screen.wait(lambda lines: "@2" in "".join(lines) and "Enter leaves it open" in "".join(lines))
    screen.type("")
    assert "Left open. Answer it at any time with: ordain answer RUN-" in screen.expect("ORDAIN EXITED WITH 3")
    workspace.write("wanted", "")
    (directory := screen.directory / "again").mkdir()
    later = Screen(directory)
    later.open("resume", cwd=workspace.path, columns=100, rows=50)
    later.wait(lambda lines: "Enter leaves it open" in "".join(lines))
    later.type("2")
    later.wait(lambda lines: "May `Publish` be done?" in "".join(lines))
    later.type("1")
    later.expect("Sure? Type allow")
    later.type("allow")
    assert "completed, 2 of 2 steps passed" in later.expect("ORDAIN EXITED WITH 0")
    later.close()
    assert workspace.effects() == ["tried", "published"]
