"""Plans made by code are the plans that documents describe."""

import pytest

from ordain import Plan, Refused
from ordain.core.canonical import plan_id
from ordain.core.failure import Fallback
from ordain.core.value import StepId
from ordain.documents.reading import read

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


def test_a_misspelt_field_is_not_ignored():
    with pytest.raises(TypeError):
        Plan.build("T").step("a", run="x", timeout=5)
