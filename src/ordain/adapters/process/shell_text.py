"""Shell texts taken apart with tree-sitter, and judged by `bash -n` where tree-sitter cannot be sure. Nothing is run.

tree-sitter reads more than bash accepts, so a text is sound without asking bash only when made of the constructs listed
here. Loading the parser costs as much as starting a program; texts of plain words need neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ordain.adapters.process.program import system_program
from ordain.adapters.process.shell_command import (
    CommandFinder,
    Handed,
    all_nodes,
    operator_of,
    quoted_text,
    text_of,
    words_of,
)
from ordain.core.policy.program import handed_text, unwrapped
from ordain.core.policy.script import (
    HANDED_MAX,
    RESERVED,
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
    plain_script,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

PARSED_BYTES_MAX = 16_384
PARSED_COST_MAX = 250 * 4096**2
"""Hostile texts cost tree-sitter quadratic time: 4 KiB of them 40 ms. Beyond that only bash says whether one is sound.
"""
ASKED_MAX = 1000
"""How many texts bash is asked about in one look; those beyond are named as not asked about."""

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
DEPTH_MAX = 40
_CLAUSES = ("elif_clause", "else_clause")


class ShellText:
    """Reads shell texts; keeps its parser, and the scripts of the texts that it was given last."""

    def __init__(self) -> None:
        self._parser: Parser | None = None
        self._bash = system_program("bash")
        self._asked = 0
        self.unasked: set[str] = set()
        """Texts that bash would have been asked about, had there not been so many of them since the last `scripts`."""
        self._cost = 0
        self._kept: dict[str, Script | None] = {}
        self._handed: dict[tuple[str, int], Script | None] = {}
        self._sure: set[str] = set()
        """Texts about which bash need not be asked."""

    def scripts(self, texts: Iterable[str]) -> dict[str, Script]:
        """The script of every text that can be taken apart, which depends on the texts and their order alone."""
        texts = dict.fromkeys(texts)
        self._kept = {text: self._kept[text] for text in texts if text in self._kept}
        self._sure &= self._kept.keys()
        self._cost = self._asked = 0
        self.unasked.clear()
        return {text: script for text in texts if (script := self._script(text)) is not None}

    def read(self, text: str) -> tuple[Script | None, str | None]:
        """The script of a text, where it can be taken apart, and what bash says is wrong with it, if anything is."""
        if (plain := plain_script(text)) is not None:
            return plain, None
        script = self._kept[text] if text in self._kept else self._script(text)
        fault = None if text in self._sure else self._ask(text)
        return (script, None) if fault is None else (None, fault)

    def _script(self, text: str) -> Script | None:
        """The script of a text; None for one that cannot be taken apart, or would cost too much."""
        if (plain := plain_script(text)) is not None:
            return plain
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > PARSED_BYTES_MAX or self._cost > PARSED_COST_MAX:
            return None
        self._cost += size**2
        if text not in self._kept:
            self._handed.clear()
            root = self._parsed(text)
            self._kept[text] = None if _broken(root) else _StatementReader(self._read_handed, 0).script(root)
            if not root.has_error and _sure(root):
                self._sure.add(text)
        return self._kept[text]

    def _read_handed(self, text: str, depth: int) -> Script | None:
        """The script of a text that another hands to a shell, with `depth` texts around it."""
        if (text, depth) not in self._handed:
            script = plain_script(text, depth)
            if script is None and not _broken(root := self._parsed(text)):
                script = _StatementReader(self._read_handed, depth).script(root)
            self._handed[text, depth] = script
        return self._handed[text, depth]

    def _parsed(self, text: str) -> Node:
        if self._parser is None:
            from tree_sitter import Language, Parser
            from tree_sitter_bash import language

            self._parser = Parser(Language(language()))
        return self._parser.parse(text.encode("utf-8", "surrogatepass")).root_node

    def _ask(self, text: str) -> str | None:
        if self._bash is None or self._asked >= ASKED_MAX:
            self.unasked.add(text)
            return None
        self._asked += 1
        import subprocess  # most commands are read without bash

        try:
            done = subprocess.run(
                [self._bash, "--noprofile", "--norc", "-n"],
                input=text.encode("utf-8", "surrogatepass"),
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


def _broken(root: Node) -> bool:
    """Whether tree-sitter could not read a text. It does not know `<>`, and reads it as `<` with a `>` too much."""
    if not root.has_error:
        return False
    nodes = all_nodes(root)
    known = sum(node.type == "file_redirect" and operator_of(node) == "<>" for node in nodes)
    return known != sum(node.is_error or node.is_missing for node in nodes)


def _sure(root: Node) -> bool:
    """Whether the text is made of nothing but what bash is known to accept where tree-sitter does."""
    for node in all_nodes(root):
        kind = node.type
        if kind not in _SURE:
            return False
        if kind == "command_name" and not RESERVED.isdisjoint(text_of(node).split()[:1]):
            return False
        if kind == "file_redirect" and b"\n" in (node.text or b""):
            return False
    return True


class _StatementReader:
    """Makes statements of the nodes of one text, by which lint judges its exit status; `depth` texts are around it."""

    def __init__(self, handed: Handed, depth: int) -> None:
        self._handed, self._depth = handed, depth

    def script(self, root: Node) -> Script:
        found = CommandFinder(self._handed, self._depth)
        found.take(root)
        return Script(self._statements(root.children, 0), tuple(found.commands), frozenset(found.functions))

    def _statements(self, nodes: Sequence[Node], depth: int) -> tuple[Statement, ...]:
        """The statements among these nodes; one that an `&` follows is not waited for."""
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
                return Simple(words_of(node))
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
                return Simple(("((", text_of(node).removeprefix("((").removesuffix("))"), "))"))
            case "compound_statement" | "subshell":
                return CommandGroup(self._statements(node.children, depth), subshell=node.type == "subshell")
            case "if_statement":
                return self._condition(node, depth)
            case "case_statement":
                return self._case(node, depth)
            case "variable_assignment" | "variable_assignments" if not _substitutes(node):
                return Simple((":",))  # an assignment alone always succeeds
            case "declaration_command" | "unset_command":
                asks = any(text_of(child)[:1] in "-+" for child in node.children[1:])  # `declare -p NAME` may fail
                return Opaque() if asks else Simple((node.children[0].type,))
            case "function_definition":
                name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
                if name is None or body is None:
                    return Simple((":",))  # it succeeds whatever the function does
                return Function(text_of(name), (self._statement(body, depth + 1),))
            case "for_statement" | "while_statement" | "c_style_for_statement":
                body = node.child_by_field_name("body")
                asked = node.children_by_field_name("condition") if node.type == "while_statement" else []
                if body is None:
                    return Opaque()
                return Condition((self._statements(body.children, depth), ()), self._statements(asked, depth))
            case _:
                return Opaque()

    def _simple(self, node: Node) -> Statement:
        words = words_of(node)
        if not words:
            return Opaque()
        text = handed_text(words) if self._depth < HANDED_MAX else None
        if text is None and unwrapped(words)[:1] == ("trap",) and len(words) > 2:
            text = quoted_text(node.children[1])  # what it does may depend on variables, and be known all the same
        inner = self._handed(text, self._depth + 1) if text is not None else None
        return Simple(words, inner.statements if inner is not None else None)

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
        clauses = [child for child in node.children if child.type in _CLAUSES]
        for clause in (node, *clauses):
            children = [child for child in clause.children if child.type not in _CLAUSES]
            then = next((at for at, child in enumerate(children) if child.type == "then"), 0)
            tests += self._statements(children[:then], depth)
            branches.append(self._statements(children[then:], depth))
        if not clauses or clauses[-1].type != "else_clause":
            branches.append(())
        return Condition(tuple(branches), tuple(tests))

    def _case(self, node: Node, depth: int) -> Statement:
        """One branch for each pattern, and an empty one where none fits."""
        branches = []
        for item in node.children:
            if item.type == "case_item":
                done = [one for at, one in enumerate(item.children) if not item.field_name_for_child(at)]
                branches.append(self._statements(done, depth))
        return Condition((*branches, ()))


def _substitutes(node: Node) -> bool:
    return any(one.type in ("command_substitution", "process_substitution") for one in all_nodes(node))
