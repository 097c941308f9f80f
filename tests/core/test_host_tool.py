"""The tools of Claude Code in the words of the rules: what each call is taken for, and where its paths lead."""

from __future__ import annotations

import pytest

from ordain.core.guard.call import Call, CallStanding, Guard
from ordain.core.guard.host_tool import FoundPath, found_at, host_calls, idle, mangled, proposable, strictest
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import ToolSource
from ordain.core.policy.settings import Settings
from tests.rows import each

MAIL = ToolSource(mcp=("mail-server",), effects={"search": EffectClass.READS, "read.one": EffectClass.READS})
SETTINGS = Settings(sources={"mail": MAIL, "odd.name": MAIL, "local": ToolSource(python="a:b")})


def inside(path: str) -> FoundPath:
    return FoundPath((path.removeprefix("/w/"),))


def outside(path: str) -> FoundPath:
    return FoundPath(())


def calls(tool: str, locate=inside, server: str | None = None, settings: Settings = SETTINGS, **args: object):
    return host_calls(tool, args, server, settings, ("ordain",), locate)


def only(tool: str, *more: object, **args: object) -> Call:
    (call,) = calls(tool, *more, **args)
    return call


def standing(call: Call, **settings: object) -> CallStanding:
    return Guard(Settings(**settings)).judge(call).standing


def test_a_command_is_the_shell_as_a_whole():
    call = only("Bash", command="git status && rm -rf /", description="Look", timeout=5)
    assert (call.tool, call.args) == ("shell", {"command": "git status && rm -rf /"})
    assert standing(call) is CallStanding.GUARDED
    assert standing(call, open_calls=("shell",)) is CallStanding.OPEN
    # Nothing that is said beside the command makes another tool of it.
    assert only("Bash", command=["ls"]).args == {}


@pytest.mark.parametrize(
    ("tool", "args", "ours", "told"),
    [
        ("Read", {"file_path": "/w/a.txt", "offset": 3}, "read_file", {"path": "a.txt"}),
        ("Write", {"file_path": "/w/a.txt", "content": "x"}, "write_file", {"path": "a.txt", "content": "x"}),
        (
            "Edit",
            {"file_path": "/w/a.txt", "old_string": "a", "new_string": "b", "replace_all": False},
            "edit_file",
            {"path": "a.txt", "old": "a", "new": "b"},
        ),
        ("MultiEdit", {"file_path": "/w/a.txt", "edits": []}, "edit_file", {"path": "a.txt"}),
        ("NotebookEdit", {"notebook_path": "/w/a.ipynb"}, "edit_file", {"path": "a.ipynb"}),
        ("Glob", {"pattern": "*"}, "list_files", {"path": "."}),
        ("Grep", {"pattern": "x", "path": "/w/src"}, "read_file", {"path": "src"}),
    ],
)
def test_what_works_on_files_is_the_tool_of_ours_that_does_the_same(tool, args, ours, told):
    call = only(tool, **args)
    assert (call.tool, call.args, call.definition.name) == (ours, told, ours)
    assert proposable(call)


def test_paths_are_held_against_the_rules_as_the_workspace_has_them():
    rules = {"deny": ("path:secret/**",), "open_calls": ("reads", "path:docs/**")}
    assert standing(only("Write", file_path="/w/docs/a.md", content=""), **rules) is CallStanding.OPEN
    assert standing(only("Write", file_path="/w/src/a.py", content=""), **rules) is CallStanding.GUARDED
    assert standing(only("Read", file_path="/w/secret/key"), **rules) is CallStanding.DENIED
    assert standing(only("Read", file_path="/w/a.txt"), **rules) is CallStanding.OPEN
    # Whoever searches everything beneath a directory reads what is denied in it.
    assert standing(only("Grep", pattern="x", path="/w/."), **rules) is CallStanding.GUARDED
    assert standing(only("Grep", pattern="x", path="/w/docs"), **rules) is CallStanding.OPEN


def test_a_path_with_two_names_is_judged_by_both_and_the_stricter_judgement_holds():
    def linked(path: str) -> FoundPath:
        return FoundPath(("public/key", "secret/link"))

    guard = Guard(Settings(deny=("path:secret/**",), open_calls=("reads",)))
    call, judged = strictest(guard, calls("Read", linked, file_path="/w/secret/link"))
    assert (call.args["path"], judged.standing) == ("secret/link", CallStanding.DENIED)


def test_outside_of_the_workspace_no_path_rule_holds_reading_is_reading_and_writing_is_never_ours():
    rules = {"deny": ("path:etc/**", "path:**/passwd"), "open_calls": ("reads", "write_file", "path:**")}
    assert standing(only("Read", outside, file_path="/etc/passwd"), **rules) is CallStanding.OPEN
    write = only("Write", outside, file_path="/etc/motd", content="x")
    assert (write.tool, standing(write, **rules)) == ("claude-code:Write", CallStanding.GUARDED)
    assert not proposable(write)
    assert standing(write, open_calls=("claude-code:Write",)) is CallStanding.OPEN


def test_writing_outside_of_the_workspace_is_not_open_because_nothing_guards_it():
    write = only("Write", outside, file_path="/home/.bashrc", content="x")
    for rules in ({"guarded": ("write_file",)}, {"guarded": ()}, {"open_calls": ("opaque", "destructive")}):
        assert standing(write, **rules) is CallStanding.GUARDED


def test_a_search_through_a_link_also_means_what_lies_beneath():
    rules = Guard(Settings(deny=("path:**/key",), open_calls=("reads",)))
    _, judged = strictest(rules, calls("Grep", lambda _: FoundPath((), through="link"), path="/w/link"))
    assert judged.standing is CallStanding.GUARDED


@pytest.mark.parametrize("path", [None, 7, "", "a\0b"])
def test_a_path_that_is_none_is_nobody_knows_what(path):
    assert only("Write", file_path=path, content="x").definition is None


@pytest.mark.parametrize("tool", ["Agent", "Task", "TodoWrite", "AskUserQuestion", "Skill", "BashOutput", "KillShell"])
def test_what_only_arranges_the_work_does_nothing(tool):
    call = only(tool, prompt="go")
    assert idle(call) and standing(call) is CallStanding.OPEN


@pytest.mark.parametrize("tool", ["WebFetch", "WebSearch", "CronCreate", "bash", "Bash ", "read_file", "shell"])
def test_what_reaches_outside_and_what_nobody_knows_is_guarded(tool):
    call = only(tool, url="https://example.com/?q=secret")
    assert not idle(call) and standing(call) is CallStanding.GUARDED
    assert call.tool == f"claude-code:{tool}"


@each(
    "path",
    [
        "/w/.claude/settings.json",
        "/w/.claude/settings.local.json",
        "/w/.claude/hooks/x.sh",
        "/w/.Claude/skills/x/SKILL.md",
        "/home/kim/.claude/agents/x.md",
        "/home/kim/.claude/commands/x.md",
        "/home/kim/.claude/plugins/x/plugin.json",
        "/w/sub/.mcp.json",
    ],
)
def test_what_tells_the_host_what_to_run_is_never_open(path):
    found = found_at(path, path, "/w", states=(), plans=None)
    for call in calls("Write", lambda _: found, file_path=path, content="x"):
        assert standing(call, open_calls=("write_file", "path:**", "claude-code:Write")) is CallStanding.GUARDED


# --- Tools of servers ------------------------------------------------------------------------------------------------


def test_our_own_servers_judge_what_is_called_of_them():
    assert calls("mcp__ordain__plan_propose") == ()
    assert calls("mcp__ordain__mail__send", server="ordain") == ()
    # A server whose name only begins like ours is not ours.
    assert only("mcp__ordain__x__send", server="ordain__x").definition is None
    assert only("mcp__ordain__x__send").definition is None


def test_tools_of_a_configured_server_have_the_effects_that_the_configuration_says():
    search, send = only("mcp__mail__search", q="x"), only("mcp__mail__send", to="x")
    assert (search.tool, standing(search)) == ("mail:search", CallStanding.OPEN)
    assert (send.tool, standing(send)) == ("mail:send", CallStanding.GUARDED)
    assert proposable(send)


def test_names_are_compared_as_the_host_writes_them():
    assert mangled("odd.name") == "odd_name"
    assert only("mcp__odd_name__read_one").tool == "odd.name:read.one"
    named = Settings(sources={"mail": MAIL}, deny=("mail:wipe/all",))
    assert only("mcp__mail__wipe_all", settings=named).tool == "mail:wipe/all"
    for effects in (
        {"a.b": EffectClass.READS, "a/b": EffectClass.OPAQUE},
        {"a/b": EffectClass.OPAQUE, "a.b": EffectClass.READS},
    ):
        two = Settings(sources={"mail": ToolSource(mcp=("m",), effects=effects)})
        found = calls("mcp__mail__a_b", settings=two)
        assert strictest(Guard(two), found)[1].standing is CallStanding.GUARDED, "it may be either of two"


def test_two_servers_that_are_called_alike_are_neither():
    alike = Settings(sources={"a.b": MAIL, "a:b": MAIL})
    assert only("mcp__a_b__search", settings=alike).definition is None


def test_a_server_that_nobody_configured_cannot_take_a_name_of_ours():
    call = only("mcp__claude-code__Read")
    assert (call.tool, call.definition) == ("mcp__claude-code__Read", None)
    # What is no server in the configuration is none here either.
    assert only("mcp__local__x").definition is None


# --- Where paths lead ------------------------------------------------------------------------------------------------


def at(real: str, named: str | None = None, **more: object) -> FoundPath:
    return found_at(real, named or real, "/w", **{"states": ("/state",), "plans": "/home/.claude/plans", **more})


def test_where_paths_lead():
    assert at("/w/a/b") == FoundPath(("a/b",))
    assert at("/w") == FoundPath((".",))
    assert at("/wide/a") == FoundPath(())
    assert at("/w/real", "/w/link") == FoundPath(("real", "link"))
    assert at("/w/real", "/elsewhere/link") == FoundPath(("real",))
    assert at("/elsewhere/x", "/w/link") == FoundPath((), through="link")
    # Also where it leads to what nobody writes.
    assert at("/state/ledger.db", "/w/link").through == at("/home/.claude/settings.json", "/w/link").through == "link"
    assert at("/w/state/x", states=("/w/state",)).paths == ("state/x",)


def test_the_reason_is_the_path():
    _, judged = strictest(Guard(Settings()), calls("Write", lambda _: at("/home/x"), file_path="~/x", content="x"))
    assert judged.why == "is guarded: its path leads out of the workspace"
    for name in ("ordain.toml", "ordain.toml ", "Ordain.toml.", "ordain.toml::$DATA"):
        assert "Ordain's settings" in at(f"/w/{name}").kept


def test_a_link_out_of_the_workspace_is_judged_by_its_name_too_and_opened_by_none():
    rules = Guard(Settings(deny=("path:secret/**",), open_calls=("path:**", "reads")))
    for path, expected in (("/w/secret/link", CallStanding.DENIED), ("/w/docs/link", CallStanding.OPEN)):
        found = found_at("/elsewhere/x", path, "/w", states=(), plans=None)
        _, judged = strictest(rules, calls("Read", lambda _, found=found: found, file_path=path))
        assert judged.standing is expected
        _, judged = strictest(rules, calls("Write", lambda _, found=found: found, file_path=path, content="x"))
        assert judged.standing is max(expected, CallStanding.GUARDED, key=list(CallStanding).index)


@each(
    "path",
    [
        "/state/workspaces/x/ledger.db",
        "/w/ordain.toml",
        "/w/ORDAIN.toml",
        "/w/.ordain/plans/x.md",
        "/w/.git/hooks/pre-commit",
        "/w/.git/config",
        "/w/.claude/settings.json",
        "/w/.claude/settings.local.json",
        "/home/.claude/settings.json",
        "/home/.claude.json",
        "/w/.mcp.json",
        "/etc/claude-code/managed-settings.json",
    ],
)
def test_what_the_guard_itself_hangs_on_is_never_open_to_be_written(path):
    (call,) = host_calls("Write", {"file_path": path, "content": "x"}, None, SETTINGS, (), at)
    everything = {"open_calls": ("reads", "repeatable", "checkable", "opaque", "write_file", "claude-code", "path:**")}
    assert call.kept and standing(call, **everything) is CallStanding.GUARDED
    assert standing(call, deny=("write_file", "claude-code:Write")) is CallStanding.DENIED
    (read,) = host_calls("Read", {"file_path": path}, None, SETTINGS, (), at)
    assert standing(read) is CallStanding.OPEN


def test_the_hosts_own_note_of_a_plan_may_be_written():
    (note,) = host_calls("Write", {"file_path": "/home/.claude/plans/a.md", "content": "x"}, None, SETTINGS, (), at)
    assert standing(note) is CallStanding.OPEN
    for path in ("/home/.claude/plans/a.sh", "/home/.claude/skills/a.md"):
        (other,) = host_calls("Write", {"file_path": path, "content": "x"}, None, SETTINGS, (), at)
        assert standing(other) is CallStanding.GUARDED
