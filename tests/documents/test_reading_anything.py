"""Whatever the bytes, reading gives a plan or problems, and never an exception."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.canonical import canonical_bytes, plan_from_bytes
from ordain.core.text.problem import Severity
from ordain.documents.reading import read

FIELDS = [
    "**run:** make\n",
    "**run:**\n",
    "**tool:** t\n",
    "**operation:** read all\n",
    "**args:**\n",
    "**env:**\n",
    "**env:** A=b\n",
    "**task:** think\n",
    "**task:**\n",
    "**instructions:** why ${one.output}\n",
    "**criteria:**\n",
    "**reads:** step:one, file:a\n",
    "**tools:** none\n",
    "**tools:** a:b c, d\n",
    "**agent:** coder\n",
    "**target:** a b\n",
    "**action:**\n",
    "**contract:** test -f x\n",
    "**contract:**\n",
    "exit_code == 1\n",
    'stdout =~ "^a"\n',
    "stdout =~ a\n",
    "**verify:**\n",
    "**preconditions:**\n",
    "**when:** true\n",
    '**for_each:** {in: "${one.output}", max: 5}\n',
    "**for_each:** {in: [}\n",
    "**for_each:**\n",
    "**needs:** 1, one\n",
    "**needs:**\n",
    "- one\n",
    "  two\n",
    "**on_fail:** retry(2), then skip\n",
    "**on_fail:** retry(2\n",
    "**on_fail:** fallback(undo, one)\n",
    "**on_fail:**\n",
    "**budget:** max 2k tokens, $1.50, 20 minutes\n",
    "**budget:** 1.5 tokens\n",
    "**budget:**\n",
    "**timeout:** 10m\n",
    "**id:** one\n",
    "**title:** Two\n",
    "**title:**\n",
    "**idempotent:** false\n",
    "**network:** true\n",
    "**proof:** red-then-green\n",
    "**approval:** ask\n",
    "**protect:** a, b\n",
    "**contrat:** x\n",
    "**status: done**\n",
    "```yaml\na: 1\nb: ${one.output}\n```\n",
    "```yaml\n- {type: lock_held, lock_name: a}\n- {type: custom, name: a, expression: b}\n```\n",
    "```yaml\ntype: ask\nquestion: Why?\n```\n",
    "```yaml\nstrategy: {type: none}\n```\n",
    "```yaml\nstrategy: retry\nmax_attempts: 2\nthen: {strategy: skip, warn: true}\n```\n",
    "```yaml\ntype: nested_plan\nplan: {title: T, owner: a, steps: [{action: {type: run, command: a}}]}\n```\n",
    '```json\n{"type": "wait_for", "condition": {"type": "external", "key": "a"}, "timeout_ms": 1}\n```\n',
    '```json\n{"type": "nested_plan", "plan": {"steps": [1]}}\n```\n',
    '```json\n{"in": "a", "max": 1, "tokens": 1, "n": {"type": "string", "default": {"a": []}}}\n```\n',
    "```json\n{}\n```\n",
    "```yaml\n{a: [1, *b]}\n```\n",
]
PIECES = [
    *FIELDS,
    "# T\n",
    "\n",
    "## Steps\n",
    "### 1. One\n",
    "### 2. Two\n",
    "### x\n",
    "### undo. Undo\n",
    "#### Details\n",
    "1. `ls`\n",
    "2. `` a`b ``\n",
    "2. `ls`\n",
    "1. prose\n",
    "1. prose (tool: read all)\n",
    "**Context:** why\n",
    "**Context:**\n",
    "**Task:** what\n",
    "**Tier:** 1\n",
    "**Budget:** $1\n",
    "**Priority:** high\n",
    "**On failure:** fallback(undo)\n",
    "**Preconditions:**\n",
    "**Params:**\n",
    "**Concurrency:** 2\n",
    "```text\n",
    "```\n",
    "~~~\n",
    "---\n",
    "===\n",
    "<!-- x -->\n",
    "<!--\n",
    "type: plan\n",
    "tools: [a]\n",
    "protect: ['a/**']\n",
    "params: {a: {type: string}}\n",
    "params: {a: {type: 1}}\n",
    "record: {ls: {tags: [a]}, '': {created_at: 1}}\n",
    "record: {one/: 1}\n",
    "metadata: {a: [1]}\n",
    "text\n",
    "    indented\n",
    "## Fallbacks\n",
    "## Notes\n",
]


def holds(data: bytes) -> None:
    document = read(data, "x.md")
    errors = [problem for problem in document.problems if problem.severity is not Severity.WARNING]
    assert (document.plan is None) == bool(errors)
    if document.plan is not None:
        assert document.plan.steps
        # What was read is what is hashed: its canonical bytes describe the same plan.
        assert plan_from_bytes(canonical_bytes(document.plan)) == document.plan
        assert document.places.keys() == {"", *(step.id for step in (*document.plan.steps, *document.plan.fallbacks))}
    line_count = data.count(b"\n") + 1
    for problem in document.problems:
        assert problem.where is not None
        assert problem.where.file == "x.md"
        if problem.where.line is not None:
            assert 1 <= problem.where.line <= line_count
            assert problem.where.column is None or problem.where.column >= 1
        assert problem.detail


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    holds(data)


@given(st.text())
def test_any_text(text: str) -> None:
    holds(text.encode("utf-8", "surrogatepass"))
    holds(f"# T\n{text}".encode("utf-8", "surrogatepass"))
    holds(f"# T\n\n## Steps\n\n### 1. A\n\n{text}".encode("utf-8", "surrogatepass"))


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=20))
def test_any_pieces_of_documents(pieces: list[str]) -> None:
    holds("".join(pieces).encode("utf-8", "surrogatepass"))
    holds(("# T\n\n## Steps\n\n" + "".join(pieces)).encode("utf-8", "surrogatepass"))


@given(st.lists(st.lists(st.sampled_from(FIELDS), max_size=4), min_size=1, max_size=4), st.booleans())
def test_any_steps(steps: list[list[str]], fallback: bool) -> None:
    body = "".join(f"### {n}. Step {n}\n\n**run:** echo {n}\n{''.join(fields)}\n" for n, fields in enumerate(steps, 1))
    last = f"## Fallbacks\n\n### undo. Undo\n\n{''.join(steps[0])}" if fallback else ""
    holds(f"# T\n\n## Steps\n\n{body}{last}".encode())
    holds(f"# T\n\n## Steps\n\n{body.replace('**run:** echo', '**pool:** a')}{last}".encode())


@given(st.lists(st.sampled_from(PIECES[-12:]) | st.text(max_size=8), max_size=6))
def test_any_front_matter(pieces: list[str]) -> None:
    holds(f"---\n{''.join(pieces)}\n---\n# T\n\n1. `ls`\n".encode("utf-8", "surrogatepass"))


@pytest.mark.slow("documents of megabytes")
def test_hostile_sizes_end() -> None:
    count = 200_000
    for text in (
        "# T\n**Context:**\n" + "".join(f"**Foo{n}:** x\n" for n in range(count)),
        "# T\n" * count,
        "---\n" + "".join(f"tols{n}: a\n" for n in range(count)) + "---\n# T\n",
        "# T\n" + "```\n" * count,
        "# T\n1. " + "`a" * count,
        "# T\n\n## Steps\n\n### 1. A\n**run:** a\n**needs:** " + "a b," * count,
        "# T\n\n## Steps\n\n### 1. A\n**run:** a\n**on_fail:** retry(" + '"' * count,
        "# T\n\n## Steps\n\n" + "### 1. A\n" * count,
        "# T\n\n" + "".join(f"{n}. `{'a' * 60}`\n" for n in range(1, 20_001)),
        "# T\n\n" + "".join(f"{n}. `{'a' * 60} {n // 2:05}`\n" for n in range(1, 20_001)),
        "---\nrecord:\n" + "".join(f"  a{n}: {{tags: [b]}}\n" for n in range(count // 4)) + "---\n# T\n\n1. `a`\n",
        "# T\n\n**Budget:** " + "$1," * count + "\n\n1. `a`\n",
        "# T\n\n" + "2. `a`\n" * count + "\n## Steps\n\n1. `a`\n",
        "# T\n\n## Steps\n\n### 1. A\n**task:** a\n**criteria:**\n- a\n" + "  b\n" * count,
    ):
        holds(text.encode())
