import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.lint.survey import Needs, fallbacks_for, waits_for, waves
from ordain.core.plan.value import StepId
from tests.build import plan, step
from tests.patience import hang_guard

NAMES = [StepId(name) for name in "abcdefg"]


@st.composite
def graphs(draw: st.DrawFn) -> Needs:
    needs = {
        name: tuple(draw(st.sets(st.sampled_from(NAMES[:number]), max_size=3))) if number else ()
        for number, name in enumerate(NAMES)
    }
    return {name: needs[name] for name in draw(st.permutations(NAMES))}


@given(graphs())
def test_a_wave_is_the_longest_way_to_a_step(needs: Needs):
    def longest(step: StepId) -> int:
        return 1 + max((longest(need) for need in needs[step]), default=-1)

    found = waves(needs)
    assert [name for wave in found for name in wave] == sorted(needs, key=longest)
    assert [longest(name) for wave in found for name in wave] == [n for n, wave in enumerate(found) for _ in wave]


def test_references_make_steps_wait():
    made = plan(
        step("b", tool="t", args={"x": "${a.output}"}, needs=()),
        step("a", needs=()),
        step("c", needs=("b", "b", "stranger")),
    )
    assert waits_for(made) == {"b": ("a",), "a": (), "c": ("b",)}
    assert waves(waits_for(made)) == (("a",), ("b",), ("c",))


def test_steps_in_a_circle_are_in_no_wave():
    needs = {StepId("a"): (StepId("b"),), StepId("b"): (StepId("a"),), StepId("c"): ()}
    assert waves(needs) == (("c",),)
    assert waves({}) == ()


def test_fallbacks_belong_to_the_steps_that_name_them():
    from ordain.core.plan.failure import Fallback, Retry

    made = plan(
        step("a", on_failure=Retry(max_attempts=2, then=Fallback(steps=(StepId("undo"),)))),
        step("b", on_failure=Fallback(steps=(StepId("undo"), StepId("tell")))),
        fallbacks=(step("undo", needs=()), step("tell", needs=()), step("never", needs=())),
    )
    assert fallbacks_for(made) == {"undo": ("a", "b"), "tell": ("b",), "never": ()}


@pytest.mark.slow
@hang_guard
def test_twenty_thousand_steps_in_a_chain_and_in_a_fan_take_no_time():
    names = [StepId(f"s{number}") for number in range(20_000)]
    chain = {name: (names[number - 1],) if number else () for number, name in enumerate(names)}
    fan = {name: (names[0],) if number else () for number, name in enumerate(names)} | {StepId("z"): tuple(names)}
    assert (len(waves(chain)), len(waves(fan))) == (20_000, 3)
