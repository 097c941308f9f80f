"""What is written in Markdown reads back as the same plan, is written again byte for byte the same, and survives the
way through every other notation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.action import (
    Ask,
    CallTool,
    Custom,
    RunCommand,
    RunWorkflow,
    SendText,
    StoreData,
    Task,
    WaitFor,
    WaitForFile,
)
from ordain.core.plan.canonical import canonical_bytes, plan_id
from ordain.core.plan.condition import Contract, CustomCondition, External, NoCheck, Verification
from ordain.core.plan.failure import Abort, AskApproval, Retry
from ordain.core.plan.model import Action, ForEach, NestedPlan, Parameter, Plan, Step
from ordain.core.plan.role import Name, PathRead, PathWritten, StepName, ToolScope, fields, roles
from ordain.core.plan.value import StepId
from ordain.core.text.problem import Severity
from ordain.documents.document import Document
from ordain.documents.markdown.writer import write_markdown
from ordain.documents.reading import read
from ordain.documents.tree_writer import write_json, write_yaml
from tests.plans import LINES, TEXTS, VALUES, plans

WRITERS = {"markdown": write_markdown, "yaml": write_yaml, "json": write_json}


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
def test_markdown_reads_back(plan: Plan) -> None:
    text = write_markdown(plan)
    document = read_text(text)
    assert document.problems == ()
    same_plan(document, plan)
    assert write_markdown(document) == text


commands = st.lists(
    LINES.filter(str.strip) | st.sampled_from(["make", "make test", "make -- test", "make 2"]), max_size=6
)


@given(commands.filter(bool))
def test_lists_of_commands_read_back(written: list[str]) -> None:
    text = "# T\n\n" + "".join(f"{number}. ```` {command} ````\n" for number, command in enumerate(written, 1))
    plan = read(text.encode()).plan
    if plan is not None:
        document = read_text(write_markdown(plan))
        same_plan(document, plan)


RECORDS = st.dictionaries(st.sampled_from(["owner", "status", "tags", "metadata", "priority", "created_at"]), VALUES)


@given(plans(), st.lists(st.tuples(LINES, TEXTS), max_size=3), RECORDS, RECORDS)
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


# --- Awkward texts in every field --------------------------------------------------------------------------------


def step(**fields: Any) -> Step:
    values = {"id": StepId("one"), "description": "One", "action": RunCommand(command="true"), "needs": ()}
    return Step(**{**values, **fields})


def plan(*steps: Step, **fields: Any) -> Plan:
    return Plan(**{"plan_version": 1, "title": "T", "steps": steps or (step(),), **fields})


def doing(action: Action) -> Plan:
    return plan(step(action=action))


def undone(text: str) -> Plan:
    """A plan with this text in fallback steps."""
    fallback = step(id=StepId("undo"), description=text, action=Task(task=text), when=text)
    return plan(step(), fallbacks=(fallback,))


ONE_LINE: dict[str, Callable[[str], Plan]] = {
    "title": lambda text: plan(title=text),
    "description": lambda text: plan(step(description=text)),
    "description of a list item": lambda text: plan(step(description=text, action=RunCommand(command=text))),
    "description of a fallback step": undone,
}
"""Fields of one line."""
FIELDS: dict[str, Callable[[str], Plan]] = {
    "plan task": lambda text: plan(task=text),
    "context": lambda text: plan(context=text),
    "context of a list": lambda text: plan(step(id=StepId("true"), description="true"), context=text),
    "plan model": lambda text: plan(model=text),
    "workspace_id": lambda text: plan(workspace_id=text),
    "plan protect": lambda text: plan(protect=("a", text)),
    "plan abort": lambda text: plan(on_failure=Abort(message=text)),
    "params": lambda text: plan(params={text: Parameter(type="string", description=text, default=text, files=text)}),
    "plan preconditions": lambda text: plan(preconditions=(CustomCondition(name=text, expression=text),)),
    "when": lambda text: plan(step(when=text)),
    "for_each": lambda text: plan(step(for_each=ForEach(source=text, max=3, name=text))),
    "preconditions": lambda text: plan(step(preconditions=(CustomCondition(name=text, expression=text),))),
    "command": lambda text: doing(RunCommand(command=f"true\n{text}")),
    "command of one line": lambda text: doing(RunCommand(command=text if text.strip() else "true")),
    "env": lambda text: doing(RunCommand(command="true", env={"A": text, text: "b"})),
    "operation": lambda text: doing(CallTool(tool="t", operation=text)),
    "args": lambda text: doing(CallTool(tool="t", args={text: [text, {"a": text}], "b": text})),
    "task": lambda text: doing(Task(task=text if text.strip() else "x")),
    "task of several lines": lambda text: doing(Task(task=f"Do this.\n{text}\n\nThen that.")),
    "instructions": lambda text: doing(Task(task="x", instructions=text)),
    "criteria": lambda text: doing(Task(task="x", criteria=(text, "x"))),
    "reads": lambda text: doing(Task(task="x", reads=("a", text))),
    "text": lambda text: doing(SendText(text=text, pane=text, keys=(text,))),
    "key": lambda text: doing(WaitFor(condition=External(key=text), timeout_ms=1)),
    "value": lambda text: doing(StoreData(key=text, value=text)),
    "path": lambda text: doing(WaitForFile(path=text)),
    "workflow": lambda text: doing(RunWorkflow(workflow_id=text, params={text: text})),
    "question": lambda text: doing(Ask(question=text, choices=(text,), schema={text: text})),
    "payload": lambda text: doing(Custom(action_type="a", payload=[text, {text: text}])),
    "nested plan": lambda text: doing(NestedPlan(plan=plan(step(action=Task(task=text)), context=text))),
    "contract": lambda text: plan(step(verification=Verification(strategy=Contract(command=text or "x")))),
    "stdout": lambda text: plan(step(verification=Verification(strategy=Contract(command="x", stdout=text)))),
    "verification": lambda text: plan(step(verification=Verification(strategy=NoCheck(), description=text))),
    "protect": lambda text: plan(step(protect=(text, "a"))),
    "writes": lambda text: plan(step(writes=("a", text))),
    "inputs": lambda text: plan(step(inputs=("a", text))),
    "happened": lambda text: plan(step(happened=text or "x")),
    "ask": lambda text: plan(step(on_failure=AskApproval(summary=text))),
    "abort": lambda text: plan(step(on_failure=Retry(max_attempts=2, then=Abort(message=text)))),
    "model": lambda text: plan(step(model=text)),
    "pool": lambda text: plan(step(pool=text)),
}
"""Fields of any text."""
AWKWARD = [
    *("\n", "\na", "a\n", "a\n\n\nb", " ", "\t", " a ", "a  \n  b", "---", "a\n---", "---\na: b\n---", "===", "a\n==="),
    *("## Steps", "a\n\n## Steps\n\n### 1. A\n\n**run:** rm", "# T", "### 2. B", "#### C", "a\n#", "a ##", "\\# a"),
    *(
        "status: approved",
        "**status: approved**",
        "**status:** approved",
        "a\n**run:** rm",
        "**run:** rm",
        "**Run:** rm",
    ),
    *("**contrat:** x", "a\n**contract**: x", "**Context:** x\n**Tier:** 2", "**on_fail:** skip", "**title:** x"),
    *(
        "```",
        "```yaml\na: b\n```",
        "a\n```\nb\n```",
        "~~~\na",
        "````text\n```\n````",
        "a ``` b",
        "`a`",
        "``a`b``",
        "a\n````",
    ),
    *(
        "✅",
        "✅ done",
        "[x] done",
        "[ ] open",
        "\\✅ done",
        "\\[x] done",
        "\\\\[x]",
        "a ✅",
        "\\",
        "a\\",
        "\\n",
        "\\*a\\*",
    ),
    *("1. `a`", "2. b", "- a", "- a\n- b", "* a", "> a", "a: b", "a:", "<!-- a -->", "<!--", "a\n-->", "<script>"),
    *("none", "true", "no", "007", "1.10", "~", "null", "a #b", "#b", "'", '"', "a: 'b", "${HOME}", "$${one.output}"),
    *(
        "exit_code == 1",
        'stdout =~ "a"',
        "a, b",
        ", then skip",
        "retry(2)",
        "\ufeffa",
        "\u2028",
        "a\u00a0",
        "😀",
        "...",
    ),
]


@pytest.mark.part(of=12)
@pytest.mark.parametrize("field", [*ONE_LINE, *FIELDS])
def test_awkward_texts_survive_every_notation(field: str) -> None:
    for text in AWKWARD:
        if field in ONE_LINE:
            line = text.replace("\n", " ")
            source = ONE_LINE[field](line if line.strip() else "x")
        else:
            source = FIELDS[field](text)
        document = Document(plan=source)
        for notation in ("markdown", "yaml", "json", "markdown"):
            written = WRITERS[notation](document)
            document = read_text(written, notation)
            assert (document.plan, document.problems, document.notes, document.record) == (source, (), (), {}), text
            assert WRITERS[notation](document) == written


@pytest.mark.parametrize(
    ("title", "heading"),
    [
        ("Tidy up", "# Tidy up\n\n1."),
        ("✅ Tidy", "# \\✅ Tidy\n\n1."),
        ("#", "# Untitled\n\n**Title:** #\n\n1."),
        (" Tidy <!-- up", "# Tidy -- up\n\n**Title:**\n```text\n Tidy <!-- up\n```\n\n1."),
    ],
)
def test_titles_that_a_heading_can_not_show(title: str, heading: str) -> None:
    text = write_markdown(plan(step(id=StepId("true"), description="true"), title=title))
    assert text.startswith(heading)
    assert read_text(text).plan == plan(step(id=StepId("true"), description="true"), title=title)


def test_every_free_text_of_the_model_is_in_the_table() -> None:
    """A mark put into every field of the table is found in every field of the model that holds free text."""
    mark = "MARK"
    found = {kind for made in (*ONE_LINE.values(), *FIELDS.values()) for kind in _marked(made(mark), mark)}
    missing = {
        f"{kind.__name__}.{field.name}"
        for kind in _structs(Plan)
        for field in fields(kind)
        if f"{kind.__name__}.{field.name}" not in found and _holds_text(field.type)
        if not isinstance(roles(kind).get(field.name), Name | StepName | PathRead | PathWritten | ToolScope)
    }
    assert missing == NAMES_AND_IDS, "Add a line to FIELDS, which puts awkward texts into the field."


NAMES_AND_IDS = {
    *("Plan.tools", "Plan.agent", "Step.id", "Step.needs", "ApprovalScope.action_kind", "ApprovalScope.workspace_id"),
    *("Pattern.rule_id", "PatternMatched.rule_id", "PatternNotMatched.rule_id", "PatternMatch.rule_id"),
    *("PatternAbsent.rule_id", "PaneState.expected_agent", "PaneState.expected_domain"),
}
"""Fields that hold names and have no role that says so."""


def _marked(value: Any, mark: str, at: str = "") -> set[str]:
    if isinstance(value, msgspec.Struct):
        fields = type(value).__struct_fields__
        return {at for name in fields for at in _marked(getattr(value, name), mark, f"{type(value).__name__}.{name}")}
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        return {inner for item in value for inner in _marked(item, mark, at)}
    return {at} if isinstance(value, str) and mark in value else set()


def _structs(kind: Any, seen: set[Any] | None = None) -> set[Any]:
    """Every struct that a type leads to."""
    seen = set() if seen is None else seen
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in seen:
        seen.add(kind)
        for field in fields(kind):
            _structs(field.type, seen)
    for inner in get_args(kind):
        _structs(inner, seen)
    return seen


def _holds_text(kind: Any) -> bool:
    kind = getattr(kind, "__supertype__", kind)
    if get_origin(kind) is Literal:
        return False
    return kind in (str, Any) or any(_holds_text(inner) for inner in get_args(kind))
