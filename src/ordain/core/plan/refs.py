"""References to earlier results, `${…}`: where it is a reference, what it refers to, and where it is only text.

Parameters and items of known lists are put in before a plan is hashed (`template`); references to results are
read and checked, and not carried out by this version. A plan keeps its arguments as they were written, `$${` for a
literal `${` included; `literal` takes the escape away when the call is made. Anything else with a dollar is literal.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Container, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, assert_never

import msgspec

from ordain.core.plan.value import Value
from ordain.core.text.limit import STRING_BYTES_MAX, strings

# --- What a reference is -------------------------------------------------------------------------------------------


class StepOutput(Value, frozen=True):
    """`${step.output.a[0]}`: the result of a step, or a part of it."""

    step: str
    path: tuple[str | int, ...] = ()


class StepExitCode(Value, frozen=True):
    """`${step.exit_code}`: the exit status of a command."""

    step: str


class StepAnsweredBy(Value, frozen=True):
    """`${step.answered_by}`: the name of the person who answered a question or did a task."""

    step: str


class StoredData(Value, frozen=True):
    """`${data.KEY}`: what a `store_data` step stored, or a part of it."""

    key: str
    path: tuple[str | int, ...] = ()


class ParamValue(Value, frozen=True):
    """`${params.NAME}`: the value given for a parameter of the plan."""

    name: str


class Item(Value, frozen=True):
    """`${item}`: the item a repeated step is at, or a part of it, under the name its `for_each` gives it."""

    name: str = "item"
    path: tuple[str | int, ...] = ()


class Index(Value, frozen=True):
    """`${index}`: how many items came before."""


Source = StepOutput | StepExitCode | StepAnsweredBy | StoredData | ParamValue | Item | Index


class Default(Value, frozen=True):
    """`?? "x"`: what stands in when there is nothing to refer to."""

    value: Any


class Reference(Value, frozen=True):
    source: Source
    default: Default | None = None


class Unreadable(Value, frozen=True):
    """A text that can only have been meant as a reference, and why it is none."""

    fault: str


# --- Finding and reading them --------------------------------------------------------------------------------------

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_PART = re.compile(rf'\.(?P<key>{_NAME})|\[(?P<index>[0-9]{{1,9}})\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]')
_REST = re.compile(
    rf'(?P<path>(?:\.{_NAME}|\[(?:[0-9]{{1,9}}|"(?:[^"\\]|\\.)*")\])*)[ \t]*'
    r'(?:\?\?[ \t]*(?P<default>"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|\[\]|\{\})'
    r"[ \t]*)?\}"
)
_PLAIN_KEY = re.compile(_NAME)
_STEP = re.compile(r"[^\s{}.$\[\]]+\.(?:output|exit_code|answered_by)\b")
_IN_TEXT = re.compile(
    r"(?<!\$)\$\{[ \t]*(?:(?:data|params)[.\[]|(?P<step>[A-Za-z0-9_-]+)\.(?:output|exit_code|answered_by)\b)"
    r"[^}\n]{0,64}\}?"
)


@lru_cache(maxsize=64)
def _start(item: str) -> re.Pattern[str]:
    """How a reference begins, where an item is called so; `$${` is found as well, to be passed over."""
    words = "|".join(sorted({"item", "index", re.escape(item)}))
    return re.compile(
        rf"\$\$\{{|\$\{{[ \t]*(?P<source>(?:data|params)(?=[.\[])|(?:{words})(?=[ \t]*(?:[.\[}}?]|$))|{_STEP.pattern})"
    )


def references(value: Any, item: str = "item") -> Iterator[str]:
    """Every reference in the strings of a value, as it is written. `item` is what a repeated step calls its item."""
    for text in strings(value):
        if "${" in text:
            yield from (text[start:end] for start, end in spans(text, item))


def spans(text: str, item: str) -> Iterator[tuple[int, int]]:
    """Where references stand in a text; one that cannot be read ends where it looks like ending."""
    at, start = 0, _start(item)
    while found := start.search(text, at):
        at = found.end()
        if found["source"] is not None:
            whole = _REST.match(text, at)
            at = whole.end() if whole else _looks_closed(text, at)
            yield found.start(), at


def _looks_closed(text: str, start: int) -> int:
    end = start
    while end < min(len(text), start + 64) and text[end] != "\n":
        end += 1
        if text[end - 1] == "}":
            break
    return end


def parse(text: str, item: str = "item") -> Reference | Unreadable:
    """What a reference found by `references` refers to."""
    begin = _start(item).match(text)
    if begin is None or begin["source"] is None:
        return Unreadable(fault="it is not a reference")
    rest = _REST.fullmatch(text, begin.end())
    if rest is None:
        ending = "it cannot be read" if text.endswith("}") else "it is not closed"
        return Unreadable(fault=f"{ending}; the form is `${{step.output.key[0]}}`")
    try:
        path = tuple(_part(found) for found in _PART.finditer(rest["path"]))
        default = Default(value=_scalar(rest["default"])) if rest["default"] is not None else None
    except ValueError:
        return Unreadable(fault="a text or number in it cannot be read")
    source = _source(begin["source"], path, item)
    return source if isinstance(source, Unreadable) else Reference(source=source, default=default)


def _source(word: str, path: tuple[str | int, ...], item: str) -> Source | Unreadable:
    match word:
        case "data" if isinstance(path[0], str):
            return StoredData(key=path[0], path=path[1:])
        case "params" if len(path) == 1 and isinstance(path[0], str):
            return ParamValue(name=path[0])
        case "data" | "params":
            return Unreadable(fault=f"`{word}` is followed by one name, as in `{word}.name`")
        case "index":
            return Index() if not path else Unreadable(fault="`index` is a number and has no parts")
        case "item":
            return Item(path=path)
        case _ if word == item:
            return Item(name=item, path=path)
    step, _, what = word.rpartition(".")
    if what == "output":
        return StepOutput(step=step, path=path)
    if path:
        return Unreadable(fault=f"`{what}` is {'a number' if what == 'exit_code' else 'a name'} and has no parts")
    return StepExitCode(step=step) if what == "exit_code" else StepAnsweredBy(step=step)


def _part(found: re.Match[str]) -> str | int:
    if found["index"] is not None:
        return int(found["index"])
    key = json.loads(found["quoted"], strict=False) if found["quoted"] is not None else found["key"]
    assert isinstance(key, str)
    return key


def _scalar(text: str) -> Any:
    value = json.loads(text, strict=False)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError
    return value


def spelt(reference: Reference) -> str:
    """How a reference is written; `parse` reads it back."""
    match reference.source:
        case StepOutput(step=step, path=path):
            source = f"{step}.output{_spelt_path(path)}"
        case StepExitCode(step=step):
            source = f"{step}.exit_code"
        case StepAnsweredBy(step=step):
            source = f"{step}.answered_by"
        case StoredData(key=key, path=path):
            source = f"data{_spelt_path((key, *path))}"
        case ParamValue(name=name):
            source = f"params{_spelt_path((name,))}"
        case Item(name=name, path=path):
            source = f"{name}{_spelt_path(path)}"
        case Index():
            source = "index"
        case _ as never:
            assert_never(never)
    default = f" ?? {json.dumps(reference.default.value, ensure_ascii=False)}" if reference.default is not None else ""
    return f"${{{source}{default}}}"


def _spelt_path(path: tuple[str | int, ...]) -> str:
    return "".join(
        f".{part}"
        if isinstance(part, str) and _PLAIN_KEY.fullmatch(part)
        else f"[{json.dumps(part, ensure_ascii=False)}]"
        for part in path
    )


def is_reference(value: Any, item: str = "item") -> bool:
    """Whether a value is one reference and nothing else: it keeps the type of what it refers to."""
    if not isinstance(value, str) or not value.startswith("${"):
        return False
    return next(spans(value, item), None) == (0, len(value))


def without_references(text: str, item: str = "item") -> str:
    """The text with a plain word in place of every reference, to look at what is known of it beforehand."""
    for start, end in reversed([*spans(text, item)]):
        text = f"{text[:start]}x{text[end:]}"
    return text


# --- Where they are only text --------------------------------------------------------------------------------------


def literal(value: Any) -> Any:
    """The arguments as the tool gets them: every `$${` in a string is the `${` it stands for."""
    return _with_texts(value, lambda text: text.replace("$${", "${"))


def escaped(value: Any) -> Any:
    """The value as it is written where references are read: every `${` in a string is a `$${`."""
    return _with_texts(value, lambda text: text.replace("${", "$${"))


def _with_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """A free value with each of its texts changed, keys excepted."""
    match value:
        case str():
            return change(value)
        case Mapping():
            return {key: _with_texts(inner, change) for key, inner in value.items()}
        case list() | tuple():
            return [_with_texts(inner, change) for inner in value]
        case _:
            return value


def misplaced_reference(text: str, steps: Container[str], *, template: bool = False) -> str | None:
    """A reference in a command or in prose, where only the shell's own `${…}` belongs; None where there is none. In the
    prose of a `template` one to a parameter may stand."""
    if "${" not in text:
        return None
    for found in _IN_TEXT.finditer(text):
        if template and found.group()[2:].lstrip(" \t").startswith("params"):
            continue
        if found["step"] is None or found["step"] in steps:
            return found.group()
    return None


# --- Values in the place of references -------------------------------------------------------------------------------
# What is put in is text for the next reader as well: a `${` in it is escaped, so that no value can become a reference.

KEPT: Final = object()
"""Says that a reference stays as it is."""


class Unwritable(Exception):
    """What would come out can not be written in a plan, in words."""


class WrittenReference(msgspec.Struct, frozen=True):
    """Says that a value is written as references are, and takes no escape."""

    value: Any


Resolve = Callable[[Reference, bool], Any]
"""What stands in place of a reference: a value, `Written` or `KEPT`; told whether it is the whole string."""


def resolved(value: Any, resolve: Resolve, item: str = "item") -> Any:
    """The value with what `resolve` gives in place of references. A string that is one reference takes the type of what
    it refers to; inside a longer one it is put in as text. Raises Unwritable."""
    return _with_texts(value, lambda text: _resolved_text(text, resolve, item) if "${" in text else text)


def _resolved_text(text: str, resolve: Resolve, item: str) -> Any:
    if is_reference(text, item):
        whole = _given(text, resolve, item, whole=True)
        return whole.value if isinstance(whole, WrittenReference) else text if whole is KEPT else escaped(whole)
    return _joined(_pieces(text, resolve, item))


def _pieces(text: str, resolve: Resolve, item: str) -> Iterator[tuple[str, bool]]:
    """The pieces that become of a text, and whether each is a reference."""
    at = 0
    for start, end in spans(text, item):
        found = _given(text[start:end], resolve, item, whole=False)
        yield text[at:start], False
        if isinstance(found, WrittenReference):
            yield found.value, True
        else:
            yield (text[start:end], True) if found is KEPT else (escaped(as_text(found)), False)
        at = end
    yield text[at:], False


def _joined(pieces: Iterator[tuple[str, bool]]) -> str:
    """Pieces of text, between which no reference and no escape may come to be."""
    made, size = [""], 0
    for piece, refers in pieces:
        if made[-1].endswith("$") and piece.startswith(("{", "${")):
            if refers:
                raise Unwritable("a value that ends in `$` stands right before a reference, which can not be written")
            made.append("$")
        made += [piece] if piece else []
        size += len(piece)
        if size > STRING_BYTES_MAX:
            raise Unwritable(f"a text becomes longer than {STRING_BYTES_MAX:,} bytes")
    return "".join(made)


def _given(text: str, resolve: Resolve, item: str, *, whole: bool) -> Any:
    reference = parse(text, item)
    return KEPT if isinstance(reference, Unreadable) else resolve(reference, whole)


def as_text(value: Any) -> str:
    """A value inside a longer text: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_variable(value: Any) -> str:
    """A value as a variable of a command holds it: a list of texts one on each line, anything else as text."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return as_text(value)


def part(value: Any, path: tuple[str | int, ...]) -> Any:
    """The part of a value that a path leads to; LookupError where there is none."""
    for key in path:
        fits = isinstance(value, Mapping) if isinstance(key, str) else isinstance(value, list | tuple)
        if not fits:
            raise LookupError(key)
        value = value[key]
    return value
