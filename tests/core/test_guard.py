"""The guard: which calls outside of any run are let through, which need a plan, and what is said."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.guard.call import (
    Call,
    CallStanding,
    Cover,
    Guard,
    Judged,
    Mode,
    Same,
    cover_of,
    proposal_of,
    refusal_of,
)
from ordain.core.plan.action import CallTool
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.model import NestedPlan, Plan
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import BUILT_IN, SHELL, ToolDefinition
from ordain.core.policy.rule import CallRule
from ordain.core.policy.settings import Settings
from ordain.documents.reading import read
from ordain.interfaces.mcp.proposal import Proposal, document_of
from tests.build import plan, step
from tests.patience import hang_guard
from tests.rows import each

OPEN, GUARDED, DENIED = CallStanding


def server_tool(name: str, effect: str, *, destructive: bool = False) -> ToolDefinition:
    return ToolDefinition(
        name=name, description="", effect=EffectClass(effect), schema={"type": "object"}, destructive=destructive
    )


TOOLS = {
    **BUILT_IN,
    **{tool.name: tool for tool in (server_tool("mail:send", "opaque"), server_tool("mail:list", "reads"))},
    "mail:purge": server_tool("mail:purge", "repeatable", destructive=True),
}
OURS = CallRule(tools=("mail:send",), where={"to": "*@example.com"}, besides=("text",))
RULES = {"ours": OURS}


def call(name: str, **args: Any) -> Call:
    return Call(tool=name, args=args, definition=TOOLS.get(name))


def standing(it: Call, **settings: Any) -> CallStanding:
    return Guard(Settings(rules=RULES, **settings)).judge(it).standing


SEND = call("mail:send", to="kim@example.com", text="Hello")
LIST = call("mail:list")
BASH = call("shell", command="git status")
UNKNOWN = Call(tool="linear:create", args={"title": "x"})


# --- How a call stands -----------------------------------------------------------------------------------------------


@each(
    "it, settings, stands",
    [
        # By default, what reads is open and everything else needs a plan.
        (LIST, {}, OPEN),
        (call("read_file", path="a"), {}, OPEN),
        (SEND, {}, GUARDED),
        (BASH, {}, GUARDED),
        (UNKNOWN, {}, GUARDED),
        # `open` names what needs none.
        (SEND, {"open_calls": ("mail:send",)}, OPEN),
        (SEND, {"open_calls": ("mail",)}, OPEN),
        (SEND, {"open_calls": ("opaque",)}, OPEN),
        (SEND, {"open_calls": ("rule:ours",)}, OPEN),
        (call("mail:send", to="eve@example.org"), {"open_calls": ("rule:ours",)}, GUARDED),
        (call("mail:send", to="kim@example.com", bcc="eve@example.org"), {"open_calls": ("rule:ours",)}, GUARDED),
        (call("mail:purge"), {"open_calls": ("repeatable",)}, GUARDED),
        (call("mail:purge"), {"open_calls": ("destructive",)}, OPEN),
        (LIST, {"open_calls": ()}, GUARDED),
        # Commands are open or guarded as a whole.
        (BASH, {"open_calls": ("shell",)}, OPEN),
        (call("shell", command="rm -rf /"), {"open_calls": ("shell",)}, OPEN),
        (BASH, {"open_calls": ("exec",)}, GUARDED),
        (call("exec", argv=["git"]), {"open_calls": ("shell",)}, GUARDED),
        (call("shell", command=5), {"open_calls": ("shell",)}, GUARDED),
        (call("exec", argv="git"), {"open_calls": ("exec",)}, GUARDED),
        (call("exec", argv="git"), {"deny": ("shell",), "open_calls": ("exec",)}, DENIED),
        (Call(tool="shell:git", args={"command": "git"}, definition=SHELL), {"open_calls": ("shell",)}, GUARDED),
        # Any entry of `guarded` wins over `open`, but `*`.
        (SEND, {"guarded": ("mail:send",), "open_calls": ("mail",)}, GUARDED),
        (LIST, {"guarded": ("mail", "*"), "open_calls": ("reads", "mail:list")}, GUARDED),
        (SEND, {"guarded": ("rule:ours",), "open_calls": ("mail:send",)}, GUARDED),
        (call("mail:send", to="${x.output}"), {"guarded": ("rule:ours",), "open_calls": ("mail",)}, GUARDED),
        (call("mail:send", to="eve@example.org"), {"guarded": ("rule:ours",), "open_calls": ("mail",)}, OPEN),
        # Without `*`, only what is named is guarded; what nobody knows is guarded all the same.
        (call("mail:purge"), {"guarded": ("mail:send",)}, OPEN),
        (SEND, {"guarded": ("mail:send",)}, GUARDED),
        (SEND, {"guarded": ()}, OPEN),
        (UNKNOWN, {"guarded": ()}, GUARDED),
        # What nobody knows is open by its name alone, and by nothing that is assumed of it.
        (UNKNOWN, {"open_calls": ("linear:create",)}, OPEN),
        (UNKNOWN, {"open_calls": ("linear",)}, OPEN),
        (UNKNOWN, {"open_calls": ("opaque", "destructive")}, GUARDED),
        (Call(tool="mcp__linear__create"), {"open_calls": ("mcp__linear__create",)}, OPEN),
        (Call(tool="claude-code:WebFetch"), {"open_calls": ("claude-code:WebFetch",)}, OPEN),
        # No name is taken for what lists mean otherwise.
        (Call(tool="rule:ours"), {"open_calls": ("rule:ours",)}, GUARDED),
        (Call(tool="reads"), {"open_calls": ("reads",)}, GUARDED),
        (Call(tool="path:docs"), {"open_calls": ("path:docs",)}, GUARDED),
        (Call(tool="*"), {"open_calls": ("reads",)}, GUARDED),
        # Paths.
        (call("write_file", path="docs/a", content=""), {"open_calls": ("path:docs/**",)}, OPEN),
        (call("write_file", path="src/a", content=""), {"open_calls": ("path:docs/**",)}, GUARDED),
        (call("read_file", path="docs/key"), {"guarded": ("path:docs/key", "*")}, GUARDED),
        (call("read_file", path=["docs/key"]), {"guarded": ("path:docs/key", "*")}, GUARDED),
        (call("read_file", path="docs/key"), {"deny": ("path:docs",)}, DENIED),
        (call("list_files", path="."), {"deny": ("path:docs/key",)}, GUARDED),
        # What policy denies is denied, what it asks about is guarded, whatever else is said.
        (SEND, {"deny": ("rule:ours",), "open_calls": ("mail",)}, DENIED),
        (SEND, {"deny": ("mail",), "open_calls": ("mail:send",), "guarded": ()}, DENIED),
        (UNKNOWN, {"deny": ("linear",), "open_calls": ("linear",)}, DENIED),
        (UNKNOWN, {"deny": ("destructive",), "open_calls": ("linear",)}, DENIED),
        (SEND, {"ask": ("mail:send",), "open_calls": ("mail:send",), "guarded": ()}, GUARDED),
        (call("mail:send", to={}), {"deny": ("rule:ours",), "open_calls": ("mail",)}, GUARDED),
        (call("exec", argv=["git"]), {"deny": ("shell",), "open_calls": ("exec",)}, DENIED),
        # What policy allows without asking is no word about calls outside of plans.
        (SEND, {"allow": ("mail",)}, GUARDED),
    ],
)
def test_how_a_call_stands(it, settings, stands):
    assert standing(it, **settings) is stands


def test_why_is_the_end_of_a_sentence():
    guard = Guard(Settings(rules=RULES, deny=("mail:purge", "rule:ours"), ask=("write_file",), guarded=("shell", "*")))
    assert [guard.judge(it).why for it in (call("mail:purge"), call("write_file"), BASH, UNKNOWN, LIST)] == [
        "is denied: `[policy] deny` names `mail:purge`",
        "is guarded: `[policy] ask` names `write_file`",
        "is guarded: `[guard] guarded` names `shell`",
        "is guarded: nobody here knows such a tool",
        "is open by `reads`",
    ]
    assert guard.judge(call("mail:send", to={})).why == "may be what `[policy] deny` names (`rule:ours`)"
    assert guard.judge(call("mail:send")).why == "is guarded: nothing in `[guard] open` names it"
    assert Guard(Settings(guarded=())).judge(SEND).why == "is open: nothing guards it"


def test_a_rule_that_nearly_fits_is_named_and_what_was_said_is_not():
    rules = {
        "ours": CallRule(tools=("mail:send",), where={"to": "*@example.com"}, besides=("body",)),
        "other": CallRule(tools=("crm",), where={"to": "*"}),
    }
    guard = Guard(Settings(open_calls=("rule:ours", "rule:other"), rules=rules))
    whys = [
        guard.judge(call("mail:send", **args)).why
        for args in ({"to": "eve@evil.example"}, {"to": "kim@example.com", "sekrit": "x"})
    ]
    assert whys == [
        "is guarded: nothing in `[guard] open` names it; `rule:ours` would let it through, but for `to`",
        "is guarded: nothing in `[guard] open` names it; `rule:ours` would let it through, but for arguments that the "
        "rule does not name",
    ]


def test_the_mode_is_of_the_settings():
    assert Guard(Settings()).mode is Mode.OBSERVE
    assert Guard(Settings(guard_mode="enforce")).mode is Mode.ENFORCE


def test_a_guard_that_judged_much_judges_alike():
    """It lives long: what was compared for one call is no burden of the next."""
    guard = Guard(Settings(deny=tuple(f"path:*{number}*/x" for number in range(200))))
    for number in range(200):
        path = f"{number}" * 60 + "/y"
        assert guard.judge(call("read_file", path=path)).standing is OPEN


# --- Properties ------------------------------------------------------------------------------------------------------

ENTRIES = st.sampled_from(
    [
        *("reads", "repeatable", "checkable", "opaque", "destructive", "shell", "exec", "write_file", "mail"),
        *(
            "mail:send",
            "mail:list",
            "linear",
            "linear:create",
            "path:docs/**",
            "path:docs/key",
            "rule:ours",
            "rule:any",
        ),
        *("claude-code:WebFetch", "rule:none"),
    ]
)
LISTS = st.lists(ENTRIES, max_size=4).map(tuple)
SETTINGS = st.builds(
    Settings,
    allow=LISTS,
    ask=LISTS,
    deny=LISTS,
    guarded=st.lists(ENTRIES | st.just("*"), max_size=4).map(tuple),
    open_calls=LISTS,
    rules=st.just({"ours": OURS, "any": CallRule(tools=("mail", "reads", "path:docs/*"))}),
)
ARGS = st.dictionaries(
    st.sampled_from(["to", "text", "path", "content", "command", "argv", "overwrite", "bcc"]),
    st.sampled_from(["kim@example.com", "eve@example.org", "docs/key", "docs/a", ".", "${a.output}", True, 5, ["a"]]),
    max_size=3,
)
NAMES = st.sampled_from([*TOOLS, "linear:create", "claude-code:WebFetch", "rule:ours", "reads", "mail:new", ""])
CALLS = st.builds(lambda name, args: Call(tool=name, args=args, definition=TOOLS.get(name)), NAMES, ARGS)
STRICTNESS = {OPEN: 0, GUARDED: 1, DENIED: 2}


def rank(settings: Settings, it: Call) -> int:
    return STRICTNESS[Guard(settings).judge(it).standing]


@given(SETTINGS, CALLS, ENTRIES)
def test_no_entry_that_forbids_opens_anything(settings, it, entry):
    for where in ("deny", "ask", "guarded"):
        more = replace(settings, **{where: (*getattr(settings, where), entry)})
        assert rank(more, it) >= rank(settings, it)


@given(SETTINGS, CALLS, ENTRIES)
def test_no_entry_opens_what_is_named_as_forbidden(settings, it, entry):
    more = replace(settings, open_calls=(*settings.open_calls, entry))
    named = replace(settings, open_calls=(), guarded=tuple(one for one in settings.guarded if one != "*"))
    assert rank(more, it) <= rank(settings, it)
    if it.definition is not None and rank(named, it) > 0:
        assert rank(more, it) == rank(named, it)


@given(SETTINGS, CALLS)
def test_deny_wins_whatever_else_is_there(settings, it):
    denied = Settings(deny=settings.deny, rules=settings.rules)
    if rank(denied, it) == 2:
        assert rank(settings, it) == 2


@given(SETTINGS, CALLS)
def test_what_nobody_knows_is_open_by_its_name_alone(settings, it):
    unknown = replace(it, definition=None)
    if rank(settings, unknown) == 0:
        own = {it.tool, it.tool.partition(":")[0]}
        named = {
            entry for rule in settings.rules.values() for entry in rule.tools if "rule:" in str(settings.open_calls)
        }
        assert own & {*settings.open_calls, *named}


@given(SETTINGS, CALLS)
def test_what_would_open_a_call_would_forbid_it_in_another_list(settings, it):
    """What lets through is understood no wider than what forbids."""
    for entry in settings.open_calls:
        bare = replace(settings, deny=(), ask=(), guarded=("*",), open_calls=(entry,))
        if rank(bare, it) == 0:
            assert rank(replace(bare, deny=(entry,)), it) == 2
            assert rank(replace(bare, ask=(entry,)), it) == 1


# --- Whatever somebody sends -----------------------------------------------------------------------------------------


def nested(depth: int, make: Any) -> Any:
    value: Any = "docs/key"
    for _ in range(depth):
        value = make(value)
    return value


HOSTILE: dict[str, Any] = {
    "deep lists": {"path": nested(100_000, lambda value: [value])},
    "deep mappings": {"to": nested(100_000, lambda value: {"a": value})},
    "deep tuples": {"path": nested(100_000, lambda value: (value,))},
    "a long text": {"path": "x" * (1 << 20), "to": "kim@example.com, " * 100_000},
    "a long path": {"path": "a/" * 500_000},
    "many": {f"a{number}": number for number in range(100_000)},
    "a long name": {"x" * (1 << 20): 1},
    "no numbers": {"path": float("nan"), "to": [float("inf"), -0.0]},
    "long numbers": {"path": 10**5000, "to": 10**5000, "command": 10**5000},
    "halves of characters": {"path": "\ud800/docs", "to": "\udfff@example.com", "\ud800": 1},
    "NUL": {"path": "docs\0key", "to": "a\0@example.com"},
    "names that are no texts": {5: "x", None: "y", ("a",): "z"},
    "odd values": {"path": object(), "to": {1, 2}, "command": b"ls", "overwrite": "yes"},
    "nothing": {"path": None, "to": None, "command": None, "argv": None},
    "wrong kinds": {"path": {"a": 1}, "command": ["ls"], "argv": "ls", "env": 5, "url": [1], "method": {}},
}
WATCHED = Settings(
    deny=("path:docs/key", "rule:ours"),
    ask=("path:*/secret*",),
    open_calls=("reads", "rule:ours", "path:docs/**"),
    rules=RULES,
)


@pytest.mark.part(of=10)
@hang_guard
@pytest.mark.parametrize(
    "name", [*TOOLS, "linear:create", "", ":", "a:b:c", pytest.param("x" * 100_000, id="long"), "\ud800", "mail:\0"]
)
@pytest.mark.parametrize("args", HOSTILE.values(), ids=HOSTILE)
def test_no_arguments_break_the_guard_or_open_it(name, args):
    it = Call(tool=name, args=args, definition=TOOLS.get(name))
    judged = Guard(WATCHED).judge(it)
    cover = cover_of(it, APPROVED)
    problem = refusal_of(it, judged, cover)
    proposal_of(it)
    assert len(problem.detail) < 2_000
    reads = it.definition is not None and it.definition.effect is EffectClass.READS
    assert reads or judged.standing is not OPEN
    assert cover is None or not cover.exact


def test_what_is_too_much_to_look_at_is_not_open():
    for which in ("deep lists", "deep mappings", "deep tuples", "many", "a long name", "names that are no texts"):
        it = Call(tool="mail:list", args=HOSTILE[which], definition=TOOLS["mail:list"])
        assert Guard(Settings()).judge(it) == Judged(
            standing=GUARDED,
            why="is guarded: it has more arguments, or more within one another, than anybody can look at",
        )
        assert Guard(Settings(deny=("mail",))).judge(it).standing is DENIED


# --- Plans that have it ----------------------------------------------------------------------------------------------

MAILS = plan(
    step("read", tool="read_file", args={"path": "a"}),
    replace(step("send"), action=CallTool(tool="mail", operation="send", args=dict(SEND.args))),
    step("status", run="git status"),
)
APPROVED = [(plan_id(MAILS), False, MAILS)]


def covered(it: Call, *plans: tuple[Plan, bool]) -> Cover | None:
    return cover_of(it, [(plan_id(one), running, one) for one, running in plans])


def test_the_step_that_makes_a_call_is_found():
    assert covered(SEND, (MAILS, True)) == Cover(plan_id=plan_id(MAILS), step="send", exact=True, running=True)
    nesting = plan(replace(step("n"), action=NestedPlan(plan=MAILS)))
    found = covered(SEND, (nesting, False))
    assert found is not None
    assert (found.exact, found.running) == (True, False)


def test_other_arguments_are_another_call():
    for args in ({"to": "kim@example.com"}, {**SEND.args, "bcc": "x"}, {**SEND.args, "text": "hello"}):
        found = covered(call("mail:send", **args), (MAILS, False))
        assert found is not None
        assert not found.exact


def test_an_exact_one_goes_before_another():
    other = plan(replace(step("other"), action=CallTool(tool="mail", operation="send", args={})))
    found = covered(SEND, (other, True), (MAILS, False))
    assert found is not None
    assert (found.step, found.exact) == ("send", True)


def test_another_tool_or_command_is_in_no_plan():
    assert covered(call("mail:purge"), (MAILS, False)) is None
    assert covered(UNKNOWN, (MAILS, False)) is None
    assert covered(call("shell", command="rm -rf /"), (MAILS, False)) is None


def test_a_command_is_the_same_however_a_plan_says_it():
    said = plan(step("a", tool="shell", args={"command": "git status"}))
    for made in (said, MAILS):
        found = covered(BASH, (made, False))
        assert found is not None
        assert found.exact


# --- What is said ----------------------------------------------------------------------------------------------------


def test_what_is_denied_needs_no_plan():
    problem = refusal_of(
        SEND, Judged(standing=DENIED, why="is denied: x"), Cover(plan_id="p", step="s", exact=True, running=True)
    )
    assert problem.code == "E_POLICY_DENIED"
    assert problem.detail == "`mail:send` is denied: x."


def test_what_is_guarded_is_refused_with_the_way_to_it():
    judged = Judged(standing=GUARDED, why="is guarded: x")
    assert refusal_of(SEND, judged).code == "E_TOOL_GUARDED"
    for exact, code in ((True, "E_TOOL_GUARDED"), (False, "E_TOOL_ARGS_NOT_APPROVED")):
        for running in (True, False):
            cover = Cover(plan_id=plan_id(MAILS), step="send", exact=exact, running=running)
            problem = refusal_of(SEND, judged, cover)
            assert problem.code == code
            assert "kim@example.com" not in str(problem)
            assert problem.command == f"ordain show {plan_id(MAILS)[5:17]}"


def test_what_was_proposed_or_done_is_refused_with_where_it_stands():
    judged = Judged(standing=GUARDED, why="is guarded: x")
    other = Cover(plan_id="plan:" + "0" * 64, step="other", exact=False, running=False)
    for cover, code in ((None, "E_TOOL_GUARDED"), (other, "E_TOOL_ARGS_NOT_APPROVED")):
        waits = refusal_of(SEND, judged, cover, Same(plan_id=plan_id(MAILS), step="send"))
        assert (waits.code, waits.command) == (code, f"ordain approve {plan_id(MAILS)[5:17]}")
        for passed, words in ((True, "and it passed"), (False, "and it did not pass")):
            same = Same(plan_id=plan_id(MAILS), step="send", run_id="RUN-A", when="noon", passed=passed)
            done = refusal_of(SEND, judged, cover, same)
            assert (done.code, done.command) == (code, "ordain show RUN-A")
            assert "RUN-A made this very call at noon" in done.detail
            assert words in done.detail


def test_a_proposal_is_of_this_very_call():
    title = "mail:send to kim@example.com"
    assert proposal_of(SEND) == {
        "title": title,
        "steps": [{"description": title, "tool": "mail", "operation": "send", "args": dict(SEND.args)}],
    }
    assert proposal_of(BASH) == {
        "title": "Run git status",
        "steps": [{"description": "Run git status", "run": "git status"}],
    }
    assert proposal_of(call("mail:purge"))["title"] == "mail:purge"
    with_env = proposal_of(call("shell", command="make", env={"A": "b"}))
    assert with_env["steps"][0]["env"] == {"A": "b"}
    exec_step = proposal_of(call("exec", argv=["git"]))["steps"][0]
    assert (exec_step["tool"], exec_step["args"]) == ("exec", {"argv": ["git"]})


@given(CALLS)
def test_what_is_proposed_is_the_call_that_was_refused(it):
    """A person approves it, and then the plan has this very call."""

    if not it.tool or not it.definition:
        return
    proposal = msgspec.convert(json.loads(json.dumps(proposal_of(it))), Proposal)
    document = read(document_of(proposal))
    assert document.plan is not None, document.problems
    found = covered(it, (document.plan, False))
    assert found is not None
    assert found.exact


@each(
    "it, title",
    [
        (call("mail:send", body="x", to=["a@x.org", "b@x.org"]), "mail:send to a@x.org, b@x.org"),
        (call("mail:send", title="x" * 60, to="a"), f"mail:send to a, title {'x' * 50}\u2026"),
        (call("mail:send", subject="two\nlines ${x}", n=3), "mail:send subject two lines\u2026"),
        (call("mail:flag", n=3, ok=True, what="a", more="b"), "mail:flag n 3, what a"),
        (call("mail:send", to={"a": 1}, **{"# x": "y"}), "mail:send"),
        (call("mail:send", n=10**5000, x=None), "mail:send"),
        (call("shell", command='git commit -m "x"'), "Run git commit -m\u2026"),
        (call("shell", command="$x"), "Run a command"),
    ],
)
def test_a_proposal_is_titled_so_that_people_can_tell_it_from_others(it, title):
    proposal = proposal_of(it)
    assert (proposal["title"], proposal["steps"][0]["description"]) == (title, title)
