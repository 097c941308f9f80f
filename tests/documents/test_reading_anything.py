"""Whatever the bytes, reading gives a plan or problems, and never an exception."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ordain.core.canonical import canonical_bytes, plan_from_bytes
from ordain.core.problem import Severity
from ordain.documents.reading import read

PIECES = [
    "# T\n",
    "\n",
    "## Steps\n",
    "### 1. One\n",
    "### 2. Two\n",
    "### x\n",
    "#### Details\n",
    "1. `ls`\n",
    "2. `` a`b ``\n",
    "1. prose\n",
    "**run:** make\n",
    "**run:**\n",
    "**tool:** t\n",
    "**args:**\n",
    "**contract:** test -f x\n",
    "**contract:**\n",
    "exit_code == 1\n",
    "**needs:** 1, one\n",
    "**needs:**\n",
    "- one\n",
    "**on_fail:** retry(2), then skip\n",
    "**on_fail:** retry(2\n",
    "**timeout:** 10m\n",
    "**id:** one\n",
    "**idempotent:** false\n",
    "**contrat:** x\n",
    "**status: done**\n",
    "**Context:** why\n",
    "**Context:**\n",
    "**Tier:** 1\n",
    "```yaml\na: 1\nb: ${one.output}\n```\n",
    "```json\n{}\n```\n",
    "```text\n",
    "```\n",
    "~~~\n",
    "---\n",
    "===\n",
    "<!-- x -->\n",
    "<!--\n",
    "type: plan\n",
    "tools: [a]\n",
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
        assert document.places.keys() == {"", *(step.id for step in document.plan.steps)}
    line_count = data.count(b"\n") + 1
    for problem in document.problems:
        assert problem.where is not None
        assert problem.where.file == "x.md"
        assert problem.where.line is None or 1 <= problem.where.line <= line_count
        assert problem.detail


@given(st.binary())
@settings(deadline=None)
def test_any_bytes(data: bytes) -> None:
    holds(data)


@given(st.text())
@settings(deadline=None)
def test_any_text(text: str) -> None:
    holds(text.encode("utf-8", "surrogatepass"))
    holds(f"# T\n{text}".encode("utf-8", "surrogatepass"))
    holds(f"# T\n\n## Steps\n\n### 1. A\n\n{text}".encode("utf-8", "surrogatepass"))


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=20))
@settings(deadline=None, max_examples=1000)
def test_any_pieces_of_documents(pieces: list[str]) -> None:
    holds("".join(pieces).encode("utf-8", "surrogatepass"))
    holds(("# T\n\n## Steps\n\n" + "".join(pieces)).encode("utf-8", "surrogatepass"))


@given(st.lists(st.tuples(st.sampled_from(PIECES[10:28]), st.sampled_from(PIECES[10:33])), min_size=1, max_size=4))
@settings(deadline=None, max_examples=500)
def test_any_steps(steps: list[tuple[str, str]]) -> None:
    body = "".join(f"### {n}. Step {n}\n\n**run:** echo {n}\n{a}{b}\n" for n, (a, b) in enumerate(steps, 1))
    holds(f"# T\n\n## Steps\n\n{body}".encode())


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
    ):
        holds(text.encode())
