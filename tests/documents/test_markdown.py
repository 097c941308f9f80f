"""Whole Markdown documents: what becomes of every part, with its line."""

from __future__ import annotations

from typing import Any

from ordain.core.plan.action import Ask, CallTool, ReleaseLock, RunCommand, Task
from ordain.core.plan.condition import (
    Contract,
    CustomCondition,
    LockAvailable,
    LockHeld,
    NoCheck,
    PaneIdle,
    Verification,
)
from ordain.core.plan.failure import Abort, Continue, Escalate, Fallback, Retry, Skip
from ordain.core.plan.model import Budget, ForEach, Parameter, Plan, Step
from ordain.core.plan.value import StepId
from ordain.core.text.problem import Place
from ordain.documents.document import Document
from ordain.documents.reading import read
from tests.rows import each


def plan_of(text: str) -> Plan:
    document = read(text.encode())
    assert document.problems == ()
    assert document.plan is not None
    return document.plan


def first(body: str) -> Step:
    return plan_of(f"# T\n\n## Steps\n\n### 1. One\n\n{body}\n").steps[0]


def lines(document: Document) -> list[tuple[str, int | None, str | None]]:
    return [(p.code, p.where.line if p.where else None, p.where.step if p.where else None) for p in document.problems]


def places(text: str) -> list[tuple[str, int | None, int | None]]:
    found = [(problem.code, problem.where) for problem in read(text.encode()).problems]
    return [(code, where.line, where.column) for code, where in found if where is not None]


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


def test_commands_before_steps_are_no_note() -> None:
    document = read(b"# T\n\nFirst:\n\n1. `make`\n2. `make test`\n\n## Steps\n\n### 1. A\n\n**run:** a\n")
    assert lines(document) == [("E_DOC_SYNTAX", 5, None)]
    assert document.problems[0].hints[0] == "Write them below the heading `## Steps`."


def test_items_of_prose_are_tasks() -> None:
    text = """\
---
agent: clerk
---
# Remind the client

## Steps

1. Fetch invoice 2024-0847 from Odoo (odoo-toolbox: read)
2. [x] Send payment reminder to client (go-easy: gmail  send)
3. Update the status (see above)
4. `make`
"""
    plan = plan_of(text)
    assert plan.agent == "clerk"
    assert [(step.id, step.description, step.action) for step in plan.steps] == [
        (
            "fetch-invoice-2024-0847-from-odoo",
            "Fetch invoice 2024-0847 from Odoo",
            Task(task="Fetch invoice 2024-0847 from Odoo", tools=("odoo-toolbox:read",)),
        ),
        (
            "send-payment-reminder-to-client",
            "Send payment reminder to client",
            Task(task="Send payment reminder to client", tools=("go-easy:gmail send",)),
        ),
        ("update-the-status-see-above", "Update the status (see above)", Task(task="Update the status (see above)")),
        ("make", "make", RunCommand(command="make")),
    ]


def test_items_with_equal_slugs() -> None:
    def ids(*items: str) -> list[str]:
        text = "".join(f"{number}. {item}\n" for number, item in enumerate(items, 1))
        return [step.id for step in plan_of(f"# T\n\n{text}").steps]

    assert ids("`make test`", "`make -- test`", "Make test!") == ["make-test", "make-test-2", "make-test-3"]
    assert ids("`make`", "`make 2`", "`make`", "`make`") == ["make", "make-2", "make-3", "make-4"]
    assert ids("`make`", "`make`", "`make 2`") == ["make", "make-3", "make-2"]
    assert ids("`step 2`", "`...`", "`...`") == ["step-2", "step-2-2", "step-3"]
    long = f"`{'x' * 70}`"
    assert ids(long, long) == ["x" * 64, "x" * 58 + "-2"]
    needs = [step.needs for step in plan_of("# T\n\n1. `a`\n2. `a`\n3. `a`\n").steps]
    assert needs == [(), ("a",), ("a-2",)]


def test_every_field_of_a_plan() -> None:
    plan = plan_of(EVERY_PLAN_FIELD)
    assert plan == Plan(
        plan_version=1,
        title="T",
        task="Do it well.\n\nAnd soon.",
        context="Why.",
        budget=Budget(tokens=200_000, cost_usd=1.5, wall_clock_ms=1_200_000),
        on_failure=Fallback(steps=(StepId("undo"), StepId("again"))),
        preconditions=(LockAvailable(lock_name="deploy"), CustomCondition(name="quiet", expression="params.n == 1")),
        agent="coder",
        model="small-2",
        timeout_ms=60_000,
        concurrency=2,
        tier=1,
        params={"n": Parameter(type="integer", default=1)},
        tools=("shell",),
        protect=("tests/**",),
        workspace_id="ws",
        steps=(Step(id=StepId("a"), description="A", action=RunCommand(command="a"), needs=()),),
        fallbacks=(
            Step(id=StepId("undo"), description="Put it back", action=RunCommand(command="b"), needs=()),
            Step(id=StepId("again"), description="Again", action=RunCommand(command="c"), needs=(StepId("undo"),)),
        ),
    )
    assert read(EVERY_PLAN_FIELD.encode()).record == {"": {"priority": "high"}, "a": {"tags": ["x"]}}


EVERY_PLAN_FIELD = """\
---
type: plan
workspace_id: ws
tools: [shell]
protect: ["tests/**"]
record:
  a: {tags: [x]}
---
# T

**Task:**
Do it well.

And soon.

**Context:** Why.
**Budget:** max 200k tokens, $1.50, 20 minutes wall clock
**Priority:** high
**On failure:** fallback(undo, again)
**Preconditions:**
```yaml
- {type: lock_available, lock_name: deploy}
- {type: custom, name: quiet, expression: "params.n == 1"}
```
**Agent:** coder
**Model:** small-2
**Timeout:** 1m
**Concurrency:** 2
**Tier:** 1
**Params:**
```json
{"n": {"type": "integer", "default": 1}}
```

## Steps

### 1. A

**run:** a

## Fallbacks

### undo. Put it back

**run:** b

### again. Again

**needs:** undo
**run:** c
"""


FIELDS = [
    ("**run:** a\n**env:**\n- A=b c\n- B=", {"action": RunCommand(command="a", env={"A": "b c", "B": ""})}),
    ("**run:** a\n**env:** A=b, c", {"action": RunCommand(command="a", env={"A": "b, c"})}),
    (
        "**run:** a\n**env:**\n```yaml\nA: ${one.output}\n```",
        {"action": RunCommand(command="a", env={"A": "${one.output}"})},
    ),
    ("**tool:** t\n**operation:** read all", {"action": CallTool(tool="t", operation="read all")}),
    ("**task:** think", {"action": Task(task="think")}),
    ("**task:**\n\none\n\n#### two\n- x  \n\n", {"action": Task(task="one\n\n#### two\n- x")}),
    ("**task:**\n```text\n## Steps\n**run:** a\n```", {"action": Task(task="## Steps\n**run:** a")}),
    (
        "**target:** coder\n**subscriptions:** file:a, step:one\n**task:** t\n**instructions:** i\n"
        "**tools:** a, b:c d\n**criteria:**\n- one,\n  two\n- three",
        {
            "action": Task(
                task="t",
                agent="coder",
                instructions="i",
                criteria=("one,\ntwo", "three"),
                reads=("file:a", "step:one"),
                tools=("a", "b:c d"),
            )
        },
    ),
    ("**task:** t\n**tools:** none", {"action": Task(task="t", tools=())}),
    (
        "**action:**\n```yaml\n{type: ask, question: Why?, choices: [a]}\n```",
        {"action": Ask(question="Why?", choices=("a",))},
    ),
    ('**action:**\n```json\n{"type": "release_lock", "lock_name": "x"}\n```', {"action": ReleaseLock(lock_name="x")}),
    ('**run:** a\n**when:** steps["b"].exit_code == 0', {"when": 'steps["b"].exit_code == 0'}),
    (
        "**run:** a\n**for_each:** {in: '${b.output}', max: 5, as: x}",
        {"for_each": ForEach(source="${b.output}", max=5, name="x")},
    ),
    ("**run:** a\n**for_each:**\n```yaml\nin: a\nmax: 5\nas: item\n```", {"for_each": ForEach(source="a", max=5)}),
    (
        "**run:** a\n**preconditions:**\n```yaml\n- {type: lock_held, lock_name: x}\n```",
        {"preconditions": (LockHeld(lock_name="x"),)},
    ),
    (
        '**run:** a\n**contract:** b\nstdout =~ "^ok"\nexit_code == 2',
        {"verification": Verification(strategy=Contract(command="b", exit_code=2, stdout="^ok"))},
    ),
    (
        "**run:** a\n**verify:**\n```yaml\n{type: pane_idle, idle_threshold_ms: 5}\n```",
        {"verification": Verification(strategy=PaneIdle(idle_threshold_ms=5))},
    ),
    (
        "**run:** a\n**verify:**\n```yaml\nstrategy: {type: none}\ntimeout_ms: 5\n```",
        {"verification": Verification(strategy=NoCheck(), timeout_ms=5)},
    ),
    ("**run:** a\n**proof:** red-then-green", {"proof": "red-then-green"}),
    ("**run:** a\n**protect:** tests/**, b", {"protect": ("tests/**", "b")}),
    ("**run:** a\n**writes:**\n- a, b", {"writes": ("a, b",)}),
    ("**run:** a\n**on_fail:** fallback(undo)", {"on_failure": Fallback(steps=(StepId("undo"),))}),
    ("**run:** a\n**on_fail:**\n```yaml\n{strategy: skip, warn: true}\n```", {"on_failure": Skip(warn=True)}),
    ("**run:** a\n**approval:** ask", {"approval": "ask"}),
    ("**run:** a\n**budget:** $1", {"budget": Budget(cost_usd=1)}),
    ("**run:** a\n**budget:** max 40 attempts, 2 minutes", {"budget": Budget(attempts=40, wall_clock_ms=120_000)}),
    ("**run:** a\n**budget:** 1 attempt", {"budget": Budget(attempts=1)}),
    ("**run:** a\n**budget:**\n```yaml\ntokens: 7\n```", {"budget": Budget(tokens=7)}),
    ("**run:** a\n**model:** m", {"model": "m"}),
    ("**run:** a\n**network:** true\n**worktree:** false", {"network": True, "worktree": False}),
    ("**run:** a\n**pool:** gpu", {"pool": "gpu"}),
    ("**title:**\n```text\n A <!-- b\n```\n**id:** x\n**run:** a", {"description": " A <!-- b", "id": "x"}),
]


@each("body, values", FIELDS)
def test_every_field_of_a_step(body: str, values: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"id": "one", "description": "One", "action": RunCommand(command="a"), "needs": ()}
    assert first(body) == Step(**{**plain, **values})


def test_what_a_nested_plan_says_beside_itself_is_kept() -> None:
    text = """\
---
record:
  one/b: {status: done}
---
# T

## Steps

### 1. One

**action:**
```yaml
type: nested_plan
plan:
  title: Inner
  owner: kim
  steps:
    - {action: {type: run, command: a}, tags: [x]}
    - {action: {type: run, command: b}, tags: [y]}
```
"""
    document = read(text.encode())
    assert document.problems == ()
    assert document.record == {
        "one/": {"owner": "kim"},
        "one/a": {"tags": ["x"]},
        "one/b": {"status": "done", "tags": ["y"]},
    }
    again = text.replace("status: done", "tags: done")
    assert places(again) == [("E_DOC_DUPLICATE", 3, 11)]


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
**Budget:** much

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
        ("E_FIELD_VALUE", 7, None),
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


def test_references_are_kept_as_they_are_written() -> None:
    texts = ["${one.output}", "x ${nobody.exit_code} y", "${one.output", "${data.key}", "${item}", "${index}"]
    fence = "\n".join(f'- "{text}"' for text in texts)
    assert first(f"**tool:** t\n**args:**\n```yaml\na:\n{fence}\nb: {{c: '${{params.x}}'}}\n```").action == CallTool(
        tool="t", args={"a": texts, "b": {"c": "${params.x}"}}
    )


COLUMNS = [
    ("# T\n\n**Timeout:**   soon\n\n1. `a`\n", ("E_FIELD_VALUE", 3, 16)),
    ("# T\n\n  **timeout:** soon\n\n1. `a`\n", ("E_FIELD_VALUE", 3, 16)),
    ("# T\n\n**Timeout:** 1s\n**Timeout:** 1s\n\n1. `a`\n", ("E_DOC_DUPLICATE", 4, 1)),
    ("# T\n\n1. `a`\n\n  stray\n", ("E_DOC_SYNTAX", 5, 3)),
    ("# T\n\n2. `a`\n", ("E_MD_HEADING", 3, 1)),
    ("# T\n", ("E_PLAN_NO_STEPS", 1, 1)),
    ("T\n", ("E_DOC_SYNTAX", 1, 1)),
    ("---\ntier: 1\ntools: [a, b c]\n---\n# T\n\n1. `a`\n", ("E_NAME", 3, 1)),
    ("---\nrecord: {a: {tags: [], title: x}}\n---\n# T\n\n1. `a`\n", ("E_PLAN_UNKNOWN_FIELD", 2, 24)),
    ("---\nrecord: {b: {tags: []}}\n---\n# T\n\n1. `a`\n", ("E_PLAN_UNKNOWN_FIELD", 2, 10)),
]
STEP_COLUMNS = [
    ("**needs:** 9\n**run:** a", ("E_STEP_UNKNOWN_NEED", 7, 12)),
    ("**run:** a\n**needs:**\n- 1\n-   b c", ("E_STEP_ID", 10, 5)),
    ("**run:** a\n**on_fail:** give up", ("E_FIELD_VALUE", 8, 14)),
    ("**run:** a\n**for_each:** {in: a, max: 007}", ("E_YAML_AMBIGUOUS", 8, 15)),
    ("**run:** a\n**for_each:** {in: a, most: 7}", ("E_PLAN_UNKNOWN_FIELD", 8, 15)),
    ("**tool:** t\n**args:**\n```yaml\na: b\nc:  no\n```", ("E_YAML_AMBIGUOUS", 11, 5)),
    ("**tool:** t\n**args:**\n  ```yaml\n  a: b\n  c:  no\n  ```", ("E_YAML_AMBIGUOUS", 11, 7)),
    ('**tool:** t\n**args:**\n```json\n{"a": 1,\n "b": 01}\n```', ("E_DOC_SYNTAX", 11, 7)),
    ("**action:**\n```yaml\ntype: ask\n  \nquestion: 7\n```", ("E_PLAN_TYPE", 11, 1)),
    ("**action:**\n  ```yaml\n  {type: ask, question: 7}\n  ```", ("E_PLAN_TYPE", 9, 15)),
    ("**run:** a\n**verify:**\n```yaml\nstrategy: {type: none, x: 1}\n```", ("E_PLAN_UNKNOWN_FIELD", 10, 24)),
]


@each(
    "text, place",
    [*COLUMNS, *((f"# T\n\n## Steps\n\n### 1. A\n\n{body}\n", place) for body, place in STEP_COLUMNS)],
)
def test_problems_have_line_and_column(text: str, place: tuple[str, int, int]) -> None:
    assert place in places(text)
    assert all(line and column for _, line, column in places(text))


def test_problems_are_capped() -> None:
    assert len(read(b"# T\n" * 5000).problems) == 200
