"""Whole Markdown documents: what becomes of every part, with its line."""

from __future__ import annotations

from ordain.core.action import CallTool, RunCommand
from ordain.core.condition import Contract, Verification
from ordain.core.failure import Abort, Continue, Escalate, Retry
from ordain.core.model import Plan, Step
from ordain.core.problem import Place
from ordain.core.value import StepId
from ordain.documents.document import Document
from ordain.documents.reading import read


def plan_of(text: str) -> Plan:
    document = read(text.encode())
    assert document.problems == ()
    assert document.plan is not None
    return document.plan


def first(body: str) -> Step:
    return plan_of(f"# T\n\n## Steps\n\n### 1. One\n\n{body}\n").steps[0]


def lines(document: Document) -> list[tuple[str, int | None, str | None]]:
    return [(p.code, p.where.line if p.where else None, p.where.step if p.where else None) for p in document.problems]


def check(command: str, exit_code: int = 0) -> Verification:
    return Verification(strategy=Contract(command=command, exit_code=exit_code))


def test_the_smallest_plan() -> None:
    document = read(b"# Tidy up\n\n1. `ruff check --fix .`\n2. `pytest -q`\n", "plan.md")
    one, two = StepId("ruff-check-fix"), StepId("pytest-q")
    fix, test = RunCommand(command="ruff check --fix ."), RunCommand(command="pytest -q")
    assert document == Document(
        plan=Plan(
            plan_version=1,
            title="Tidy up",
            steps=(
                Step(id=one, description=fix.command, action=fix, needs=()),
                Step(id=two, description=test.command, action=test, needs=(one,)),
            ),
        ),
        places={
            "": Place(file="plan.md", line=1, column=1),
            one: Place(file="plan.md", line=3, column=1, step=one),
            two: Place(file="plan.md", line=4, column=1, step=two),
        },
    )


FULL = """\
---
type: plan
plan_version: 1
owner: orchestrator            # display only
status: draft
tools: [read_file, write_file, shell]
tier: 1
workspace_id: ws-1
---

# [x] Fix the timeout (#423)

**Context:** Login requests time out
after 30 s.
**Priority:** high
**On failure:** retry(1), then continue
**status: running**

A paragraph for readers.

**Timeout:** 2h
**concurrency:** 4

## Background

### 1. Not a step

## Steps

### 1. ✅ Analyze the bug

**run:**
```shell
grep -rn timeout src > analysis.txt
### 2. still text
```
**contract:**
```shell
test -s analysis.txt
```
exit_code == 0
**on_fail:** retry(2, 1s x2 max 30s), then escalate

### 2. Read the settings

**id:** settings
**needs:** none
**tool:** read_file
**args:**
```yaml
path: config.json
limit: 10
note: "$${literal}"
```
**status:** done

### 3. Check both ##

**Needs:**
- settings
- 1
- settings

**run:** grep -q ${HOME} config.json
**contract:** grep -c x config.json
exit_code == 1
**timeout:** 10m
**idempotent:** true

## Risks

- The client may have a workaround.

```
## Steps
```
"""


def test_the_full_form() -> None:
    document = read(FULL.encode())
    assert document.problems == ()
    analyze, settings = StepId("analyze-the-bug"), StepId("settings")
    assert document.plan == Plan(
        plan_version=1,
        title="Fix the timeout (#423)",
        context="Login requests time out\nafter 30 s.",
        on_failure=Retry(max_attempts=2, then=Continue()),
        tools=("read_file", "write_file", "shell"),
        timeout_ms=7_200_000,
        concurrency=4,
        tier=1,
        workspace_id="ws-1",
        steps=(
            Step(
                id=analyze,
                description="Analyze the bug",
                action=RunCommand(command="grep -rn timeout src > analysis.txt\n### 2. still text"),
                needs=(),
                verification=check("test -s analysis.txt"),
                on_failure=Retry(
                    max_attempts=3,
                    initial_delay_ms=1000,
                    backoff_multiplier=2,
                    max_delay_ms=30_000,
                    then=Escalate(),
                ),
            ),
            Step(
                id=settings,
                description="Read the settings",
                action=CallTool(tool="read_file", args={"path": "config.json", "limit": 10, "note": "$${literal}"}),
                needs=(),
            ),
            Step(
                id=StepId("check-both"),
                description="Check both",
                action=RunCommand(command="grep -q ${HOME} config.json"),
                needs=(analyze, settings),
                verification=check("grep -c x config.json", 1),
                timeout_ms=600_000,
                idempotent=True,
            ),
        ),
    )
    assert document.notes == (
        ("", "A paragraph for readers."),
        ("Background", "### 1. Not a step"),
        ("Risks", "- The client may have a workaround.\n\n```\n## Steps\n```"),
    )
    assert {key: FULL.split("\n")[(place.line or 0) - 1] for key, place in document.places.items()} == {
        "": "# [x] Fix the timeout (#423)",
        "analyze-the-bug": "### 1. ✅ Analyze the bug",
        "settings": "### 2. Read the settings",
        "check-both": "### 3. Check both ##",
    }


def test_needs() -> None:
    steps = "### 1. A\n**run:** a\n**needs:** 3, later\n### 2. B\n**run:** b\n### 3. C\n**run:** c\n**needs:** none\n"
    assert [step.needs for step in plan_of(f"# T\n\n## Steps\n\n{steps}").steps] == [("c", "later"), ("a",), ()]


def test_a_list_may_stand_under_steps() -> None:
    plan = plan_of("# T\n\n**Timeout:** 1m\n\n## Steps\n\n1. [x] `a`\n\n2. `` echo `b` ``\n\n## Notes\n\nx\n")
    assert [step.action for step in plan.steps] == [RunCommand(command="a"), RunCommand(command="echo `b`")]


def test_a_list_before_steps_is_a_note() -> None:
    document = read(b"# T\n\nWe saw:\n\n1. smoke\n2. fire\n\n## Steps\n\n### 1. A\n\n**run:** a\n")
    assert document.problems == ()
    assert document.notes == (("", "We saw:\n\n1. smoke\n2. fire"),)


def test_titles_and_marks() -> None:
    for written, title in [
        ("✅ Done", "Done"),
        ("✅️Done", "Done"),
        ("[ ] Open", "Open"),
        ("[X] Done", "Done"),
        ("\\✅ Kept", "✅ Kept"),
        ("\\[x] Kept", "[x] Kept"),
        ("\\\\[x] Kept", "\\[x] Kept"),
        ("[x](link)", "[x](link)"),
        ("Late ✅", "Late ✅"),
        ("C\\# and \\*", "C\\# and \\*"),
    ]:
        assert plan_of(f"# {written}\n\n1. `a`\n").title == title
        assert plan_of(f"# T\n\n## Steps\n\n### 1. {written}\n\n**run:** a\n").steps[0].description == title


def test_contexts() -> None:
    def context(body: str) -> str | None:
        return plan_of(f"# T\n\n{body}\n\n## Steps\n\n### 1. A\n\n**run:** a\n").context

    assert context("**Context:** one\ntwo\n\nnote") == "one\ntwo"
    assert context("**Context:**\n\none\n\ntwo\n**Timeout:** 1s") == "one\n\ntwo"
    assert context("**Context:**\n```text\n\n## Steps\n**run:** x\n\n```\n\nnote") == "\n## Steps\n**run:** x\n"
    assert context("**Context:**\nSee:\n```python\nx = 1\n```") == "See:\n```python\nx = 1\n```"


def test_commands_are_taken_as_they_are() -> None:
    assert first("**run:**   echo  *a* \\# `b` c  ").action == RunCommand(command="echo  *a* \\# `b` c")
    assert first("**run:**\n\nmake").action == RunCommand(command="make")
    assert first("**run:**\n~~~\n\n a\nb  \n~~~").action == RunCommand(command="\n a\nb  ")
    assert first("**run:** a\n**contract:**\n\ntest -f x\n\nexit_code==3").verification == check("test -f x", 3)


def test_arguments() -> None:
    assert first("**tool:** a.b").action == CallTool(tool="a.b")
    assert first('**tool:** a\n**args:**\n```json\n{"x": [1.0, null]}\n```').action == CallTool(
        tool="a", args={"x": [1, None]}
    )
    assert first("**tool:** a\n**args:**\n~~~\n{}\n~~~").action == CallTool(tool="a", args={})
    dollars = first("**tool:** a\n**args:**\n```yaml\na: $HOME\nb: '$5.00 $$ ${HOME} $$${x}'\n$${k}: 1\n```").action
    assert dollars == CallTool(tool="a", args={"a": "$HOME", "b": "$5.00 $$ ${HOME} $$${x}", "$${k}": 1})


def test_failure_of_the_whole_plan() -> None:
    assert plan_of('# T\n\n**On failure:** abort("stop")\n\n1. `a`\n').on_failure == Abort(message="stop")


def test_every_problem_with_line_step_and_file() -> None:
    text = """\
---
tols: [a]
---
# T

**Timeout:** soon
**Task:** x

## Steps

### 1. A

**run:** a
**timeout:** 0s
**needs:** 9

### 2. B

**tool:** t
**args:**
```yaml
x: no
y:
  - 1.10
```

### 4. D

**contract:** x
"""
    document = read(text.encode(), "p.md")
    assert document.plan is None
    assert lines(document) == [
        ("E_PLAN_UNKNOWN_FIELD", 2, None),
        ("E_FIELD_VALUE", 6, None),
        ("E_NOT_YET", 7, None),
        ("E_STEP_LIMIT", 14, "a"),
        ("E_STEP_UNKNOWN_NEED", 15, "a"),
        ("E_YAML_AMBIGUOUS", 22, "b"),
        ("E_YAML_AMBIGUOUS", 24, "b"),
        ("E_MD_HEADING", 27, None),
        ("E_STEP_ACTION", 27, "d"),
    ]
    assert {problem.where.file for problem in document.problems if problem.where} == {"p.md"}
    assert document.problems[0].hints == ("Did you mean `tools`?",)
    assert document.places["b"] == Place(file="p.md", line=17, column=1, step="b")


def test_a_wrong_heading_says_what_to_write() -> None:
    document = read("# T\n\n## Steps\n\n### 1. A\n**run:** a\n### 2–N. Rest\n**run:** b\n".encode())
    assert lines(document) == [("E_MD_HEADING", 7, None)]
    assert "`### 2. " in document.problems[0].hints[0]


def test_a_reference_is_found_on_its_line() -> None:
    text = "# T\n\n## Steps\n\n### 1. A\n**tool:** t\n**args:**\n```yaml\na: b\nc: x ${a.output.list[0]} y\n```\n"
    assert lines(read(text.encode())) == [("E_NOT_YET", 10, "a")]


def test_problems_are_capped() -> None:
    assert len(read(b"# T\n" * 5000).problems) == 200
