"""What is written in Markdown reads back as the same plan, is written again byte for byte the same, and survives the
way through every other notation."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ordain.core.canonical import canonical_bytes, plan_id
from ordain.core.model import Plan
from ordain.core.problem import Severity
from ordain.documents.document import Document
from ordain.documents.markdown_writer import write_markdown
from ordain.documents.reading import read
from ordain.documents.tree_writer import write_json, write_yaml
from tests.plans import LINES, TEXTS, VALUES, plans

GOLDEN = Path(__file__).parent.parent / "golden"
WRITERS = {"markdown": write_markdown, "yaml": write_yaml, "json": write_json}
SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def read_text(text: str, notation: str = "markdown") -> Document:
    document = read(text.encode())
    assert [problem for problem in document.problems if problem.severity is not Severity.WARNING] == []
    assert document.notation == notation
    assert document.plan is not None
    return document


def same_plan(document: Document, plan: Plan) -> None:
    assert document.plan is not None
    assert canonical_bytes(document.plan) == canonical_bytes(plan)
    assert plan_id(document.plan) == plan_id(plan)


@given(plans())
@SLOW
def test_markdown_reads_back(plan: Plan) -> None:
    text = write_markdown(plan)
    document = read_text(text)
    assert document.problems == ()
    same_plan(document, plan)
    assert write_markdown(document) == text


commands = st.lists(LINES.filter(str.strip) | st.sampled_from(["make", "make test", "make -- test", "make 2"]), max_size=6)


@given(commands.filter(bool))
@SLOW
def test_lists_of_commands_read_back(written: list[str]) -> None:
    text = "# T\n\n" + "".join(f"{number}. ```` {command} ````\n" for number, command in enumerate(written, 1))
    plan = read(text.encode()).plan
    if plan is not None:
        document = read_text(write_markdown(plan))
        same_plan(document, plan)


RECORDS = st.dictionaries(st.sampled_from(["owner", "status", "tags", "metadata", "priority", "created_at"]), VALUES)


@given(plans(), st.lists(st.tuples(LINES, TEXTS), max_size=3), RECORDS, RECORDS)
@SLOW
def test_notes_and_record_are_kept_and_never_hashed(
    plan: Plan, notes: list[tuple[str, str]], record: dict[str, Any], step_record: dict[str, Any]
) -> None:
    first = plan.steps[0].id
    kept = {key: value for key, value in record.items() if value is not None}
    of_step = {key: step_record[key] for key in ("tags", "status", "metadata") if step_record.get(key) is not None}
    record = {owner: said for owner, said in (("", kept), (first, of_step)) if said}
    source = Document(plan=plan, notes=tuple(notes), record=record)
    text = write_markdown(source)
    document = read_text(text)
    same_plan(document, plan)
    assert canonical_bytes(dict(document.record)) == canonical_bytes(record)
    assert write_markdown(document) == text
    for heading, note in notes:
        for line in (*note.split("\n"), heading):
            assert line.strip() in text
    for way in permutations(["yaml", "json", "markdown"]):
        again = document
        for notation in way:
            again = read_text(WRITERS[notation](again), notation)
            assert (again.notes, again.record) == (document.notes, document.record)
            same_plan(again, plan)
        assert write_markdown(again) == text
