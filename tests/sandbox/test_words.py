"""What bubblewrap is told, taken down by a program in its place: the rules of a sandbox where there is no bubblewrap.
Whether they hold, the other tests here try."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ordain.adapters.sandbox.sandbox import BubblewrapSandbox
from ordain.core.policy.tier import SandboxLimits
from ordain.ports.ports import Command
from tests.programs import set_programs

STUB = """\
#!/bin/bash
tr '\\0' '\\n' < "/dev/fd/$2" > {told}
exit 1
"""


class Told:
    """A workspace, and the words for commands in it."""

    def __init__(self, root: Path) -> None:
        self.workspace, self._words = root / "ws", root / "told"
        (self.workspace / ".git").mkdir(parents=True)
        (self.workspace / "src").mkdir()
        self.hidden = self.workspace / "state"
        self.hidden.mkdir()
        self.stub = root / "bwrap"
        self.stub.write_text(STUB.format(told=self._words))
        self.stub.chmod(0o755)

    def __call__(self, **fields: object) -> list[str]:
        given = {"text": "true", "env": {"PATH": "/usr/bin:/bin", "TOKEN": "t"}, "timeout_ms": 20_000, "mark": "m/1"}
        shell = BubblewrapSandbox(self.workspace, self.hidden).shell(SandboxLimits())
        asyncio.run(shell.run(Command(**{**given, **fields})))  # type: ignore[arg-type]
        return self._words.read_text().splitlines()

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
