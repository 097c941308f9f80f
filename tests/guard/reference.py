"""What may be called, written once more from what is documented, sharing nothing with the product: a model to compare.

It is plain and slow. Where the product disagrees with docs/guard.md, docs/approvals.md ("Policy"), docs/agents.md ("The
tools of a step") or the words of `core.guard` and `core.call_rule`, one of the two is wrong. It has at most 200 lines
besides empty ones and words like these, so that it can be read at once.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import product, starmap
from typing import Any, NamedTuple

NO, MAYBE, YES = 0, 1, 2
CLASSES = ("reads", "repeatable", "checkable", "opaque", "destructive")
COMMANDS = ("shell", "exec")
FIXED = re.compile(r"/?[^/]*[*?]")
APART = r"""[\s,;|<>"'`()\[\]{}\\]"""
PRIVATE = [re.compile(rf"(?i)(.*/)?\.git(/.*)?|\.ordain(/.*)?{more}") for more in (r"|(.*/)?ordain\.toml", "")]
NOBODYS = re.compile(r"(?i)(.*/)?(\.env|\.netrc|id_rsa)")
Args = Mapping[str, Any]


class Tool(NamedTuple):
    effect: str
    destructive: bool = False
    paths: Mapping[str, bool] = {}  # arguments that are; whether what is beneath is meant
    needs: Mapping[str, type] = {}
    takes: Mapping[str, type] = {}


class Lists(NamedTuple):
    deny: Sequence[str]
    ask: Sequence[str]
    allow: Sequence[str]
    guarded: Sequence[str]
    open: Sequence[str]
    rules: Mapping[str, tuple[Sequence[str], Args, Sequence[str]]]  # tools, where, besides
    enforce: bool


class Inside(NamedTuple):
    tools: Sequence[str] | None  # what the step lists
    plan_tools: Sequence[str] | None
    writes: Sequence[str]
    protect: Sequence[str]
    approved: bool
    check: str | None
    own_tools: bool


class Case(NamedTuple):
    lists: Lists
    name: str
    args: Args
    tool: Tool | None


def outside(case: Case, plans: Iterable[tuple[str, Sequence[tuple[str, Args]]]]) -> tuple[str, str, bool]:
    """How a call stands, the code that is told of it, and whether it is refused. Plans come with how far they are."""
    lists, denied = case.lists, strictly(case, case.lists.deny)
    if denied == YES:
        return "denied", "E_POLICY_DENIED", lists.enforce
    opened = vouched(case, lists.open) or (case.tool is not None and "*" not in lists.guarded)
    if opened and not denied and not strictly(case, [*lists.ask, *lists.guarded]):
        return "open", "", False
    counting = [steps for stage, steps in plans if stage in ("approved", "executing")]
    called = [args for steps in counting for name, args in steps if name == case.name]
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


def may(case: Case, step: Inside) -> str:
    """The same where the agent makes the call itself, with a tool of its host."""
    if step.own_tools and (case.name.partition(":")[0] in COMMANDS or (case.tool is not None and case.tool.paths)):
        return "E_POLICY_DENIED" if strictly(case, case.lists.deny) == YES else ""
    found, checked = inside(case, step), case.name == "shell" and step.check is not None
    if checked and case.args == {"command": step.check}:
        return "E_POLICY_DENIED" if strictly(case, case.lists.deny) == YES else ""
    return "E_TOOL_ARGS_NOT_APPROVED" if checked and found == "E_CALL_SCOPE" else found


def fits(tool: Tool, args: Args, unknown: Iterable[str] = ()) -> bool:
    known, words = {**tool.needs, **tool.takes}, args.get("argv", ["a word"])
    fit = (key in unknown or type(one) is known.get(key) or (key, one) == ("row", 5.0) for key, one in args.items())
    return tool.needs.keys() <= args.keys() and all(fit) and isinstance(words, list) and {*map(type, words)} == {str}


def in_scope(case: Case, step: Inside) -> bool:
    names = {case.name, case.name.partition(":")[0]}
    listed = step.tools if step.tools is not None else step.plan_tools
    if listed is None:
        return case.tool is not None and bool(case.tool.paths)
    return not names.isdisjoint(listed) and (step.tools is not None or case.name not in COMMANDS)


def within(case: Case, step: Inside, text: str, deep: bool) -> bool:
    path, tool = plain(text), case.tool
    if path is None or NOBODYS.fullmatch(path) or PRIVATE[reads(case)].fullmatch(path):
        return False
    if tool is None or reads(case):
        return True
    kept = any(matches(one, path.lower()) or (deep and begins_in(path.lower(), one)) for one in step.protect)
    makes = case.name == "make_dir" and f"{path}/**" in step.writes
    may = not step.writes or makes or any(matches(one, path, case.args.get("recursive") is True) for one in step.writes)
    return may and not kept and (not deep or path != "")


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        one, other = ([list(item) for item in sorted(each.items())] for each in (one, other))
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
        tools, where, _ = case.lists.rules[rest]
        if where and case.name.partition(":")[0] in COMMANDS:
            return min(MAYBE, strictly(case, tools))
        each = ([singles(wanted), singles(case.args.get(key))] for key, wanted in where.items())
        return min(strictly(case, tools), *(max(starmap(value_strictly, product(*one))) for one in each), YES)
    if kind == "path":
        named = case.tool.paths.items() if case.tool else ()
        return max((path_strictly(rest, case.args.get(key, "."), deep, case) for key, deep in named), default=NO)
    words = {case.name, case.name.partition(":")[0], *classes(case), *(["shell"] if case.name == "exec" else [])}
    return YES if entry in words else NO


def vouched(case: Case, entries: Iterable[str]) -> bool:
    if any(one_vouches(case, entry) for entry in entries):
        return True
    if case.tool is None or not case.tool.paths or not classes(case).isdisjoint(("opaque", "destructive")):
        return False
    patterns = [entry.removeprefix("path:") for entry in entries if entry.startswith("path:")]
    named = [(plain(case.args.get(key, ".")), case.args.get(key, "."), deep) for key, deep in case.tool.paths.items()]
    known = [(path, deep or text.endswith("/")) for path, text, deep in named if path is not None and sure(text, case)]
    return len(known) == len(named) and all(any(matches(one, *path) for one in patterns) for path in known)


def one_vouches(case: Case, entry: str) -> bool:
    if entry.startswith("rule:"):
        tools, where, besides = case.lists.rules[entry.removeprefix("rule:")]
        each = ((singles(wanted), value) for key, wanted in where.items() for value in singles(case.args.get(key)))
        named = case.name.partition(":")[0] not in COMMANDS and case.args.keys() <= {*where, *besides}
        held = all(any(value_vouches(one, value) for one in wanted) for wanted, value in each)
        return vouched(case, tools) and held and (not where or named)
    if entry in CLASSES:  # a tool that is called so is not meant
        harmless = "destructive" not in classes(case)
        return case.tool is not None and entry in classes(case) and (harmless or entry == "destructive")
    first = case.name.partition(":")[0]  # a word of ours allows no tool that bears it
    if case.name in COMMANDS:
        return entry == case.name and case.tool is not None and fits(case.tool, case.args)
    return entry in (case.name, first) and first not in (*CLASSES, "task", "shell")


def value_strictly(wanted: Any, value: Any) -> int:
    if value is None or not told(value):
        return NO if value is None else MAYBE
    if isinstance(wanted, str):
        return YES if stands_in(wanted, written(value)) else NO
    if not isinstance(wanted, bool) and number(value) is not None:
        return YES if number(value) == wanted else NO
    alike = written(value).strip().lower() == written(wanted)
    return YES if alike else NO if type(wanted) is type(value) else MAYBE


def stands_in(pattern: str, text: str) -> bool:
    """Whether a text is what a pattern means, or has it among other values."""
    pattern, text = (unicodedata.normalize("NFKC", one).casefold() for one in (pattern, text))
    meant = ".*".join(map(re.escape, re.split(r"\*+", pattern)))
    whole = rf"(.*{APART})?{meant}({APART}.*)?"
    visible = "".join(one for one in text if one.isprintable())
    return any(re.fullmatch(whole, one, re.DOTALL) is not None for one in (text, visible))


def value_vouches(wanted: Any, value: Any) -> bool:
    if not isinstance(wanted, str) or not isinstance(value, str):
        return type(wanted) is type(value) and bool(wanted == value)
    parts = (re.escape(part).replace(r"\*", r"[\w.+~-]*") for part in wanted.split("**"))
    fits_in = re.fullmatch(".*".join(parts), value, re.DOTALL) is not None
    out, leads_out = (re.split(r"[/\\]", one).count("..") for one in (wanted, value))
    return fits_in and leads_out <= out and told(value)


def singles(value: Any) -> list[Any]:
    """The values of an argument that may be a list; for an empty one what is like nothing."""
    return ([one for part in value for one in singles(part)] or [None]) if isinstance(value, list) else [value]


def told(value: Any) -> bool:
    return not isinstance(value, dict) and "${" not in str(value) and not str(value).startswith("secret:")


def number(value: Any) -> float | None:
    return float(value) if re.fullmatch(r"\s*\d+(\.\d+)?\s*", written(value)) else None


def written(value: Any) -> str:
    return value if isinstance(value, str) else str(value).lower().removesuffix(".0")


def plain(text: Any) -> str | None:
    """A path beneath the workspace without needless parts, which itself is empty."""
    if not isinstance(text, str) or not text or text.startswith("/") or ".." in text.split("/"):
        return None
    return "/".join(part for part in text.split("/") if part not in ("", "."))


def reads(case: Case) -> bool:
    return case.tool is not None and case.tool.effect == "reads"


def sure(text: str, case: Case) -> bool:
    return not set("*?") & set(text) and "${" not in text and not PRIVATE[reads(case)].fullmatch(text)


def path_strictly(pattern: str, text: Any, deep: bool, case: Case) -> int:
    known = text.partition("${")[0].lower() if isinstance(text, str) else ""
    path = "/".join(part for part in known.split("/") if part not in ("", "."))
    if meant(pattern.lower(), path):  # also what is no path here, as it is written
        return YES
    if plain(text) is None or "${" in text or PRIVATE[reads(case)].fullmatch(path):
        return MAYBE
    path, deep = FIXED.split(path)[0], deep or text.endswith("/") or not sure(text, case)
    return MAYBE if begins_in(path, pattern.lower()) or (deep and below(pattern.lower(), path)) else NO


def begins_in(path: str, pattern: str) -> bool:
    return not path or f"{FIXED.split(pattern)[0]}/".startswith(f"{path}/")


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
