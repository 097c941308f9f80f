"""Plans made by code are the plans that documents describe."""

import pytest

from ordain import Plan, Refused
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.failure import Fallback, Retry
from ordain.core.plan.value import StepId
from ordain.documents.reading import read
from tests.rows import each

DOCUMENT = b"""\
# Bump version

## Steps

### 1. read

**tool:** read_file
**args:**
```yaml
path: pyproject.toml
```

### 2. test

**run:** pytest -q
**contract:** test -f .coverage

### 3. side

**needs:** none
**run:** make docs
"""


def test_the_same_plan_by_code_and_by_document_has_one_digest():
    made = (
        Plan.build("Bump version")
        .step("read", tool="read_file", args={"path": "pyproject.toml"})
        .step("test", run="pytest -q", contract="test -f .coverage")
        .step("side", run="make docs", needs=[])
        .done()
    )
    document = read(DOCUMENT)
    assert document.plan is not None
    assert plan_id(made) == plan_id(document.plan)


def test_fallbacks_and_plan_fields():
    made = (
        Plan.build("T", concurrency=2, agent="coder")
        .step("a", task="Do it", reads=("file:x",), on_failure=Fallback(steps=(StepId("undo"),)))
        .fallback("undo", run="git checkout -- .")
        .done()
    )
    assert (made.concurrency, made.agent, made.fallbacks[0].id, made.fallbacks[0].needs) == (2, "coder", "undo", ())


@pytest.mark.parametrize("what", [{}, {"run": "a", "tool": "b"}, {"task": "x", "run": "y"}])
def test_a_step_does_exactly_one_thing(what):
    with pytest.raises(Refused) as refused:
        Plan.build("T").step("a", **what)
    assert refused.value.problems[0].code == "E_STEP_ACTION"


WORDS = b"""\
# Words

## Steps

### 1. one

**run:** make
**timeout:** 30s
**on_fail:** retry(2, 1s x2 max 30s), then escalate
**writes:** dist/**, build
**budget:** max 200k tokens, $1.50
**for_each:** {in: "${list.output}", max: 50}

### 2. two

**task:** Look
**needs:** none
**tools:** none
**criteria:** short, and true
**verify:** none
"""


def test_markdowns_spellings_make_the_same_plan():
    made = (
        Plan.build("Words")
        .step(
            "one",
            run="make",
            timeout="30s",
            on_failure="retry(2, 1s x2 max 30s), then escalate",
            writes="dist/**, build",
            budget="max 200k tokens, $1.50",
            for_each={"in": "${list.output}", "max": 50},
        )
        .step("two", task="Look", needs="none", tools="none", criteria="short, and true", verify="none")
        .done()
    )
    document = read(WORDS)
    assert document.plan is not None
    assert made == document.plan


def refusal(**what):
    with pytest.raises(Refused) as refused:
        Plan.build("T").step("a", **what)
    return refused.value.problems


@each(
    "what, code, said",
    [
        ({"on_failur": "abort"}, "E_PLAN_UNKNOWN_FIELD", "`on_failur`"),
        ({"args": {}}, "E_PLAN_UNKNOWN_FIELD", "`args`"),
        ({"timeout": 5}, "E_PLAN_TYPE", "`timeout`"),
        ({"timeout": "soon"}, "E_PLAN_TYPE", "`timeout`"),
        ({"timeout_ms": "30s"}, "E_PLAN_TYPE", "`timeout_ms`"),
        ({"on_failure": "rety(2)"}, "E_FIELD_VALUE", "`rety`"),
        ({"on_failure": Retry(max_attempts="2")}, "E_PLAN_TYPE", "`on_failure.max_attempts`"),
        ({"writes": 5}, "E_PLAN_TYPE", "`writes`"),
        ({"needs": 5}, "E_PLAN_TYPE", "`needs`"),
        ({"env": {"A": 1}}, "E_PLAN_TYPE", "`env"),
        ({"for_each": {"in": "x", "max": "many"}}, "E_PLAN_TYPE", "`for_each.max`"),
        ({"budget": "much"}, "E_FIELD_VALUE", "`much`"),
        ({"contract": 5}, "E_PLAN_TYPE", "`contract`"),
        ({"contract": "true", "verify": "none"}, "E_DOC_DUPLICATE", "`verify`"),
        ({"idempotent": "yes"}, "E_PLAN_TYPE", "`idempotent`"),
        ({"description": ""}, "E_PLAN_TYPE", "`description` is empty"),
        ({"description": " \t"}, "E_PLAN_TYPE", "`description` is empty"),
        ({"description": "two\nlines"}, "E_PLAN_TYPE", "`description` has more than one line"),
        ({"env": {"A": "a\ud800b"}}, "E_PLAN_TYPE", "`env`"),
        ({"description": b"bytes"}, "E_PLAN_TYPE", "`description`"),
        ({"env": {"A": b"bytes"}}, "E_PLAN_TYPE", "`env`"),
        ({"env": {"\ud800": "a"}}, "E_PLAN_TYPE", "`env`"),
    ],
)
def test_what_is_wrong_is_refused_at_the_call_with_step_and_field(what, code, said):
    (problem,) = refusal(run="x", **what)
    assert (problem.code, problem.where.step) == (code, "a")
    assert said in problem.detail and "`a`" in problem.detail


def test_half_a_character_in_a_command_is_refused_at_the_call():
    (problem,) = refusal(run="a\ud800b")
    assert (problem.code, problem.where.step) == ("E_PLAN_TYPE", "a") and "at `run`" in problem.detail


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("", "`title` is empty"),
        ("   ", "`title` is empty"),
        ("two\nlines", "`title` has more than one line"),
        (3, "`title`"),
        (None, "`title`"),
        ("\ud800", "`title`"),
    ],
)
def test_a_title_that_no_document_can_have_is_refused_at_the_call(title, said):
    with pytest.raises(Refused) as refused:
        Plan.build(title)
    (problem,) = refused.value.problems
    assert problem.code == "E_PLAN_TYPE" and said in problem.detail


def test_a_misspelt_field_is_named_with_its_neighbour_and_all_are_told_at_once():
    problems = refusal(run=5, timeot="30s", writess="x")
    assert [problem.hints for problem in problems[1:]] == [("Did you mean `timeout`?",), ("Did you mean `writes`?",)]
    assert len(problems) == 3
    with pytest.raises(Refused) as refused:
        Plan.build("T", concurency=2)
    assert refused.value.problems[0].hints == ("Did you mean `concurrency`?",)


@pytest.mark.parametrize("name", [5, "", "a b", "none", "1"])
def test_what_is_no_id_is_refused(name):
    with pytest.raises(Refused):
        Plan.build("T").step(name, run="x")
