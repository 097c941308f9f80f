from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.plan.action import Ask, CallTool, Task
from ordain.core.plan.model import NestedPlan, Plan, Step
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import DEFINITIONS, ToolDefinition, ToolParameter
from ordain.core.policy import ruling as judge
from ordain.core.policy.effect import planned_effects
from ordain.core.policy.rule import CallRule
from ordain.core.policy.ruling import Ruling, rule
from ordain.core.policy.settings import Settings
from ordain.core.text.problem import Place, Problem
from tests.build import plan, step
from tests.rows import each


def tool(name: str, effect: str, *paths: str, destructive: bool = False) -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description="",
        effect=EffectClass(effect),
        parameters=tuple(ToolParameter(name=path, kind="string", path=True) for path in paths),
        destructive=destructive,
    )


TOOLS = {
    **DEFINITIONS,
    "index": tool("index", "opaque", "path"),
    "wipe": tool("wipe", "opaque", destructive=True),
    # Names by which a server of tools may hope to be let through.
    **{name: tool(name, "opaque") for name in ("reads", "ask", "shell", "agent", "agent:coder")},
}
READ = step("r", tool="read_file", args={"path": "a"})
WRITE = step("w", tool="write_file", args={"path": "b", "content": "x"})


def call(name: str, path: Any = None, *, to: str | None = None, contract: str | None = None) -> Step:
    args = {key: value for key, value in (("path", path), ("to", to)) if value is not None}
    return step("s", tool=name, args=args, contract=contract)


def calling(name: str, operation: str) -> Step:
    return replace(step("s"), action=CallTool(tool=name, operation=operation))


def task(agent: str | None = None, *, reads: tuple[str, ...] = (), writes: tuple[str, ...] = ()) -> Step:
    return replace(step("t"), action=Task(task="Do it.", agent=agent, reads=reads), writes=writes)


def nested(inner: Plan) -> Step:
    return replace(step("n"), action=NestedPlan(plan=inner))


def answer(ruling: Ruling) -> str:
    return "deny" if ruling.denied else "ask" if ruling.requires_approval else "allow"


def judged(one: Step, **lists: tuple[str, ...]) -> str:
    """What policy says of a plan of one step."""
    return answer(rule(plan(one), TOOLS, Settings(**{"allow": (), **lists})))


# --- What lists are ------------------------------------------------------------------------------------------------


@each(
    "steps, settings, asks, denied",
    [
        ([READ], Settings(), False, 0),
        ([READ, WRITE], Settings(), True, 0),
        ([step("a")], Settings(), True, 0),
        ([WRITE], Settings(allow=("reads", "repeatable")), False, 0),
        ([WRITE], Settings(allow=("write_file",)), False, 0),
        ([READ], Settings(ask=("read_file",)), True, 0),
        ([READ], Settings(deny=("reads",), allow=("reads",)), False, 1),
        ([step("a")], Settings(deny=("shell",), allow=("opaque",)), False, 1),
        ([step("a", tool="unknown")], Settings(allow=("reads",)), True, 0),
        ([READ], Settings(allow=()), True, 0),
        ([step("r", tool="list_files", contract="touch proof")], Settings(), True, 0),
        ([step("r", tool="list_files", contract="touch proof")], Settings(deny=("shell",)), False, 1),
    ],
)
def test_deny_wins_then_ask_then_allow_and_what_no_list_names_is_asked(steps, settings, asks, denied):
    ruling = rule(plan(*steps), DEFINITIONS, settings)
    assert (ruling.requires_approval, len(ruling.denied)) == (asks, denied)
    assert ruling.reasons or ruling.denied


@each(
    "one, entry",
    [
        (READ, "reads"),
        (WRITE, "repeatable"),
        (call("move", "a", to="b"), "checkable"),
        (step("a"), "opaque"),
        (call("delete", "a"), "destructive"),
        (step("a"), "shell"),
        (task("coder"), "task"),
        (replace(step("a"), action=Ask(question="Really?")), "ask"),
        (calling("odoo", "search_read"), "odoo"),
        (calling("odoo", "search_read"), "odoo:search_read"),
        (calling("git", "remote add"), "git:remote add"),
        (task("coder"), "agent:coder"),
        (WRITE, "path:b"),
    ],
)
def test_each_kind_of_entry_denies_asks_and_allows(one, entry):
    other = "path:elsewhere"
    assert judged(one, allow=(entry, other)) == "allow"
    assert judged(one, allow=(entry,), ask=(other, entry)) == "ask"
    assert judged(one, allow=(entry,), ask=(entry,), deny=(other, entry)) == "deny"
    assert judged(one) == "ask"


@pytest.mark.parametrize(
    ("one", "entry"),
    [
        (calling("odoo", "unlink"), "odoo:search_read"),
        (calling("odoo", "search_read_all"), "odoo:search_read"),
        (calling("other", "search_read"), "odoo:search_read"),
        (task("reviewer"), "agent:coder"),
        (task(), "agent:coder"),
        (step("coder"), "agent:coder"),
        (call("move", "a", to="b"), "destructive"),
    ],
)
def test_an_entry_does_not_name_what_is_near_it(one, entry):
    assert judged(one, allow=(entry,)) == "ask"
    assert judged(one, allow=("opaque", "checkable", "wipe", "odoo", "other"), deny=(entry,), ask=(entry,)) == "allow"


@pytest.mark.parametrize(
    ("one", "entry"),
    [
        (call("reads"), "reads"),
        (call("ask"), "ask"),
        (call("shell"), "shell"),
        (call("agent:coder"), "agent:coder"),
        (calling("agent", "coder"), "agent:coder"),
    ],
)
def test_a_tool_is_not_allowed_for_bearing_a_name_that_means_something_else(one, entry):
    assert judged(one, allow=(entry,)) == "ask"
    assert judged(one, allow=("opaque",)) == "allow"
    assert judged(one, allow=("opaque",), deny=(entry,)) == "deny"


# --- Agents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "default"),
    [
        (plan(task("coder"), agent="other"), "other"),
        (plan(task(), agent="coder"), "other"),
        (plan(task()), "coder"),
        (plan(nested(plan(task(), agent="coder")), agent="other"), "other"),
        (plan(nested(plan(nested(plan(task())))), agent="coder"), "other"),
        (plan(READ, fallbacks=(task(),), agent="coder"), "other"),
    ],
)
def test_an_agent_is_the_steps_else_the_plans_else_the_configurations(made, default):
    def ruling(**lists: tuple[str, ...]) -> Ruling:
        return rule(made, TOOLS, Settings(agent=default, **lists))

    assert answer(ruling(allow=("reads", "nested_plan", "agent:coder"))) == "allow"
    assert answer(ruling(allow=("reads", "nested_plan", "agent:other"))) == "ask"
    assert answer(ruling(deny=("agent:coder",))) == "deny"
    assert ruling(deny=("agent:other",)).denied == ()


def test_who_a_rule_names_is_who_is_judged():
    made = plan(replace(task(), description="Review it"), replace(task(), description="Fix it"))
    settings = Settings(agent="coder", agent_for={"review": "critic"}, allow=("agent:coder",), deny=("agent:critic",))
    assert [problem.detail for problem in rule(made, TOOLS, settings).denied] == [
        "Policy denies `task` (opaque, 1 time): the deny list names `agent:critic`."
    ]
    allowing = Settings(agent="coder", agent_for={"review": "critic"}, allow=("agent:coder", "agent:critic"))
    assert not rule(made, TOOLS, allowing).requires_approval
    assert [one.target for one in planned_effects(made, TOOLS, settings)] == ["critic", "coder"]
    assert [one.target for one in planned_effects(made, TOOLS)] == ["nobody", "nobody"]


def test_allowing_an_agent_does_not_allow_the_contract_of_its_task():
    one = replace(task("coder"), verification=step("x", contract="touch proof").verification)
    assert judged(one, allow=("agent:coder",)) == "ask"
    assert judged(one, allow=("agent:coder", "shell")) == "allow"
    assert judged(one, allow=("agent:coder",), deny=("shell",)) == "deny"


# --- Paths ---------------------------------------------------------------------------------------------------------


@each(
    "one, entry, strict, allowed",
    [
        # What a pattern matches.
        (call("write_file", "docs/a.md"), "path:docs/**", "deny", True),
        (call("write_file", "docs/b/a.md"), "path:docs/*.md", "allow", False),
        (call("read_file", "src/a.md"), "path:docs/**", "allow", False),
        (call("read_file", "docs-evil/a.md"), "path:docs/**", "allow", False),
        (call("read_file", "docs/a.md"), "path:docs/", "deny", True),
        (call("read_file", "x/y/server.key"), "path:**/*.key", "deny", True),
        (call("read_file", "x/y/server.pem"), "path:**/*.key", "allow", False),
        # The same path in another spelling. Only what is written as the pattern has it is allowed.
        (call("write_file", "./docs/a.md"), "path:docs/**", "deny", True),
        (call("write_file", "docs//a.md"), "path:./docs//**", "deny", True),
        (call("write_file", "DOCS/a.md"), "path:docs/**", "deny", False),
        (call("write_file", "docs/a.md"), "path:DOCS/**", "deny", False),
        (call("write_file", "entwu\u0308rfe/a.md"), "path:entw\u00fcrfe/**", "deny", False),
        (call("write_file", "do\u200bcs/a.md"), "path:docs/**", "deny", False),
        # What leads out of the workspace, or is nobody's, may be anything.
        (call("write_file", "docs/../src/a.md"), "path:src/**", "ask", False),
        (call("write_file", "docs/../src/a.md"), "path:docs/**", "deny", False),
        (call("write_file", "/docs/a.md"), "path:docs/**", "deny", False),
        (call("write_file", ""), "path:**", "deny", False),
        (call("write_file", ".git/config"), "path:**", "deny", False),
        (call("write_file", ".git/HEAD"), "path:**", "deny", False),
        (call("read_file", ".git/HEAD"), "path:**", "deny", True),
        # A directory: itself for a pattern that means all of it, those above it perhaps.
        (call("make_dir", "docs"), "path:docs/**", "deny", False),
        (call("make_dir", "docs"), "path:docs/**/**", "deny", False),
        (call("list_files", "docs/"), "path:docs/**", "deny", False),
        (call("list_files", "docs/b/"), "path:docs/*", "deny", False),
        (call("list_files", "docs"), "path:docs", "deny", True),
        (call("write_file", "docs/a.md"), "path:docs", "deny", False),
        (call("write_file", "docs/b/a.md"), "path:docs/*", "deny", False),
        (call("list_files", "docs"), "path:docs/private/**", "ask", False),
        (call("list_files", "docs"), "path:docs/*.md", "ask", False),
        (call("list_files", "src"), "path:docs/private/**", "allow", False),
        (call("list_files", "doc"), "path:docs/private/**", "allow", False),
        (call("list_files"), "path:docs/private/**", "ask", False),
        (call("list_files"), "path:**", "deny", True),
        (call("list_files"), "path:.", "deny", True),
        (call("write_file", "a"), "path:.", "deny", False),
        # A destructive tool takes what is beneath with it.
        (call("delete", "docs"), "path:docs/**", "deny", False),
        (call("delete", "docs/b"), "path:docs/**", "deny", False),
        (call("delete", "docs/b"), "path:docs/*", "deny", False),
        (call("delete", "docs"), "path:**/*.key", "ask", False),
        (call("write_file", "docs"), "path:**/*.key", "allow", False),
        (call("delete", "docs"), "path:*/*.key", "ask", False),
        (call("delete", "docs"), "path:*.key", "allow", False),
        (call("delete", "docs/b"), "path:src/**/*.key", "allow", False),
        # Decided at run time.
        (call("write_file", "${a.output}"), "path:docs/**", "ask", False),
        (call("write_file", "src/${a.output}"), "path:docs/**", "ask", False),
        (call("write_file", "docs/${a.output}"), "path:docs/**", "deny", False),
        (call("write_file", "docs${a.output}"), "path:docs/**", "ask", False),
        (call("write_file", "${a.output}"), "path:**", "deny", False),
        (call("write_file", ["docs/a.md"]), "path:docs/**", "ask", False),
        # More than one path.
        (call("move", "docs/a", to="docs/b"), "path:docs/**", "deny", True),
        (call("move", "docs/a", to="src/b"), "path:docs/**", "deny", False),
        (call("move", "src/a", to="docs/b"), "path:docs/**", "deny", False),
        (replace(call("write_file", "docs/a"), writes=("src/b",)), "path:docs/**", "deny", False),
        (replace(call("write_file", "docs/a"), writes=("docs/b",)), "path:docs/**", "deny", True),
        # A list of paths cannot vouch for a command, a contract, an agent or a call that nobody can see through.
        (replace(step("a"), writes=("docs/a",)), "path:docs/**", "deny", False),
        (task("coder", reads=("file:docs/a",)), "path:docs/**", "deny", False),
        (task("coder", writes=("docs/a",)), "path:docs/**", "deny", False),
        (task("coder", reads=("topic:docs/a", "step:docs")), "path:docs/**", "allow", False),
        (call("index", "docs/a"), "path:docs/**", "deny", False),
        (call("unknown", "docs/a"), "path:docs/**", "allow", False),
        (call("write_file", "docs/a", contract="true"), "path:docs/**", "deny", False),
        (step("a", run="rm docs/a"), "path:docs/**", "allow", False),
        (replace(step("a"), action=Ask(question="Really?"), writes=("docs/a",)), "path:docs/**", "deny", False),
        # Declared patterns.
        (task("coder", writes=("docs/**",)), "path:docs/**", "deny", False),
        (task("coder", writes=("docs/",)), "path:docs/a.md", "ask", False),
        (task("coder", writes=("docs/",)), "path:**/*.key", "ask", False),
        (task("coder", writes=("docs/*.key",)), "path:**/*.key", "deny", False),
        (call("write_file", "docs/*.key"), "path:**/*.key", "deny", False),
        (task("coder", writes=("src/*.py",)), "path:**/secret.py", "ask", False),
        (task("coder", writes=("src/*.py",)), "path:docs/**", "allow", False),
        (task("coder", writes=("**/*.py",)), "path:docs/**", "ask", False),
        (replace(call("write_file", "docs/a"), writes=("docs/*",)), "path:docs/**", "deny", False),
    ],
)
def test_a_path_entry(one, entry, strict, allowed):
    """`strict` is what a deny comes to where all is allowed; an ask asks in the same cases."""
    everything = (*EffectClass, "destructive")
    assert judged(one, allow=everything, deny=(entry,)) == strict
    assert judged(one, allow=everything, ask=(entry,)) == ("allow" if strict == "allow" else "ask")
    assert judged(one, allow=(entry,)) == ("allow" if allowed else "ask")


def test_several_entries_vouch_together():
    one = call("move", "docs/a", to="src/b")
    assert judged(one, allow=("path:docs/**",)) == "ask"
    assert judged(one, allow=("path:docs/**", "path:src/**")) == "allow"
    assert judged(one, allow=("path:docs/**", "path:src/*")) == "ask", "a directory brings along what lies beneath"


def test_a_pattern_that_leads_out_of_the_workspace_allows_nothing():
    assert judged(call("write_file", "docs/a"), allow=("path:/docs/**",)) == "ask"


def test_every_step_counts_also_in_fallbacks_and_nested_plans():
    inner = plan(READ, fallbacks=(call("write_file", "secrets/a"),))
    ruling = rule(plan(nested(inner)), TOOLS, Settings(deny=("path:secrets/**",)))
    assert [problem.where for problem in ruling.denied] == [Place(step="s")]


# --- What is said --------------------------------------------------------------------------------------------------


@each(
    "one, settings, reason",
    [
        (READ, Settings(), "`read_file` (reads, 1 time) is allowed without asking"),
        (WRITE, Settings(), "`write_file` (repeatable, 1 time) is not in the policy's allow list"),
        (READ, Settings(ask=("reads",)), "`read_file` (reads, 1 time) is in the policy's ask list (`reads`)"),
        (
            WRITE,
            Settings(ask=("write_file", "path:b", "repeatable")),
            "`write_file` `b` (repeatable, 1 time) is in the policy's ask list (`path:b`, `repeatable`, `write_file`)",
        ),
        (
            call("write_file", "docs/a.md"),
            Settings(allow=("path:docs/**", "path:src/**")),
            "`write_file` `docs/a.md` (repeatable, 1 time) is allowed by `path:docs/**`",
        ),
        (
            call("move", "docs/a", to="src/b"),
            Settings(allow=("path:src/**", "path:docs/**")),
            "`move` `docs/a` `src/b` (checkable, 1 time) is allowed by `path:docs/**`, `path:src/**`",
        ),
        (task("coder"), Settings(allow=("agent:coder",)), "`task` (opaque, 1 time) is allowed by `agent:coder`"),
        (
            call("list_files"),
            Settings(deny=("path:.env",)),
            "`list_files` `.` (reads, 1 time) may touch what the policy's deny list names (`path:.env`)",
        ),
        (
            call("read_file", "${a.output}"),
            Settings(ask=("path:.env",)),
            "`read_file` `${a.output}` (reads, 1 time) may touch what the policy's ask list names (`path:.env`)",
        ),
    ],
)
def test_a_reason_names_the_entry_that_decided(one, settings, reason):
    assert rule(plan(one), TOOLS, settings).reasons == (reason,)


def test_all_that_is_denied_is_told_with_step_and_entry():
    made = plan(
        step("a", tool="write_file", args={"path": "Secrets/a"}),
        step("b", tool="read_file", args={"path": "ok"}),
        step("c", run="make"),
    )
    assert rule(made, TOOLS, Settings(deny=("path:secrets", "shell", "opaque"))).denied == (
        Problem(
            code="E_POLICY_DENIED",
            detail="Policy denies `write_file` `Secrets/a` (repeatable, 1 time): the deny list names `path:secrets`.",
            where=Place(step="a"),
            hints=("`[policy] deny` in ordain.toml says so.",),
        ),
        Problem(
            code="E_POLICY_DENIED",
            detail="Policy denies `shell` (opaque, 1 time): the deny list names `opaque`, `shell`.",
            where=Place(step="c"),
            hints=("`[policy] deny` in ordain.toml says so.",),
        ),
    )


def test_equal_effects_are_told_once_and_counted():
    made = plan(*(step(f"s{n}", tool="write_file", args={"path": f"docs/{n}"}) for n in range(500)))
    settings = Settings(allow=("path:docs/**",))
    assert rule(made, TOOLS, settings).reasons == ("`write_file` (repeatable, 500 times) is allowed by `path:docs/**`",)


def test_patterns_are_read_once_and_a_path_is_compared_once(monkeypatch):
    """A plan may have 20,000 steps."""
    made: list[str] = []
    compared: list[tuple[str, str]] = []

    class Counting(judge.PathPattern):
        def __init__(self, text: str) -> None:
            made.append(text)
            self.text = text
            super().__init__(text)

        def matches(self, path: str) -> bool:
            compared.append((self.text, path))
            return super().matches(path)

    monkeypatch.setattr(judge, "PathPattern", Counting)
    many = plan(*(step(f"s{n}", tool="read_file", args={"path": f"docs/{n % 7}"}) for n in range(300)))
    strict = tuple(f"path:d*/{n}/x" for n in range(20))
    rule(many, TOOLS, Settings(deny=strict, ask=("path:*/*.key",), allow=("path:**",)))
    assert len(made) == 20 * 2 + 2 + 1
    assert len(compared) == len(set(compared))
    assert len(compared) <= 7  # those that have nothing in common with a path are not compared at all


def test_what_cannot_be_compared_in_bearable_time_is_neither_allowed_nor_let_past_a_deny(monkeypatch):
    many = plan(*(step(f"s{n}", tool="write_file", args={"path": f"docs/{n}.md"}) for n in range(20)))
    near = "path:**/s*.md"  # all that it says is in those paths, and it matches none of them
    lists = [
        (Settings(allow=("repeatable",), deny=(near,)), "allow", "deny"),
        (Settings(allow=("repeatable",), ask=(near,)), "allow", "ask"),
        (Settings(allow=("path:docs/**",)), "allow", "ask"),
        (Settings(allow=("repeatable",), deny=("path:**/s*.key",)), "allow", "allow"),
    ]
    for settings, before, _ in lists:
        assert answer(rule(many, TOOLS, settings)) == before
    monkeypatch.setattr(judge, "COMPARED_MAX", 100)
    for settings, _, after in lists:
        assert answer(rule(many, TOOLS, settings)) == after


# --- Whatever the lists are ----------------------------------------------------------------------------------------

_PATHS = st.sampled_from(["docs/a", "DOCS/a", "docs", ".", "src/b.key", "src/../docs/a", "${x.output}", "docs/*"])
_STEPS = st.one_of(
    st.builds(call, st.sampled_from(["read_file", "write_file", "delete", "index", "wipe", "nobody"]), _PATHS),
    st.builds(call, st.just("write_file"), _PATHS, contract=st.just("true")),
    st.builds(lambda a, b: call("move", a, to=b), _PATHS, _PATHS),
    st.builds(task, st.sampled_from([None, "coder"]), writes=st.lists(_PATHS, max_size=2).map(tuple)),
    st.just(step("c", idempotent=True)),
    st.just(calling("odoo", "read")),
)
_PLANS = st.lists(_STEPS, min_size=1, max_size=4).map(lambda steps: plan(*steps, agent="helper"))
_ENTRIES = st.sampled_from(
    [
        *EffectClass,
        *("destructive", "shell", "task", "write_file", "delete", "odoo", "odoo:read", "agent:coder", "agent:helper"),
        *("path:docs/**", "path:docs", "path:**/*.key", "path:src/*", "path:**", "path:."),
    ]
)
_LISTS = st.lists(_ENTRIES, max_size=4).map(tuple)
_SETTINGS = st.builds(Settings, allow=_LISTS, ask=_LISTS, deny=_LISTS)
_RANK = {"allow": 0, "ask": 1, "deny": 2}


def rank(made: Plan, settings: Settings) -> int:
    return _RANK[answer(rule(made, TOOLS, settings))]


@given(_PLANS, _SETTINGS, _ENTRIES)
def test_a_further_deny_or_ask_never_loosens_and_a_further_allow_never_tightens(made, settings, entry):
    before = rank(made, settings)
    assert rank(made, replace(settings, deny=(*settings.deny, entry))) >= before
    assert rank(made, replace(settings, ask=(*settings.ask, entry))) >= before
    assert rank(made, replace(settings, allow=(*settings.allow, entry))) <= before


@given(_PLANS, _SETTINGS, _STEPS)
def test_a_further_step_never_loosens(made, settings, one):
    assert rank(replace(made, steps=(*made.steps, one)), settings) >= rank(made, settings)


@given(_PLANS, _SETTINGS, st.randoms(use_true_random=False))
def test_the_order_of_entries_does_not_matter(made, settings, random):
    lists = {name: getattr(settings, name) for name in ("allow", "ask", "deny")}
    mixed = {name: tuple(random.sample(entries * 2, len(entries) * 2)) for name, entries in lists.items()}
    assert rule(made, TOOLS, Settings(**mixed)) == rule(made, TOOLS, settings)


@given(_STEPS, _SETTINGS)
def test_what_is_asked_for_is_at_most_asked_and_what_is_denied_is_at_least_asked(one, settings):
    """The same entry means no less in a stricter list."""
    made, everything = plan(one), tuple(EffectClass)
    for entry in settings.allow:
        if rank(made, Settings(allow=(entry,))) == 0:
            assert rank(made, Settings(allow=everything, ask=(entry,))) == 1
            assert rank(made, Settings(allow=everything, deny=(entry,))) == 2
        asked = rank(made, Settings(allow=everything, ask=(entry,)))
        assert (rank(made, Settings(allow=everything, deny=(entry,))) > 0) == (asked > 0)


# --- Rules -----------------------------------------------------------------------------------------------------------

RULES = {
    "notes": CallRule(tools=("write_file",), where={"content": "note: *"}, besides=("path",)),
    "docs": CallRule(tools=("path:docs/**",), where={"overwrite": False}, besides=("path", "content")),
    "anything": CallRule(tools=("opaque",), where={"content": "x"}),
}


def ruled(content: Any, path: str = "docs/a", /, **lists: Any) -> Ruling:
    one = step("w", tool="write_file", args={"path": path, "content": content, **lists.pop("args", {})})
    return rule(plan(one), TOOLS, Settings(**{"allow": (), "rules": RULES, **lists}))


@each(
    "content, lists, said",
    [
        ("note: x", {"allow": ("rule:notes",)}, "allow"),
        ("Note: x", {"allow": ("rule:notes",)}, "ask"),
        ("note: x y", {"allow": ("rule:notes",)}, "ask"),
        ("note: x", {"allow": ("rule:notes",), "args": {"overwrite": True}}, "ask"),
        ("${a.output}", {"allow": ("rule:notes",)}, "ask"),
        ("x", {"allow": ("rule:docs",), "args": {"overwrite": False}}, "allow"),
        ("x", {"allow": ("rule:docs",)}, "ask"),
        ("Note: x", {"allow": ("write_file",), "ask": ("rule:notes",)}, "ask"),
        ("other", {"allow": ("write_file",), "ask": ("rule:notes",)}, "allow"),
        ("NOTE: x", {"allow": ("write_file",), "deny": ("rule:notes",)}, "deny"),
        ("${a.output}", {"allow": ("write_file",), "deny": ("rule:notes",)}, "ask"),
        ("other", {"allow": ("write_file",), "deny": ("rule:notes",)}, "allow"),
        ("note: x", {"allow": ("rule:notes",), "deny": ("rule:docs",)}, "allow"),
        ("note: x", {"allow": ("rule:notes",), "deny": ("rule:docs",), "args": {"overwrite": False}}, "deny"),
        # A rule that there is not means nothing; trust refuses the list that names it.
        ("note: x", {"allow": ("rule:none", "rule:")}, "ask"),
    ],
)
def test_a_rule_in_a_list(content, lists, said):
    assert answer(ruled(content, **dict(lists))) == said


def test_an_approver_reads_which_rule_it_was():
    assert ruled("note: x", allow=("rule:notes",)).reasons == (
        "`write_file` (repeatable, 1 time) is allowed by `rule:notes`",
    )
    assert ruled("note: x", ask=("rule:notes",)).reasons == (
        "`write_file` (repeatable, 1 time) is in the policy's ask list (`rule:notes`)",
    )
    assert ruled("${a.output}", deny=("rule:notes",)).reasons == (
        "`write_file` (repeatable, 1 time) may be what the policy's deny list names (`rule:notes`)",
    )
    (denied,) = ruled("note: x", deny=("rule:notes",)).denied
    assert denied.detail == "Policy denies `write_file` (repeatable, 1 time): the deny list names `rule:notes`."


def test_no_command_is_known_by_what_it_says():
    made = plan(step("a", run="x"))
    assert answer(rule(made, TOOLS, Settings(allow=("rule:anything",), rules=RULES))) == "ask"
    assert answer(rule(made, TOOLS, Settings(allow=("shell",), rules=RULES))) == "allow"
    assert answer(rule(made, TOOLS, Settings(allow=("shell",), deny=("rule:anything",), rules=RULES))) == "ask"


def test_a_tool_is_not_let_through_by_the_name_of_a_rule():
    tools = {**TOOLS, "rule:notes": tool("rule:notes", "opaque")}
    made = plan(replace(step("s"), action=CallTool(tool="rule", operation="notes")))
    assert answer(rule(made, tools, Settings(allow=("rule:notes", "rule"), rules=RULES))) == "ask"


# --- Effects -------------------------------------------------------------------------------------------------------


def test_a_claim_in_the_plan_does_not_change_what_policy_sees():
    """`idempotent: true` is for recovery; it must not talk a command out of being asked about."""
    ruling = rule(plan(step("a", idempotent=True)), DEFINITIONS, Settings(allow=("reads", "repeatable")))
    assert ruling.requires_approval


def test_a_claim_is_asked_about_whatever_is_allowed():
    ruling = rule(plan(step("a", idempotent=True)), DEFINITIONS, Settings(allow=("shell",)))
    assert ruling.reasons == ("`a` claims that it may be run again after a crash, which only an approver can say",)


def test_a_contract_is_an_effect_too():
    made = plan(step("r", tool="list_files", contract="touch proof"))
    assert [(e.kind, e.target) for e in planned_effects(made, DEFINITIONS)] == [
        ("read", "."),
        ("contract", "touch proof"),
    ]


def test_effects_are_computed_from_registry_and_bytes():
    tools = {**DEFINITIONS, "wipe": ToolDefinition(name="wipe", description="", effect="opaque", destructive=True)}
    made = plan(READ, WRITE, step("c", run="make", idempotent=True), step("d", tool="wipe", args={"path": "z"}))
    assert [(e.kind, e.target, e.destructive, e.claimed_repeatable) for e in planned_effects(made, tools)] == [
        ("read", "a", False, False),
        ("write", "b", False, False),
        ("command", "make", False, True),
        ("call", "wipe", True, False),
    ]


@each(
    "one, entry, answers",
    [
        (call("move", "a", to="secrets/b"), "path:secrets", "deny"),
        (call("move", "secrets", to="b"), "path:secrets", "deny"),
        (call("move", "conf", to="b"), "path:conf/prod", "ask"),
        (call("move", "a", to="conf"), "path:conf/prod", "ask"),
        (call("move", "a", to="b"), "path:**/*.pem", "ask"),
        (call("delete", "a"), "path:**/*.pem", "ask"),
        (call("delete", "conf"), "path:conf/prod", "ask"),
        (call("delete", "secrets/x"), "path:secrets", "deny"),
        (call("delete", "a"), "destructive", "deny"),
        (call("move", "a", to="b"), "destructive", "allow"),
    ],
)
def test_what_is_moved_or_deleted_is_judged_with_all_that_may_lie_beneath(one, entry, answers):
    assert judged(one, deny=(entry,), allow=("checkable",)) == answers


def test_moves_and_deletes_have_words_of_their_own():
    made = plan(call("move", "a", to="b"), replace(call("delete", "c"), id="t"))
    assert [(one.kind, one.target, one.destructive) for one in planned_effects(made, TOOLS)] == [
        ("move", "a → b", False),
        ("delete", "c", True),
    ]
