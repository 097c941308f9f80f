"""Whether the exit status of a shell text says anything.

Commands and contracts run under `bash -eo pipefail`. What is said here of a text that leaves early is what bash does,
with one exception: a text that ends in `true` counts as constant although bash leaves it at the first failure before.
Such an end says nothing that its absence would not say, and hides what fails where `-e` does not look.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from operator import eq, ge, gt, le, lt, ne

from ordain.core.policy.program import STARTERS, Words, bare, unwrapped
from ordain.core.policy.script import (
    AndOr,
    Background,
    CommandGroup,
    Condition,
    Function,
    Negated,
    Opaque,
    Pipeline,
    Script,
    Simple,
    Statement,
    everywhere,
)

_ALWAYS = {
    "true": 0, ":": 0, "false": 1, "echo": 0, "set": 0, "shopt": 0, "export": 0, "declare": 0, "typeset": 0,
    "readonly": 0, "local": 0, "unset": 0, "umask": 0, "trap": 0,
}  # fmt: skip
"""Commands that have one exit status whatever they are given: nobody writes one of them to find something out."""
_TESTS = frozenset(["test", "[", "[["])
_JUDGED = _TESTS.union(_ALWAYS, STARTERS, ["exit", "return", "printf", "wait", "let", "(("])
_TRIVIAL = ("true", ":", "exit")
_CATCH_ALL = frozenset(["EXIT", "0", "DEBUG"])
_CATCHING = _CATCH_ALL | {"ERR"}
"""What a trap can be set on so that the status of the whole text may become another one."""
_EXIT = frozenset(["exit"])
_RETURN = frozenset(["exit", "return"])
_FUNCTIONS_MAX = 16
"""Calls of functions are followed where there are not more of them."""

Statuses = frozenset[int | None]
_NONE: Statuses = frozenset()


def constant_status(script: Script) -> int | None:
    """The exit status of a script that has the same one whatever happens; None when it depends on something."""
    if len(script.statements) == 1 and isinstance(only := script.statements[0], Simple) and only.inner is None:
        name = bare(only.words[0])
        if name in _TESTS:
            return _simple_status(only.words)
        if name not in _JUDGED:
            return None  # most contracts are one command that nobody knows
    return _status_of(script)


def _status_of(script: Script, *, strict: bool = True) -> int | None:
    judge = _Judge(script, strict=strict)
    return judge.trapped(script.statements, judge.ending(script.statements))


class _Judge:
    """Judges one script, or a text that it hands to another shell, where `-e` and pipefail need not be set."""

    def __init__(self, script: Script, *, strict: bool = True) -> None:
        self._script = script
        self._strict = strict
        self._functions = {
            one.name: one.statements for one in everywhere(script.statements) if isinstance(one, Function)
        }
        self._statuses: dict[int, int | None] = {}
        self._left: dict[tuple[int, bool, frozenset[str]], Statuses] = {}
        self._calls: dict[str, int | None] = {}
        self._inside: set[str] = set()

    # --- A sequence ---

    def ending(self, statements: Sequence[Statement], leaving: frozenset[str] = _EXIT) -> int | None:
        """The status that a sequence ends with, whatever happens."""
        reached = self._reached(statements, leaving)
        if len(reached) == 1 and isinstance(reached[0], Simple) and reached[0].words == ("exit",):
            return 0
        return self._agreed(reached, self._last(reached, leaving), leaving)

    def _agreed(self, reached: Sequence[Statement], status: int | None, leaving: frozenset[str]) -> int | None:
        """The status, unless the sequence may be left with another one."""
        return status if status is None or self._exits(reached, True, leaving) <= {status} else None

    def _reached(self, statements: Sequence[Statement], leaving: frozenset[str]) -> Sequence[Statement]:
        """The statements up to one that surely leaves."""
        for at, statement in enumerate(statements, 1):
            if self._leaves(statement, leaving):
                return statements[:at]
        return statements

    def _last(self, statements: Sequence[Statement], leaving: frozenset[str]) -> int | None:
        if not statements:
            return 0
        last = statements[-1]
        if isinstance(last, CommandGroup) and (status := self.ending(last.statements, leaving)) is not None:
            return status
        if isinstance(last, Simple) and (len(statements) == 1 or self._trivial(last, statements[-2])):
            return self._simple(last)
        return self._in_order(statements)

    def _trivial(self, last: Simple, before: Statement) -> bool:
        """Whether a command is one that is put at an end only for its status."""
        words = unwrapped(last.words)
        if words == ("wait",):
            return isinstance(before, Background)
        if last.inner is not None:
            return words[0] != "trap"
        return bare(words[0]) in _TRIVIAL and words[0] not in self._functions

    def _in_order(self, statements: Sequence[Statement]) -> int | None:
        status: int | None = 0
        for statement in statements:
            status = self.status(statement)
            if status != 0 and self._strict:
                return status
        return status

    # --- One statement ---

    def status(self, statement: Statement) -> int | None:
        key = id(statement)
        if key not in self._statuses:
            self._statuses[key] = self._status(statement)
        return self._statuses[key]

    def _status(self, statement: Statement) -> int | None:
        match statement:
            case Simple():
                return self._simple(statement)
            case Negated(statement=inner):
                status = self.status(inner)
                return None if status is None else int(status == 0)
            case AndOr(first=first, rest=rest):
                status = self.status(first)
                for operator, further in rest:
                    status = _joined(status, operator, self.status(further))
                return status
            case Pipeline(stages=stages):
                found = [self.status(stage) for stage in stages]
                if not self._strict:
                    return found[-1] if found else None
                return None if None in found else next((status for status in reversed(found) if status), 0)
            case CommandGroup(statements=statements):
                reached = self._reached(statements, _EXIT)
                return self._agreed(reached, self._in_order(reached), _EXIT)
            case Background() | Function():
                return 0
            case Condition(branches=branches):
                statuses = {self._in_order(branch) for branch in branches}
                return 0 if statuses == {0} else None
            case Opaque():
                return None

    def _simple(self, simple: Simple) -> int | None:
        words = unwrapped(simple.words)
        name = words[0] if words else None
        if name in self._functions:
            return self._call(name)
        if simple.inner is not None and name != "trap":
            if name == "eval":
                return self.ending(simple.inner)
            strict = any(word is not None and re.match(r"-[a-z]*e", word) for word in words[1:3])
            return _status_of(Script(simple.inner, ()), strict=strict)
        return _simple_status(words)

    def _call(self, name: str) -> int | None:
        """The status of a function, which is judged once; one that calls itself, or is among many, may end anyhow."""
        if name not in self._calls:
            self._calls[name] = None
            if len(self._functions) <= _FUNCTIONS_MAX:
                self._calls[name] = self.ending(self._functions[name], _RETURN)
        return self._calls[name]

    # --- Leaving early ---

    def _leaves(self, statement: Statement, leaving: frozenset[str]) -> bool:
        """Whether a statement surely is the last that runs."""
        match statement:
            case Simple(words=words, inner=inner):
                name = words[0]
                if name in self._functions:
                    return self._leaves_from(name)
                if name == "eval" and inner is not None:
                    return any(self._leaves(one, leaving) for one in inner)
                return name in leaving or (name == "exec" and unwrapped(words)[0] != "exec")
            case Negated(statement=one):
                return self._leaves(one, leaving)
            case AndOr(first=first, rest=rest):
                if self._leaves(first, leaving):
                    return True
                status = self.status(first)
                for operator, further in rest:
                    if status is None:
                        return False
                    if (status == 0) == (operator == "&&"):
                        if self._leaves(further, leaving):
                            return True
                        status = self.status(further)
                return False
            case CommandGroup(statements=statements, subshell=False):
                return any(self._leaves(one, leaving) for one in statements)
            case _:
                return False

    def _leaves_from(self, name: str) -> bool:
        """Whether a function surely leaves not only itself."""
        if name in self._inside or len(self._functions) > _FUNCTIONS_MAX:
            return False
        self._inside.add(name)
        left = any(self._leaves(one, _EXIT) for one in self._body(name))
        self._inside.discard(name)
        return left

    def _body(self, name: str) -> Sequence[Statement]:
        """What runs when a function is called."""
        body = self._functions[name]
        if len(body) == 1 and isinstance(body[0], CommandGroup):
            body = body[0].statements
        return self._reached(body, _RETURN)

    def _exits(self, statements: Sequence[Statement], live: bool, leaving: frozenset[str]) -> Statuses:
        found = _NONE
        for statement in statements:
            found |= self._exits_of(statement, live, leaving)
        return found

    def _exits_of(self, statement: Statement, live: bool, leaving: frozenset[str]) -> Statuses:
        """The statuses with which a statement may leave the script in so many words; None for one that is not known.
        `live`: a failure here ends the script, so that leaving a subshell with one does."""
        key = id(statement), live, leaving
        if key not in self._left:
            self._left[key] = _NONE  # for functions that call themselves
            self._left[key] = self._found_exits(statement, live, leaving)
        return self._left[key]

    def _found_exits(self, statement: Statement, live: bool, leaving: frozenset[str]) -> Statuses:
        match statement:
            case Simple(words=words, inner=inner):
                name = words[0]
                if name in self._functions:
                    if len(self._functions) > _FUNCTIONS_MAX:
                        return frozenset([None])
                    return self._exits(self._body(name), live, _EXIT)
                if name == "eval" and inner is not None:
                    return self._exits(inner, live, leaving)
                return frozenset([self.status(statement)]) if self._leaves(statement, leaving) else _NONE
            case Negated(statement=one):
                return self._exits_of(one, False, leaving)
            case AndOr(first=first, rest=rest):
                found, status = self._exits_of(first, False, leaving), self.status(first)
                for at, (operator, further) in enumerate(rest, 1):
                    if status is None or (status == 0) == (operator == "&&"):
                        found |= self._exits_of(further, live and at == len(rest), leaving)
                    status = _joined(status, operator, self.status(further))
                return found
            case Pipeline(stages=inner_statements) | CommandGroup(statements=inner_statements, subshell=True):
                return self._exits(inner_statements, True, _EXIT) - {0} if live and self._strict else _NONE
            case CommandGroup(statements=inner_statements):
                return self._exits(inner_statements, live, leaving)
            case Condition(branches=branches, tests=tests):
                found = self._exits(tests, False, leaving)
                return found.union(*(self._exits(branch, live, leaving) for branch in branches))
            case Background() | Function():
                return _NONE
            case Opaque():
                words_left = (words for words in self._script.own_words if words[0] in leaving)
                return frozenset(_simple_status(words) for words in words_left)

    # --- Traps ---

    def trapped(self, statements: Sequence[Statement], status: int | None) -> int | None:
        """The status that a trap gives the whole script, whatever happens; else the one that it has without."""
        for at, statement in enumerate(statements):
            if isinstance(statement, Simple) and (caught := _caught(statement.words)) and statement.inner is not None:
                left = any(self._leaves(one, _EXIT) for one in statement.inner)
                given = self.ending(statement.inner) if left else None
                if given is None or any(self.status(before) != 0 for before in statements[:at]):
                    continue
                if caught & _CATCH_ALL or (given == 0 and self._exits(statements, True, _EXIT) <= {0}):
                    return given
        return status

    def hiding(self) -> Iterator[Simple]:
        """The traps that may make a success of a failure."""
        for statement in everywhere(self._script.statements):
            if isinstance(statement, Simple) and _caught(statement.words) and statement.words[1] not in ("-", ""):
                handler = statement.inner
                names = [one.words[0] for one in everywhere(handler or ()) if isinstance(one, Simple)]
                if handler is None or None in names or 0 in self._exits(handler, False, _EXIT):
                    yield statement


def _caught(words: Words) -> frozenset[str]:
    """What a trap is set on, of what may change the status."""
    if words[:1] != ("trap",) or len(words) < 3:
        return frozenset()
    return _CATCHING.intersection((word or "EXIT").upper().removeprefix("SIG") for word in words[2:])


# --- Commands whose status is known --------------------------------------------------------------------------------


def _simple_status(words: Words) -> int | None:
    name = bare(words[0]) if words else ""
    match name:
        case "exit" | "return":
            given = words[1] if len(words) > 1 else None
            return int(given) % 256 if given is not None and given.isdigit() and len(given) < 9 else None
        case "printf":
            # With a number to write, it fails when it is given none.
            shape = words[1] if len(words) > 1 else None
            return 0 if shape is not None and not re.search(r"%[^sbq%]", shape) else None
        case "wait":
            return 0 if len(words) == 1 else None  # it waits for all and asks none how it ended
        case "let" | "((":
            return _reckoned(words[1:2] if name == "((" else words[-1:])
        case "test":
            return _tested(words[1:])
        case "[" | "[[" if words[-1] in ("]", "]]"):
            return _tested(words[1:-1])
        case _:
            return _ALWAYS.get(name)


def _reckoned(words: Words) -> int | None:
    """The exit status of an arithmetic of one number, or of two that are compared."""
    text = (words[0] or "").strip() if words else ""
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(re.fullmatch(r"-?0+", text) is not None)
    compared = re.fullmatch(r"([1-9][0-9]{0,17}|0)\s*(==|!=|<=|>=|<|>)\s*([1-9][0-9]{0,17}|0)", text)
    if compared is None:
        return None
    return int(not _COMPARED[compared[2]](int(compared[1]), int(compared[3])))


def _tested(words: Words) -> int | None:
    """The exit status of `test` with these words, where all of them are known beforehand and none names a file."""
    if len(words) == 2 and words[0] not in ("-n", "-z", "!"):
        return None
    literals = [word for word in words if word is not None and not _DEPENDS.search(word)]
    return None if len(literals) < len(words) or len(words) > _WORDS_MAX else _truth(literals)


_WORDS_MAX = 16
_DEPENDS = re.compile(r"[*?\[\]{}~$`\\]")
"""What bash may replace in a word, unless it is quoted."""
_STRINGS: dict[str, Callable[[str, str], bool]] = {"=": eq, "==": eq, "!=": ne, "<": lt, ">": gt}
_NUMBERS: dict[str, Callable[[int, int], bool]] = {"-eq": eq, "-ne": ne, "-lt": lt, "-le": le, "-gt": gt, "-ge": ge}
_COMPARED: dict[str, Callable[[int, int], bool]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def _truth(words: list[str]) -> int | None:
    match words:
        case []:
            return 1
        case [word]:
            return int(not word)
        case ["-n" | "-z" as operator, word]:
            return int(bool(word) == (operator == "-z"))
        case [left, operator, right] if operator in _STRINGS:
            return int(not _STRINGS[operator](left, right))
        case [left, operator, right] if operator in _NUMBERS:
            numeric = re.fullmatch(r"-?[0-9]{1,18}", left) and re.fullmatch(r"-?[0-9]{1,18}", right)
            return int(not _NUMBERS[operator](int(left), int(right))) if numeric else 2
        case ["!", *rest]:
            status = _truth(rest)
            return status if status is None or status > 1 else 1 - status
    for operator, joined in (("-o", min), ("||", min), ("-a", max), ("&&", max)):
        if operator in words[1:-1]:
            at = words.index(operator, 1)
            first, second = _truth(words[:at]), _truth(words[at + 1 :])
            return None if first is None or second is None else joined(first, second)
    return None


def _joined(status: int | None, operator: str, further: int | None) -> int | None:
    if status is None:
        return 0 if operator == "||" and further == 0 else None
    return further if (status == 0) == (operator == "&&") else status


# --- What is switched off ------------------------------------------------------------------------------------------

_FAIL_OPTIONS = frozenset(["pipefail", "errexit"])


def ignores_failures(script: Script) -> str | None:
    """The words that switch off what makes a failure count, such as `set +o pipefail`, or may make a success of it,
    such as `trap 'exit 0' EXIT`."""
    for words in script.own_words:
        given = [word or "" for word in words[1:]]
        if (words[:1] == ("set",) and _unset(given)) or (words[:1] == ("shopt",) and _shopt_unset(given)):
            return " ".join([words[0] or "", *given])
    for trap in _Judge(script).hiding():
        return " ".join(word if word is not None else "…" for word in trap.words)
    return None


def _unset(given: list[str]) -> bool:
    """Whether `set` switches one of the two off; in `set +e`, `+eo pipefail`, `+o errexit` …"""
    return any(
        word.startswith("+") and ("e" in word or ("o" in word and named in _FAIL_OPTIONS))
        for word, named in zip(given, [*given[1:], ""], strict=True)
    )


def _shopt_unset(given: list[str]) -> bool:
    options = "".join(word for word in given if word.startswith("-"))
    return "u" in options and "o" in options and not _FAIL_OPTIONS.isdisjoint(given)
