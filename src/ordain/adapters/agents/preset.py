"""What a preset is: a command-line agent whose command line we know.

Each is a pure function from what is asked of it to how it is started, with the files that it finds in its room. One
rule holds for all: of the settings of the user only who serves the model, and the login there, is taken; whatever else
the program would read, run or remember is left out as far as it can be told to. Without tools of its own it is started
in an empty directory, so that nothing in the workspace is a setting, a memory or a plug-in to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ordain.core.policy.agent import Agent
from ordain.core.task.work_item import WorkItem
from ordain.ports.ports import Finished, Said, StepServer

SERVER = "ordain"
"""What the step's own tool server is called in every host."""


class PresetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a preset is asked for."""

    agent: Agent
    item: WorkItem
    room: str
    """The private directory of the attempt."""
    server: StepServer | None = None
    """The tools of the step; None where there is no way to them."""
    settings: Mapping[str, bytes] = {}
    """Those of the preset's files with settings that are there, by their names in the home directory."""

    def told(self, *, name: str = "env") -> dict[str, Any]:
        """How most hosts are told of the step's server: the command, its arguments, its variables."""
        assert self.server is not None
        command, *words = self.server.argv
        return {"command": command, "args": words, name: dict(self.server.env)}


class PresetStart(msgspec.Struct, frozen=True, kw_only=True):
    """How a preset is started."""

    words: tuple[str, ...]
    """After the program."""
    read: Callable[[Finished], Said]
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    """What it finds in its room, by name."""
    own: tuple[str, ...] = ()
    """Directories of its room that it may change."""
    logins: Mapping[str, str] = {}
    """Files of the home directory, by name, that it finds under another name in its room."""


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    program: str
    package: str
    """What it is called at npm."""
    start: Callable[[PresetRequest], PresetStart]
    """Raises ValueError where something is missing that only a person can say."""
    settings: tuple[str, ...] = ()
    """Files of the home directory of which it takes who serves the model."""


def in_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
