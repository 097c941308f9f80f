"""What a person is told before trusting settings with which nothing is wrong."""

import pytest

from ordain.core.lint.settings import remarks
from ordain.core.plan.tool import ToolSource
from ordain.core.policy.agent import Agent
from ordain.core.policy.rule import CallRule
from ordain.core.policy.settings import Settings

ENFORCED = Settings(guard_mode="enforce", deny=("mail:send",), guarded=("*", "mail"))


def said(now: Settings, before: Settings | None = None) -> list[str]:
    return list(remarks(before, now))


def test_an_address_that_is_told_of_the_workspace_is_named_once_it_is_new() -> None:
    coder = Agent(model="anthropic:m", base_url="https://x.example")
    now = Settings(agents={"coder": coder}, agent="coder", arbiter="openai:m", planner_model="ollama:m")
    first, second, third = said(now)
    assert first.startswith("[agents.coder] is a model at https://x.example: what it is asked, what it reads")
    assert third.startswith("[planner] model is a model at http://127.0.0.1:11434/v1")
    assert second.startswith("[run] arbiter is a model at https://api.openai.com/v1")
    assert said(now, now) == []


def test_there_is_nothing_to_say_of_settings_that_say_nothing_or_become_stricter():
    assert said(Settings()) == said(ENFORCED) == said(ENFORCED, ENFORCED) == []


def test_what_is_no_longer_enforced_is_told():
    assert said(Settings(), ENFORCED) == [
        "Nothing is refused any more outside of plans: [guard] mode is no longer `enforce`, calls are only noted.",
        "[policy] deny no longer names `mail:send`.",
        "[guard] guarded no longer names `mail`.",
    ]


def test_that_everything_is_open_is_told():
    (nothing,) = said(Settings(guard_mode="enforce", guarded=()))
    assert nothing == "Every tool that is known is open to agents outside of plans: [guard] guarded has no `*`."
    (some,) = said(Settings(guarded=("mail:send",)))
    assert "open to agents outside of plans but `mail:send`" in some


def test_a_server_that_is_called_like_ours_is_told():
    (told,) = said(Settings(sources={"ordain": ToolSource(mcp=("x",)), "mail": ToolSource(mcp=("y",))}))
    assert told.startswith("[tools.ordain] is called like Ordain's own server")
    assert said(Settings(sources={"ordain": ToolSource(python="a:b")})) == []


@pytest.mark.parametrize("key", ["deny", "ask", "guarded", "open_calls"])
def test_a_tool_of_a_host_that_nobody_knows_may_be_newer_or_misspelt(key):
    entries = ("*", "claude-code:WebFecth", "claude-code:WebFetch", "claude-code", "mcp__linear__create_issue")
    (told,) = said(Settings(**{key: entries}))
    assert "names `claude-code:WebFecth`, which this version of Ordain does not know. Did you mean `WebFetch`?" in told


def test_the_name_of_a_host_for_writing_means_less_than_it_seems():
    rule = CallRule(tools=("claude-code:Write",))
    assert said(Settings(rules={"x": rule})) == [
        "[rules.x] tools names `claude-code:Write`, which is writing outside of the workspace; "
        "in it, that is `write_file`."
    ]
