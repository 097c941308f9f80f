"""Secrets planted in every place that an agent's work goes through, in every form that is promised to be found: none of
them is in the ledger, in a log, in a prompt, or in anything that is shown.

Each place holds one secret of its own for each form. What is let through is the exact results of commands and signals,
which are kept beside the chain and documented; what agents said is not.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shlex
import sqlite3
import sys
import textwrap
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.interfaces.test_locks import trusted
from tests.interfaces.workspace import Workspace, run_id
from tests.words import READ_BYTES_MAX

PLACES = (
    "read",
    "cut",
    "topic",
    "step",
    "stdout",
    "stderr",
    "chunks",
    "json",
    "contract",
    "failed",
    "cannot",
    "usage",
    "signal",
    "reject",
)
"""Where secrets are planted: see `AGENT` and `PLAN` for what becomes of each file."""


def in_base64(before: int) -> Callable[[bytes], str]:
    return lambda data: base64.b64encode(b"x" * before + data + b"tail").decode()


FORMS: dict[str, Callable[[bytes], str]] = {
    "raw": bytes.decode,
    "json": lambda data: json.dumps(data.decode())[1:-1],
    "json in json": lambda data: json.dumps(json.dumps(data.decode()))[3:-3],
    "base64": in_base64(0),
    "base64, after one": in_base64(1),
    "base64, after two": in_base64(2),
    "base64 for addresses": lambda data: base64.urlsafe_b64encode(data + b"tail").decode(),
    "base64 in lines": lambda data: "\n".join(textwrap.wrap(in_base64(1)(data), 16)),
    "hex": bytes.hex,
    "HEX": lambda data: data.hex().upper(),
    "hex with colons": lambda data: data.hex(":"),
    "percent": lambda data: urllib.parse.quote(data, safe=""),
    "percent, each byte": lambda data: "".join(f"%{byte:02x}" for byte in data),
    "form": lambda data: urllib.parse.quote_plus(data.decode()),
    "shell": lambda data: shlex.quote(data.decode()),
    "python": lambda data: repr(data.decode()),
}
_SPACED = re.compile(rb"[ \t\r\n:]|\\n")


class Planted(NamedTuple):
    """One secret, where it is known from, and where it is planted in which form."""

    name: str
    value: str
    place: str
    form: str

    @property
    def text(self) -> str:
        return FORMS[self.form](self.value.encode())

    def found(self, haystack: bytes, squeezed: bytes) -> bool:
        """Whether a good part of it is there, as it is or in the form it was planted in."""
        needles = [self.value]
        if self.form.startswith(("base64", "hex", "HEX")):
            spaced = self._core()
            if spaced[:14].encode() in squeezed or spaced[-14:].encode() in squeezed:
                return True
        else:
            needles.append(self.text.strip("'\""))
        return any(part.encode() in haystack for needle in needles for part in (needle[:14], needle[-14:]))

    def _core(self) -> str:
        """What of it the secret alone decides, without breaks."""
        if "base64" not in self.form:
            return self.text.replace(":", "")
        text = self.text.replace("\n", "")
        before = {"base64, after one": 1, "base64 in lines": 1, "base64, after two": 2}.get(self.form, 0)
        size = len(self.value.encode())
        return text[-(-before * 8 // 6) : (before + size) * 8 // 6]


def secrets() -> list[Planted]:
    pairs = [(place, form) for place in PLACES for form in FORMS]
    return [
        Planted(_NAMES[number % 3].format(number), f"{_varied(number)}{number:03}", place, form)
        for number, (place, form) in enumerate(pairs)
    ]


_NAMES = ("PLANTED_{}_TOKEN", "IN_FILE_{}", "AGENTS_PASSWORD_{}")
"""A variable that a pattern means, one of a file that the settings name, one that an agent may see."""


def _varied(number: int) -> str:
    return base64.b85encode(hashlib.sha256(b"planted %d" % number).digest()).decode()[:26]


PLANTED = secrets()

AGENT = """\
import os, sys, time
who, out, err = sys.argv[1], sys.stdout.buffer, sys.stderr.buffer
prompt = sys.stdin.buffer.read()
attempt = len([name for name in os.listdir("seen") if name.startswith(who)])
open(f"seen/{who}.{attempt}", "wb").write(prompt)
def planted(name):
    return open(f"plant/{name}", "rb").read()
if who == "talker":
    out.write(planted("stdout"))
    err.write(planted("stderr"))
    data = planted("chunks")
    middle = data.index(b"base64 for addresses") + 40
    for part in (data[:middle], data[middle:middle + 3], data[middle + 3:]):
        out.write(part)
        out.flush()
        time.sleep(0.6 * (attempt == 0))  # so that somebody looks at what is there in between
    open(os.environ["ORDAIN_USAGE"], "wb").write(planted("usage"))
elif who == "jsoner" and attempt == 0:
    err.write(planted("failed"))
    out.write(planted("failed"))
    sys.exit(3)
elif who == "jsoner":
    import json
    text = planted("json").decode()
    print(json.dumps({"result": text, "usage": {"input_tokens": 7, text: text}, "total_cost_usd": 0.5}))
else:
    print("ORDAIN CANNOT: " + " ".join(planted("cannot").decode().split()))
"""

PLAN = """\
# Leak

**Budget:** max 200k tokens
**On failure:** continue

## Steps

### 1. Make

**run:** cat plant/step

### 2. Talk

**agent:** talker
**reads:**
- file:leaks/*
- topic:leaks
- step:make
**task:** Talk.
**contract:** cat plant/contract; test -f seen/talker.1
**on_fail:** retry(1)

### 3. Count

**needs:** talk
**agent:** jsoner
**reads:**
- step:talk
**task:** Count.
**contract:** test -f seen/jsoner.1
**on_fail:** retry(1)

### 4. Again

**needs:** count
**agent:** nobody
**reads:**
- step:count
**task:** Give up.
**contract:** test -f never
"""


def plant(workspace: Workspace, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every secret be known, and lie where it is planted."""
    for name in ("plant", "leaks", "seen"):
        (workspace.path / name).mkdir()
    for place in PLACES:
        lines = [f"{one.form} {one.text}\n" for one in PLANTED if one.place == place]
        text = f"canary-{place}\n" + "".join(lines)
        workspace.write(f"plant/{place}", text)
    body = (workspace.path / "plant/cut").read_text()
    workspace.write("leaks/cut.txt", "canary-cut\n" + "x" * (READ_BYTES_MAX - len(body) // 2) + body + "y" * 50_000)
    workspace.write("leaks/read.txt", (workspace.path / "plant/read").read_text())
    workspace.write(f"leaks/{PLANTED[0].value}.txt", "canary-name\n")
    for one in PLANTED:
        if not one.name.startswith("IN_FILE"):
            monkeypatch.setenv(one.name, one.value)
    file = home / "planted.env"
    file.write_text("".join(f"{one.name}='{one.value}'\n" for one in PLANTED if one.name.startswith("IN_FILE")))
    file.chmod(0o600)
    workspace.write("agent.py", AGENT)
    seen = json.dumps([one.name for one in PLANTED if one.name.startswith("AGENTS")])
    settings = ['[secrets]\nfiles = ["~/planted.env"]\n']
    for who in ("talker", "jsoner", "nobody"):
        output = 'output = "json"\n' * (who == "jsoner")
        command = json.dumps([sys.executable, "agent.py", who])
        settings.append(f"[agents.{who}]\ncommand = {command}\nenv = {seen}\n{output}")
    trusted(workspace, "".join(settings))
    workspace.write("leak.plan.md", PLAN)


def carried_out(workspace: Workspace) -> dict[str, bytes]:
    """Do everything that a secret could come through, then everything that could show one: what was said, by whom."""
    said: dict[str, bytes] = {}

    def ordain(*words: str, stdin: bytes | None = None) -> str:
        done = workspace.ordain(*words, stdin=stdin)
        said[shlex.join(words)[:60]] = (done.out + done.err).encode()
        return done.out

    def text(name: str) -> str:
        return (workspace.path / "plant" / name).read_text()

    ordain("topic", "leaks", "-m", "-", stdin=text("topic").encode())
    ordain("signal", "leaks", "-m", text("signal"))
    ordain("reject", workspace.prepared("small.plan.md"), "-m", text("reject"))
    run = run_id(ordain("commit", workspace.approved("leak.plan.md")))
    said["shown"] = b""
    looks = ["show RUN", "show RUN --verbose", "log RUN", "log", "log leak.plan.md", "log small.plan.md", "status"]
    looks += ["inbox", "list --all", "topic", "topic leaks", "stats", "watch RUN", "show leak.plan.md --prompt talk"]
    looks += [f"show RUN --output {step}" for step in ("make", "talk", "count")]
    looks += ["show RUN --prompt talk", "show RUN --prompt talk --attempt 1", "show RUN --prompt again"]
    looks += ["show RUN --brief again", "audit export -o export.jsonl"]
    for look in looks:
        words = look.replace("RUN", run).split()
        ordain(*words)
        ordain("robot", *words)
    said["export"] = (workspace.path / "export.jsonl").read_bytes()
    for folder in (workspace.path / "seen", workspace.path / ".ordain"):
        said |= {
            str(file.relative_to(workspace.path)): file.read_bytes() for file in folder.rglob("*") if file.is_file()
        }
    return said


def ledger(home: Path) -> Iterator[tuple[str, bytes]]:
    """Everything in the ledger but the exact results of commands and signals, which are kept beside the chain."""
    (file,) = home.rglob("ledger.db")
    database = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    exact: set[str] = set()
    for (body,) in database.execute("SELECT body FROM events"):
        yield "ledger events", body
        if json.loads(body)["event"].get("step") in (None, "make"):  # all others are agents'
            exact.update(re.findall(r'"(?:output|whole|value)_seal": ?"([^"]+)"', body.decode()))
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in set(tables) - {"events", "kept"}:
        for row in database.execute(f"SELECT * FROM {table}"):
            yield (
                f"ledger {table}",
                b" ".join(str(one).encode() if isinstance(one, int | str) else one or b"" for one in row),
            )
    prompts, said = 0, set()
    for seal, body in database.execute("SELECT seal, body FROM kept"):
        if seal not in exact:
            yield "ledger kept", body
            told = b"You carry out one step" in body
            prompts += told
            said.update(re.findall(rb"canary-\w+", body) if not told else ())
    assert prompts == 5, "what five attempts were told is kept"
    assert {b"canary-stdout", b"canary-chunks", b"canary-failed", b"canary-json", b"canary-cannot"} <= said


def strings(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, list | dict):
        for one in tree if isinstance(tree, list) else (*tree.keys(), *tree.values()):
            yield from strings(one)


def leaks(said: bytes) -> list[Planted]:
    """The secrets that are in what was said, or in the texts of its JSON."""
    texts = [said]
    for line in said.splitlines():
        if line.startswith(b"{"):
            try:
                texts.append("\n".join(strings(json.loads(line))).encode("utf-8", "replace"))
            except ValueError:
                continue
    haystack = b"\n".join(texts)
    squeezed = _SPACED.sub(b"", haystack)
    return [one for one in PLANTED if one.found(haystack, squeezed)]


def test_there_are_enough_of_them_and_they_would_be_found():
    assert len({one.value for one in PLANTED}) == len(PLANTED) >= 200
    everything = "\n".join(one.text for one in PLANTED).encode()
    assert leaks(everything) == PLANTED
    assert leaks(json.dumps({"x": everything.decode()}).encode()) == PLANTED


@pytest.mark.slow("two hundred places and all views of each")
def test_no_planted_secret_gets_anywhere(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    home = Path(os.environ["HOME"])
    plant(workspace, home, monkeypatch)
    said = carried_out(workspace)
    for number, (name, body) in enumerate(ledger(home)):
        said[f"{name} {number}"] = body
    found = {name: [(one.place, one.form) for one in leaks(body)] for name, body in said.items()}
    assert {name: leaked for name, leaked in found.items() if leaked} == {}
    # Each place was really gone through: what was planted beside the secrets did come through.
    every = b"\n".join(said.values())
    quiet = {"usage"}  # what could not be understood of it is only counted
    assert [place for place in (*PLACES, "name") if b"canary-" + place.encode() not in every] == sorted(quiet)
    told = said["seen/talker.1"]
    for place in ("read", "cut", "topic", "step", "contract", "name"):
        assert b"canary-" + place.encode() in told, f"{place} in a prompt"
    assert b"canary-failed" in said["seen/jsoner.1"] and b"canary-json" in said["seen/nobody.0"]
    assert every.count(b"[redacted ") > 1000
