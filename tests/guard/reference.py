"""What may be called, written once more from what is documented, sharing nothing with the product: a model to compare.

It is plain and slow. Where the product disagrees with docs/approvals.md ("Policy"), docs/agents.md ("The tools of a
step") or the words of `core.guard` and `core.call_rule`, one of the two is wrong. It has at most 200 lines that are not
empty, so that it can be read at once.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NO, MAYBE, YES = 0, 1, 2
CLASSES = ("reads", "repeatable", "checkable", "opaque", "destructive")
OWN = (*CLASSES, "task", "shell")
COMMANDS = ("shell", "exec")
FIXED = re.compile(r"/?[^/]*[*?]")
NOBODYS = re.compile(r"(?i)\.env|\.netrc|id_rsa")
Args = Mapping[str, Any]


@dataclass(frozen=True)
class Tool:
    effect: str
    destructive: bool = False
    paths: Mapping[str, bool] = field(
        default_factory=dict
    )  # arguments that are paths; whether what is beneath is meant
    needs: Mapping[str, type] = field(default_factory=dict)
    takes: Mapping[str, type] = field(default_factory=dict)


@dataclass(frozen=True)
class Lists:
    deny: Sequence[str] = ()
    ask: Sequence[str] = ()
    allow: Sequence[str] = ("reads",)
    guarded: Sequence[str] = ("*",)
    open: Sequence[str] = ("reads",)
    rules: Mapping[str, tuple[Sequence[str], Args]] = field(default_factory=dict)
    enforce: bool = False


@dataclass(frozen=True)
class Inside:
    tools: Sequence[str] | None  # what the step lists
    plan_tools: Sequence[str] | None
    writes: Sequence[str]
    protect: Sequence[str]
    approved: bool


@dataclass(frozen=True)
class Case:
    lists: Lists
    name: str
    args: Args
    tool: Tool | None


def outside(case: Case, approved: Iterable[Sequence[tuple[str, Args]]]) -> tuple[str, str, bool]:
    """How a call stands, the code that is told of it, and whether it is refused."""
    lists, denied = case.lists, strictly(case, case.lists.deny)
    if denied == YES:
        return "denied", "E_POLICY_DENIED", lists.enforce
    named = [entry for entry in lists.guarded if entry != "*"]
    opened = vouched(case, lists.open) or (case.tool is not None and "*" not in lists.guarded)
    if opened and not denied and not strictly(case, [*lists.ask, *named]):
        return "open", "", False
    called = [args for steps in approved for name, args in steps if name == case.name]
    other = called and case.name not in COMMANDS and not any(same(args, case.args) for args in called)
    return "guarded", "E_TOOL_ARGS_NOT_APPROVED" if other else "E_TOOL_GUARDED", lists.enforce


def inside(case: Case, step: Inside) -> str:
    if case.tool is None or not in_scope(case, step):
        return "E_CALL_SCOPE"
    served = not case.tool.paths and case.name not in COMMANDS
    secret = {key for key, value in case.args.items() if served and "secret:" in str(value)}
    if not fits(case.tool, case.args, secret):
        return "E_CALL_ARGUMENTS"
    if secret or not all(within(case, step, case.args.get(key, "."), deep) for key, deep in case.tool.paths.items()):
        return "E_CALL_BOUNDS"
    denied = strictly(case, case.lists.deny)
    if denied == YES:
        return "E_POLICY_DENIED"
    unasked = not denied and not strictly(case, case.lists.ask) and vouched(case, case.lists.allow)
    return "" if step.approved or unasked else "E_PLAN_APPROVAL_MISSING"


def fits(tool: Tool, args: Args, unknown: Iterable[str] = ()) -> bool:
    known = {**tool.needs, **tool.takes}
    fit = (type(value) is known.get(key) or key in unknown for key, value in args.items())
    return tool.needs.keys() <= args.keys() and all(fit)


def in_scope(case: Case, step: Inside) -> bool:
    names = {case.name, case.name.partition(":")[0]}
    if step.tools is not None:
        return not names.isdisjoint(step.tools)
    if step.plan_tools is not None:
        return case.name not in COMMANDS and not names.isdisjoint(step.plan_tools)
    return case.tool is not None and bool(case.tool.paths)


def within(case: Case, step: Inside, text: str, deep: bool) -> bool:
    path, tool = plain(text), case.tool
    if path is None or NOBODYS.fullmatch(path.rpartition("/")[2]) or path.split("/")[0].lower() in (".git", ".ordain"):
        return False
    if tool is None or tool.effect == "reads":
        return True
    if path.lower() == "ordain.toml" or (deep and not path):
        return False
    folded = path.lower()
    if any(
        matches(one, folded) or (deep and f"{FIXED.split(one)[0]}/".startswith(f"{folded}/")) for one in step.protect
    ):
        return False
    makes = case.name == "make_dir" and f"{path}/**" in step.writes
    all_of_it = case.args.get("recursive") is True
    return not step.writes or makes or any(matches(one, path, all_of_it) for one in step.writes)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def classes(case: Case) -> set[str]:
    destructive = case.tool is None or case.tool.destructive or case.args.get("overwrite") is True
    return {case.tool.effect if case.tool else "opaque", *(["destructive"] if destructive else [])}


def strictly(case: Case, entries: Iterable[str]) -> int:
    """Whether entries that forbid or ask mean a call."""
    return max((one_strictly(case, entry) for entry in entries), default=NO)


def one_strictly(case: Case, entry: str) -> int:
    kind, _, rest = entry.partition(":")
    if kind == "rule":
        tools, where = case.lists.rules[rest]
        if where and case.name in COMMANDS:
            return min(MAYBE, strictly(case, tools))
        holds = [value_strictly(wanted, case.args[key]) if key in case.args else NO for key, wanted in where.items()]
        return min([strictly(case, tools), *holds])
    if kind == "path":
        named = case.tool.paths if case.tool else {}
        return max((path_strictly(rest, case.args.get(key, "."), deep) for key, deep in named.items()), default=NO)
    words = {case.name, case.name.partition(":")[0], *classes(case), *(["shell"] if case.name == "exec" else [])}
    return YES if entry in words else NO


def vouched(case: Case, entries: Iterable[str]) -> bool:
    if any(one_vouches(case, entry) for entry in entries):
        return True
    if case.tool is None or not case.tool.paths or not classes(case).isdisjoint(("opaque", "destructive")):
        return False
    patterns = [entry.removeprefix("path:") for entry in entries if entry.startswith("path:")]
    named = [(plain(case.args.get(key, ".")), case.args.get(key, "."), deep) for key, deep in case.tool.paths.items()]
    known = [(path, deep or text.endswith("/")) for path, text, deep in named if path is not None and sure(text)]
    return len(known) == len(named) and all(any(matches(one, *path) for one in patterns) for path in known)


def one_vouches(case: Case, entry: str) -> bool:
    if entry.startswith("rule:"):
        tools, where = case.lists.rules[entry.removeprefix("rule:")]
        holds = (key in case.args and value_vouches(wanted, case.args[key]) for key, wanted in where.items())
        return vouched(case, tools) and (not where or case.name not in COMMANDS) and all(holds)
    if entry in CLASSES:  # a tool that is called so is not meant
        harmless = "destructive" not in classes(case)
        return case.tool is not None and entry in classes(case) and (harmless or entry == "destructive")
    first = case.name.partition(":")[0]  # a word of ours allows no tool that bears it
    command = case.name == "shell" and case.tool is not None and fits(case.tool, case.args)
    return entry in (case.name, first) and (command or first not in OWN)


def value_strictly(wanted: Any, value: Any) -> int:
    if isinstance(value, list):
        return max((value_strictly(wanted, one) for one in value), default=NO)
    if not told(value):
        return MAYBE
    choices = wanted if isinstance(wanted, list) else [wanted]
    patterns = (".*".join(map(re.escape, written(one).split("*"))) for one in choices)
    return YES if any(re.fullmatch(one, written(value), re.DOTALL | re.IGNORECASE) for one in patterns) else NO


def value_vouches(wanted: Any, value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(value_vouches(wanted, one) for one in value)
    if not told(value):
        return False
    if isinstance(wanted, list):
        return any(value_vouches(one, value) for one in wanted)
    if not isinstance(wanted, str) or not isinstance(value, str):
        return type(wanted) is type(value) and same(wanted, value)
    parts = (re.escape(part).replace(r"\*", r"[^\s,;|<>\"']*") for part in wanted.split("**"))
    return re.fullmatch(".*".join(parts), value, re.DOTALL) is not None


def told(value: Any) -> bool:
    return not isinstance(value, dict) and "${" not in str(value) and not str(value).startswith("secret:")


def written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def plain(text: Any) -> str | None:
    """A path beneath the workspace without needless parts, which itself is empty."""
    if not isinstance(text, str) or not text or text.startswith("/") or ".." in text.split("/"):
        return None
    return "/".join(part for part in text.split("/") if part not in ("", "."))


def sure(text: str) -> bool:
    return not set("*?") & set(text) and "${" not in text


def path_strictly(pattern: str, text: Any, deep: bool) -> int:
    path = plain(text.partition("${")[0].lower() or ".") if isinstance(text, str) else None
    if path is not None and meant(pattern.lower(), path):
        return YES
    if path is None or "${" in text or path.split("/")[0] in (".git", ".ordain"):
        return MAYBE
    path, deep = FIXED.split(path)[0], deep or text.endswith("/") or not sure(text)
    above = not path or f"{FIXED.split(pattern.lower())[0]}/".startswith(f"{path}/")
    return MAYBE if above or (deep and below(pattern.lower(), path)) else NO


def meant(pattern: str, path: str) -> bool:
    """Whether a pattern means a path, or one above it."""
    above = ["/".join(path.split("/")[: size + 1]) for size in range(path.count("/") + 1)]
    return any(matches(pattern, one) or pattern == f"{one}/**" for one in above)


def below(pattern: str, path: str) -> bool:
    names = path.split("/") if path else []
    for part, name in zip(pattern.split("/"), names, strict=False):
        if part == "**" or not matches(part, name):
            return part == "**"
    return pattern.count("/") >= len(names)


def matches(pattern: str, path: str, all_of_it: bool = False) -> bool:
    """Whether a pattern means a path, letter by letter, and where that is wanted everything beneath."""
    stars = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*"}
    text = "".join(stars.get(part) or re.escape(part) for part in re.split(r"(\*\*/|\*\*|\*)", pattern))
    return (not all_of_it or pattern.endswith("**")) and re.fullmatch(text, path) is not None
