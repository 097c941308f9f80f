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
    HANDED_MAX,
    RESERVED,
    AndOr,
    Background,
    Condition,
    Function,
    Group,
    Negated,
    Opaque,
    Pipeline,
    Script,
    Simple,
    Statement,
    handed_text,
    plain_script,
    unwrapped,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["ShellText"]

PARSED_BYTES_MAX = 16_384
PARSED_COST_MAX = 250 * 4096**2
"""Hostile texts cost tree-sitter quadratic time: 4 KiB of them 40 ms. Longer ones, and those after so many, are left to
bash alone."""
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
        self._cost = 0

    def read(self, text: str) -> tuple[Script | None, str | None]:
        """The script of a text, where it can be taken apart, and what bash says is wrong with it, if anything is."""
        plain = plain_script(text)
        if plain is not None:
            return plain, None
        data = text.encode("utf-8", "surrogatepass")
        root = self._parsed(data)
        if root is None:
            return None, self._ask(data)
        fault = None if not root.has_error and _sure(root) else self._ask(data)
        return (None, fault) if root.has_error or fault else (_Values(self, 0).script(root), None)

    def handed(self, text: str, depth: int) -> tuple[Statement, ...] | None:
        """The statements of a text that a script hands to a shell, where it can be taken apart."""
        plain = plain_script(text, depth)
        if plain is not None:
            return plain.statements
        root = self._parsed(text.encode("utf-8", "surrogatepass"))
        return None if root is None or root.has_error else _Values(self, depth).script(root).statements

    def _parsed(self, data: bytes) -> Node | None:
        """The tree of a text; None for one that would cost too much."""
        if len(data) > PARSED_BYTES_MAX or self._cost > PARSED_COST_MAX:
            return None
        self._cost += len(data) ** 2
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


class _Values:
    """Makes values of the nodes of one text; `depth` texts are around it."""

    def __init__(self, reader: ShellText, depth: int) -> None:
        self._reader = reader
        self._depth = depth

    def script(self, root: Node) -> Script:
        commands, functions = [], set()
        for node in _walk(root):
            if node.type in ("command", "test_command"):
                commands.append(_words(node))
            elif node.type == "function_definition" and (name := node.child_by_field_name("name")) is not None:
                functions.add(_text(name))
        return Script(self._statements(root, 0), tuple(words for words in commands if words), frozenset(functions))

    def _statements(self, node: Node, depth: int) -> tuple[Statement, ...]:
        """The statements among a node's children; one that an `&` follows is not waited for."""
        return self._these(node.children, depth)

    def _these(self, nodes: list[Node], depth: int) -> tuple[Statement, ...]:
        found: list[Statement] = []
        for child in nodes:
            if child.is_named and child.type != "comment":
                found.append(self._statement(child, depth + 1))
            elif child.type == "&" and found:
                found[-1] = Background(found[-1])
        return tuple(found)

    def _statement(self, node: Node, depth: int) -> Statement:
        if depth > DEPTH_MAX:
            return Opaque()
        match node.type:
            case "command":
                return self._simple(node)
            case "test_command":
                return Simple(_words(node))
            case "redirected_statement":
                body = node.child_by_field_name("body")
                return self._statement(body, depth) if body is not None else Opaque()
            case "negated_command":
                inner = [child for child in node.children if child.is_named]
                return Negated(self._statement(inner[0], depth + 1)) if len(inner) == 1 else Opaque()
            case "pipeline":
                return self._pipeline([child for child in node.children if child.is_named], depth)
            case "list":
                return self._list(node, depth)
            case "compound_statement" if node.children[0].type == "((":
                return Simple(("((", _text(node).removeprefix("((").removesuffix("))"), "))"))
            case "compound_statement" | "subshell":
                return Group(self._statements(node, depth), subshell=node.type == "subshell")
            case "if_statement":
                return self._condition(node, depth)
            case "case_statement":
                return self._case(node, depth)
            case "variable_assignment" | "variable_assignments" if not _substitutes(node):
                return Simple((":",))  # an assignment alone always succeeds
            case "declaration_command" | "unset_command":
                return Simple((node.children[0].type,))
            case "function_definition":
                return self._function(node, depth)
            case "for_statement" | "while_statement" | "c_style_for_statement":
                body = node.child_by_field_name("body")
                return self._loop(node, body, depth) if body is not None else Opaque()
            case _:
                return Opaque()

    def _simple(self, node: Node) -> Statement:
        words = _words(node)
        if not words:
            return Opaque()
        text = handed_text(words) if self._depth < HANDED_MAX else None
        if text is None and unwrapped(words)[:1] == ("trap",) and len(words) > 2:
            text = _quoted(node.children[1])  # what it does may depend on variables, and be known all the same
        return Simple(words, self._reader.handed(text, self._depth + 1) if text is not None else None)

    def _function(self, node: Node, depth: int) -> Statement:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return Simple((":",))  # it succeeds whatever the function does
        return Function(_text(name), (self._statement(body, depth + 1),))

    def _loop(self, node: Node, body: Node, depth: int) -> Statement:
        tests = self._these(node.children_by_field_name("condition"), depth) if node.type == "while_statement" else ()
        return Condition((self._statements(body, depth), ()), tests)

    def _pipeline(self, nodes: list[Node], depth: int) -> Statement:
        """`! a | b` turns the status of the whole pipe round."""
        stages = tuple(self._statement(node, depth + 1) for node in nodes)
        if stages and isinstance(stages[0], Negated):
            return Negated(Pipeline((stages[0].statement, *stages[1:])))
        return Pipeline(stages)

    def _list(self, node: Node, depth: int) -> Statement:
        """`a && b || c` is nested to the left, as deep as it is long."""
        rest: list[tuple[str, Statement]] = []
        while node.type == "list":
            left, operator, right = node.children[0], node.children[1], node.children[-1]
            rest.append((operator.type, self._statement(right, depth + 1)))
            node = left
        return AndOr(self._statement(node, depth + 1), tuple(reversed(rest)))

    def _condition(self, node: Node, depth: int) -> Statement:
        """Only what decides the status: the branches, an empty one where no `else` is, and what is asked."""
        branches: list[tuple[Statement, ...]] = []
        tests: list[Statement] = []
        body: list[Node] = []
        asked: list[Node] = []
        started = ended = False
        for child in node.children:
            if child.type == "then":
                started = True
            elif child.type in ("elif_clause", "else_clause"):
                further, branch = self._branch(child, depth)
                tests += further
                branches.append(branch)
                ended = ended or child.type == "else_clause"
            else:
                (body if started else asked).append(child)
        first = (*self._these(asked, depth), *tests)
        return Condition((self._these(body, depth), *branches, *(() if ended else ((),))), first)

    def _branch(self, node: Node, depth: int) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
        """What an `elif` asks, and what it or an `else` does."""
        children = list(node.children)
        at = next((at for at, child in enumerate(children) if child.type == "then"), 0)
        return self._these(children[:at], depth), self._these(children[at:], depth)

    def _case(self, node: Node, depth: int) -> Statement:
        """One branch for each pattern, and an empty one where none fits."""
        branches = []
        for item in node.children:
            if item.type == "case_item":
                named = enumerate(item.children)
                branches.append(self._these([one for at, one in named if not item.field_name_for_child(at)], depth))
        return Condition((*branches, ()))


def _substitutes(node: Node) -> bool:
    return any(one.type in ("command_substitution", "process_substitution") for one in _walk(node))


def _quoted(node: Node) -> str | None:
    """What stands between double quotes, with what is replaced in it left as it is."""
    return _unescaped(_text(node)[1:-1]) if node.type == "string" else None


def _unescaped(text: str) -> str:
    return re.sub(r'\\([$`"\\])', r"\1", text)


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
            return _unescaped(_text(node)[1:-1])
        case "concatenation":
            parts = [_word(child) for child in node.children]
            return "".join(part for part in parts if part is not None) if None not in parts else None
        case _:
            return None
