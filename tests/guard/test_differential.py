"""Random calls, settings, plans and steps: the guard and the executor say what the reference model says, of each.

`ORDAIN_SEED=N` begins elsewhere; the seed is part of every message. That the comparison can fail is shown by mutants of
the product: each must be found.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ordain.app import guard as guarding
from ordain.core.guard import call as guard
from ordain.core.policy import path_use as subject
from ordain.core.policy import rule as call_rule
from ordain.core.policy import ruling as judge
from ordain.core.policy import scope
from ordain.engine import call as calling
from tests.build import plan, step, work_item
from tests.guard import reference as model
from tests.scenario import twin_ports
from tests.twins.execution import ManualClock, ScriptedToolbox
from tests.twins.ledger import MemoryLedger
from tests.twins.workspace import MemorySightings
from tests.words import (
    BUILT_IN,
    ArgumentConditions,
    Call,
    CallAnswer,
    CallRule,
    Calls,
    CallTool,
    Channel,
    EffectClass,
    GuardedCalls,
    Holds,
    NestedPlan,
    Plan,
    PlanId,
    Principal,
    Redactor,
    RunAuthority,
    RunCommand,
    SandboxLimits,
    Seen,
    Settings,
    Stage,
    Step,
    Surroundings,
    Task,
    ToolDefinition,
    offered,
)

SEED = int(os.environ.get("ORDAIN_SEED", "20261116"))
PARTS, WORLDS, CALLS = 10, 100, 100
"""Of 100,000 cases: parts that run by themselves, settings in each, and calls under each of those."""

TEXT, NUMBER, FLAG, MANY = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "array"}


def server(effect: EffectClass, needs: str, *, destructive: bool = False, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [needs], "additionalProperties": False}
    return {"description": "", "effect": effect, "destructive": destructive, "schema": schema}


SERVERS = {
    name: ToolDefinition(name=name, **said)
    for name, said in {
        "mail:send": server(EffectClass.OPAQUE, "to", destructive=True, to=MANY, text=TEXT),
        "mail:draft": server(EffectClass.REPEATABLE, "to", to=TEXT, text=TEXT),
        "mail:list": server(EffectClass.READS, "to", to=TEXT),
        "crm:put": server(EffectClass.CHECKABLE, "row", row=NUMBER, table=TEXT, overwrite=FLAG),
        "crm:merge": server(EffectClass.CHECKABLE, "row", destructive=True, row=NUMBER, table=TEXT),
        "post": server(EffectClass.OPAQUE, "text", text=TEXT),
        "reads": server(EffectClass.REPEATABLE, "text", text=TEXT),
        "task:run": server(EffectClass.CHECKABLE, "text", text=TEXT),
    }.items()
}
TOOLS = {**{name: BUILT_IN[name] for name in BUILT_IN if name != "http_request"}, **SERVERS}
_PATH, _FILE = {"path": str}, {"path": False}
KNOWN = {
    "read_file": model.Tool("reads", paths=_FILE, needs=_PATH),
    "list_files": model.Tool("reads", paths=_FILE, takes=_PATH),
    "search": model.Tool(
        "reads", paths={"path": True}, needs={"pattern": str}, takes={**_PATH, "files": str, "ignore_case": bool}
    ),
    "write_file": model.Tool("repeatable", paths=_FILE, needs={"path": str, "content": str}),
    "make_dir": model.Tool("repeatable", paths=_FILE, needs=_PATH),
    "edit_file": model.Tool("checkable", paths=_FILE, needs={"path": str, "old": str, "new": str}),
    "move": model.Tool("checkable", False, {"path": True, "to": True}, {"path": str, "to": str}, {"overwrite": bool}),
    "delete": model.Tool("checkable", True, {"path": True}, _PATH, {"recursive": bool}),
    "shell": model.Tool("opaque", needs={"command": str}),
    "exec": model.Tool("opaque", needs={"argv": list}),
    "mail:send": model.Tool("opaque", True, needs={"to": list}, takes={"text": str}),
    "mail:draft": model.Tool("repeatable", needs={"to": str}, takes={"text": str}),
    "mail:list": model.Tool("reads", needs={"to": str}),
    "crm:put": model.Tool("checkable", needs={"row": int}, takes={"table": str, "overwrite": bool}),
    "crm:merge": model.Tool("checkable", True, needs={"row": int}, takes={"table": str}),
    "post": model.Tool("opaque", needs={"text": str}),
    "reads": model.Tool("repeatable", needs={"text": str}),
    "task:run": model.Tool("checkable", needs={"text": str}),
}
NAMES = (*KNOWN, "nobody", "mail:nothing", "task", "shell:op", *("shell", "mail:draft", "crm:put", "post") * 2)
ENTRIES = (
    *("reads", "repeatable", "checkable", "opaque", "destructive", "shell", "exec", "task", "mail", "mail:send"),
    *("crm", "crm:put", "post", "nobody", "write_file", "move", "delete", "task:run", "mail:nothing"),
    *(
        "path:docs/**",
        "path:docs/private",
        "path:docs/*",
        "path:src/*.py",
        "path:**/secret*",
        "path:Src/deep/**",
        "path:**",
    ),
    *("rule:one", "rule:two", "rule:three") * 5,
)
PATHS = (
    *(
        "docs/a.md",
        "docs/private/x",
        "DOCS/Private",
        "docs",
        "docs/",
        "./docs//b.md",
        "src/app.py",
        "src",
        "src/deep/x",
    ),
    *(
        "",
        ".",
        "../x",
        "/etc/passwd",
        ".git/config",
        ".ordain/x",
        "sub/.env",
        "sub/.git/config",
        "ordain.toml",
        "docs/*.md",
        "docs/${x}",
    ),
    *("deep/secret.txt", "x", "docs/sub/y", "src/deep"),
)
TEXTS = (
    *("kim@example.com", "KIM@Example.com", "eve@evil.org,kim@example.com", "eve@evil.org", "a b", "people", "People"),
    *("secret:TOKEN", "${{ steps.x }}", "5", "true", "", "x\ny", "logs", "kim@example.com") * 2,
    *("Eve, a b", "Kim <kim@example.com>", "x;pa, he", "people\nlogs", "kim@exa\u200bmple.com", "ｋim@example.com"),
    *("in/x", "in/..", "in/a b/c", "../in/x", "../in/../x", "..", " 5.0 ", "6", "7, 5", "TRUE", "yes", "péople", "*"),
)
WANTED: tuple[Any, ...] = (
    *("*@example.com", "people", "**@evil.org", "5", 5, True, ["people", "logs"], ["kim@*", 7], "a b", "p*e"),
    *("in/*", "in/**", "../in/**", "Kim <*", "p**e", 1.5, False, ["a b", True, "*@evil.org"], "TRUE"),
)
COMMANDS = ("ls", "rm -rf x", "make")
STAGES = (Stage.APPROVED, Stage.EXECUTING, Stage.PROPOSED, Stage.REJECTED)
"""Of plans that are open, how far they may be."""


class Dice:
    """Random parts of cases."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.pick, self.odds = self.random.choice, self.random.random

    def some(self, among: Sequence[Any], most: int) -> tuple[Any, ...]:
        return tuple(self.random.sample(among, self.random.randint(0, most)))

    def settings(self) -> Settings:
        rules = {name: self.rule() for name in ("one", "two", "three")}
        star = ("*",) if self.odds() < 0.7 else ()
        return Settings(
            deny=self.some(ENTRIES, 3) if self.odds() < 0.7 else (),
            ask=self.some(ENTRIES, 2) if self.odds() < 0.4 else (),
            allow=self.some(ENTRIES, 6),
            guarded=(*star, *(self.some(ENTRIES, 2) if self.odds() < 0.4 else ())),
            open_calls=self.some(ENTRIES, 7),
            rules=rules,
            guard_mode=self.pick(("observe", "enforce")),
        )

    def rule(self) -> CallRule:
        if self.odds() < 0.8:  # about something that is called with what it asks about
            tools, key = self.pick((("mail", "to"), ("mail:draft", "to"), ("crm:put", "table"), ("post", "text")))
            return CallRule(tools=(tools,), where={key: self.pick(WANTED)}, besides=self.besides(key))
        names = [entry for entry in ENTRIES if not entry.startswith("rule:")]
        keys = self.some(("to", "text", "table", "row", "path"), 2)
        where = {key: self.pick(WANTED) for key in keys}
        return CallRule(tools=self.some(names, 3) or ("mail",), where=where, besides=self.besides(*keys))

    def besides(self, *where: str) -> tuple[str, ...]:
        others = [key for key in ("text", "row", "content", "overwrite", "other") if key not in where]
        return self.some(others, len(others)) if where else ()

    def value(self, key: str, tool: model.Tool) -> Any:
        if self.odds() < 0.04:
            odd = (None, 5, 5.0, True, False, 1, 1.5, [], ["x", ["people"]], {"a": 1}, [{"a": 1}], "", "secret:TOKEN")
            return self.pick(odd)
        if key in tool.paths:
            return self.pick(PATHS)
        match key:
            case "to" if tool.needs["to"] is list or self.odds() < 0.1:
                return [self.pick(TEXTS) for _ in range(self.random.randint(0, 3))]
            case "command":
                return self.pick(COMMANDS)
            case "argv":
                return [self.pick(COMMANDS), "x"]
            case "row":
                return self.pick((1, 5, 7))
            case "overwrite" | "recursive":
                return self.odds() < 0.7
            case _:
                return self.pick(TEXTS)

    def call(self) -> tuple[str, dict[str, Any]]:
        name = self.pick(NAMES)
        tool = KNOWN.get(name, KNOWN["post"])
        wanted = [*tool.needs, *(key for key in tool.takes if self.odds() < 0.5)]
        args = {key: self.value(key, tool) for key in wanted if self.odds() > 0.03}
        if self.odds() < 0.03:
            args["other"] = 1
        if isinstance(KNOWN.get(name), model.Tool) and self.odds() < 0.8:
            known = {**tool.needs, **tool.takes}
            fitting = {str: "kim@example.com", list: ["kim@example.com"], int: 5, bool: True}
            args = {
                key: value if type(value) is known.get(key, object) else fitting[known[key]]
                for key, value in args.items()
                if key in known
            }
        return name, args

    def plans(self, name: str, args: dict[str, Any]) -> list[tuple[Stage, list[tuple[str, dict[str, Any]]]]]:
        """Plans, and how far each is; some have this call, or another of the same tool."""
        plans = []
        for _ in range(self.pick((0, 0, 1, 2))):
            steps = [self.call() for _ in range(self.random.randint(0, 2))]
            if self.odds() < 0.3:
                steps.append((name, args))
            if self.odds() < 0.3:
                steps.append((name, {key: 1 if value is True else value for key, value in args.items()}))
            if self.odds() < 0.3:
                steps.append((name, {**args, "extra": 1}))
            self.random.shuffle(steps)
            plans.append((self.pick(STAGES), steps))
        return plans

    def inside(self) -> model.Inside:
        listed = (*KNOWN, "mail", "crm", "task", "nobody")
        return model.Inside(
            tools=self.some(listed, len(listed)) if self.odds() < 0.7 else None,
            plan_tools=self.some(listed, len(listed)) if self.odds() < 0.5 else None,
            writes=self.pick(((), (), ("docs/**",), ("src/*.py", "docs/*"), ("**/x",))),
            protect=self.pick(((), (), ("docs/private/**",), ("src/deep/x",))),
            approved=self.odds() < 0.5,
            check=self.pick((None, *COMMANDS)),
            own_tools=self.odds() < 0.2,
        )


def made_plan(steps: Sequence[tuple[str, dict[str, Any]]], dice: Dice) -> Plan:
    """A plan with these calls; some commands are written as such, and some steps are in a plan within it."""
    made: list[Step] = []
    for number, (name, args) in enumerate(steps):
        tool, _, operation = name.partition(":")
        action: Any = CallTool(tool=tool, operation=operation or None, args=args)
        if name == "shell" and args.keys() == {"command"} and isinstance(args["command"], str) and dice.odds() < 0.5:
            action = RunCommand(command=args["command"])
        one = step(f"s{number}", action=action)
        nested = dice.odds() < 0.2
        made.append(step(f"n{number}", action=NestedPlan(plan=plan(one))) if nested else one)
    return plan(*made)


class Product:
    """The guard and the executor's own look at calls, under some settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.plans: dict[str, tuple[Stage, Plan]] = {}

        def stored(stream: str) -> Plan:
            return self.plans[stream][1]

        here: Any = SimpleNamespace(
            snapshot=SimpleNamespace(settings=settings),
            ports=SimpleNamespace(workspace=SimpleNamespace(configuration=lambda: b""), sightings=MemorySightings()),
            now=lambda: 0,
            redactor=lambda: Redactor({}),
            has_ledger=lambda: True,
            refuse_stopped=lambda: None,
            ledger=SimpleNamespace(size=lambda _: 1, plans=self.listed),
            records=SimpleNamespace(plan=stored, readable_plan=stored),
        )
        self.sightings = here.ports.sightings
        self.guarding = GuardedCalls(here)
        toolbox = ScriptedToolbox()
        toolbox.definitions = lambda: TOOLS  # type: ignore[method-assign]
        self.twins = Surroundings(twin_ports(MemoryLedger(), toolbox=toolbox))

    def listed(self, *, newest: int, open_only: bool = False) -> Iterator[Any]:
        for stream, (stage, _) in self.plans.items():
            state = SimpleNamespace(
                plan_id=PlanId(f"plan:{stream:>064}"),
                open_run="run" if stage is Stage.EXECUTING else None,
                beneath=None,
                status=lambda _, stage=stage: stage,
                owned_by=lambda _: True,
                runs={},
            )
            yield SimpleNamespace(stream=stream, state=state)

    def outside(self, name: str, args: dict[str, Any]) -> tuple[str, str, bool]:
        seen = Seen(by=Principal(name="a", channel=Channel.MCP), agent="a", through="gateway")
        before = len(self.sightings.noted)
        met = done(self.guarding.meet(Call(tool=name, args=args, definition=TOOLS.get(name)), seen))
        noted = self.sightings.noted[before:]
        code = met.problem.code if met.problem is not None else ""
        assert [(one.standing, one.code, one.refused) for one in noted] == (
            [(met.judged.standing, code, met.refused)] if code else []
        )
        return met.judged.standing.value, code, met.refused

    def inside(self, name: str, args: dict[str, Any], where: model.Inside, *, itself: bool) -> str:
        """What is answered to the agent of a step: to a call, or where it asks whether it may make one `itself`."""
        task = Task(task="Do it", tools=where.tools)
        one = step("s1", action=task, contract=where.check, needs=())
        one = replace(one, writes=where.writes, protect=where.protect)
        whole = plan(one, tools=where.plan_tools)
        item = work_item(tools=offered(task, [whole], TOOLS))
        agents = {item.agent: SimpleNamespace(own_tools=where.own_tools)}
        limits = SimpleNamespace(agents=agents, sandbox=SandboxLimits())
        authority = RunAuthority(self.twins, self.settings, {}, approved=where.approved, judged_at=0)
        workspace = SimpleNamespace(withheld=lambda path, secret_files, *, deep: None)
        run: Any = SimpleNamespace(
            state=SimpleNamespace(step=lambda _: one, plan=whole, limits_in_force=limits),
            limits=limits,
            tools=TOOLS,
            ports=SimpleNamespace(clock=ManualClock(), workspace=workspace),
            settings=self.settings,
            sink=SimpleNamespace(text=str),
            authority=SimpleNamespace(unpermitted=authority.unpermitted, refused=_unrecorded),
        )
        calls = Performing(run, item, "mark", asyncio.Lock())
        answer = done(calls.may(name, args) if itself else calls.serve(name, args))
        assert calls.performed == ([] if itself or answer.problem is not None else [(name, args)])
        return answer.problem.code if answer.problem is not None else ""


async def _unrecorded(subject: str, who: object, problem: object) -> None:
    """Who was refused what is recorded elsewhere."""


class Performing(Calls):
    """Calls that are only noted where they would be performed."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.performed: list[tuple[str, Any]] = []

    async def _call(self, name: str, args: Any) -> CallAnswer:
        self.performed.append((name, args))
        return CallAnswer()


def done(coroutine: Any) -> Any:
    """What a coroutine comes to: one loop serves them all, for there are many."""
    return _loop().run_until_complete(coroutine)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def cases(seed: str, worlds: int = WORLDS, each: int = CALLS) -> Iterator[tuple[str, Any, Any, str]]:
    """What the model and the product say of each case; and the case, to be told where they differ."""
    dice = Dice(seed)
    for _ in range(worlds):
        settings = dice.settings()
        product = Product(settings)
        rules = {name: (rule.tools, rule.where, rule.besides) for name, rule in settings.rules.items()}
        lists = model.Lists(
            settings.deny,
            settings.ask,
            settings.allow,
            settings.guarded,
            settings.open_calls,
            rules,
            settings.guard_mode == "enforce",
        )
        for number in range(each):
            name, args = dice.call()
            case = model.Case(lists, name, args, KNOWN.get(name))
            if number % 2:
                where, itself = dice.inside(), number % 4 == 1
                wanted = model.may(case, where) if itself else model.inside(case, where)
                found = product.inside(name, args, where, itself=itself)
                yield "itself" if itself else "inside", wanted, found, f"{name} {args} {where} {settings}"
            else:
                plans = dice.plans(name, args)
                product.plans = {str(n): (stage, made_plan(steps, dice)) for n, (stage, steps) in enumerate(plans)}
                told = f"{name} {args} {plans} {settings}"
                yield "outside", model.outside(case, plans), product.outside(name, args), told


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No threads: what is asked there is answered by a twin. And no ledger for refusals."""

    async def recorded(*_: Any) -> None:
        pass

    async def here(function: Any, *args: Any, **named: Any) -> Any:
        return function(*args, **named)

    monkeypatch.setattr(asyncio, "to_thread", here)
    monkeypatch.setattr(guarding, "Refusals", lambda _: SimpleNamespace(record=recorded))


def test_the_model_can_be_read_at_once() -> None:
    text = re.sub(r'""".*?"""\n', "", Path(model.__file__).read_text(), flags=re.DOTALL)
    assert sum(bool(line.strip()) for line in text.splitlines()) <= 200


@pytest.mark.part(of=10)
@pytest.mark.parametrize("part", range(PARTS))
def test_nobody_disagrees(part: int) -> None:
    seed = f"{SEED}/{part}"
    seen: Counter[Any] = Counter()
    for number, (where, wanted, found, told) in enumerate(cases(seed)):
        assert found == wanted, f"ORDAIN_SEED={SEED}, part {part}, case {number}, {where}: {told}"
        seen[where, wanted] += 1
    assert sum(seen.values()) == WORLDS * CALLS
    outcomes = [("outside", ("open", "", False))]
    for refused in (True, False):
        outcomes += [("outside", ("guarded", code, refused)) for code in ("E_TOOL_GUARDED", "E_TOOL_ARGS_NOT_APPROVED")]
        outcomes += [("outside", ("denied", "E_POLICY_DENIED", refused))]
    inside = ("", "E_CALL_SCOPE", "E_CALL_ARGUMENTS", "E_CALL_BOUNDS", "E_POLICY_DENIED", "E_PLAN_APPROVAL_MISSING")
    outcomes += [(where, code) for where in ("inside", "itself") for code in inside]
    outcomes += [("itself", "E_TOOL_ARGS_NOT_APPROVED")]
    assert set(seen) == set(outcomes)
    assert min(seen.values()) >= 20, seen


def _let(conditions: ArgumentConditions, args: Any) -> bool:
    return conditions.meant(args) is Holds.YES


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "a star goes over separators": (call_rule, "_NOT_STAR", re.compile(r"(?!)()")),
    "a star leads out": (call_rule, "_WAY_OUT", re.compile(r"(?!)")),
    "case counts where it forbids": (call_rule, "_folded", lambda text: text),
    "signs that nobody sees count": (call_rule, "_readings", lambda text: (call_rule._folded(text),)),
    "several values in one text are one": (call_rule, "_PART_OF", r"[\s\S]"),
    "numbers are not written": (call_rule, "_written", lambda value: []),
    "what is not told yet is told": (call_rule, "named_secrets", lambda text: iter(())),
    "what nobody named is let through": (ArgumentConditions, "unnamed", lambda self, args: []),
    "rules let through as they forbid": (ArgumentConditions, "vouched", _let),
    "rules do not forbid": (ArgumentConditions, "meant", lambda self, *_: Holds.NO),
    "another kind is not meant": (call_rule._Equal, "meant", lambda self, one: Holds(2 * self.vouched(one))),
    "a class allows what is destructive": (judge, "VAGUE", frozenset()),
    "true is taken for 1": (guard, "_canonical", lambda args: args),
    "steps of nested plans are not seen": (guard, "all_steps", lambda whole: whole.steps),
    "plans that nobody approved count": (
        guarding,
        "Stage",
        SimpleNamespace(APPROVED=Stage.PROPOSED, PROPOSED=Stage.PROPOSED),
    ),
    "what lint refuses counts as a path": (subject, "path_fault", lambda text, writes: None),
    "what lies beneath is not meant": (judge.Strict, "_above", lambda self, path: iter(())),
    "what is protected is written": (scope, "protecting_pattern", lambda *args, **named: None),
    "everything may be written": (scope, "_may_write", lambda *args, **named: True),
    "files of secrets are handed out": (scope, "handed_fault", lambda *args, **named: None),
    "a step's check is no word about commands": (calling, "contract_of", lambda step: None),
    "tools of a host are whatever is called": (calling, "_HOSTS", frozenset(("mail", "crm", "post"))),
}


@pytest.mark.slow("each breach is looked for in up to 100,000 cases")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_product_that_breaks_a_rule_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[mutant])
    compared = chain.from_iterable(cases(f"{SEED}/{part}") for part in range(PARTS))
    assert any(found != wanted for _, wanted, found, _ in compared)
