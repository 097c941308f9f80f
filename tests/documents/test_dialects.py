"""Documents in the form of the seeds: what they become, and what they claim."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ordain.core.plan.action import CallTool, Task
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.failure import Continue
from ordain.core.plan.model import Plan, Step
from ordain.documents.dialects.reader import DIALECTS
from ordain.documents.document import Document
from ordain.documents.format import formatted
from ordain.documents.reading import read
from tests.rows import each

FIXTURES = Path(__file__).parent.parent / "dialects"
GOLDEN: dict[str, str] = json.loads((FIXTURES / "golden.json").read_text())


def fixture(name: str) -> Document:
    return read((FIXTURES / name).read_bytes())


def sound(document: Document) -> Plan:
    assert document.plan is not None, document.problems
    return document.plan


def found(text: str) -> list[tuple[str, int | None, int | None]]:
    """Code and place of every problem of a document."""
    return [
        (problem.code, problem.where.line, problem.where.column) if problem.where else (problem.code, None, None)
        for problem in read(text.encode()).problems
    ]


# --- The seeds' own examples ---------------------------------------------------------------------------------------


@each("name", sorted(GOLDEN))
def test_the_examples_of_the_seeds(name: str) -> None:
    document = fixture(name)
    assert plan_id(sound(document)) == GOLDEN[name]
    own = name[:2]
    assert document.dialect == (own if own in DIALECTS else None)
    assert {problem.code for problem in document.problems} <= {"W_FOREIGN_ID"}


@pytest.mark.parametrize("name", sorted(GOLDEN))
@pytest.mark.parametrize("to", ["markdown", "yaml", "json"])
def test_into_every_notation(name: str, to: Any) -> None:
    document = fixture(name)
    text = formatted((FIXTURES / name).read_bytes(), document, to)
    assert isinstance(text, str)
    plain = read(text.encode())
    assert (plain.dialect, plain.notation) == (None, to)
    assert plan_id(sound(plain)) == GOLDEN[name]
    assert plain.record == document.record


def test_every_fixture_is_in_the_golden_list() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == {*GOLDEN, "golden.json", "s4-migrate.md"}


def test_templated_headings_say_what_to_write() -> None:
    document = fixture("s4-migrate.md")
    assert document.plan is None
    assert [
        (problem.code, problem.where and problem.where.line, problem.hints[0]) for problem in document.problems
    ] == [
        (
            "E_MD_HEADING",
            43,
            "Write `### 3. Migrate file batch (one step per batch of ~5 files)`; "
            "steps are numbered 1, 2, 3 … in order.",
        ),
        ("E_MD_HEADING", 59, "Write `### 4. Remove requests dependency`; steps are numbered 1, 2, 3 … in order."),
    ]
    assert [problem.hints[1] for problem in document.problems] == [
        "A heading is one step: write each out from `### 3. …` on, or one with `for_each` and `batch`.",
        "The number is that of the step's place, counted when all steps before it are written out.",
    ]


# --- What becomes what ---------------------------------------------------------------------------------------------


def test_s1_becomes_tasks() -> None:
    document = fixture("s1-auth.yaml")
    plan = sound(document)
    assert plan.title == "Implement user authentication with JWT"
    assert plan.context == "Constraints:\n- Use existing JWT library\n- Follow Express middleware pattern"
    login = plan.steps[2]
    assert login == Step(
        id="implement-login-endpoint",
        description="Implement login endpoint",
        needs=("implement-authentication-middleware",),
        action=Task(
            task="Implement login endpoint",
            agent="developer",
            instructions="POST /auth/login checks credentials and answers with a JWT",
            criteria=(
                "Accepts email/password",
                "Validates against user store",
                "Returns JWT on success",
                "Returns 401 on invalid credentials",
            ),
        ),
    )
    assert [step.needs for step in plan.steps] == [
        (),
        ("look-at-the-code-and-how-it-authenticates-now",),
        ("implement-authentication-middleware",),
        ("implement-authentication-middleware", "implement-login-endpoint"),
        ("write-integration-tests-for-auth-flow",),
    ]
    assert document.record[""] == {
        "status": "in_progress",
        "metadata": {
            "id": "plan-20260123-auth-feature",
            "currentStepIndex": 2,
            "createdAt": "2026-01-23T10:00:00Z",
            "updatedAt": "2026-01-23T10:35:00Z",
            "createdBy": "planner",
            "complexity": 5,
            "tags": ["auth", "jwt", "api"],
            "constraints": ["Use existing JWT library", "Follow Express middleware pattern"],
            "lineage": {"version": 1},
        },
    }


def test_s1_lineage() -> None:
    document = fixture("s1-replanned.json")
    assert document.notation == "json"
    assert document.record[""]["metadata"]["lineage"] == {"version": 2, "previousPlanId": "plan-20260123-auth-feature"}


CLAIMS = ("status", "executedBy", "startedAt", "completedAt", "output", "affectedFiles", "currentStepIndex")


def test_claims_of_progress_are_no_progress() -> None:
    """The same document without a word about progress is the same plan."""
    kept = []
    skipped_list = False
    for line in (FIXTURES / "s1-auth.yaml").read_text().splitlines(keepends=True):
        key = line.strip().partition(":")[0]
        if skipped_list and line.strip().startswith("- ") and "index" not in line:
            continue
        skipped_list = key == "affectedFiles"
        if key not in CLAIMS:
            kept.append(line)
    silent, claiming = read("".join(kept).encode()), fixture("s1-auth.yaml")
    assert plan_id(sound(silent)) == plan_id(sound(claiming))
    assert "status" not in str(silent.record)
    assert claiming.record["implement-authentication-middleware"] == {
        "status": "complete",
        "metadata": {
            "executedBy": "developer",
            "startedAt": "2026-01-23T10:15:00Z",
            "completedAt": "2026-01-23T10:30:00Z",
            "output": "src/auth/middleware.ts validates JWT",
            "affectedFiles": ["src/auth/middleware.ts"],
        },
    }


def test_s2_becomes_tool_calls() -> None:
    document = fixture("s2-version.json")
    plan = sound(document)
    assert plan.title == "Untitled plan"
    backup = plan.steps[2]
    assert backup == Step(
        id="step_3",
        description="Create backup",
        needs=("step_1",),
        on_failure=Continue(),
        action=CallTool(tool="write_file", args={"path": "config.backup.json", "content": "${step_1.output}"}),
    )
    assert document.record[""]["metadata"] == {
        "id": "plan-7",
        "taskId": "task-3",
        "estimatedDuration": 120,
        "createdAt": "2026-02-01T09:00:00Z",
        "lineage": {"version": 2},
    }
    assert document.record["step_1"]["status"] == "completed"
    assert document.record["step_1"]["metadata"]["result"]["ok"] is True


S2_TEXTS = {
    "$step_1": "${step_1.output}",
    "$5.00": "$5.00",
    "a $step_1": "a $step_1",
    "${HOME}": "${HOME}",
    "${step_1.output}": "$${step_1.output}",
    "x ${params.a} $${b}": "x $${params.a} $$${b}",
    "$${b}": "$$${b}",
}


@each("said", S2_TEXTS)
def test_s2_texts_mean_what_they_meant(said: str) -> None:
    tree = {"steps": [{"id": "step_1", "tool": "a", "args": {}}, {"id": "b", "tool": "a", "args": {"x": said}}]}
    action = sound(read(json.dumps(tree).encode())).steps[1].action
    assert isinstance(action, CallTool)
    assert action.args == {"x": S2_TEXTS[said]}


def test_s3_becomes_scoped_tasks() -> None:
    document = fixture("s3-invoice.md")
    plan = sound(document)
    assert (plan.title, plan.tools, plan.model) == (
        "Tramitar factura 2024-0847 de Fabbula en Odoo",
        ("odoo-toolbox", "go-easy"),
        "claude-haiku-4-5",
    )
    assert [(step.description, step.action) for step in plan.steps[1:2]] == [
        (
            "Send payment reminder to client",
            Task(task="Send payment reminder to client", tools=("go-easy:gmail send",)),
        )
    ]
    assert plan.context is not None
    assert plan.context.startswith("### Tool Outputs\n```json\n{")
    assert [heading for heading, _ in document.notes] == ["Risks"]
    assert document.record == {
        "": {
            "status": "proposed",
            "metadata": {
                "id": "PLAN-a1b2c3d4",
                "created_at": "2026-02-11T12:00:00Z",
                "updated_at": "2026-02-11T12:05:00Z",
                "planner_model": "claude-sonnet-4-5",
                "execution_session": ".pi/plans/sessions/PLAN-a1b2c3d4.jsonl",
                "lineage": {"version": 1},
            },
        }
    }


def test_marks_of_progress_in_markdown_are_claims() -> None:
    marked = read("# T\n\n## Steps\n\n### 1. ✅ A\n**run:** a\n\n### 2. B\n**status: failed**\n**run:** b\n".encode())
    plain = read(b"# T\n\n## Steps\n\n### 1. A\n**run:** a\n\n### 2. B\n**run:** b\n")
    assert marked.plan == plain.plan
    assert marked.record == {"a": {"status": "done"}, "b": {"status": "failed"}}
    assert plain.record == {}
    listed = read("# T\n\n1. [x] `a`\n2. ✅ `b`\n3. [ ] `c`\n4. d [x]\n".encode())
    assert listed.record == {"a": {"status": "done"}, "b": {"status": "done"}}


# --- The same meaning, the same digest -----------------------------------------------------------------------------

TASKS = {
    "s1": """
task: Tidy up
steps:
  - {index: 0, description: Look around, status: complete, suggestedAgent: coder, executedBy: coder}
  - {index: 1, description: Sweep, status: pending, suggestedAgent: coder, acceptanceCriteria: [No dust]}
metadata: {complexity: 2, constraints: [Be quiet]}
""",
    "s1 in JSON": """
{"version": 3, "id": "x", "metadata": {"constraints": ["Be quiet"]}, "task": "Tidy up", "steps": [
  {"suggestedAgent": "coder", "description": "Look around"},
  {"acceptanceCriteria": ["No dust"], "suggestedAgent": "coder", "description": "Sweep", "dependsOn": [0]}]}
""",
    "markdown": """
# Tidy up

**Context:**
Constraints:
- Be quiet

## Steps

### 1. Look around
**agent:** coder
**task:** Look around

### 2. Sweep
**agent:** coder
**task:** Sweep
**criteria:**
- No dust
""",
    "yaml": """
title: Tidy up
context: "Constraints:\\n- Be quiet"
steps:
  - description: Look around
    action: {type: task, task: Look around, agent: coder}
  - description: Sweep
    action: {type: task, task: Sweep, agent: coder, criteria: [No dust]}
""",
}
CALLS = {
    "s2": """
{"taskId": "t", "title": "Copy", "steps": [
  {"id": "step_1", "order": 0, "description": "Read", "tool": "read_file", "args": {"path": "a"}, "dependsOn": []},
  {"id": "step_2", "order": 1, "description": "Write", "tool": "write_file", "critical": false,
   "args": {"path": "b", "content": "$step_1"}, "dependsOn": ["step_1"], "status": "completed"}]}
""",
    "s2 in YAML": """
title: Copy
estimatedDuration: 10
steps:
  - id: step_1
    description: Read
    tool: read_file
    args: {path: a}
  - {id: step_2, description: Write, tool: write_file, args: {content: $step_1, path: b}, critical: false}
""",
    "markdown": """
# Copy

## Steps

### 1. Read
**id:** step_1
**tool:** read_file
**args:**
```yaml
path: a
```

### 2. Write
**id:** step_2
**tool:** write_file
**args:**
```yaml
path: b
content: "${step_1.output}"
```
**on_fail:** continue
""",
    "json": """
{"title": "Copy", "steps": [
  {"id": "step_1", "description": "Read", "action": {"type": "tool", "tool": "read_file", "args": {"path": "a"}}},
  {"id": "step_2", "description": "Write", "on_failure": {"strategy": "continue"},
   "action": {"type": "tool", "tool": "write_file", "args": {"path": "b", "content": "${step_1.output}"}}}]}
""",
}
SCOPED = {
    "s3": """\
---
id: PLAN-1
title: Remind
planner_model: big
tools_required: [mail]
executor_model: small
result_summary: all done
---
## Steps
1. ✅ Look it up
2. Send a mail (mail: send all)

## Context
Be kind.
""",
    "markdown": """\
---
tools: [mail]
---
# Remind

**Context:** Be kind.
**Model:** small

1. Look it up
2. Send a mail (mail: send all)
""",
    "yaml": """\
title: Remind
context: Be kind.
model: small
tools: [mail]
steps:
  - {description: Look it up, action: {type: task, task: Look it up}}
  - {description: Send a mail, action: {type: task, task: Send a mail, tools: ["mail:send all"]}}
""",
}
PLAIN = {
    "s1": "task: T\nsteps:\n  - {index: 0, description: A}\n  - {index: 1, description: B}\n",
    "s3": "---\nid: x\ntitle: T\n---\n## Steps\n1. A\n2. B\n",
    "s4": "---\ntype: plan\nstatus: done\n---\n# T\n## Steps\n### 1. A\n**task:**\nA\n### 2. ✅ B\n**task:** B\n",
    "markdown": "# T\n\n1. A\n2. B\n",
}


@pytest.mark.parametrize("same", [TASKS, CALLS, SCOPED, PLAIN], ids=["tasks", "calls", "scoped", "plain"])
def test_the_same_meaning_has_the_same_digest(same: dict[str, str]) -> None:
    documents = {name: read(text.lstrip("\n").encode()) for name, text in same.items()}
    assert len({plan_id(sound(document)) for document in documents.values()}) == 1
    for name, document in documents.items():
        assert (document.dialect or "") == (name[:2] if name[:2] in DIALECTS else "")


# --- Nearly, but not quite -----------------------------------------------------------------------------------------

S1 = "task: T\nsteps:\n  - index: 0\n    description: A\n"
S3 = "---\nid: x\ntitle: T\n{}---\n## Steps\n1. A\n"
WRONG = {
    "s1 misspelt plan key": (S1 + "createdby: me\n", [("E_PLAN_UNKNOWN_FIELD", 5, 1)]),
    "s1 misspelt step key": (S1 + "    sugestedAgent: me\n", [("E_PLAN_UNKNOWN_FIELD", 5, 5)]),
    "s1 misspelt constraints": (S1 + "metadata: {constraint: [a]}\n", [("E_PLAN_UNKNOWN_FIELD", 5, 12)]),
    "s1 our own word": (S1 + "    needs: []\n", [("E_PLAN_UNKNOWN_FIELD", 5, 5)]),
    "s1 index": (S1.replace("0", "1"), [("E_PLAN_TYPE", 3, 5)]),
    "s1 index of nothing": (S1 + "    dependsOn: [0, 7]\n", [("E_STEP_UNKNOWN_NEED", 5, 20)]),
    "s1 ids for indexes": (S1 + "    dependsOn: [a]\n", [("E_PLAN_TYPE", 5, 17)]),
    "s1 no task": (S1.replace("task: T\n", "currentStepIndex: 0\n"), [("E_PLAN_TYPE", 1, 1)]),
    "s1 no description": (S1.replace("description: A", "suggestedAgent: a"), [("E_PLAN_TYPE", 3, 5)]),
    "s1 no steps": ("task: T\ncurrentStepIndex: 0\nsteps: []\n", [("E_PLAN_NO_STEPS", 3, 1)]),
    "s1 steps are text": ("task: T\ncurrentStepIndex: 0\nsteps: a\n", [("E_PLAN_TYPE", 3, 1)]),
    "s1 a step is text": (S1 + "  - a\n", [("E_PLAN_TYPE", 5, 5)]),
    "s1 agent is a number": (S1 + "    suggestedAgent: 7\n", [("E_PLAN_TYPE", 5, 5)]),
    "s1 metadata is text": (S1 + "metadata: a\n", [("E_PLAN_TYPE", 5, 1)]),
    "s1 twice": (S1 + "    index: 0\n", [("E_DOC_DUPLICATE", 5, 5)]),
    "s1 alias": (S1 + "    output: &a x\n", [("E_YAML_ALIAS", 5, 13)]),
    "s1 big number": (
        '{"task": "T",\n"steps": [{"index": 0, "description": "A", "output": 1e400}]}',
        [("E_DOC_NUMBER", 2, 54)],
    ),
    "s1 deep": (S1 + "    output: " + "[" * 17 + "]" * 17 + "\n", [("E_DOC_DEPTH", 5, 28)]),
    "s2 misspelt": (
        '{"steps": [{"id": "a", "tool": "t", "args": {},\n"dependson": []}]}',
        [("E_PLAN_UNKNOWN_FIELD", 2, 1)],
    ),
    "s2 no id": ('{"steps": [{"tool": "t", "args": {}}]}', [("E_PLAN_TYPE", 1, 12)]),
    "s2 no tool": ('{"taskId": "t",\n"steps": [{"id": "a", "args": {}}]}', [("E_PLAN_TYPE", 2, 11)]),
    "s2 strange id": ('{"steps": [{"id": "a b", "tool": "t", "args": {}}]}', [("E_STEP_ID", 1, 13)]),
    "s2 args": ('{"steps": [{"id": "a", "tool": "t",\n"args": []}]}', [("E_PLAN_TYPE", 2, 1)]),
    "s2 critical": ('{"steps": [{"id": "a", "tool": "t", "args": {},\n"critical": "no"}]}', [("E_PLAN_TYPE", 2, 1)]),
    "s2 order": (
        '{"steps": [{"id": "a", "tool": "t", "order": 2},\n{"id": "b", "tool": "t", "order": 1}]}',
        [("E_PLAN_TYPE", 2, 26)],
    ),
    "s2 near reference": (
        '{"steps": [{"id": "step_1", "tool": "t",\n"args": {"x": ["$step_2"]}}]}',
        [("E_REF", 2, 16)],
    ),
    "s2 reference to nothing": (
        '{"steps": [{"id": "step_1", "tool": "t",\n"args": {"x": "$nope"}}]}',
        [("E_REF", 2, 10)],
    ),
    "s2 variable": ('{"steps": [{"id": "step_1", "tool": "t",\n"args": {"x": "$HOME"}}]}', [("E_REF", 2, 10)]),
    "s2 skipped": (
        '{"steps": [{"id": "step_1", "tool": "t", "args": {},\n"status": "skipped"}]}',
        [("E_STEP_SKIPPED", 2, 1)],
    ),
    "s3 misspelt": (S3.format("tool_required: []\n"), [("E_PLAN_UNKNOWN_FIELD", 4, 1)]),
    "s3 our own word": (S3.format("tools: []\n"), [("E_PLAN_UNKNOWN_FIELD", 4, 1)]),
    "s3 tools": (S3.format("tools_required: a\n"), [("E_PLAN_TYPE", 4, 1)]),
    "s3 tool name": (S3.format("tools_required: [a, b c]\n"), [("E_NAME", 4, 21)]),
    "s3 twice": (S3.format("id: y\n"), [("E_DOC_DUPLICATE", 4, 1)]),
    "s3 two titles": (S3.format("").replace("## Steps", "# T\n## Steps"), [("E_MD_HEADING", 5, 1)]),
    "s3 two contexts": (S3.format("") + "\n## Context\na\n## Context\nb\n", [("E_DOC_DUPLICATE", 10, 1)]),
    "s3 no title": ("---\nplanner_model: a\n---\n## Steps\n1. A\n", [("E_DOC_SYNTAX", 1, 1)]),
    "s3 ambiguous": (S3.format("version: 1.10\n"), [("E_YAML_AMBIGUOUS", 4, 10)]),
    "s3 no steps": ("---\nid: x\ntitle: T\n---\n## Context\na\n", [("E_PLAN_NO_STEPS", 3, 1)]),
}


@each("name", WRONG)
def test_what_is_nearly_a_dialect(name: str) -> None:
    text, problems = WRONG[name]
    document = read(text.encode())
    assert found(text) == problems
    assert document.plan is None
    if not name.endswith(("twice", "alias", "big number", "ambiguous")):
        assert (document.dialect or "") == name[:2]


def test_did_you_mean() -> None:
    hints = {
        name: read(WRONG[name][0].encode()).problems[0].hints
        for name in ("s1 misspelt plan key", "s1 our own word", "s2 misspelt", "s3 our own word", "s2 near reference")
    }
    assert hints == {
        "s1 misspelt plan key": ("Did you mean `createdBy`?",),
        "s1 our own word": ("Write `dependsOn`.",),
        "s2 misspelt": ("Did you mean `dependsOn`?",),
        "s3 our own word": ("Write `tools_required`.",),
        "s2 near reference": (
            "Did you mean `$step_1`?",
            "A value that is `$name` alone is the result of a step; as text, put something before it.",
        ),
    }


OURS = [
    '{"title": "T", "steps": [{"tool": "a"}]}',
    '{"title": "T", "steps": [{"tool": "a", "args": {}}]}',
    '{"plan_version": 1, "taskId": "a", "steps": []}',
    '{"title": "T", "createdBy": "x", "steps": [{"action": {"type": "run", "command": "a"}}]}',
    "title: T\ntask: U\nsteps:\n  - description: a\n",
    "---\ntype: plan\nplanner_model: a\n---\n# T\n\n1. `a`\n",
    "---\nowner: a\n---\n# T\n\n1. `a`\n",
]


@pytest.mark.parametrize("text", OURS)
def test_what_is_of_the_formats_own_form_stays_so(text: str) -> None:
    assert read(text.encode()).dialect is None


def test_the_page_about_dialects() -> None:
    """Every example in it reads, and is of the dialect under whose heading it stands."""
    page = (FIXTURES.parent.parent / "docs/dialects.md").read_text()
    examples = re.findall(r"^## (s[0-4])\n.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert examples == ["s0", *DIALECTS, "s4"]
    fences = re.findall(r"^## (s[0-4])\n\n```[a-z]+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [(name, read(text.encode()).dialect) for name, text in fences] == [("s1", "s1"), ("s2", "s2"), ("s3", "s3")]
    assert [problem for _, text in fences for problem in read(text.encode()).problems] == []
