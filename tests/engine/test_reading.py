"""What a step reads, from a real directory and a ledger in memory: what is handed on, what is cut, what never is."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.twins.ledger import MemoryLedger
from tests.words import (
    READ_BYTES_MAX,
    READS_BYTES_MAX,
    Append,
    Channel,
    DirectoryWorkspace,
    Gathered,
    Instant,
    Missing,
    NothingGivenError,
    Principal,
    Records,
    Redactor,
    Sink,
    StepReads,
    Task,
    TopicPosted,
    stream_of_topic,
)

SECRET = "tr0ub4dor-and-three"
KIM = Principal(name="kim", channel=Channel.TERMINAL)


class Place:
    """A workspace, a ledger, and what is read from them."""

    def __init__(self, path: Path) -> None:
        self.path, self.ledger, self.secret_files = path, MemoryLedger(), ()
        self.outputs: dict[str, Any] = {}

    def write(self, name: str, content: str | bytes) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def post(self, topic: str, *texts: str) -> None:
        stream = stream_of_topic(topic)
        events = tuple(TopicPosted(topic=topic, by=KIM, text=text) for text in texts)
        size = self.ledger.size(stream)
        asyncio.run(self.ledger.append(Instant(0), Append(stream=stream, expected=size, events=events)))

    def read(self, *refs: str, secret_files: tuple[str, ...] = ()) -> Gathered:
        sink = Sink(Redactor({"A_TOKEN": SECRET}), self.ledger.seal)
        workspace, records = DirectoryWorkspace(self.path), Records(self.ledger)
        reading = StepReads(workspace=workspace, records=records, sink=sink, secret_files=secret_files)

        def output(name: str) -> Any:
            found = self.outputs[name]
            if isinstance(found, Exception):
                raise found
            return found

        return asyncio.run(reading.gather(Task(task="x", reads=refs), output, lambda: None))

    def texts(self, *refs: str) -> list[str]:
        found = self.read(*refs)
        assert found.lacks == ()
        return [one.text for one in found.shown]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "ws").mkdir()
    return Place(tmp_path / "ws")


def test_files_and_patterns_are_read_in_the_order_of_the_plan(place: Place):
    for name in ("src/b.py", "src/in/a.py", "notes.txt"):
        place.write(name, f"in {name}\n")
    found = place.read("file:notes.txt", "file:src/**/*.py")
    assert [one.ref for one in found.reads] == ["file:notes.txt", "file:src/b.py", "file:src/in/a.py"]
    assert [one.text for one in found.shown] == ["in notes.txt\n", "in src/b.py\n", "in src/in/a.py\n"]
    assert [(one.size, one.cut, one.hidden) for one in found.reads] == [(13, False, 0), (12, False, 0), (15, False, 0)]
    assert found.reads[0].seal == place.ledger.seal(b"in notes.txt\n")


def test_what_is_missing_is_told_all_at_once(place: Place):
    place.outputs["b"] = Missing("gave a result that is not kept in this ledger")
    found = place.read("file:gone.txt", "file:src/*.py", "topic:empty", "step:b", "odd")
    assert [lack.words for lack in found.lacks] == [
        "`gone.txt` is not there",
        "`file:src/*.py` means no file that is there",
        "nothing was posted to the topic `empty`",
        "`b` gave a result that is not kept in this ledger",
        "`odd` is no file, topic or step",
    ]
    assert {lack.code for lack in found.lacks} == {"F_READ_MISSING"}


def link(place: Place) -> str:
    (place.path / "x").symlink_to("/etc/passwd")
    return "x"


def link_on_the_way(place: Place) -> str:
    (place.path / "x").symlink_to("/etc")
    return "x/passwd"


def pipe(place: Place) -> str:
    os.mkfifo(place.path / "x")
    return "x"


def folder(place: Place) -> str:
    (place.path / "x").mkdir()
    return "x"


def binary(place: Place) -> str:
    return str(place.write("x", b"\x89PNG\0\0").relative_to(place.path))


def latin(place: Place) -> str:
    return str(place.write("x", b"caf\xe9\n").relative_to(place.path))


def named(name: str) -> Callable[[Place], str]:
    def make(place: Place) -> str:
        place.write(name, "text\n")
        return name

    return make


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (link, "F_PATH_ESCAPE"),
        (link_on_the_way, "F_PATH_ESCAPE"),
        (lambda place: "../outside", "F_PATH_ESCAPE"),
        (lambda place: "/etc/passwd", "F_PATH_ESCAPE"),
        (named(".git/config"), "F_PATH_ESCAPE"),
        (named("vendor/.git/HEAD"), "F_PATH_ESCAPE"),
        (named(".ordain/runs/x"), "F_PATH_ESCAPE"),
        (named(".ORDAIN/x"), "F_PATH_ESCAPE"),
        (named(".env"), "F_PATH_ESCAPE"),
        (named("web/.env.production"), "F_PATH_ESCAPE"),
        (named("id_ed25519"), "F_PATH_ESCAPE"),
        (pipe, "F_READ_MISSING"),
        (folder, "F_READ_MISSING"),
        (binary, "F_READ_MISSING"),
        (latin, "F_READ_MISSING"),
    ],
)
def test_what_nobody_is_handed(make: Callable[[Place], str], code: str, place: Place):
    found = place.read(f"file:{make(place)}")
    assert ([lack.code for lack in found.lacks], found.shown) == ([code], ())


@pytest.mark.parametrize("name", [".env.example", ".env.sample", "env.py", "identity", "ordain.toml", ".gitignore"])
def test_what_only_looks_like_it_is(name: str, place: Place):
    place.write(name, "text\n")
    assert place.texts(f"file:{name}") == ["text\n"]


def test_a_file_of_secrets_is_not_handed_on_by_whatever_name(place: Place):
    file = place.write("logins.txt", "one two\n")
    os.link(file, place.path / "harmless.txt")
    files = (str(file),)
    assert "hold secrets" in place.read("file:harmless.txt", secret_files=files).lacks[0].words
    found = place.read("file:*.txt", secret_files=files)
    assert [one.text for one in found.shown] == ["", ""] and all("left out" in one.note for one in found.shown)


def test_a_pattern_leaves_out_what_cannot_be_handed_on(place: Place):
    place.write("src/a.py", "good\n")
    place.write("src/b.bin", b"\0\1")
    place.write("src/.env", "PASSWORD=hunter22\n")
    (place.path / "src/c.py").symlink_to("/etc/passwd")
    found = place.read("file:src/*", "file:src/.*")
    assert [(one.ref, one.text) for one in found.shown] == [("file:src/a.py", "good\n"), ("file:src/b.bin", "")]
    assert found.shown[1].note == "left out: `src/b.bin` is no text (UTF-8)"
    assert [lack.words for lack in found.lacks] == ["`file:src/.*` means no file that is there"]


def test_many_files_of_one_pattern_are_bounded_and_it_is_said(place: Place):
    for number in range(130):
        place.write(f"src/{number:03}.py", "x\n")
    found = place.read("file:src/*.py")
    assert len(found.shown) == len(found.reads) == 101
    assert found.shown[-1].note == "left out: all but the first 100 of 130 files"


def test_a_long_file_is_cut_at_a_line_and_it_is_said(place: Place):
    place.write("long.txt", "é" * 49 + "\n" + "0123456789\n" * 100_000)
    (shown,), (read,), _ = place.read("file:long.txt")
    size = 99 + 1_100_000
    assert len(shown.text.encode()) <= READ_BYTES_MAX < len(shown.text.encode()) + 11
    assert shown.text.endswith("9\n") and (read.cut, read.size) == (True, size)
    assert shown.note == f"cut: the first {len(shown.text.encode()):,} of {size:,} bytes"


def test_one_long_line_is_cut_at_a_character(place: Place):
    place.write("long.txt", "x" + "é" * READ_BYTES_MAX)
    assert place.texts("file:long.txt") == ["x" + "é" * ((READ_BYTES_MAX - 1) // 2)]


@pytest.mark.parametrize("before", [*range(1, len(SECRET) + 1, 3), 0])
def test_no_half_of_a_secret_is_left_at_the_edge(before: int, place: Place):
    """The secret begins so many bytes before the place where the file is cut."""
    place.write("long.txt", "x" * (READ_BYTES_MAX - before) + SECRET + "y" * 100_000)
    (text,) = place.texts("file:long.txt")
    assert "x" * 100 in text
    assert not any(SECRET[:size] in text for size in range(3, len(SECRET) + 1))


def test_secrets_are_hidden_and_counted(place: Place):
    token = "ghp_" + "0aZ9" * 9
    place.write("a.txt", f"{SECRET} and {token} and {SECRET}\n")
    (shown,), (read,), _ = place.read("file:a.txt")
    assert shown.text == "[redacted A_TOKEN] and [redacted a token of GitHub] and [redacted A_TOKEN]\n"
    assert read.hidden == 3


def test_all_that_is_read_has_an_end(place: Place):
    for number in range(6):
        place.write(f"{number}.txt", "0123456\n" * (READ_BYTES_MAX // 8))
    found = place.read(*(f"file:{number}.txt" for number in range(6)))
    assert sum(len(one.text) for one in found.shown) == READS_BYTES_MAX
    assert [one.note for one in found.shown[4:]] == ["left out: all that is read has more than 1,024 KiB"] * 2
    assert [one.cut for one in found.reads] == [False] * 4 + [True] * 2


def test_results_are_read_as_they_are(place: Place):
    place.outputs = {"a": "a text\nof two lines", "b": {"n": [1, "é"]}, "c": "", "d": None}
    place.outputs["e"] = NothingGivenError("was not run, so it gave nothing")
    found = place.read(*(f"step:{name}" for name in "abcde"))
    assert [one.text for one in found.shown] == ["a text\nof two lines", '{"n": [1, "é"]}', "", "null", ""]
    assert [one.note for one in found.shown] == ["", "", "empty", "", "was not run, so it gave nothing"]
    assert found.lacks == ()


def test_a_topic_is_read_with_who_and_when(place: Place):
    place.post("auth", "one", f"two {SECRET}")
    found = place.read("topic:auth")
    assert [one.text for one in found.shown] == ["one", "two [redacted A_TOKEN]"]
    assert found.shown[0].note == "message 1 of 2, by kim (terminal), 1970-01-01 00:00:00 UTC"
    assert [(one.ref, one.cut, one.hidden) for one in found.reads] == [("topic:auth", False, 1)]


def test_of_a_long_topic_the_newest_are_read(place: Place):
    place.post("auth", *(f"{number:03} " + "x" * 50_000 for number in range(1, 8)))
    found = place.read("topic:auth")
    assert [one.text[:3] for one in found.shown] == ["003", "004", "005", "006", "007"]
    assert found.shown[0].note.startswith("message 3 of 7, by kim") and found.reads[0].cut
    place.post("many", *map(str, range(300)))
    found = place.read("topic:many")
    assert (len(found.shown), found.shown[-1].text, found.shown[0].text) == (100, "299", "200")
