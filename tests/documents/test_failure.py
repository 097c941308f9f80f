"""The `on_fail` grammar, both ways."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.canonical import canonical_bytes
from ordain.core.plan.failure import (
    Abort,
    AfterFallback,
    AskApproval,
    Continue,
    Escalate,
    FailurePolicy,
    Fallback,
    LastPolicy,
    Recover,
    Replan,
    Retry,
    Skip,
)
from ordain.core.plan.value import StepId
from ordain.core.plan.words import read_failure, write_failure
from ordain.core.text.problem import Problem
from tests.plans import NAMES
from tests.rows import each
from tests.sample import sample


@each(
    "text, policy",
    [
        ("abort", Abort()),
        ('abort("no disk")', Abort(message="no disk")),
        ('abort("say \\"no\\", then stop")', Abort(message='say "no", then stop')),
        ("skip", Skip()),
        ("continue", Continue()),
        ("escalate", Escalate()),
        ('ask("what now?")', AskApproval(summary="what now?")),
        ("replan", Replan()),
        ("recover", Recover()),
        ("fallback(undo)", Fallback(steps=(StepId("undo"),))),
        (
            "retry(2), then fallback(undo, again)",
            Retry(max_attempts=3, then=Fallback(steps=(StepId("undo"), StepId("again")))),
        ),
        ('fallback(undo), then abort("no")', Fallback(steps=(StepId("undo"),), then=Abort(message="no"))),
        (
            "retry(1), then fallback(undo), then skip",
            Retry(max_attempts=2, then=Fallback(steps=(StepId("undo"),), then=Skip())),
        ),
        ("retry(2)", Retry(max_attempts=3)),
        ("retry(2), then escalate", Retry(max_attempts=3, then=Escalate())),
        ("retry(3, 1s)", Retry(max_attempts=4, initial_delay_ms=1000)),
        ("retry(3, 1s +1s)", Retry(max_attempts=4, initial_delay_ms=1000, increment_ms=1000)),
        (
            "retry(3, 1s x2 max 30s), then skip",
            Retry(max_attempts=4, initial_delay_ms=1000, backoff_multiplier=2, max_delay_ms=30_000, then=Skip()),
        ),
        ("retry(3, 250ms x1.5)", Retry(max_attempts=4, initial_delay_ms=250, backoff_multiplier=1.5)),
        ('retry(100), then abort("x")', Retry(max_attempts=101, then=Abort(message="x"))),
    ],
)
def test_read_and_write(text: str, policy: FailurePolicy) -> None:
    assert read_failure(text) == policy
    assert write_failure(policy) == text


def test_spaces_do_not_matter() -> None:
    assert read_failure("retry( 2 ,1s  x2  max 5s ) ,then  skip ") == read_failure("retry(2, 1s x2 max 5s), then skip")


def test_a_factor_of_one_is_no_factor() -> None:
    one, none = read_failure("retry(2, 1s x1)"), read_failure("retry(2, 1s)")
    assert canonical_bytes(one) == canonical_bytes(none)


@each(
    "text, code",
    [
        ("", "E_FIELD_VALUE"),
        ("give up", "E_FIELD_VALUE"),
        ("abort now", "E_FIELD_VALUE"),
        ("Abort", "E_FIELD_VALUE"),
        ("abort()", "E_FIELD_VALUE"),
        ("abort(why)", "E_FIELD_VALUE"),
        ('abort("a" "b")', "E_FIELD_VALUE"),
        ("abort(1)", "E_FIELD_VALUE"),
        ("skip()", "E_FIELD_VALUE"),
        ("retry", "E_FIELD_VALUE"),
        ("retry()", "E_FIELD_VALUE"),
        ("retry(-1)", "E_FIELD_VALUE"),
        ("retry(2, soon)", "E_FIELD_VALUE"),
        ("retry(2, 1y)", "E_FIELD_VALUE"),
        ("retry(2, 1s x2max 3s)", "E_FIELD_VALUE"),
        ("retry(2) then skip", "E_FIELD_VALUE"),
        ("retry(2), skip", "E_FIELD_VALUE"),
        ("retry(2), then", "E_FIELD_VALUE"),
        ("retry(2), then skip, then abort", "E_FIELD_VALUE"),
        ("retry(2), then retry(3)", "E_FIELD_VALUE"),
        ("skip, then abort", "E_FIELD_VALUE"),
        ("retry(2),\nthen skip", "E_FIELD_VALUE"),
        ("retry(0)", "E_STEP_LIMIT"),
        ("retry(101)", "E_STEP_LIMIT"),
        ("retry(1000000000)", "E_STEP_LIMIT"),
        ("retry(2, 2d)", "E_STEP_LIMIT"),
        ("retry(2, 1s x101)", "E_STEP_LIMIT"),
        ("retry(2, 1s x0.5)", "E_STEP_LIMIT"),
        ("ask", "E_FIELD_VALUE"),
        ("ask()", "E_FIELD_VALUE"),
        ("ask(why)", "E_FIELD_VALUE"),
        ("replan()", "E_FIELD_VALUE"),
        ("fallback(a), then retry(2)", "E_FIELD_VALUE"),
        ("fallback(a), then fallback(b)", "E_FIELD_VALUE"),
        ("fallback(a), then", "E_FIELD_VALUE"),
        ("fallback(a), then abort, then skip", "E_FIELD_VALUE"),
        ("fallback", "E_FIELD_VALUE"),
        ("fallback()", "E_FIELD_VALUE"),
        ("fallback(a,)", "E_FIELD_VALUE"),
        ("fallback(a b)", "E_STEP_ID"),
        ("fallback(1)", "E_STEP_ID"),
        ("fallback(оne)", "E_NAME"),
        ('abort("\\u001b[2J")', "E_DOC_CONTROL_CHARACTER"),
        ('ask("\\u202e")', "E_DOC_BIDI"),
    ],
)
def test_refused(text: str, code: str) -> None:
    read = read_failure(text)
    assert isinstance(read, Problem)
    assert read.code == code


@each("kind", get_args(FailurePolicy), ids=lambda kind: kind.__name__)
def test_only_what_the_types_have_may_follow(kind: Any) -> None:
    """Also of a policy that is added to `LastPolicy` and not to `AfterFallback`, or only to `FailurePolicy`."""
    last = write_failure(sample(kind))
    for first, union in (("fallback(a)", AfterFallback), ("retry(2)", LastPolicy)):
        read = read_failure(f"{first}, then {last}")
        assert isinstance(read, Problem) == (kind not in get_args(union)), f"{first}, then {last}"


def test_did_you_mean() -> None:
    read = read_failure("escalat")
    assert isinstance(read, Problem)
    assert read.hints == ("Did you mean `escalate`?",)


after_fallback = st.one_of(
    st.builds(Abort, message=st.none() | st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf"]))),
    st.builds(Skip),
    st.builds(Continue),
    st.builds(Escalate),
    st.builds(Replan),
    st.builds(Recover),
    st.builds(AskApproval, summary=st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf"]))),
)
fallback = st.builds(
    Fallback, steps=st.lists(NAMES, min_size=1, max_size=3).map(tuple), then=st.none() | after_fallback
)
last = after_fallback | fallback
delay_ms = st.integers(0, 86_400_000)
retries = st.builds(
    Retry,
    max_attempts=st.integers(2, 101),
    initial_delay_ms=delay_ms,
    increment_ms=delay_ms,
    backoff_multiplier=st.just(1) | st.floats(1, 100),
    max_delay_ms=st.none() | delay_ms,
    then=st.none() | last,
)


@given(last | retries)
def test_writing_is_the_inverse(policy: FailurePolicy) -> None:
    assert read_failure(write_failure(policy)) == policy


@given(st.text() | st.text('retyskip(),"\\ then0123456789smx+'))
def test_any_text_gives_a_policy_or_a_problem(text: str) -> None:
    read = read_failure(text)
    if not isinstance(read, Problem):
        assert read_failure(write_failure(read)) == read
