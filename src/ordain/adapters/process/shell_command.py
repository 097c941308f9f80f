"""The simple commands of a text, from tree-sitter's nodes, with all that they name."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ordain.core.policy.program import SHELLS, Words, bare, handed_text, unwrapped
from ordain.core.policy.script import HANDED_MAX, Script, SimpleCommand

if TYPE_CHECKING:
    from tree_sitter import Node

Handed = Callable[[str, int], Script | None]
"""Takes a text apart that is handed to a shell; the second is how many texts are around it then."""

_APART = frozenset(["subshell", "command_substitution", "process_substitution"])
"""What runs in a process of its own: a `cd` in it moves nobody else."""
_PERHAPS = frozenset(
    ["if_statement", "while_statement", "for_statement", "c_style_for_statement", "case_statement", "negated_command",
     "function_definition", "pipeline"]
)  # fmt: skip
"""Where a `cd` may or may not have happened when something after it runs."""
_PASSING = ("list", "pipeline", "negated_command")
"""What hands the redirections that tree-sitter finds behind it to its last command, whose they are."""
_LATER = ("function_definition", "for_statement", "while_statement", "c_style_for_statement")
_MOVES = re.compile(r"\b(?:cd|pushd|popd)\b")
_MOVING = ("cd", "pushd", "popd", "coproc", "{")
"""What may change the directory; tree-sitter takes the `cd` of `coproc { cd a; }` for an argument."""
_OPTIONS = ("set", "shopt", "enable")
_GOING_ON = re.compile(r"\+|errexit$|cdable_vars$|enable$")
"""What makes of a `cd` something else, or has what is behind it run when it fails: `set +e`."""
_UNKNOWN = SimpleCommand((None,), handed=True)
_REDIRECTS = ("file_redirect", "heredoc_redirect", "herestring_redirect")
_NO_WORDS = ("variable_assignment", *_REDIRECTS)


class _Directory:
    """The directory that commands are in; None where not known. It is known up to an `end` where a list with `&&` made
    the change: what is behind the list also runs when nothing was changed."""

    def __init__(self, path: str | None, end: int | None = None) -> None:
        self.path, self.end = path, end


def _joined(directory: str | None, path: str | None) -> str | None:
    if directory is None or path is None:
        return None
    return path if path.startswith("/") or not directory else f"{directory}/{path}".rstrip("/")


class CommandFinder:
    """Finds the simple commands of one text, in order, without recursion into itself; `depth` texts are around it."""

    def __init__(self, handed: Handed, depth: int) -> None:
        self._handed, self._depth = handed, depth
        self.commands: list[SimpleCommand] = []
        self.functions: set[str] = set()
        self._plain = True
        """Whether `cd` is the shell's, and one that fails ends the script."""

    def take(self, root: Node) -> None:
        todo: list[tuple[Node, _Directory, bool, list[Node]]] = [(root, _Directory(""), self._depth == 0, [])]
        if re.search(r"\S\\\n\S", text_of(root)):
            self.commands.append(_UNKNOWN)  # a word that goes on in the next line is read as two
        moves = _moves(root)
        while todo:
            node, here, sure, redirects = todo.pop()
            kind, children, above = node.type, node.children, node.parent
            if here.end is not None and node.start_byte >= here.end:
                here.path = None
            is_stage = above is not None and above.type == "pipeline"
            if kind in _APART or is_stage or ((behind_it := node.next_sibling) is not None and behind_it.type == "&"):
                here = _Directory(here.path, here.end)
            if kind in _PERHAPS or kind == "command_substitution" or (kind == "list" and not _is_chain(node)):
                sure = False
            if kind in _LATER and moves:
                here.path = None  # it may run after a change of directory that is written behind it
            if kind == "heredoc_body" and "`" in text_of(node):
                self.commands.append(_UNKNOWN)
            if kind == "redirected_statement":
                behind = [one for child in children for one in _redirects(child)]
                body = node.child_by_field_name("body")
                children = [one for child in children for one in _below(child)]
                todo += [(one, here, sure, behind if one == body else []) for one in reversed(children)]
                continue
            last = children[-1] if kind in _PASSING and children else None
            if kind == "command":
                self._command(node, here, [*redirects, *(one for child in children for one in _redirects(child))], sure)
                children = [one for child in children for one in _below(child)]
            elif kind == "test_command":
                self._add(here, redirects, words_of(node))
            elif kind == "file_redirect":
                self._add(here, (node,))
            elif last is None:
                assigns = kind in ("variable_assignment", "for_statement")
                self._add(here, redirects, assigned=tuple(_assigned(node)) if assigns else ())
            if kind == "function_definition" and (name := node.child_by_field_name("name")) is not None:
                self.functions.add(text_of(name))
            for one in reversed(children):
                checked = sure and (kind != "list" or one == last)
                todo.append((one, here, checked, redirects if one == last else []))

    def _command(self, node: Node, here: _Directory, redirects: Sequence[Node], sure: bool) -> None:
        words = words_of(node)
        late = tuple(_word_of(one) for redirect in redirects for one in _targets(redirect)[1:])
        before = (child for child in node.children if child.type == "variable_assignment")
        assigned = tuple(pair for child in before for pair in _assigned(child))
        self._add(here, redirects, words + late, assigned)
        if not words:
            return
        text, started = handed_text(words), unwrapped(words)
        if text is None and bare(started[0]) in SHELLS and _reads_script(started):
            text = next((fed for one in redirects if (fed := _fed(one)) is not None), None)
            if text is None and not self.commands[-1].inputs:
                self.commands.append(_UNKNOWN)  # what it runs comes through a pipe
        if started[0] == "trap" and (above := node.parent) is not None and _moves(above):
            here.path = None
        if text is not None:
            self._hand(text, here, own=started[0] in ("eval", "trap"))
        elif started[0] in _MOVING:
            above = node.parent.parent if node.parent and node.parent.type == "redirected_statement" else node.parent
            sure = sure or (self._depth == 0 and _is_chain(above))
            own = self._plain and "cd" not in self.functions and words[0] in ("cd", "builtin", "command")
            target = started[1] if sure and own and started[0] == "cd" and len(started) == 2 else None
            # Beyond a link, `..` is another directory to `cd` than to everybody else.
            here.path = _joined(here.path, target if target and not re.match(r"-|(.*/)?\.\.(/|$)", target) else None)
            here.end = _chain_end(node)
        elif started[0] in _OPTIONS and any(word is None or _GOING_ON.match(word) for word in started):
            self._plain = False

    def _hand(self, text: str, here: _Directory, *, own: bool) -> None:
        """Take the commands of a text that is handed to a shell; `own` where this very shell runs it."""
        inner = self._handed(text, self._depth + 1) if self._depth < HANDED_MAX else None
        commands = inner.commands if inner is not None else (_UNKNOWN,)
        for one in commands:
            self.commands.append(replace(one, handed=True, directory=_joined(here.path, one.directory)))
        if own and any(one.program in (*_MOVING, *_OPTIONS) for one in commands):
            here.path, self._plain = None, False
        self.functions |= inner.functions if own and inner is not None else set()

    def _add(
        self,
        here: _Directory,
        redirects: Sequence[Node],
        words: Words = (),
        assigned: tuple[tuple[str, str | None], ...] = (),
    ) -> None:
        inputs, outputs = [], []
        for redirect in redirects:
            operator, targets = operator_of(redirect), _targets(redirect)
            if redirect.type != "file_redirect" or not targets:
                continue
            target = targets[0]
            if operator in ("<&", ">&") and (target.type == "number" or text_of(target).rstrip("-").isdigit()):
                continue
            if operator in ("<", "<>"):
                inputs.append(_word_of(target))
            if operator not in ("<", "<&"):
                outputs.append(_word_of(target))
        if any(name == "CDPATH" for name, _ in assigned):
            here.path = None
        if words or assigned or inputs or outputs:
            found = SimpleCommand(words, assigned, tuple(inputs), tuple(outputs), here.path, handed=self._depth > 0)
            self.commands.append(found)


def _moves(node: Node) -> bool:
    """Whether a change of directory may be written anywhere in a text, in quotes or not."""
    return _MOVES.search(re.sub(r"['\"\\]", "", text_of(node))) is not None


def _is_chain(node: Node | None) -> bool:
    """Whether it is a list with `&&`, where each command only runs when all before it have succeeded."""
    return node is not None and node.type == "list" and all(child.type != "||" for child in node.children)


def _chain_end(node: Node) -> int | None:
    """Where the list with `&&` ends that a command is in; None where it is in none."""
    at, end = node.parent, None
    while at is not None and at.type != "list" and at.type not in _APART:
        at = at.parent
    while at is not None and (_is_chain(at) or (end is not None and at.type == "redirected_statement")):
        end, at = at.end_byte, at.parent
    return end


def _reads_script(words: Words) -> bool:
    """Whether a shell reads what it runs from its standard input: nothing but options, or `-s`."""
    return "-s" in words or all(word is not None and word[:1] in ("-", "+") for word in words[1:])


def _redirects(node: Node) -> Iterator[Node]:
    if node.type in _REDIRECTS:
        yield node
        if node.type == "heredoc_redirect":
            yield from (child for child in node.children if child.type in _REDIRECTS)


def _below(node: Node) -> Iterator[Node]:
    """What is left to be looked at of a child of a command: of a redirection or an assignment only what is in it."""
    if node.type in _NO_WORDS:
        yield from (one for child in node.children for one in _below(child))
    else:
        yield node


def operator_of(redirect: Node) -> str:
    """How a redirection is written, without its descriptor and target."""
    return "".join(text_of(child) for child in redirect.children if not child.is_named or child.is_error).strip()


def _targets(redirect: Node) -> list[Node]:
    """The target, and the arguments of the command that follow it."""
    return redirect.children_by_field_name("destination")


def _fed(redirect: Node) -> str | None:
    """The text that a command gets on its standard input, where all of it is written out."""
    if redirect.type == "herestring_redirect":
        return next((_word_of(child) for child in redirect.children if child.is_named), None)
    parts = {child.type: child for child in redirect.children} if redirect.type == "heredoc_redirect" else {}
    body, start = parts.get("heredoc_body"), parts.get("heredoc_start")
    if body is None or start is None:
        return None
    quoted = not text_of(start).isidentifier()
    return text_of(body) if quoted or all(one.type == "heredoc_content" for one in body.children) else None


def _assigned(node: Node) -> Iterator[tuple[str, str | None]]:
    name = node.child_by_field_name("name") or node.child_by_field_name("variable")
    for value in node.children_by_field_name("value"):
        for one in [child for child in value.children if child.is_named] if value.type == "array" else [value]:
            yield (text_of(name) if name is not None else ""), _word_of(one)


# --- Words ---------------------------------------------------------------------------------------------------------

_QUOTED = re.compile(r"\\(\n|.)", re.DOTALL)
_EXPANDED = re.compile(r"[*?\[]|\{[^}]*(?:,|\.\.)|^~|[=:]~")
"""What makes a pattern, several words or a home directory of a word without quotes."""


def all_nodes(root: Node) -> list[Node]:
    """Every node, in order, without recursion."""
    found, todo = [], [root]
    while todo:
        node = todo.pop()
        found.append(node)
        todo += reversed(node.children)
    return found


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def quoted_text(node: Node) -> str | None:
    """What is between double quotes, with variables in it left as they are."""
    return re.sub(r'\\([$`"\\])', r"\1", text_of(node)[1:-1]) if node.type == "string" else None


def words_of(node: Node) -> Words:
    """The words of a command, without its assignments."""
    if node.type == "test_command":
        return _test_words(text_of(node))
    return tuple(_word_of(child) for child in node.children if child.is_named and child.type not in _NO_WORDS)


def _test_words(text: str) -> Words:
    """The words between `[` and `]`, which tree-sitter takes apart as an expression and not as words."""
    if not set(text) & set("$`\\"):
        with contextlib.suppress(ValueError):
            return tuple(shlex.split(text))
    return tuple(word if not set(word) & set("$`'\"\\") else None for word in text.split())


def _word_of(node: Node) -> str | None:
    """A word as the command gets it; None where the shell makes something else of it."""
    text = text_of(node)
    match node.type:
        case "command_name" if node.child_count == 1:
            return _word_of(node.children[0])
        case "word" | "number" | "test_operator":
            if _EXPANDED.search(_QUOTED.sub("", text)):
                return None
            return _QUOTED.sub(lambda found: found[1].strip("\n"), text)
        case "raw_string":
            return text[1:-1]
        case "ansi_c_string" if "\\" not in text:
            return text[2:-1]
        case "string" if all(child.type in ('"', "string_content") for child in node.children):
            return quoted_text(node)
        case "process_substitution":
            return "/dev/fd/63"  # a pipe, whatever its number
        case "concatenation":
            bare_text = "".join(text_of(child) for child in node.children if child.type not in ("string", "raw_string"))
            parts = [_word_of(child) for child in node.children]
            known = [part for part in parts if part is not None]
            return "".join(known) if len(known) == len(parts) and not _EXPANDED.search(bare_text) else None
        case _:
            return None
