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


def test_what_gemini_adds_to_every_call_is_not_ours_to_refuse() -> None:
    assert read_arguments(Arguments, {"plan": "4711", "wait_for_previous": True}) == Arguments(plan="4711")


def test_of_very_many_arguments_that_nobody_knows_only_some_are_told_and_none_at_length() -> None:
    with pytest.raises(Refused) as refused:
        read_arguments(Arguments, {"plan": "4711"} | {f"{number}{'x' * 10_000}": 1 for number in range(5_000)})
    *some, others = [problem.detail for problem in refused.value.problems]
    assert len(some) == 20 and max(map(len, some)) < 100
    assert others == "4980 more arguments are unknown too."
