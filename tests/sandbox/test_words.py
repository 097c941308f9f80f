"""What bubblewrap is told, taken down by a program in its place: the rules of a sandbox where there is no bubblewrap.
Whether they hold, the other tests here try."""

from __future__ import annotations

import asyncio
import platform
from pathlib import Path

import pytest

from tests.programs import set_programs
from tests.words import BubblewrapSandbox, Command, SandboxLimits

STUB = """\
#!/bin/bash
tr '\\0' '\\n' < "/dev/fd/$2" > {told}
exit 1
"""


class Told:
    """A workspace, and the words for commands in it."""

    def __init__(self, root: Path) -> None:
        self.workspace, self.words = root / "ws", root / "told"
        (self.workspace / ".git").mkdir(parents=True)
        (self.workspace / "src").mkdir()
        self.hidden = self.workspace / "state"
        self.hidden.mkdir()
        self.stub = root / "bwrap"
        self.stub.write_text(STUB.format(told=self.words))
        self.stub.chmod(0o755)

    def __call__(self, limits: SandboxLimits = SandboxLimits(), **fields: object) -> list[str]:  # noqa: B008
        given = {"text": "true", "env": {"PATH": "/usr/bin:/bin", "TOKEN": "t"}, "timeout_ms": 20_000, "mark": "m/1"}
        shell = BubblewrapSandbox(self.workspace, self.hidden).shell(limits)
        asyncio.run(shell.run(Command(**{**given, **fields})))  # type: ignore[arg-type]
        return self.words.read_text().splitlines()

    def mounts(self, words: list[str]) -> dict[str, str]:
        """How each place of the workspace is mounted in the end."""
        found = {}
        for at, word in enumerate(words):
            if word in ("--bind", "--ro-bind") and words[at + 2].startswith(str(self.workspace)):
                found[words[at + 2].removeprefix(str(self.workspace))] = word
        return found


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    made = Told(tmp_path)
    set_programs(monkeypatch, bwrap=made.stub)
    return made


def test_it_is_apart_from_everything_without_capabilities_and_ends_with_us(told: Told) -> None:
    words = told()
    assert {"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--disable-userns"} <= set(words)
    assert {"--die-with-parent", "--new-session", "--seccomp", "--clearenv"} <= set(words)
    assert words[words.index("--cap-drop") + 1] == "ALL"


def test_there_is_a_network_only_where_the_step_has_one(told: Told) -> None:
    assert "--unshare-net" in told()
    assert "--unshare-net" not in told(network=True)


def test_what_is_not_of_the_workspace_is_read_only_or_not_there(told: Told) -> None:
    words = told()
    places = [words[at + 2] for at, word in enumerate(words) if word == "--bind"]
    assert places and all(place.startswith(str(told.workspace)) for place in places)
    assert not {"/", "/home", "/root", "/run", "/var"} & {
        words[at + 1] for at, word in enumerate(words) if "bind" in word
    }


def test_only_what_a_step_writes_can_be_written(told: Told) -> None:
    found = told.mounts(told())
    assert found[""] == "--bind"
    assert {found[kept] for kept in ("/.git/hooks", "/.git/config", "/.ordain", "/ordain.toml")} == {"--ro-bind"}
    found = told.mounts(told(writes=("src/",)))
    assert (found[""], found["/src"]) == ("--ro-bind", "--bind")
    assert told.mounts(told(writes=())) == {"": "--ro-bind"}


def test_what_is_hidden_is_covered(told: Told) -> None:
    words = told()
    assert words[words.index(str(told.hidden)) - 1] == "--tmpfs"


def test_variables_are_no_words_of_a_command_line(told: Told) -> None:
    words = told()
    at = words.index("TOKEN")
    assert words[at - 1 : at + 2] == ["--setenv", "TOKEN", "t"]


def test_what_the_configuration_adds_is_read_only(told: Told, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    words = told(SandboxLimits(read=(str(tmp_path / "more"),)))
    assert words[words.index(str(tmp_path / "more")) - 1] == "--ro-bind"


def test_nothing_is_written_beside_the_mounts_and_little_is_seen_of_the_machine(told: Told) -> None:
    words = told()
    assert words[words.index("--remount-ro", words.index("/tmp/home")) + 1] == "/"
    masked = {words[at + 1] for at, word in enumerate(words) if word == "/dev/null"}
    assert {path for path in ("/proc/kcore", "/proc/keys", "/proc/kmsg") if Path(path).exists()} <= masked


def test_what_of_etc_is_not_for_everybody_is_covered(told: Told) -> None:
    private = Path("/etc/shadow")
    if not private.exists() or private.stat().st_mode & 0o004:
        pytest.skip("everybody may read /etc/shadow here, or it is not there")
    words = told()
    assert words[words.index(str(private)) - 1] == "/dev/null"


def test_the_home_directory_is_one_of_its_own(told: Told) -> None:
    shell = BubblewrapSandbox(told.workspace).shell(SandboxLimits())
    assert shell.environment(["HOME"]) == {"HOME": "/tmp/home"}


def test_where_no_filter_is_known_nothing_is_started(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    with pytest.raises(FileNotFoundError):
        told()
