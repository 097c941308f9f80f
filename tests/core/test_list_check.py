"""What is wrong with the lists of the settings: entries that mean nothing, rules that do not do what examples say."""

from typing import Any

import pytest
from msgspec.structs import replace

from ordain.core.lint.settings import list_problems, named_sources
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import BUILT_IN, ToolDefinition, ToolSource
from ordain.core.policy.agent import Agent
from ordain.core.policy.rule import CallRule, Example
from ordain.core.policy.settings import Settings
from ordain.core.text.problem import Problem
from tests.rows import each

SEND = ToolDefinition(
    name="mail:send",
    description="",
    effect=EffectClass.OPAQUE,
    schema={"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
)
TOOLS = {**BUILT_IN, "mail:send": SEND}
KNOWN = Settings(
    agents={"coder": Agent(human=True)},
    sources={
        "odoo": ToolSource(mcp=("odoo",), effects={"search": EffectClass.READS}),
        "a:b": ToolSource(mcp=("b",)),
        "mail": ToolSource(mcp=("mail",)),
    },
    rules={"ours": CallRule(tools=("mail:send",), where={"to": "*@example.com"})},
)
LISTS = {
    "policy.allow": "allow",
    "policy.ask": "ask",
    "policy.deny": "deny",
    "guard.guarded": "guarded",
    "guard.open": "open_calls",
}


def said(settings: Settings) -> list[str]:
    return [problem.detail for problem in list_problems(settings, TOOLS)]


def listed(where: str, *entries: str) -> Settings:
    return replace(KNOWN, **{LISTS[where]: entries})


# --- Entries that mean nothing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", LISTS)
@pytest.mark.parametrize(
    "entry",
    [
        *("reads", "destructive", "shell", "exec", "write_file", "delete", "odoo", "odoo:read", "odoo:remote add"),
        *("a:b", "a:b:c", "path:docs/**", "path:docs/", "path:[id]/a b", "delete:x", "rule:ours"),
    ],
)
def test_an_entry_that_is_known(where, entry):
    assert said(listed(where, entry)) == []


@pytest.mark.parametrize("where", ["policy.allow", "policy.ask", "policy.deny"])
@pytest.mark.parametrize("entry", ["task", "agent:coder"])
def test_what_only_plans_do_is_for_the_policy(where, entry):
    assert said(listed(where, entry)) == []


@pytest.mark.parametrize("where", ["guard.guarded", "guard.open"])
def test_what_only_plans_do_means_nothing_to_the_guard(where):
    assert said(listed(where, "task", "agent:coder", "custom:announce")) == [
        f"{where} names `task`, which only a plan can do.",
        f"{where} names `agent:coder`, and lists name what is called, not who calls.",
        f"{where} names `custom:announce`, which only a plan can do.",
    ]


@pytest.mark.parametrize("where", ["policy.ask", "policy.deny", "guard.guarded", "guard.open"])
@pytest.mark.parametrize("entry", ["claude-code", "claude-code:WebFetch", "mcp__linear__create_issue", "mcp__a-b__c-d"])
def test_tools_of_hosts_can_be_named_though_nobody_here_knows_them(where, entry):
    assert said(listed(where, entry)) == []


def test_no_plan_calls_tools_of_hosts():
    assert said(listed("policy.allow", "claude-code:WebFetch")) == [
        "policy.allow names `claude-code:WebFetch`, which no plan can call."
    ]


@pytest.mark.parametrize("entry", ["claude-code:", "claude-code:Web Fetch", "mcp__linear", "claude:WebFetch"])
def test_what_only_looks_like_a_tool_of_a_host(entry):
    assert len(said(listed("guard.open", entry))) == 1


@pytest.mark.parametrize(("entry", "ours"), [("Bash", "shell"), ("Read", "read_file"), ("Glob", "list_files")])
def test_what_goes_by_our_name_is_named_by_no_other(entry, ours):
    for where in ("policy.deny", "guard.guarded", "guard.open"):
        assert list_problems(listed(where, f"claude-code:{entry}", "claude-code:Write"), TOOLS) == (
            Problem(
                code="E_CONFIG",
                detail=f"{where} names `claude-code:{entry}`, which is `{ours}` here.",
                hints=(f"Write `{ours}`.",),
            ),
        )


def test_everything_is_for_what_is_guarded_only():
    assert said(listed("guard.guarded", "*")) == []
    for where in ("policy.allow", "policy.ask", "policy.deny", "guard.open"):
        assert said(listed(where, "*")) == [f"{where} names `*`, which is no tool, action or effect class."]


@each(
    "entry, detail, hints",
    [
        ("raeds", "which is no tool, action or effect class", ("Did you mean `reads`?",)),
        ("destructiv", "which is no tool, action or effect class", ("Did you mean `destructive`?",)),
        ("coder", "which is no tool, action or effect class", ("Write `agent:coder`.",)),
        ("ours", "which is no tool, action or effect class", ("Write `rule:ours`.",)),
        ("docs/**", "which is no tool, action or effect class", ("Write `path:docs/**`.",)),
        ("agent:codr", "and there is no agent of that name", ("Did you mean `coder`?",)),
        ("agent:", "and there is no agent of that name", ()),
        ("rule:our", "and there is no rule of that name", ("Did you mean `ours`?",)),
        ("rule:", "and there is no rule of that name", ()),
        ("paths:docs/**", "and there is no tool `paths`", ("Did you mean `path:`?",)),
        ("odo:read", "and there is no tool `odo`", ("Did you mean `odoo`?",)),
        ("odoo:", "without an operation", ("Write `odoo` for all it can do.",)),
        ("shell:rm", "and `shell` has no operations", ()),
        ("opaque:rm", "and `opaque` has no operations", ()),
        ("path:", "and that path is empty or has a NUL in it", None),
        ("path:/etc/**", "and that path is not relative to the workspace", None),
        ("path:../x", "and that path leads out of the workspace", None),
        ("path:" + "x" * 4096, "and that path is longer than any path", None),
    ],
)
def test_an_entry_that_means_nothing_is_told(entry, detail, hints):
    paths = ("Paths are relative to the workspace and stay beneath it.",)
    for where in ("policy.allow", "policy.ask", "policy.deny"):
        assert list_problems(listed(where, "reads", entry), TOOLS) == (
            Problem(
                code="E_CONFIG",
                detail=f"{where} names `{entry}`, {detail}.",
                hints=paths if hints is None else hints,
            ),
        )


@pytest.mark.parametrize("where", LISTS)
def test_an_operation_that_a_server_which_was_asked_does_not_have_is_told(where):
    assert list_problems(listed(where, "mail:send", "mail:sned", "odoo:anything"), TOOLS) == (
        Problem(
            code="E_CONFIG",
            detail=f"{where} names `mail:sned`, and `mail` has no operation `sned`.",
            hints=("Did you mean `send`?",),
        ),
    )
    assert said(listed(where, "mail:no good name!")) == [], "plans cannot call it, and an agent can"


def test_effects_of_operations_that_there_are_not_are_told():
    sources = {**KNOWN.sources, "mail": ToolSource(mcp=("mail",), effects={"sned": EffectClass.READS})}
    assert said(replace(KNOWN, sources=sources)) == [
        "tools.mail.effects names `sned`, and `mail` has no operation `sned`."
    ]


def test_arguments_that_no_tool_of_a_rule_takes_are_told():
    rule = CallRule(tools=("mail:send", "write_file"), where={"too": "*@example.com", "path": "x", "to": "y"})
    assert list_problems(ruled({"press": rule}), TOOLS) == (
        Problem(
            code="E_CONFIG",
            detail="rules.press.where names `too`, and `mail:send`, `write_file` takes no such argument.",
            hints=("Did you mean `to`?",),
        ),
    )
    assert said(ruled({"press": replace(rule, tools=("mail",))})) != []
    for tools in (("mail:send", "odoo:write"), ("mail:send", "opaque"), ("path:docs/**",)):
        assert said(ruled({"press": replace(rule, tools=tools)})) == [], "who knows what those take"


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"properties": {"to": {}}, "additionalProperties": True},
        {"properties": {"to": {}}, "patternProperties": {"^x-": {}}},
        {"properties": {"to": {}}, "anyOf": [{"properties": {"too": {}}}]},
    ],
)
def test_a_tool_that_may_take_other_arguments_takes_any(schema):
    settings = ruled({"press": CallRule(tools=("mail:send",), where={"too": "*@example.com"})})
    assert list_problems(settings, {**TOOLS, "mail:send": replace(SEND, schema=schema)}) == ()


def test_servers_are_asked_of_which_operations_or_arguments_are_named():
    by_rule = CallRule(tools=("mail",), where={"to": "x"})
    assert named_sources(replace(KNOWN, rules={})) == {"odoo"}, "its effects are said"
    assert named_sources(replace(KNOWN, rules={"x": by_rule}, deny=("a:b:c", "write_file"))) == {"odoo", "mail", "a:b"}


def test_what_is_off_limits_may_be_denied_but_not_let_through():
    entry = "path:.git/hooks/**"
    for where in ("policy.ask", "policy.deny", "guard.guarded"):
        assert said(listed(where, entry)) == []
        assert said(ruled({"x": CallRule(tools=(entry,))}, **{LISTS[where]: ("rule:x",)})) == []
    for where in ("policy.allow", "guard.open"):
        fault = "and that path is off limits."
        assert said(listed(where, entry)) == [f"{where} names `{entry}`, {fault}"]
        assert said(ruled({"x": CallRule(tools=(entry,))}, **{LISTS[where]: ("rule:x",)})) == [
            f"rules.x.tools names `{entry}`, {fault}"
        ]


def test_what_is_open_and_guarded_gets_a_word():
    settings = replace(KNOWN, guarded=("*", "odoo:read"), ask=("odoo:read",), open_calls=("odoo:read", "rule:ours"))
    assert said(settings) == ["guard.open names `odoo:read`, and so do policy.ask and guard.guarded, which wins."]
    assert said(replace(settings, ask=(), guarded=("rule:ours",))) == [
        "guard.open names `rule:ours`, and so does guard.guarded, which wins."
    ]


def test_to_guard_what_is_open_by_default_contradicts_nobody():
    assert said(replace(KNOWN, guarded=("reads", "*"))) == []


# --- Rules and their examples --------------------------------------------------------------------------------------


def ruled(rules: dict[str, CallRule], **lists: tuple[str, ...]) -> Settings:
    return replace(KNOWN, rules=rules, **lists)


def tried(matches: list[Any] = [], matches_not: list[Any] = [], *, besides: tuple[str, ...] = (), **lists: Any):  # noqa: B006
    """What is said of a rule for mail to example.com, with these arguments as examples."""
    rule = CallRule(
        tools=("mail:send",),
        where={"to": "*@example.com"},
        besides=besides,
        matches=tuple(Example(tool="mail:send", args=args) for args in matches),
        matches_not=tuple(Example(tool="mail:send", args=args) for args in matches_not),
    )
    return [(problem.detail, problem.hints) for problem in list_problems(ruled({"ours": rule}, **lists), TOOLS)]


OPEN: dict[str, Any] = {"open_calls": ("rule:ours",)}
DENY: dict[str, Any] = {"deny": ("rule:ours",)}


@pytest.mark.parametrize("lists", [{}, OPEN, DENY])
def test_a_rule_that_does_what_its_examples_say(lists):
    assert tried([{"to": "kim@example.com"}], [{"to": "kim@example.org"}], **lists) == []


def test_all_that_is_not_so_is_told():
    assert tried([{"to": "kim@example.org"}], [{"to": "kim@example.com"}], **OPEN) == [
        (
            'rules.ours.matches: `mail:send {"to": "kim@example.org"}` must be let through, and is not '
            "(guard.open names the rule).",
            (
                "`to` is not like what `where` says.",
                "What lets through is compared letter by letter, and `*` stands for no separator.",
            ),
        ),
        (
            'rules.ours.matches_not: `mail:send {"to": "kim@example.com"}` must not be let through, and is '
            "(guard.open names the rule).",
            ("Say more in `where`, or name less in `tools`; or take the example away if it is right as it is.",),
        ),
    ]


def test_the_same_call_may_be_meant_and_not_let_through():
    """A rule means more where it forbids than where it lets through."""
    shouted = {"to": "KIM@EXAMPLE.COM"}
    assert tried([], [shouted], **OPEN) == []
    assert tried([shouted], [], **DENY) == []
    assert [detail for detail, _ in tried([shouted], [], **OPEN)] == [
        'rules.ours.matches: `mail:send {"to": "KIM@EXAMPLE.COM"}` must be let through, and is not '
        "(guard.open names the rule)."
    ]
    assert [detail for detail, _ in tried([], [shouted], **DENY, ask=("rule:ours",))] == [
        'rules.ours.matches_not: `mail:send {"to": "KIM@EXAMPLE.COM"}` must not be meant, and is '
        "(policy.deny and policy.ask name the rule)."
    ]
    # In no list, it is tried in both ways.
    assert len(tried([shouted], [shouted])) == 2


def test_what_only_may_be_meant_is_neither():
    later = {"to": "${ask.output}"}
    assert [detail for detail, _ in tried([later], [later], **DENY)] == [
        'rules.ours.matches: `mail:send {"to": "${ask.output}"}` must be meant, and only may be '
        "(policy.deny names the rule).",
        'rules.ours.matches_not: `mail:send {"to": "${ask.output}"}` must not be meant, and may be '
        "(policy.deny names the rule).",
    ]


def test_an_argument_that_nobody_named_keeps_a_call_out():
    copied = {"to": "kim@example.com", "bcc": "eve@example.org"}
    ((_, hints),) = tried([copied], **OPEN)
    assert hints == ("It has `bcc`, named neither in `where` nor in `besides`.",)
    assert tried([copied], besides=("bcc",), **OPEN) == []


def test_all_that_keeps_a_call_out_is_told():
    rule = CallRule(
        tools=("mail:send",),
        where={"to": "*@example.com"},
        matches=(Example(tool="odoo:x", args={"cc": "a", "to": "b"}),),
    )
    (problem,) = list_problems(ruled({"x": replace(rule, tools=("odoo:x",))}, open_calls=("rule:x",)), TOOLS)
    assert problem.hints == (
        "It has `cc`, named neither in `where` nor in `besides`.",
        "`to` is not like what `where` says.",
        "What lets through is compared letter by letter, and `*` stands for no separator.",
    )


def test_calls_that_nobody_can_make_are_told():
    rule = CallRule(
        tools=("mail:send", "delete"),
        matches=(
            Example(tool="mail:send", args={"to": 5}),
            Example(tool="mail:send"),
            Example(tool="delete", args={"paht": "x"}),
            Example(tool="deleet"),
        ),
    )
    assert said(ruled({"x": rule}, deny=("rule:x",))) == [
        'rules.x.matches: `mail:send {"to": 5}` cannot be called: `mail:send`: `to` should be a text.',
        "rules.x.matches: `mail:send` cannot be called: `mail:send` needs the argument `to`.",
        'rules.x.matches: `delete {"paht": "x"}` cannot be called: `delete` takes no argument `paht`.',
        'rules.x.matches: `delete {"paht": "x"}` cannot be called: `delete` needs the argument `path`.',
        "rules.x.matches: `deleet` calls a tool that there is not.",
    ]


def test_of_a_server_that_was_not_asked_the_settings_tell():
    search, write = Example(tool="odoo:search", args={"anything": 1}), Example(tool="odoo:write")
    rule = CallRule(tools=("reads",), matches=(search,), matches_not=(write,))
    assert said(ruled({"x": rule}, open_calls=("rule:x",))) == []


def test_tools_of_hosts_can_be_examples():
    fetch = Example(tool="claude-code:WebFetch", args={"url": "https://docs.example.com/a"})
    rule = CallRule(tools=("claude-code:WebFetch",), where={"url": "https://*.example.com/*"}, besides=("prompt",))
    rule = replace(rule, matches=(fetch,), matches_not=(replace(fetch, args={"url": "https://example.org/"}),))
    assert said(ruled({"x": rule}, open_calls=("rule:x",))) == []


def test_a_command_is_known_by_its_name_alone():
    shell = Example(tool="shell", args={"command": "rm -rf x"})
    assert said(ruled({"x": CallRule(tools=("shell",), matches=(shell,))})) == []
    rule = CallRule(tools=("opaque",), where={"command": "rm*"}, matches=(shell,))
    assert [detail.partition("` ")[2] for detail in said(ruled({"x": rule}))] == [
        "must be let through, and is not.",
        "must be meant, and only may be.",
    ]
