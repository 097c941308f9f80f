"""Files that commands read: what a step names in literal words, input redirections and `inputs`, what other steps may
change of it, and what no approval can be bound to. `ports.Workspace.contents` looks at the files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.command import command_of, program_of
from ordain.core.plan.graph import Order, needs_of
from ordain.core.plan.model import Plan, Step, all_steps, item_name, look_commands, nested_plan_of
from ordain.core.plan.refs import literal, references
from ordain.core.plan.role import EffectClass, PathWritten, about, parts
from ordain.core.plan.tool import ToolDefinition, definition_of
from ordain.core.policy.path_use import spelt_path
from ordain.core.policy.program import Words, bare, handed_text, unwrapped
from ordain.core.policy.script import Script, argument_script
from ordain.core.text.control import folded
from ordain.core.text.path import is_pattern
from ordain.core.text.pattern import PATTERN_MAX, PathPattern, compile_later, normal, plain_part

FILE_BYTES_MAX = 64 << 20
"""Larger files are not bound: nobody waits for their digest before every step."""
UNBOUND = {
    "directory": "directories, whatever is in them",
    "other": "pipes, sockets and devices",
    "too large": f"files over {FILE_BYTES_MAX >> 20} MiB",
    "unreadable": "files that cannot be read",
    "changing": "files that somebody is writing",
}
"""What `ports.Workspace.contents` says of what cannot be bound, and the words for a person."""
_MAY_CHANGE = "checked at the start only, as earlier steps may change them"
_DYNAMIC = "words that are only known when they run"
_MOVED = "relative paths after a change of directory"
_SOURCED = "relative paths after a sourced file, which may change the directory"
_UNREAD = "commands that cannot be taken apart, or are over 16 KiB"
_OUTSIDE = "perhaps what lies outside the workspace, of which only a person is told more"
SHOWN_MAX = 3

Scripts = Mapping[str, Script]
"""Texts of commands → the same taken apart; one that cannot be is not there."""


class NamedFiles(msgspec.Struct, frozen=True):
    """What may be files of what a step names, the patterns of its `inputs`, and what nobody knows before it runs."""

    paths: frozenset[str]
    patterns: tuple[str, ...] = ()
    unknown: frozenset[str] = frozenset()

    def of(self, files: Mapping[str, str]) -> dict[str, str]:
        """Those of these files that are meant."""
        wanted = [PathPattern(folded(normal(pattern))) for pattern in self.patterns]
        return {
            path: what
            for path, what in files.items()
            if path in self.paths or (wanted and any(one.matches(folded(path)) for one in wanted))
        }


class NotBound(msgspec.Struct, frozen=True, kw_only=True):
    """What an approval is not bound to, of one kind: the first paths, or the first steps where nothing has a name."""

    reason: str
    count: int
    first: tuple[str, ...]


# --- What a step reads ---------------------------------------------------------------------------------------------


def command_texts(steps: Iterable[Step]) -> Iterator[str]:
    """Every text that a shell gets in these steps: commands, contracts, and what a program hands to a shell."""
    for step in steps:
        command, program = command_of(step.action), program_of(step.action)
        if command is not None:
            yield command.command
        elif program is not None and (text := handed_text(program.argv)) is not None:
            yield text
        yield from look_commands(step)


def named_files(step: Step, scripts: Scripts) -> NamedFiles:
    """What the command, the contract, the check and the `inputs` of a step name."""
    paths: set[str | None] = set()
    unknown: set[str] = set()
    command = command_of(step.action) or program_of(step.action)
    for name, value in command.env.items() if command is not None else ():
        paths.update(_spellings(_written(value, step) or "", ""))
        unknown.update([_MOVED] if name == "CDPATH" else ())
    for script in (_own_script(step, scripts), *(scripts.get(text) for text in look_commands(step))):
        if script is None:
            unknown.add(_UNREAD)
            continue
        sourced = False
        for one in script.commands:
            program = bare(one.program)
            named = () if program in _TESTS else one.words[0 if "/" in program else 1 :]
            words = (*named, *one.inputs, *(value for _, value in one.assignments))
            if None in one.inputs or (None in one.words and program not in _SILENT):
                unknown.add(_DYNAMIC)
            if any(value is None and (one.words or _LOADING.match(name)) for name, value in one.assignments):
                unknown.add(_DYNAMIC)
            if program not in _WRITES_NOTHING:
                unknown.update(_unfollowed(one.words))
            moved = words if program not in (*_SILENT, "cd") else one.inputs
            if (one.directory is None or sourced) and any(word and not _FIXED.match(word) for word in moved):
                unknown.add(_SOURCED if sourced else _MOVED)
            sourced = sourced or program in (".", "source")
            for word in filter(None, words):
                paths.update(_spellings(word, one.directory))
                if "{}" in word or program in ("alias", "xargs"):
                    unknown.add(_DYNAMIC)
    patterns = tuple(one for one in step.inputs if is_pattern(one) or one.endswith("/"))
    paths.update(spelt_path(one) for one in step.inputs if one not in patterns)
    unknown.update([_DYNAMIC] if None in paths else ())
    return NamedFiles(frozenset(filter(None, paths)), patterns, frozenset(unknown))


def _written(value: str, step: Step) -> str | None:
    """A value of a step as it is written; None where a reference decides it."""
    return str(literal(value)) if next(references(value, item_name(step)), None) is None else None


_NO_SCRIPT = Script((), ())


def _own_script(step: Step, scripts: Scripts) -> Script | None:
    """The command of a step taken apart, empty where it has none; None where it cannot be."""
    if (command := command_of(step.action)) is not None:
        return scripts.get(command.command)
    program = program_of(step.action)
    return argument_script([_written(word, step) for word in program.argv], scripts.get) if program else _NO_SCRIPT


_TEXT = compile_later(r"\0(?:-\w*[ceS]\0|-[cS]|--(?:command|eval|split-string)[=\0])[^\0]*\s")
"""An option with a text of several words: `su -c 'a b'`, `env -S 'a b'`, `python3 -c 'a b'`."""
_ELSEWHERE = compile_later(r"\0(?:-C|-D\0|-chdir=|--(?:directory|chdir|cwd)[=\0])")
"""An option that sends a program to another directory: `make -C sub`, `env --chdir=sub`."""


def _unfollowed(words: Words) -> Iterator[str]:
    """Why files that the options of a command name are not known."""
    joined = "\0".join(["", *(word or "" for word in words)])
    if _ELSEWHERE.search(joined):
        yield _MOVED
    if _TEXT.search(joined) and handed_text(words) is None:
        yield _UNREAD


_FIXED = compile_later(r"/[^=@:,;\s]*$|-\w?$|--[\w-]+$")
"""Words that neither are nor have attached a path that begins in the directory of their command."""
_LOADING = compile_later(r".*(?:PATH|ENV|HOME|LIB|PRELOAD|STARTUP|RC|CONFIG|FILES?|DIR|COMMAND|OPTIONS|OPTS|FLAGS)$")
"""How variables end that programs read by themselves. Others matter where a command uses them."""
_ATTACHED = compile_later(r"@|-[A-Za-z](?=[^=])|[^=/]*=")
_BETWEEN = compile_later(r"file://|[=@:,;\s'\"`()<>|&]+")
"""What may be between paths in one word: `-F f=@a`, `a.jar:b.jar`, `flock l sh -c 'sh a'`."""
_ADDRESS = compile_later(r"(?:https?|ftp|ssh|git)://")
_NO_FILES = compile_later(r"/dev/(?!shm/)")
_KEPT = compile_later(r"(?:(?:.*/)?\.\.)?/(?:proc|sys)/|/dev/(?:.*/)?\.\./|\.ordain(?:/|$)")
"""Where files are others for each process, or Ordain's."""


def _spellings(word: str, directory: str | None) -> Iterator[str | None]:
    """The paths that a word may mean, also behind an option: `--file=a`, `@a`. None is another for each process."""
    attached = _ATTACHED.match(word)
    pieces = [
        one for at, one in enumerate(_BETWEEN.split(word)) if "." in one or "/" in one or (at and " " not in word)
    ]
    inner = (*pieces, *((word[attached.end() :],) if attached is not None else ()))
    for path in (word, *(inner if not _ADDRESS.match(word) else ())):
        if not path or len(path) > PATTERN_MAX or "\0" in path or (path[0] != "/" and directory is None):
            continue
        spelt = spelt_path(path if path[0] == "/" or not directory else f"{directory}/{path}") or "."
        if (kept := _KEPT.match(spelt)) or not _NO_FILES.match(spelt):
            yield spelt if not kept else None


# --- What a step writes --------------------------------------------------------------------------------------------

_SILENT = frozenset(
    ["[", "[[", ":", "echo", "exit", "false", "printf", "read", "return", "set", "sleep", "test", "true"]
)  # fmt: skip
"""Programs that read no file that their words name."""
_TESTS = ("[", "[[", "test")
"""Those of them whose words are often files, which need not be there yet; what is in them is not asked."""
_WRITES_NOTHING = _SILENT.union(
    ["basename", "cat", "cd", "cmp", "cut", "date", "diff", "dirname", "du", "egrep", "fgrep", "file", "grep", "head",
     "jq", "ls", "md5sum", "nl", "pwd", "seq", "sha1sum", "sha256sum", "stat", "tail", "tr", "wc"]
)  # fmt: skip
"""Programs that write no file but where their output is sent."""


class Writes:
    """What steps that began may have changed; after one whose writes are unknown, anything."""

    def __init__(
        self, tools: Mapping[str, ToolDefinition], scripts: Scripts, tier: int, real: Callable[[str], str] = spelt_path
    ) -> None:
        """`real` is where a path leads, beneath the workspace or absolute: steps write through links and `..` too."""
        self._tools, self._scripts, self._tier, self._real = tools, scripts, tier, real
        self._exact: set[str] = set()
        self._patterns: dict[str, PathPattern] = {}
        self.anything = False

    def add(self, step: Step) -> None:
        written = self.of(step)
        if written is None:
            self.anything = True
        for path in written or ():
            spelt = self._compared(path)
            self._exact.add(spelt)
            if is_pattern(spelt) or path.endswith("/"):
                self._patterns[spelt] = PathPattern(normal(f"{spelt}/" if path.endswith("/") else spelt))

    def may_change(self, path: str) -> bool:
        spelt = self._compared(path)
        return self.anything or spelt in self._exact or any(one.matches(spelt) for one in self._patterns.values())

    def of(self, step: Step) -> tuple[str, ...] | None:
        """The paths and patterns that a step may write; None where it may write anything."""
        # Above tier 0, contracts and checks can write nothing.
        looks = [_redirected(self._scripts.get(text)) for text in look_commands(step)] if self._tier == 0 else []
        found = [self._own(step), *looks]
        return (*step.writes, *(path for one in found for path in one or ())) if None not in found else None

    def _own(self, step: Step) -> tuple[str, ...] | None:
        action = step.action
        if command_of(action) is not None or program_of(action) is not None:
            found = _redirected(_own_script(step, self._scripts))
            return () if found is None and step.writes else found
        if isinstance(action, CallTool):
            tool = definition_of(action, self._tools)
            if tool is None or (tool.schema is not None and tool.effect is not EffectClass.READS):
                return None
            written: list[str] = []
            for one in tool.parameters if tool.effect is not EffectClass.READS else ():
                if one.path and isinstance(given := action.args.get(one.name), str):
                    if (path := _written(given, step)) is None:
                        return None
                    written += [path, f"{path}/"] if one.deep else [path]
            return tuple(written)
        if fields := [*parts(action, PathWritten)]:
            return tuple(path for one in fields for path in (one.value, f"{one.value}/")[: 1 + one.role.deep])
        # The steps of a nested plan count by themselves.
        nothing = about(action).ledger_only or about(action).effect is EffectClass.READS
        return () if nothing or (isinstance(action, Task) and step.writes) else None

    def _compared(self, path: str) -> str:
        plain = plain_part(path)
        return folded(self._real(plain) + path[len(plain) :])


def _redirected(script: Script | None) -> tuple[str, ...] | None:
    """Where a script sends its output, where it writes nothing else; None where nobody can tell."""
    if script is None or script.functions:
        return None
    found: list[str] = []
    for one in script.commands:
        if one.words and bare((unwrapped(one.words) or (None,))[0]) not in _WRITES_NOTHING:
            return None
        if any(name == "PATH" for name, _ in one.assignments):
            return None
        for output in one.outputs:
            if output is None or (one.directory is None and output[0] != "/"):
                return None
            found.append(output if output[0] == "/" or not one.directory else f"{one.directory}/{output}")
    return tuple(found)


# --- What is not bound ---------------------------------------------------------------------------------------------


def not_bound(
    plan: Plan,
    named: Sequence[NamedFiles],
    files: Mapping[str, str],
    writes: Writes,
    hidden: Callable[[str], bool] = lambda path: False,
) -> tuple[NotBound, ...]:
    """What an approval of a plan with these files is not bound to; `named` is what each of its steps names, in their
    order. Of `hidden` paths only their number is told, whether anything is there or not."""
    found: dict[str, dict[str, None]] = {}
    early = _checked_first(plan, writes)
    for step, ours in zip(all_steps(plan), named, strict=True):
        matched = ours.of(files) if ours.patterns else {}
        for path, what in {**matched, **{one: files.get(one) for one in ours.paths}}.items():
            if hidden(path):
                found.setdefault(_OUTSIDE, {}).update({path: None} if path in ours.paths else {})
            elif what in UNBOUND:
                found.setdefault(UNBOUND[what], {})[path] = None
            elif what is not None and (id(step) not in early or writes.may_change(path)):
                found.setdefault(_MAY_CHANGE, {})[path] = None
        for reason in ours.unknown:
            found.setdefault(reason, {})[f"step {step.id}"] = None
    order = (*UNBOUND.values(), _MAY_CHANGE, _DYNAMIC, _MOVED, _SOURCED, _UNREAD, _OUTSIDE)
    return tuple(
        NotBound(reason=reason, count=len(names), first=tuple(sorted(names))[: SHOWN_MAX * (reason != _OUTSIDE)])
        for reason in order
        if (names := found.get(reason))
    )


def _checked_first(plan: Plan, writes: Writes) -> Collection[int]:
    """The steps that begin before all that may write anything, by their Python identity. What steps surely write goes
    into `writes`."""
    unknown: list[str] = []
    alone: list[int] = []
    for step in (*plan.steps, *plan.fallbacks):
        inner = nested_plan_of(step)
        for one in (step, *(all_steps(inner) if inner is not None else ())):
            if writes.of(one) is None:
                unknown.append(step.id)
                alone.append(id(one))
            else:
                writes.add(one)
    if not unknown:
        return {id(step) for step in all_steps(plan)}
    if len(unknown) == 1 and not any(step.id == unknown[0] for step in plan.steps):
        return alone
    first = Order(needs_of(plan)).before_all(unknown)  # nothing comes before a fallback for sure
    return {id(step) for step in plan.steps if step.id in first}
