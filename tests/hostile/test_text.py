"""Text that deceives whoever approves it: letters that pass for others, and characters that show nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from tests.interfaces.workspace import Workspace
from tests.rows import each
from tests.words import confusable_places, visible


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    path = tmp_path / "workspace"
    path.mkdir()
    return Workspace(path)


PASSING = [
    "bash d\u0435ploy.sh",  # Cyrillic ie
    "\u0441\u043e\u0440\u0443 a b",  # all Cyrillic, looks like `copy`
    "\u0441\u043e\u0440\u0443 a b # \u043f\u0440\u0438\u0432\u0435\u0442",  # the same beside honest Russian
    "/usr/bin/\u0435nv true",
    "cp \u0430.py b.py",
    "curl https://\u0440\u0430\u0443.com/x",
    "curl https://p\u0430ypal.com/x",
    "\u0261it push",  # phonetic g, a Latin letter
    "\uff47\uff49\uff54 push",  # full width
    "\U0001d420\U0001d422\U0001d42d push",  # mathematical
    "\u13a0eploy",  # Cherokee
    "\u0391\u0392\u0395.sh",  # Greek
    "cat \u212aey",  # the sign of Kelvin
    "rm \u2013rf build",  # en dash
    "curl https://bank.com\u2215login.example.net",  # division slash
    "ls usr\u30cebin",  # katakana no
    "make\u1039 all",  # a mark of another script, drawn as nothing
    "l\u1d0fgin",  # small capital
    "export P\u0410TH=x",
    "g\u0131t push",  # dotless i
    "./\ufb01nd.sh",  # ligature
    "cat \u0185in",  # tone six
    "rm v\u0661.txt",  # Arabic digit
    "cat a\u06f0b",  # drawn as a dot
    "cat 1\u0967",
    "cat \u00e9\u0660x",
    "rm dir\u2216x",  # set minus
    "rm dir\u29f5x",
    "curl http\u0589//x",  # Armenian full stop
    "cat deploy\u00b7sh",  # middle dot
    "cat dep\u2026loy.sh",  # ellipsis
    "cat l\u0335s",  # overlaid
    "cat i\u0307n",  # a dot on a dot
    "cat /\u0301x",  # a mark on a sign
    "bash de\U0001d159ploy.sh",  # a note without a head
    "bash de\u200dploy.sh",  # a joiner
    "bash de\u00a0ploy.sh",  # a blank that is none
    "rm \u3164",  # a filler
]
HONEST = [
    'git commit -m "\u041e\u0448\u0438\u0431\u043a\u0430 \u0441 \u043f\u0443\u0442\u0451\u043c"',
    "cat \u043e\u0442\u0447\u0451\u0442.txt",
    "open \u65e5\u672c\u8a9e\u30d5\u30a1\u30a4\u30ebabc.txt",
    "echo '2\u03c0r 10k\u03a9 5\u00b5s \u0394t'",
    "cat r\u00e9sum\u00e9.pdf Stra\u00dfe.txt",
    "cat \u0645\u0644\u0641.txt \ud55c\uad6d\uc5b4API.md \u0e44\u0e17\u0e22.txt",
    "cat caf\u00e9.txt cafe\u0301.txt Vie\u0323\u0302t.txt \u0438\u0306.txt",
    "cat \u6771\u4eac\u30fb\uff76\uff85\u3f31\u3002.txt \u30cf\u309a.txt",
    "cat \u0645\u0644\u0641\u0662.txt \u092b\u093c\u093e\u0907\u0932\u0940\u0968 \u0e17\u0e33.txt",
    "echo k\u0131l\u0131\u00e7 col\u00b7lecci\u00f3 'Wait\u2026' don\u2019t 1\ufe0f\u20e3",
    "echo \u201cquoted\u201d \u2013 done \u26a0\ufe0f m\u00b2 30\u2103",
]
PROSE = [
    "\u0421\u0443\u0445\u043e \u0438 \u0442\u0435\u043f\u043b\u043e",
    "\u043e\u043d \u0441\u043a\u0430\u0437\u0430\u043b: \u043e\u0445",
    "Deploy \u043d\u0430 \u0441\u0435\u0440\u0432\u0435\u0440 \u0447\u0435\u0440\u0435\u0437 API\u0448\u043a\u0443",
    "\u26a0\ufe0f Careful",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 API",
    "Windows\u306e\u8a2d\u5b9a \u3092 Git",
    "\u0254k\u0254 \u014but\u0254",
]


@pytest.mark.part(of=20)
@pytest.mark.parametrize("command", PASSING, ids=ascii)
def test_a_command_with_letters_that_pass_for_others_is_escaped_and_warned_of(workspace: Workspace, command: str):
    document = workspace.write("x.plan.md", f"# Deploy it\n\n## Steps\n\n### 1. Go\n\n**run:** {command}\n")
    shown = workspace.ordain("show", document.name)
    runs = next(line for line in shown.out.splitlines() if "$ " in line)
    assert "\u2039U+" in runs and command not in shown.out
    answer = json.loads(workspace.ordain("robot", "lint", document.name).out)
    found = [problem for problem in answer["problems"] if problem["code"] == "W_CONFUSABLE"]
    assert len(found) == 1 and found[0]["where"]["step"] == "go" and "\\u" in found[0]["detail"]


def test_paths_arguments_contracts_and_variables_are_looked_at_too(workspace: Workspace):
    text = (
        "# T\n\n## Steps\n\n### 1. a\n\n**tool:** write_file\n**args:**\n```yaml\npath: \u0441\u043e\u0440\u0443.txt\n"
        "content: \u043e\u0445\n```\n\n### 2. b\n\n**run:** true\n**writes:** d\u0435ploy/**\n"
        "\n### 3. c\n\n**run:** true\n**contract:** \u0441\u043e\u0440\u0443 x\n"
        "\n### 4. d\n\n**run:** true\n**env:**\n- P\u0430TH=x\n"
        "\n### 5. e\n\n**task:** \u0421\u0443\u0445\u043e \u0438 \u0441\u044b\u0440\u043e\n**reads:** file:\u0430.txt\n"
    )
    workspace.write("x.plan.md", text)
    answer = json.loads(workspace.ordain("robot", "lint", "x.plan.md").out)
    assert {p["where"]["step"] for p in answer["problems"] if p["code"] == "W_CONFUSABLE"} == {"a", "b", "c", "d", "e"}


def test_a_host_in_another_script_is_shown_as_it_is_asked_for(workspace: Workspace):
    workspace.write("x.plan.md", "# Get it\n\n1. `curl https://b\u00fccher.example/x`\n")
    assert "xn--bcher-kva.example" in workspace.ordain("show", "x.plan.md").out


@each("text", HONEST, ids=ascii)
def test_honest_commands_read_well(text: str):
    assert visible(text, exact=True) == text


@pytest.mark.parametrize("text", PROSE, ids=ascii)
def test_honest_prose_reads_well(text: str):
    assert visible(text) == text


IGNORABLE = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
"""Default_Ignorable_Code_Point of Unicode."""
NOTHING_BY_NAME = (
    "INVISIBLE", "FILLER", " BLANK", "NULL NOTEHEAD", "ZERO WIDTH", "WORD JOINER", "NUMBER JOINER", "CONSONANT JOINER",
    "SUBJOINER", "VARIATION SELECTOR", "LETTER SELECTOR", "OBJECT REPLACEMENT",
)  # fmt: skip


@pytest.mark.slow("every character there is")
def test_every_character_that_shows_nothing_is_escaped():
    missed = []
    for number in range(sys.maxunicode + 1):
        one = chr(number)
        name = unicodedata.name(one, "")
        nothing = not one.isprintable() or any(first <= number <= last for first, last in IGNORABLE)
        nothing = nothing or (
            any(words in name for words in NOTHING_BY_NAME) and "GAP FILLER" not in name and "LINE FILLER" not in name
        )
        if nothing and visible(f"x{one}y") != f"x\u2039U+{number:X}\u203ay":
            missed.append((hex(number), name))
    assert missed == []


def test_a_text_in_one_script_is_left_alone_letter_by_letter():
    """Every word of two equal letters of a script in use reads as it is in prose."""
    for number in range(0xC0, 0x3000):
        one = chr(number)
        if unicodedata.category(one) in ("Ll", "Lu", "Lo"):
            assert confusable_places(f"{one}{one} {one}", exact=False) == frozenset(), hex(number)


INJECTED = """\
# Unpack what was named

## Steps

### 1. name

**run:** printf -- '--to-command=touch owned'

### 2. unpack

**tool:** exec
**args:**
```yaml
argv: [tar, -x, -f, a.tar, "${name.output}"]
```
"""


def test_a_result_does_not_become_an_option(workspace: Workspace):
    (workspace.path / "a.txt").write_text("a")
    subprocess.run(["tar", "-cf", "a.tar", "a.txt"], cwd=workspace.path, check=True)
    workspace.write("x.plan.md", INJECTED)
    assert "W_REF_OPTION" in workspace.ordain("lint", "x.plan.md").out
    _, done = workspace.started("x.plan.md")
    assert done.status != 0 and "F_REF_VALUE" in done.out and not (workspace.path / "owned").exists()
    workspace.write("y.plan.md", INJECTED.replace("a.tar, ", 'a.tar, "--", '))
    assert "W_REF_OPTION" not in workspace.ordain("lint", "y.plan.md").out
    workspace.started("y.plan.md")
    assert not (workspace.path / "owned").exists()
