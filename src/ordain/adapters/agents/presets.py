"""The presets there are, and how one is made ready: its files are written into its room, for it alone to read."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ordain.adapters.agents.claude import CLAUDE
from ordain.adapters.agents.codex import CODEX
from ordain.adapters.agents.gemini import GEMINI
from ordain.adapters.agents.opencode import OPENCODE
from ordain.adapters.agents.pi import PI
from ordain.adapters.agents.preset import Preset, PresetRequest
from ordain.adapters.sandbox.sandbox import HOME
from ordain.core.policy.agent import Agent
from ordain.core.task.work_item import WorkItem
from ordain.ports.ports import Invocation, StepServer

PRESETS: dict[str, Preset] = {
    "claude": CLAUDE,
    "codex": CODEX,
    "gemini": GEMINI,
    "opencode": OPENCODE,
    "pi": PI,
}
ELSEWHERE = "empty"
"""The directory of a room in which a preset is started that has no tools of its own."""
SETTINGS_MAX = 1 << 20


def preset_invocation(
    agent: Agent, item: WorkItem, room: str, server: StepServer | None, home: Path, *, sandboxed: bool
) -> Invocation:
    """How to start a preset, once its files are in the room; `home` has the user's. Raises ValueError where only a
    person can say how."""
    assert agent.preset is not None
    preset = PRESETS[agent.preset]
    settings = {name: found for name in preset.settings if (found := _content(home / name)) is not None}
    asked = PresetRequest(agent=agent, item=item, room=room, server=server, settings=settings)
    start = preset.start(asked)
    place = Path(room)
    for name in (*start.own, *(() if agent.own_tools else (ELSEWHERE,))):
        (place / name).mkdir(mode=0o700, exist_ok=True)
    for name, text in start.files.items():
        _write(place / name, text)
    logins = {name: source for name, source in start.logins.items() if (home / source).is_file()}
    for name, source in logins.items():
        # A link: what is renewed while it runs is renewed for the user too. In the sandbox it is to a copy.
        (place / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / name).symlink_to(Path(HOME if sandboxed else home, source))
    return Invocation(
        argv=(*(agent.command or (preset.program,)), *start.words),
        stdin=item.prompt.encode("utf-8", "replace"),
        env=start.env,
        read=start.read,
        directory="" if agent.own_tools else f"{room}/{ELSEWHERE}",
        changes=tuple(f"{room}/{name}" for name in start.own),
        home=(*(f"~/{source}" for source in logins.values()), *agent.files),
    )


def _content(file: Path) -> bytes | None:
    with contextlib.suppress(OSError), file.open("rb") as opened:
        return opened.read(SETTINGS_MAX)
    return None


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600, exist_ok=False)
    file.write_text(text, encoding="utf-8")
