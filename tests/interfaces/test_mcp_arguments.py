"""The arguments that a client sends to a tool: what the tool does not know is refused."""

import msgspec
import pytest

from tests.words import Refused, read_arguments


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    plan: str
    wait_s: float = 0


def test_an_argument_that_nobody_knows_is_refused_and_not_ignored() -> None:
    with pytest.raises(Refused) as refused:
        read_arguments(Arguments, {"approved": True, "wait": 3})
    assert [(problem.code, problem.detail) for problem in refused.value.problems] == [
        ("E_CALL_ARGUMENTS", "There is no argument `approved`."),
        ("E_CALL_ARGUMENTS", "There is no argument `wait`."),
        ("E_CALL_ARGUMENTS", "The argument `plan` is missing."),
    ]


class Nested(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: str
    env: dict[str, str] = {}
    needs: list[str | int] | None = None


class Several(msgspec.Struct, frozen=True, kw_only=True):
    steps: list[Nested] | None = None
    wait_s: float = 0
    plan: str


def test_everything_that_is_wrong_with_values_is_told_at_once_and_in_our_words() -> None:
    steps = [{"run": 1, "colour": "red"}, {"env": {"A": 1}, "run": "x", "needs": [{}]}]
    with pytest.raises(Refused) as refused:
        read_arguments(Several, {"steps": steps, "wait_s": "long", "approved": True})
    assert [problem.detail for problem in refused.value.problems] == [
        "There is no argument `approved`.",
        "The argument `plan` is missing.",
        "`run` of item 1 of `steps` should be a text.",
        "item 1 of `steps` should have no `colour`.",
        "`A` of `env` of item 2 of `steps` should be a text.",
        "item 1 of `needs` of item 2 of `steps` should be a text or a whole number.",
        "`wait_s` should be a number.",
    ]


def test_what_gemini_adds_to_every_call_is_not_ours_to_refuse() -> None:
    assert read_arguments(Arguments, {"plan": "4711", "wait_for_previous": True}) == Arguments(plan="4711")


def test_of_very_many_arguments_that_nobody_knows_only_some_are_told_and_none_at_length() -> None:
    with pytest.raises(Refused) as refused:
        read_arguments(Arguments, {"plan": "4711"} | {f"{number}{'x' * 10_000}": 1 for number in range(5_000)})
    *some, others = [problem.detail for problem in refused.value.problems]
    assert len(some) == 20 and max(map(len, some)) < 100
    assert others == "4980 more arguments are unknown too."
