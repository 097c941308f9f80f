"""What is read from the output of each preset: saved ones of the real programs, and anything else without an end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.adapters.agents.preset import _STARTS
from tests.rows import each
from tests.words import AGENT_PRESETS, Finished, Said, Usage, Whole, read_object

SAMPLES = Path(__file__).with_name("said")
"""As the programs wrote them, without what says nothing here: ids, times, numbers that nobody reads."""
READERS = {name: read for name, (_, read) in _STARTS.items()}
DONE = b"FINAL TEXT of the scripted model"

READ = {
    "claude-done": Said(text=DONE, used=Usage(tokens=4, cost_usd=0.000036)),
    "claude-500": Said(
        text=b"API Error: 500 scripted 500. This is a server-side issue.",
        error="API Error: 500 scripted 500. This is a server-side issue.",
    ),
    "claude-turns": Said(used=Usage(tokens=4, cost_usd=0.000036), error="Reached maximum number of turns (2)"),
    "claude-no-login": Said(
        text="Not logged in · Please run /login".encode(), error="Not logged in · Please run /login"
    ),
    "codex-done": Said(text=DONE, used=Usage(tokens=4)),
    "codex-401": Said(error="unexpected status 401 Unauthorized: scripted 401, url: http://127.0.0.1:1/v1/responses"),
    "codex-no-server": Said(
        error="Error: thread/start: thread/start failed: error creating thread: Fatal error: Failed to initialize "
        "session: required MCP servers failed to initialize: ordain: No such file or directory (os error 2) "
        "(code -32603)"
    ),
    "gemini-done": Said(text=DONE, used=Usage(tokens=4)),
    "gemini-401": Said(error="scripted 401"),
    "gemini-turns": Said(error="Reached max session turns for this session."),
    "opencode-done": Said(text=DONE, used=Usage(tokens=4, cost_usd=6.0)),
    "opencode-401": Said(error="401 scripted 401"),
    "opencode-no-model": Said(error="Unexpected server error. Check server logs for details."),
    "pi-done": Said(text=DONE, used=Usage(tokens=4, cost_usd=6.0)),
    "pi-401": Said(error="401: scripted 401"),
    "pi-no-key": Said(error="See the documentation of providers."),
}


def _finished(name: str) -> Finished:
    out, err = SAMPLES / f"{name}.out", SAMPLES / f"{name}.err"
    output, errors = out.read_bytes(), err.read_bytes() if err.exists() else b""
    return Finished(duration_ms=1, exit_code=0, output=output, output_bytes=len(output), errors=errors)


@each("name", READ)
def test_what_is_read_from_a_real_output(name: str) -> None:
    assert READERS[name.partition("-")[0]](_finished(name)) == READ[name]


def test_every_sample_is_read() -> None:
    assert {file.stem for file in SAMPLES.iterdir()} == set(READ)


@pytest.mark.parametrize("name", ["codex", "opencode", "pi"])
def test_of_a_cut_output_what_is_whole_is_read_and_of_a_kept_one_all(name: str) -> None:
    text, read = _finished(f"{name}-done").output, READERS[name]
    cut = read(Finished(duration_ms=1, exit_code=0, output=text[30:], output_bytes=len(text)))
    assert (cut.text, cut.error) == (DONE, None)
    long = text + b"x" * 100
    whole = Whole(size=len(long), sha256=b"", parts=lambda: (long[at : at + 7] for at in range(0, len(long), 7)))
    kept = Finished(duration_ms=1, exit_code=0, output=long[-10:], output_bytes=len(long), whole=whole)
    assert read(kept) == READ[f"{name}-done"]


@pytest.mark.parametrize("name", AGENT_PRESETS)
def test_without_any_output_that_is_what_went_wrong(name: str) -> None:
    said = READERS[name](Finished(duration_ms=1, exit_code=0, errors=b"first\nthe last thing it says\n\n"))
    assert (said.text, said.used, said.error) == (b"", None, "the last thing it says")
    assert READERS[name](Finished(duration_ms=1, exit_code=0)).error


def test_any_command_can_write_what_claude_does() -> None:
    answer = {"result": {"a": ["b"]}, "usage": {"input_tokens": 3, "output_tokens": 4}, "total_cost_usd": 0.5}
    output = json.dumps(answer, indent=2).encode()
    said = read_object(Finished(duration_ms=1, exit_code=0, output=output, output_bytes=len(output)))
    assert said == Said(text=b'{"a": ["b"]}', used=Usage(tokens=7, cost_usd=0.5))


CLAUDE: dict[str, object] = {"result": "done", "is_error": False}
PI = {"content": [{"type": "text", "text": "done"}], "stopReason": "stop"}
CODEX = {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 2}}
WELL: dict[str, list[object]] = {
    "claude": [CLAUDE],
    "codex": [CODEX],
    "gemini": [{"response": "done"}],
    "opencode": [{"type": "step_finish", "part": {"tokens": {"total": 1}}}],
    "pi": [{"type": "turn_end", "message": PI}],
}
BADLY: list[tuple[str, object]] = [
    *(("claude", {**CLAUDE, "is_error": odd}) for odd in (1, "true", None, [], True)),
    *(("claude", {**CLAUDE, name: "many"}) for name in ("usage", "modelUsage", "total_cost_usd", "errors")),
    *(("codex", {**CODEX, "usage": odd}) for odd in ("many", [], {"input_tokens": "1"}, {"output_tokens": None})),
    *(("codex", {"type": "turn.failed", "error": odd}) for odd in ("no", {"message": 1}, {}, None)),
    *(("gemini", {"response": odd}) for odd in (1, ["done"])),
    ("gemini", {"response": "done", "error": " "}),
    *(("opencode", {"type": "error", "error": odd}) for odd in ("no", {"data": {"statusCode": "401"}}, {})),
    *(
        ("pi", {"type": "turn_end", "message": {**PI, "stopReason": odd}})
        for odd in (1, True, ["error"], None, "error")
    ),
    *(("pi", {"type": "turn_end", "message": odd}) for odd in ({**PI, "usage": {"totalTokens": "1"}}, "done")),
]


def _said(name: str, *lines: object) -> Said:
    output = b"\n".join(json.dumps(line).encode() for line in lines)
    return READERS[name](Finished(duration_ms=1, exit_code=0, output=output, output_bytes=len(output)))


@each("name", WELL)
def test_an_output_that_ends_well_is_a_success(name: str) -> None:
    assert _said(name, *WELL[name]).error is None


@pytest.mark.parametrize(("name", "end"), BADLY)
def test_an_end_that_cannot_be_read_is_no_success(name: str, end: object) -> None:
    """Also after one that could be, where a program writes several."""
    assert _said(name, end).error
    if name not in ("claude", "gemini"):
        assert _said(name, *WELL[name], end).error


@pytest.mark.parametrize("name", ["codex", "pi"])
def test_the_last_end_decides(name: str) -> None:
    bad = [end for agent, end in BADLY if agent == name]
    assert _said(name, *bad, *WELL[name]).error is None


_WORDS = st.sampled_from(
    [
        *("type", "text", "part", "item", "usage", "error", "message", "result", "response", "stats", "models"),
        *("turn_end", "turn.completed", "turn.failed", "item.completed", "agent_message", "step_finish", "is_error"),
        *("total_cost_usd", "modelUsage", "tokens", "total", "cost", "stopReason", "errorMessage", "content", "data"),
    ]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
_OUTPUT = st.lists(_JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=30), max_size=6).map(
    b"\n".join
)


@given(name=st.sampled_from(AGENT_PRESETS), output=_OUTPUT, errors=_OUTPUT, more=st.integers(0, 9))
def test_no_output_is_too_strange(name: str, output: bytes, errors: bytes, more: int) -> None:
    finished = Finished(
        duration_ms=1, exit_code=0, output=output, output_bytes=len(output) + more, errors=errors, errors_bytes=1
    )
    _sound(READERS[name](finished))


@pytest.mark.parametrize("name", AGENT_PRESETS)
@pytest.mark.parametrize("deep", [b'{"error":', b"[", b'{"message":\n', b"{\n"])
def test_nor_too_deep(name: str, deep: bytes) -> None:
    data = deep * 100_000
    _sound(READERS[name](Finished(duration_ms=1, exit_code=0, output=data, output_bytes=len(data), errors=data)))


@pytest.mark.parametrize("name", AGENT_PRESETS)
@pytest.mark.parametrize("number", ["1e400", "-5", "9" * 400, "1e308"])
def test_nor_are_its_numbers_too_large(name: str, number: str) -> None:
    text = (SAMPLES / f"{name}-done.out").read_text()
    for old in (":1,", ":2,", ":4,", ": 4,", ":3}", ":3,"):
        text = text.replace(old, f":{number}{old[-1]}")
    _sound(READERS[name](Finished(duration_ms=1, exit_code=0, output=text.encode(), output_bytes=len(text))))


def _sound(said: Said) -> None:
    assert isinstance(said.text, bytes) and (said.error is None or (said.error and len(said.error) <= 500))
    if said.used is not None:
        assert said.used.tokens is None or 0 < said.used.tokens <= 2**53
        assert said.used.cost_usd is None or said.used.cost_usd > 0
