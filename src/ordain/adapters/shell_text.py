"""Shell texts taken apart with tree-sitter, and judged by `bash -n` where tree-sitter cannot be sure.

Nothing is run. tree-sitter reads more than bash accepts, so a text counts as sound without asking bash only when it is
made of nothing but the constructs listed here; texts of plain words need neither. Both are asked only when needed, for
loading the parser costs as much as starting a program.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

from ordain.core.lint.script import (
    RESERVED,
    AndOr,
    Background,
    Condition,
    Group,
    Negated,
    Opaque,
    Pipeline,
    Script,
    Simple,
    Statement,
    plain_script,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["ShellText"]

PARSED_BYTES_MAX = 4096
"""Hostile texts cost tree-sitter quadratic time; longer ones are left to bash alone."""
DEPTH_MAX = 40
ASKED_MAX = 1000
"""How many texts bash is asked about; whoever has more doubtful ones hears of these first."""

_SURE = frozenset(
    [
        "program", "command", "command_name", "word", "number", "string", "raw_string", "string_content",
        "simple_expansion", "variable_name", "special_variable_name", "command_substitution", "pipeline", "list",
        "redirected_statement", "file_redirect", "file_descriptor", "negated_command", "test_command",
        "unary_expression", "test_operator", "binary_expression", "variable_assignment", "concatenation", "comment",
        "|", "&&", "||", ";", "&", ">", ">>", "<", '"', "$", "$(", ")", "!", "[", "]", "[[", "]]", "=", "==", "!=",
    ]
) | {"\n"}  # fmt: skip
"""Constructs about which tree-sitter and bash agree."""


class ShellText:
    """Reads shell texts; keeps its parser."""

    def __init__(self) -> None:
        self._parser: Parser | None = None
        self._bash = shutil.which("bash")
        self._asked = 0

    def read(self, text: str) -> tuple[Script | None, str | None]:
        """The script of a text, where it can be taken apart, and what bash says is wrong with it, if anything is."""
        plain = plain_script(text)
        if plain is not None:
            return plain, None
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > PARSED_BYTES_MAX:
            return None, self._ask(data)
        root = self._parsed(data)
        fault = None if not root.has_error and _sure(root) else self._ask(data)
        return (None, fault) if root.has_error or fault else (_script(root), None)

    def _parsed(self, data: bytes) -> Node:
        if self._parser is None:
            from tree_sitter import Language, Parser
            from tree_sitter_bash import language

            self._parser = Parser(Language(language()))
        return self._parser.parse(data).root_node

    def _ask(self, data: bytes) -> str | None:
        """What bash says is wrong with a text, without running it."""
        if self._bash is None or self._asked >= ASKED_MAX:
            return None
        self._asked += 1
        try:
            done = subprocess.run(
                [self._bash, "--noprofile", "--norc", "-n"],
                input=data,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                capture_output=True,
                timeout=10,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "bash took too long to read it"
        messages = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        if done.returncode == 0 and not messages:
            return None
        return re.sub(r"^.*?(line \d+: )", r"\1", messages[0]) if messages else f"exit status {done.returncode}"


def _walk(root: Node) -> list[Node]:
    """Every node, in order, without recursion."""
    found, todo = [], [root]
    while todo:
        node = todo.pop()
        found.append(node)
        todo += reversed(node.children)
    return found


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _sure(root: Node) -> bool:
    """Whether the text is made of nothing but what bash is known to accept where tree-sitter does."""
    for node in _walk(root):
        kind = node.type
        if kind not in _SURE:
            return False
        if kind == "command_name" and not RESERVED.isdisjoint(_text(node).split()[:1]):
            return False
        if kind == "file_redirect" and b"\n" in (node.text or b""):
            return False
    return True


# --- From nodes to values ------------------------------------------------------------------------------------------


def _script(root: Node) -> Script:
    commands, functions = [], set()
    for node in _walk(root):
        if node.type in ("command", "test_command"):
            commands.append(_words(node))
        elif node.type == "function_definition" and (name := node.child_by_field_name("name")) is not None:
            functions.add(_text(name))
    return Script(_statements(root, 0), tuple(words for words in commands if words), frozenset(functions))


def _statements(node: Node, depth: int) -> tuple[Statement, ...]:
    """The statements among a node's children; one that an `&` follows is not waited for."""
    found: list[Statement] = []
    for child in node.children:
        if child.is_named and child.type != "comment":
            found.append(_statement(child, depth + 1))
        elif child.type == "&" and found:
            found[-1] = Background(found[-1])
    return tuple(found)


def _statement(node: Node, depth: int) -> Statement:
    if depth > DEPTH_MAX:
        return Opaque()
    match node.type:
        case "command":
            words = _words(node)
            return Simple(words) if words else Opaque()
        case "test_command":
            return Simple(_words(node))
        case "redirected_statement":
            body = node.child_by_field_name("body")
            return _statement(body, depth) if body is not None else Opaque()
        case "negated_command":
            inner = [child for child in node.children if child.is_named]
            return Negated(_statement(inner[0], depth + 1)) if len(inner) == 1 else Opaque()
        case "pipeline":
            return _pipeline([child for child in node.children if child.is_named], depth)
        case "list":
            return _list(node, depth)
        case "compound_statement" | "subshell":
            return Group(_statements(node, depth))
        case "if_statement":
            return _condition(node, depth)
        case "variable_assignment" | "variable_assignments" if not _substitutes(node):
            return Simple((":",))  # an assignment alone always succeeds
        case "declaration_command" | "unset_command":
            return Simple((node.children[0].type,))
        case "function_definition":
            return Simple((":",))  # it succeeds whatever the function does
        case "for_statement" | "while_statement" | "c_style_for_statement":
            body = node.child_by_field_name("body")
            return Condition((_statements(body, depth), ())) if body is not None else Opaque()
        case _:
            return Opaque()


def _substitutes(node: Node) -> bool:
    return any(one.type in ("command_substitution", "process_substitution") for one in _walk(node))


def _pipeline(nodes: list[Node], depth: int) -> Statement:
    """`! a | b` turns the status of the whole pipe round."""
    stages = tuple(_statement(node, depth + 1) for node in nodes)
    if stages and isinstance(stages[0], Negated):
        return Negated(Pipeline((stages[0].statement, *stages[1:])))
    return Pipeline(stages)


def _list(node: Node, depth: int) -> Statement:
    """`a && b || c` is nested to the left, as deep as it is long."""
    rest: list[tuple[str, Statement]] = []
    while node.type == "list":
        left, operator, right = node.children[0], node.children[1], node.children[-1]
        rest.append((operator.type, _statement(right, depth + 1)))
        node = left
    return AndOr(_statement(node, depth + 1), tuple(reversed(rest)))


def _condition(node: Node, depth: int) -> Statement:
    """Only what decides the status: the branches, and an empty one where no `else` is."""
    branches: list[tuple[Statement, ...]] = []
    body: list[Statement] = []
    started = ended = False
    for child in node.children:
        if child.type == "then":
            started = True
        elif child.type in ("elif_clause", "else_clause"):
            branches.append(_branch(child, depth))
            ended = ended or child.type == "else_clause"
        elif started and child.is_named and child.type != "comment":
            body.append(_statement(child, depth + 1))
    return Condition((tuple(body), *branches, *(() if ended else ((),))))


def _branch(node: Node, depth: int) -> tuple[Statement, ...]:
    children = list(node.children)
    starts = [at for at, child in enumerate(children) if child.type == "then"]
    named = [child for child in children[starts[0] if starts else 0 :] if child.is_named and child.type != "comment"]
    return tuple(_statement(child, depth + 1) for child in named)


def _words(node: Node) -> tuple[str | None, ...]:
    """The words of a command, its assignments left out; one that is only known when it runs is None."""
    if node.type == "test_command":
        return _test_words(_text(node))
    skipped = ("variable_assignment", "file_redirect", "heredoc_redirect", "herestring_redirect")
    return tuple(_word(child) for child in node.children if child.is_named and child.type not in skipped)


def _test_words(text: str) -> tuple[str | None, ...]:
    """The words between `[` and `]`, which tree-sitter takes apart as an expression and not as words."""
    if not set(text) & set("$`\\"):
        try:
            return tuple(shlex.split(text))
        except ValueError:
            pass
    return tuple(word if not set(word) & set("$`'\"\\") else None for word in text.split())


def _word(node: Node) -> str | None:
    match node.type:
        case "command_name" if node.child_count == 1:
            return _word(node.children[0])
        case "word" | "number" | "test_operator":
            return _text(node).replace("\\", "")
        case "raw_string":
            return _text(node)[1:-1]
        case "string" if all(child.type in ('"', "string_content") for child in node.children):
            return _text(node)[1:-1]
        case "concatenation":
            parts = [_word(child) for child in node.children]
            return "".join(part for part in parts if part is not None) if None not in parts else None
        case _:
            return None
