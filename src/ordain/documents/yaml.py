"""Strict YAML to a JSON value, and a JSON value to YAML text that every reader reads back as the very same value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ordain.core.plan.canonical import canonical_bytes
from ordain.core.text.limit import DEPTH_MAX, string_fault
from ordain.core.text.pattern import compile_later
from ordain.documents.document import PROBLEMS_MAX, Mark, ProblemList, ReadValue, exact_number

if TYPE_CHECKING:
    import yaml

# --- Yaml value ------------------------------------------------------------------------------------------------------
# What a plain scalar means never depends on the reader's version of YAML. The value is built from the parser's events
# with an explicit stack, so that depth, aliases and tags are refused before anything is expanded.

_WORDS = {"null": None, "true": True, "false": False}
_JSON_NUMBER = compile_later(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = compile_later(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)|NaN|-?Infinity")
_AMBIGUOUS = compile_later(
    r"""
      (?i: yes | no | on | off | true | false | null ) | ~ | <<
    | [-+]? (?: [0-9][0-9_]* (?:\.[0-9_]*)? | \.[0-9][0-9_]* ) (?: [eE][-+]?[0-9]+ )?
    | [-+]? 0 (?: [xX][0-9a-fA-F_]+ | [oO][0-7_]+ | [bB][01_]+ )
    | [-+]? [0-9][0-9_]* (?: :[0-5]?[0-9] )+ (?: \.[0-9_]* )?
    | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2} (?: [Tt \t] .* )?
    """,
    re.VERBOSE,
)
_SYNTAX_HINTS = {
    "while parsing a flow sequence": "Close the `[` on line {} with `]`, or write the comma that is missing.",
    "while parsing a flow mapping": "Close the `{{` on line {} with `}}`, or write the comma that is missing.",
    "while parsing a flow node": "Close the last `[` or `{{` before line {}, or write the value that is missing.",
    "while scanning a quoted scalar": "Close the quotation mark on line {}.",
}
"""What to do, by what libyaml was reading and on which line that starts, where its reason says too little."""
_COMMENT = compile_later(r"(?:^|(?<=[\s,\[\]{}'\"]))#[ \t]?(.*)", re.MULTILINE)
_LINE_SEPARATOR = compile_later("[\u2028\u2029]")
FLAT_LINE = compile_later(
    r"""([A-Za-z_][A-Za-z0-9_]{0,63}):[ ](?:([A-Za-z0-9_./][A-Za-z0-9_./-]*)|"([ !#-\[\]-~]*)"|'([ -&(-~]*)')"""
)
"""A key and a short value on one line, which YAML reads in one way only."""


def _loader() -> Any:
    import yaml  # many documents have none

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str, *, first_line: int = 1, depth_max: int = DEPTH_MAX) -> ReadValue:
    """The value of a YAML text that starts on `first_line` of its document, or all that is wrong with it."""
    reader = _YamlReader(first_line, depth_max)
    separator = _LINE_SEPARATOR.search(text)
    if separator:
        # PyYAML ends a line here and an editor does not: a reader would see another structure.
        line = first_line + text.count("\n", 0, separator.start())
        detail = "There is a Unicode line separator in YAML, where readers disagree about it."
        reader.problems.add("E_DOC_SYNTAX", detail, 'Write it as "\\u2028" in double quotes.', line=line)
    else:
        reader.read(text)
    if reader.problems:
        return ReadValue(problems=reader.problems.in_order())
    return ReadValue(value=reader.value, depth=reader.depth, locate=reader.root.find)


def yaml_comments(text: str) -> tuple[str, ...]:
    """The comments of a YAML text that can be read, in order and without their marks: what a value does not hold."""
    import yaml

    found: list[str] = []
    end = 0
    if _COMMENT.search(text):
        for token in yaml.scan(text, Loader=_loader()):
            # Between two tokens stand white space and comments only.
            found += (comment[1].rstrip() for comment in _COMMENT.finditer(text[end : token.start_mark.index]))
            end = max(end, token.end_mark.index)
            if isinstance(token, yaml.ScalarToken) and token.style in ("|", ">"):
                header = text[token.start_mark.index : end].partition("\n")[0]
                found += (comment[1].rstrip() for comment in _COMMENT.finditer(header))
    return tuple(found)


def open_lines(text: str) -> set[int]:
    """The lines of a YAML text that can be read, from one, whose end is inside a scalar: its white space may count."""
    import yaml

    found: set[int] = set()
    for event in yaml.parse(text, Loader=_loader()):
        if isinstance(event, yaml.ScalarEvent) and event.start_mark and event.end_mark:
            first, last = event.start_mark.line + 1, event.end_mark.line
            in_block = event.style in ("|", ">")
            # The first line of a block is its mark, and a block ends where a line does or at the document's end.
            found.update(range(first + in_block, last + 1 + (in_block and event.end_mark.column > 0)))
    return found


class _Container:
    """A list or mapping being read: `key` is None while the next node of a mapping is its key, or was refused."""

    def __init__(self, value: list[Any] | dict[str, Any], mark: Mark) -> None:
        self.value: Any = value
        self.mark, self.is_mapping = mark, isinstance(value, dict)
        self.wants_key = self.is_mapping
        self.key: str | None = None


class _FlatEvent(NamedTuple):
    """A scalar of a flat text, with what is asked of an event of YAML's parser; its mark counts as that does."""

    value: str
    style: str | None
    start_mark: Mark


_QUOTES = (None, None, None, '"', "'")
"""The quote around a value, by the group of the pattern that it is in."""


class _YamlReader:
    """One pass over the events with a stack of open containers."""

    def __init__(self, first_line: int, depth_max: int) -> None:
        self.first_line, self.depth_max = first_line, depth_max
        self.problems, self.root = ProblemList(), Mark(first_line, 1)
        self.value: Any = None
        self.depth = 0
        self._open: list[_Container] = []
        self._documents = 0

    def read(self, text: str) -> None:
        if not self._read_flat(text):
            self._parse(text)

    def _read_flat(self, text: str) -> bool:
        """Read one mapping of keys to short values without loading YAML; false for anything else."""
        lines = text.removesuffix("\n").split("\n")
        found = [match for line in lines if (match := FLAT_LINE.fullmatch(line)) is not None]
        if len(found) < len(lines):
            return False
        start = _FlatEvent("", None, Mark(0, 0))
        self._open.append(_Container({}, self._mark(start)))
        self.depth = 1
        for line, match in enumerate(found):
            kind = match.lastindex or 0
            quote = _QUOTES[kind]
            self._put_scalar(_FlatEvent(match[1], None, Mark(line, 0)))
            self._put_scalar(_FlatEvent(match[kind], quote, Mark(line, match.start(kind) - len(quote or ""))))
            if len(self.problems) >= PROBLEMS_MAX:
                return True
        self._put(self._open.pop().value, start)
        return True

    def _parse(self, text: str) -> None:
        import yaml

        try:
            for event in yaml.parse(text, Loader=_loader()):
                if not self._take(event):
                    return
        except yaml.MarkedYAMLError as error:
            self._syntax(error, text)
        except (yaml.YAMLError, ValueError, OverflowError):
            self.problems.add("E_DOC_SYNTAX", "This YAML holds a character that YAML forbids.", line=self.first_line)

    def _take(self, event: Any) -> bool:
        """Take one more event; false where reading further makes no sense."""
        match type(event).__name__:  # and not the type, so that YAML is imported where there is some
            case "DocumentStartEvent":
                return self._start_document(event)
            case "AliasEvent":
                self._add("E_YAML_ALIAS", f"`*{event.anchor}` is an alias.", event, "Write the value out.")
                self._put(None, event)
            case "ScalarEvent":
                self._refuse_decoration(event)
                self._put_scalar(event)
            case "SequenceStartEvent" | "MappingStartEvent" as kind:
                self._refuse_decoration(event)
                if len(self._open) == self.depth_max:
                    detail = f"More than {self.depth_max} lists and mappings are nested."
                    self._add("E_DOC_DEPTH", detail, event)
                    return False
                mark = self._mark(event)
                self._open.append(_Container([] if kind == "SequenceStartEvent" else {}, mark))
                self.depth = max(self.depth, len(self._open))
            case "SequenceEndEvent" | "MappingEndEvent":
                self._put(self._open.pop().value, event)
        return len(self.problems) < PROBLEMS_MAX

    def _start_document(self, event: yaml.DocumentStartEvent) -> bool:
        self._documents += 1
        if self._documents > 1:
            self._add("E_DOC_SYNTAX", "A second YAML document starts here.", event, "Write one document only.")
            return False
        if event.tags:
            self._add("E_YAML_TAG", "A %TAG directive is not allowed.", event, "Delete it.")
        if event.version:
            self._add("E_DOC_SYNTAX", "A %YAML directive is not allowed.", event, "Delete it.")
        return True

    def _refuse_decoration(self, event: Any) -> None:
        if event.anchor is not None:
            self._add(
                "E_YAML_ALIAS", f"`&{event.anchor}` is an anchor.", event, "Write the value out where it is used."
            )
        if event.tag is not None:
            self._add("E_YAML_TAG", f"`{event.tag}` is a tag.", event, "Delete it; quote the value if it is text.")

    def _put_scalar(self, event: yaml.ScalarEvent | _FlatEvent) -> None:
        """Put a scalar where it belongs; a key is text by the same rule that makes a value text."""
        wants_key = bool(self._open) and self._open[-1].wants_key
        before = len(self.problems)
        value = self._scalar(event)
        self._mark(event)
        if wants_key and not isinstance(value, str) and len(self.problems) == before:
            self._add("E_DOC_SYNTAX", f"The key `{event.value}` is not text.", event, f'Write "{event.value}".')
        self._put(value, event)

    def _put(self, value: Any, event: yaml.Event | _FlatEvent) -> None:
        if not self._open:
            self.value = value
            return
        container = self._open[-1]
        if not container.is_mapping:
            container.value.append(value)
        elif container.wants_key:
            container.wants_key = False
            container.key = value if isinstance(value, str) else None
            self._check_key(container, value, event)
        else:
            container.wants_key = True
            if container.key is not None:
                container.value[container.key] = value

    def _check_key(self, container: _Container, key: Any, event: yaml.Event | _FlatEvent) -> None:
        if isinstance(key, list | dict):
            self._add("E_DOC_SYNTAX", "There is a list or mapping where a key should be.", event)
        elif isinstance(key, str) and key in container.value:
            self._add("E_DOC_DUPLICATE", f"The key `{key}` is twice in one mapping.", event)
        elif isinstance(key, str):
            container.mark.inside[key] = Mark(*self._position(event))

    def _mark(self, event: yaml.Event | _FlatEvent) -> Mark:
        """The mark of the node that starts here: that of its key in a mapping, its own elsewhere."""
        container = self._open[-1] if self._open else None
        if container is not None and container.is_mapping:
            return container.mark.inside.get(container.key or "", container.mark)
        mark = Mark(*self._position(event))
        if container is None:
            self.root = mark
        else:
            container.mark.inside[len(container.value)] = mark
        return mark

    def _scalar(self, event: yaml.ScalarEvent | _FlatEvent) -> Any:
        spelling: str = event.value
        fault = string_fault(spelling)
        if fault:
            self._add(fault[0], fault[1], event)
            return None
        if event.style:
            return spelling
        if spelling in _WORDS:
            return _WORDS[spelling]
        if spelling == "":
            self._add("E_YAML_AMBIGUOUS", "Nothing is written here.", event, 'Write null, or "" for empty text.')
            return None
        return self._plain(spelling, event)

    def _plain(self, spelling: str, event: yaml.ScalarEvent | _FlatEvent) -> Any:
        shown = spelling if len(spelling) <= 32 else spelling[:29] + "…"
        quote = f"If it is text, quote it: '{shown}'."
        if _NO_NUMBER.fullmatch(spelling):
            self._add("E_DOC_NUMBER", f"`{shown}` is no number that a plan can hold.", event, quote)
            return None
        if _JSON_NUMBER.fullmatch(spelling):
            number = exact_number(spelling)
            if number is None:
                self._add("E_DOC_NUMBER", f"The number {shown} can not be kept exactly.", event, quote)
                return None
            canonical = canonical_bytes(number).decode()
            if canonical != spelling:
                hint = f"If it is a number, write {canonical}."
                self._add("E_YAML_AMBIGUOUS", f"`{shown}` may be a number or text.", event, quote, hint)
            return number
        if _AMBIGUOUS.fullmatch(spelling):
            self._add("E_YAML_AMBIGUOUS", f"`{shown}` means different things to different readers.", event, quote)
            return None
        return spelling

    def _syntax(self, error: yaml.MarkedYAMLError, text: str) -> None:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column + 1) if mark else (0, 1)
        last = text.count("\n")
        if line > last:
            # libyaml counts a line break after the last character.
            line, column = last, len(text) - text.rfind("\n")
        reason = error.problem or error.context or "it ends too early"
        # libyaml refuses an escaped half of a surrogate pair itself; everywhere else that is a forbidden character.
        code = "E_DOC_CONTROL_CHARACTER" if "invalid Unicode character escape" in reason else "E_DOC_SYNTAX"
        hint = ""
        if text.split("\n")[line][column - 1 : column] == "\t":
            hint = "A tab is used for indentation, which YAML does not allow: use spaces."
        elif code == "E_DOC_SYNTAX" and error.context_mark:
            hint = _SYNTAX_HINTS.get(error.context or "", "").format(self.first_line + error.context_mark.line)
        self.problems.add(
            code, f"This is not YAML: {reason}.", *filter(None, [hint]), line=self.first_line + line, column=column
        )

    def _add(self, code: str, detail: str, event: yaml.Event | _FlatEvent, *hints: str) -> None:
        line, column = self._position(event)
        self.problems.add(code, detail, *hints, line=line, column=column)

    def _position(self, event: yaml.Event | _FlatEvent) -> tuple[int, int]:
        mark = event.start_mark
        return (self.first_line + mark.line, mark.column + 1) if mark else (self.first_line, 1)


# --- Yaml text -------------------------------------------------------------------------------------------------------

_PLAIN = compile_later(r"[A-Za-z_/.$(][^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]*")
_NOT_PLAIN = compile_later(r": |:\Z| #|\s\Z|\A\.\.\.|\A[yYnN]\Z")
_UNWRITABLE = compile_later("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_ONLY_ESCAPED = compile_later(f"{_UNWRITABLE.pattern}|[\t\n]")
_LONG_KEY = 512
"""A key of YAML on one line ends within 1,024 characters; a longer one is written with a question mark."""


def yaml_text(value: Any) -> str:
    """The YAML document of a value, ended by a newline."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    match value:
        case dict() if value:
            for key, inner in value.items():
                written = _quoted(key)
                head = f"{indent}{written}:"
                if len(written) > _LONG_KEY:
                    yield f"{indent}? {written}"
                    head = f"{indent}:"
                yield from _after(head, inner, indent + "  ")
        case list() | tuple() if value:
            for inner in value:
                if isinstance(inner, dict | list | tuple) and inner:
                    first, *rest = _lines(inner, indent + "  ")
                    yield f"{indent}- {first[len(indent) + 2 :]}"
                    yield from rest
                else:
                    yield from _after(f"{indent}-", inner, indent + "  ")
        case _:
            yield from _after(indent, value, indent + "  ")


def _after(head: str, value: Any, indent: str) -> Iterator[str]:
    """The lines of a value whose head, a key or a dash, is already written; `indent` is that of lines below it."""
    lead = f"{head} " if head.strip() else head
    match value:
        case str() if _is_literal(value):
            body = value.split("\n")
            if body[-1] == "":
                body.pop()
            yield f"{lead}|" + ("" if value.endswith("\n") else "-")
            yield from (f"{indent}{line}" if line else "" for line in body)
        case str():
            yield lead + _quoted(value)
        case dict() | list() | tuple() if value:
            yield head
            yield from _lines(value, indent)
        case dict():
            yield lead + "{}"
        case list() | tuple():
            yield lead + "[]"
        case _:
            yield lead + canonical_bytes(value).decode()


def _is_literal(text: str) -> bool:
    """Whether a literal block holds exactly this text: its first line tells the indent, its end the last newline."""
    return (
        "\n" in text.rstrip("\n")
        and not text.endswith("\n\n")
        and "\t" not in text
        and not text[0].isspace()
        and not any(line.isspace() for line in text.split("\n"))
        and not _UNWRITABLE.search(text)
    )


def _quoted(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and not _NOT_PLAIN.search(text) and text not in _WORDS
    if plain and not any(form.fullmatch(text) for form in (_NO_NUMBER, _JSON_NUMBER, _AMBIGUOUS)):
        return text
    if ("\\" in text or '"' in text) and not _ONLY_ESCAPED.search(text):
        return "'" + text.replace("'", "''") + "'"
    return _UNWRITABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", json.dumps(text, ensure_ascii=False))
