"""How each preset is started, compared with the texts in tests/golden/agents; what of the user's settings it takes."""

from __future__ import annotations

import json
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.build import work_item
from tests.interfaces.golden import check_golden
from tests.words import AGENT_PRESETS, PRESETS, WORD_BYTES_MAX, Agent, Invocation, LocalAgents, StepServer

GOLDEN = Path(__file__).parents[1] / "golden" / "agents"
TOKEN = "the-token-of-this-attempt"
PROMPT = "Write what is wanted.\n"
SERVER = StepServer(argv=("/bin/python", "-m", "ordain", "mcp", "--step"), env={"T": TOKEN})
SETTINGS = {
    ".codex/config.toml": """\
model = "their-model"
model_provider = "mine"
notify = ["run-me"]
[model_providers.mine]
name = "mïne \\u0007 \\"quoted\\" 😀"
base_url = "http://127.0.0.1:1/v1"
query_params = { "a.b" = "1" }
[mcp_servers.theirs]
command = "run-me"
""",
    ".config/opencode/opencode.json": json.dumps(
        {"provider": {"mine": {"npm": "x"}}, "plugin": ["run-me"], "mcp": {"theirs": {"command": ["run-me"]}}}
    ),
    ".gemini/settings.json": json.dumps(
        {"security": {"auth": {"selectedType": "oauth-personal"}}, "mcpServers": {"theirs": {"command": "run-me"}}}
    ),
    ".claude/settings.json": json.dumps({"hooks": {"Stop": [{"command": "run-me"}]}}),
    ".pi/agent/settings.json": json.dumps({"extensions": ["run-me"]}),
}
LOGINS = {
    "claude": {".claude/.credentials.json"},
    "codex": {".codex/auth.json"},
    "gemini": {".gemini/google_accounts.json", ".gemini/oauth_creds.json"},
    "opencode": {".local/share/opencode/auth.json"},
    "pi": {".pi/agent/auth.json", ".pi/agent/models.json"},
}
VARIANTS = {
    "": {},
    "-own-tools": {"own_tools": True},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "room").mkdir(mode=0o700)
    return tmp_path / "room"


def _started(
    room: Path, agent: Agent, *, model: str | None = "a-model", server: StepServer | None = SERVER, tier: int = 0
) -> Invocation:
    item = work_item(model=model, prompt=PROMPT)
    return LocalAgents(room).invocation(agent, item, str(room), server, sandboxed=tier > 0)


def _write(home: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


def _as_text(invocation: Invocation, room: Path, home: Path) -> list[str]:
    lines = [f"$ {json.dumps(word)}" for word in invocation.argv]
    lines += [f"{name}={value}" for name, value in invocation.env.items()]
    lines += [f"in {invocation.directory or 'the workspace'}"]
    for title in ("changes", "home"):
        lines += [f"{title} {path}" for path in getattr(invocation, title)]
    for file in sorted(room.rglob("*")):
        if file.is_symlink():
            lines += ["", f"--- {file} -> {file.readlink()}"]
        elif file.is_file() and file.name != "bridge.mjs":
            lines += ["", f"--- {file}", file.read_text().rstrip()]
    return [line.replace(str(room), "ROOM").replace(str(home), "HOME") for line in lines]


def test_there_is_a_preset_for_each_name() -> None:
    assert tuple(sorted(PRESETS)) == AGENT_PRESETS


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", AGENT_PRESETS)
def test_how_it_is_started(name: str, variant: str, room: Path, home: Path) -> None:
    _write(home, SETTINGS | dict.fromkeys(LOGINS[name], "{}"))
    invocation = _started(room, Agent(preset=name, files=("~/.netrc",), **VARIANTS[variant]))
    check_golden(f"{name}{variant}.txt", _as_text(invocation, room, home), under=GOLDEN)
    assert invocation.stdin == PROMPT.encode()


@pytest.mark.parametrize("name", AGENT_PRESETS)
def test_the_token_is_in_no_command_line_and_only_its_user_can_read_it(name: str, room: Path, home: Path) -> None:
    invocation = _started(room, Agent(preset=name))
    assert TOKEN not in " ".join(invocation.argv)
    files = [file for file in room.rglob("*") if file.is_file() and not file.is_symlink()]
    assert any(TOKEN in file.read_text() for file in files) or TOKEN in invocation.env.values()
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.parametrize("name", AGENT_PRESETS)
def test_nothing_of_the_users_that_runs_something_is_taken(name: str, room: Path, home: Path) -> None:
    _write(home, SETTINGS)
    invocation = _started(room, Agent(preset=name))
    there = "".join(file.read_text() for file in room.rglob("*") if file.is_file())
    assert "run-me" not in there + " ".join(invocation.argv)


@pytest.mark.parametrize("name", AGENT_PRESETS)
def test_logins_are_linked_to_and_in_the_sandbox_to_copies(name: str, room: Path, home: Path, tmp_path: Path) -> None:
    assert _links(room, _started(room, Agent(preset=name))) == set()
    _write(home, dict.fromkeys(LOGINS[name], "{}"))
    for tier, there in ((0, home), (1, Path("/tmp/home"))):
        another = tmp_path / f"another-{tier}"
        another.mkdir()
        invocation = _started(another, Agent(preset=name), tier=tier)
        assert _links(another, invocation) == {str(there / login) for login in LOGINS[name]}
        assert set(invocation.home) == {f"~/{login}" for login in LOGINS[name]}


def _links(room: Path, invocation: Invocation) -> set[str]:
    found = {str(file.readlink()) for file in room.rglob("*") if file.is_symlink()}
    assert bool(found) == bool(invocation.home)
    return found


@pytest.mark.parametrize("name", AGENT_PRESETS)
def test_it_is_started_without_a_server_and_as_a_person_says(name: str, room: Path, home: Path) -> None:
    invocation = _started(room, Agent(preset=name, command=("node", "/opt/cli.js")), server=None)
    assert invocation.argv[:2] == ("node", "/opt/cli.js")
    assert "/bin/python" not in "".join(file.read_text() for file in room.rglob("*") if file.is_file())


def test_codex_is_told_in_its_own_notation_who_serves_the_model(room: Path, home: Path) -> None:
    _write(home, SETTINGS)
    _started(room, Agent(preset="codex"))
    written = tomllib.loads((room / "codex" / "config.toml").read_text())
    theirs = tomllib.loads(SETTINGS[".codex/config.toml"])
    assert written["model_providers"] == theirs["model_providers"]
    assert written["mcp_servers"]["ordain"]["env"] == {"T": TOKEN}
    assert not {"notify", "model"} & written.keys() and list(written["mcp_servers"]) == ["ordain"]


def test_codex_must_be_told_which_model(room: Path, home: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="which model to use: in `model`, or in"):
        _started(room, Agent(preset="codex"), model=None)
    _write(home, SETTINGS)
    (tmp_path / "another").mkdir()
    assert "their-model" in _started(tmp_path / "another", Agent(preset="codex"), model=None).argv


@pytest.mark.parametrize("name", ["codex", "gemini", "opencode"])
@pytest.mark.parametrize("broken", ["{", '"a" = ', "[]", "\udc80", '{"security": 1, "provider": 1}'])
def test_settings_of_the_user_that_cannot_be_read_are_left_out(name: str, broken: str, room: Path, home: Path) -> None:
    for file in SETTINGS:
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_bytes(broken.encode("utf-8", "surrogateescape"))
    assert _started(room, Agent(preset=name)).stdin == PROMPT.encode()


@pytest.mark.parametrize("name", AGENT_PRESETS)
def test_what_is_missing_is_said_with_what_installs_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    fault = LocalAgents(Path("/")).fault(Agent(preset=name))
    assert fault == f"there is no program {name}; `npm install -g {PRESETS[name].package}` installs {name}"


def test_a_room_is_gone_whatever_an_agent_left_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    with LocalAgents(Path("/")).room() as room:
        monkeypatch.chdir(room)
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
        monkeypatch.undo()
    assert not Path(room).exists()


def test_a_prompt_that_no_command_line_holds_is_told_of_with_the_way(tmp_path: Path) -> None:
    agents, words = LocalAgents(tmp_path), Agent(command=("true", "{prompt}"))
    longest = work_item(prompt="x" * WORD_BYTES_MAX)
    argv = agents.invocation(words, longest, str(tmp_path), None).argv
    assert subprocess.run(argv, check=True, cwd=tmp_path).returncode == 0
    longer = work_item(prompt="x" * (WORD_BYTES_MAX + 1))
    with pytest.raises(ValueError, match=r"131,072 bytes.*standard input"):
        agents.invocation(words, longer, str(tmp_path), None)
    assert agents.invocation(Agent(command=("true",)), longer, str(tmp_path), None).argv == ("true",)
