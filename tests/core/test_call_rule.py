"""Rules of calls: what an argument must be like, where a rule forbids and where it lets through."""

import re
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ordain.core.policy.rule import TEXT_MAX, VALUES_MAX, ArgumentConditions, CallRule, Holds
from tests.patience import hang_guard

NO, MAYBE, YES = Holds


def conditions(*besides: str, **where: Any) -> ArgumentConditions:
    return ArgumentConditions(CallRule(tools=("mail",), where=where, besides=besides))


def both(wanted: Any, value: Any) -> tuple[Holds, bool]:
    """Whether an argument is meant where a rule forbids, and let through where it lets through."""
    it = conditions(to=wanted)
    return it.meant({"to": value}), it.vouched({"to": value})


OURS = "*@example.com"


@pytest.mark.parametrize(
    ("wanted", "value", "meant", "let"),
    [
        (OURS, "kim@example.com", YES, True),
        (OURS, "@example.com", YES, True),
        (OURS, "kim.o-b+x@example.com", YES, True),
        (OURS, "kim@example.com.evil.org", NO, False),
        (OURS, "kim@example.org", NO, False),
        (OURS, "", NO, False),
        # Spelt otherwise.
        (OURS, "KIM@Example.COM", YES, False),
        (OURS, "ｋim＠example.com", YES, False),
        (OURS, " kim@example.com\n", YES, False),
        (OURS, "kim@exa\u200bmple.com", YES, False),
        # Several in one.
        (OURS, "eve@example.org,kim@example.com", YES, False),
        (OURS, "kim@example.com; eve@example.org", YES, False),
        (OURS, "Kim <kim@example.com>", YES, False),
        (OURS, "eve@example.org\nbcc: kim@example.com", YES, False),
        (OURS, "eve@example.org@example.com", YES, False),
        (OURS, "eve@example.org%2ckim@example.com", YES, False),
        (OURS, "eve@example.org\u2028kim@example.com", YES, False),
        (OURS, "*@example.com", YES, False),
        ("Kim Lee", "Eve, Kim Lee", YES, False),
        ("Kim Lee", "Eve, Kim Leeson", NO, False),
        ("Lee, *", "Kim Ash; Lee, Kim", YES, False),
        ("p*e", "x, pa, he, y", YES, False),
        # Lists.
        (OURS, ["kim@example.com", "lee@example.com"], YES, True),
        (OURS, ["kim@example.com", "eve@example.org"], YES, False),
        (OURS, ["eve@example.org", ["kim@example.com"]], YES, False),
        (OURS, [["kim@example.com"], "lee@example.com"], YES, True),
        (OURS, [], NO, False),
        (OURS, ["kim@example.com", []], YES, False),
        (OURS, ["eve@example.org", "${other.output}"], MAYBE, False),
        # What is not known.
        (OURS, "${ask.output}", MAYBE, False),
        (OURS, "x${ask.output}@example.com", MAYBE, False),
        (OURS, "secret:ADDRESS", MAYBE, False),
        (OURS, {"name": "kim"}, MAYBE, False),
        (OURS, [{"name": "kim"}], MAYBE, False),
        (OURS, None, NO, False),
        (OURS, object(), MAYBE, False),
        # Hosts and paths.
        ("https://*.example.com/*", "https://api.example.com/v1", YES, True),
        ("https://*.example.com/*", "https://evil.org/.example.com/", YES, False),
        ("https://*.example.com/*", "https://evil.org#.example.com/", YES, False),
        ("https://*.example.com/*", "https://x:y@evil.org?.example.com/", YES, False),
        ("https://*.example.com/*", "https://evil.org\\.example.com/", YES, False),
        ("docs/*", "docs/a.md", YES, True),
        ("docs/*", "docs/..", YES, False),
        ("docs/*", "docs/a/b.md", YES, False),
        ("docs/**", "docs/a/b c.md", YES, True),
        ("docs/**", "docs/../../etc/passwd", YES, False),
        ("docs/**", "docs\\..\\x", NO, False),
        ("../docs/**", "../docs/a", YES, True),
        ("../docs/**", "../docs/../../etc/passwd", YES, False),
        ("../docs/*", "../docs/..", YES, False),
        ("../../docs/*", "../../docs/a", YES, True),
        # Anything, where that is said.
        ("Re: **", "Re: lunch, and more\nat noon", YES, True),
        ("Re: *", "Re: lunch", YES, True),
        ("Re: *", "Re: lunch at noon", YES, False),
        # A sign of the pattern's own is nothing for a star.
        ("*, kim@example.com", "eve@example.org, lee, kim@example.com", YES, False),
        ("a*b*c", "a1b2c", YES, True),
        ("a*b*c", "acb", NO, False),
        ("a*a", "a", NO, False),
        ("a**b*", "a b", YES, False),
        # Without a star.
        ("prod", "prod", YES, True),
        ("prod", "Prod", YES, False),
        ("prod", "production", NO, False),
        (["dev", "test"], "test", YES, True),
        (["dev", "test"], ["dev", "prod"], YES, False),
        ("straße", "STRASSE", YES, False),
        # Values.
        ("5*", 57, YES, False),
        ("5", 5.0, YES, False),
        ("true", True, YES, False),
        (5, 5, YES, True),
        (5, 5.0, YES, False),
        (5, "5", YES, False),
        (5, " 5.00 ", YES, False),
        (5, 6, NO, False),
        (5, "6", NO, False),
        (5, "five", MAYBE, False),
        (1, True, MAYBE, False),
        (True, True, YES, True),
        (True, False, NO, False),
        (True, 1, MAYBE, False),
        (True, "TRUE", YES, False),
        (True, "yes", MAYBE, False),
        (True, None, NO, False),
        ([5, "x"], "x", YES, True),
        (1.5, 1.5, YES, True),
        (1.5, float("nan"), NO, False),
        ("1*", 10**400, MAYBE, False),
        pytest.param(5, 10**5000, NO, False, id="a long number"),
        (5, "9" * 5000, NO, False),
    ],
)
def test_what_a_value_is_like(wanted, value, meant, let):
    assert both(wanted, value) == (meant, let)


def test_every_condition_must_hold():
    it = conditions(to=OURS, urgent=True)
    assert it.meant({"to": "kim@example.com", "urgent": True}) is YES
    assert it.vouched({"to": "kim@example.com", "urgent": True})
    for args in ({"to": "kim@example.com", "urgent": False}, {"to": "kim@example.com"}, {"urgent": True}, {}):
        assert it.meant(args) is NO
        assert not it.vouched(args)
    assert it.meant({"to": "${a.output}", "urgent": True}) is MAYBE
    assert it.meant({"to": "${a.output}", "urgent": False}) is NO


def test_names_of_arguments_are_compared_strictly_too():
    rule = conditions("Cc", to=OURS)
    for args in ({"To": "kim@example.com"}, {"to": "eve@example.org", "TO": ["kim@example.com"]}):
        assert (rule.meant(args), rule.vouched(args)) == (YES, False)
    assert not rule.vouched({"to": "kim@example.com", "tO": "eve@example.org"})


def test_an_argument_nobody_named_is_not_let_through():
    args = {"to": "kim@example.com", "bcc": "eve@example.org"}
    assert conditions(to=OURS).meant(args) is YES
    assert not conditions(to=OURS).vouched(args)
    assert conditions("bcc", to=OURS).vouched(args)
    assert conditions(to=OURS).unnamed(args) == ["bcc"]


def test_without_conditions_arguments_do_not_matter():
    for args in ({"x": 1}, {}, None):
        assert (conditions().meant(args), conditions().vouched(args)) == (YES, True)


def test_a_command_is_never_told_by_its_text():
    assert (conditions(command="rm *").meant(None), conditions(command="rm *").vouched(None)) == (MAYBE, False)


# --- Properties ------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from("aAbß@. ,/*é\u0301\u200bﬁ２\n"), max_size=8) | st.text(max_size=6)
SCALARS = TEXTS | st.integers() | st.booleans() | st.floats() | st.none()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
PATTERNS = st.text(st.sampled_from("aAb@., *é"), min_size=1, max_size=6)
WANTED = PATTERNS | st.integers(-3, 3) | st.booleans() | st.lists(PATTERNS | st.integers(-3, 3), min_size=1, max_size=3)


@given(WANTED, VALUES)
@example("a**", "a\u0301x")
@example("**a", "ｆa")
def test_what_is_let_through_is_meant_where_it_is_forbidden(wanted, value):
    meant, let = both(wanted, value)
    assert not let or meant is YES


def naive(pattern: str, text: str, star: str) -> bool:
    return re.fullmatch(star.join(map(re.escape, re.split(r"\*+", pattern))), text, re.DOTALL) is not None


def let_naively(wanted: Any, value: Any) -> bool:
    """The same once more, as plainly as can be."""
    if isinstance(value, list):
        return bool(value) and all(let_naively(wanted, one) for one in value)
    if isinstance(wanted, list):
        return any(let_naively(one, value) for one in wanted)
    if not isinstance(wanted, str):
        return type(value) is type(wanted) and value == wanted
    if not isinstance(value, str) or value == ".." or "../" in value:
        return False
    doubles = {len(found) > 1 for found in re.findall(r"\*+", wanted)}
    if doubles == {True}:
        return naive(wanted, value, ".*")
    spellings = ((wanted, value), (unicodedata.normalize("NFKC", wanted), unicodedata.normalize("NFKC", value)))
    return doubles != {True, False} and "*" not in value and all(naive(*pair, r"[\w.+~-]*") for pair in spellings)


@given(WANTED, VALUES)
def test_letting_through_is_what_a_plain_reading_says(wanted, value):
    named = [one for one in _leaves(value) if isinstance(one, str) and ("${" in one or one.startswith("secret:"))]
    plain = "/.." not in str(value) and "\\.." not in str(value)
    if not named and plain:
        assert both(wanted, value)[1] is let_naively(wanted, value)


def meant_naively(wanted: Any, value: Any) -> bool:
    """What is surely meant, read plainly; more may be."""
    if isinstance(value, list):
        return any(meant_naively(wanted, one) for one in value)
    if isinstance(wanted, list):
        return any(meant_naively(one, value) for one in wanted)
    if isinstance(wanted, str):
        return isinstance(value, str) and naive(wanted.casefold(), value.casefold(), ".*")
    return not isinstance(value, bool | str | None) and not isinstance(wanted, bool) and value == wanted


@given(PATTERNS | st.integers(-3, 3), VALUES)
def test_what_is_plainly_meant_is_meant(wanted, value):
    if meant_naively(wanted, value):
        assert both(wanted, value)[0] is not NO


def _leaves(value: Any) -> list[Any]:
    return [leaf for one in value for leaf in _leaves(one)] if isinstance(value, list) else [value]


# --- Whoever calls may want us to be busy ----------------------------------------------------------------------------


def nested(depth: int) -> list[Any]:
    value: list[Any] = ["kim@example.com"]
    for _ in range(depth):
        value = [value]
    return value


LONG: dict[str, Any] = {
    "a letter": "a" * (1 << 20),
    "signs": "a@" * (1 << 19),
    "values": "a, " * (1 << 18),
    "what grows": "\ufdfa" * (1 << 20),
    "near": "ab" * (TEXT_MAX // 2),
    "near values": "b7," * (TEXT_MAX // 3),
    "many values": "".join(f"b{number}," for number in range(TEXT_MAX // 8)),
    "a list": ["b"] * 1_000_000,
    "a list of long ones": ["x" * 1000] * 1000,
    "deep": nested(100_000),
    "empty ones": [[]] * (VALUES_MAX + 1),
}


@hang_guard
@pytest.mark.parametrize("value", LONG.values(), ids=LONG)
def test_no_argument_takes_long(value):
    patterns = ["*a" * 200 + "*c", "*@example.com", *(f"b{number}*x" for number in range(98))]
    meant, let = both(patterns, value)
    assert not let
    assert meant is not YES


def test_what_is_too_much_to_compare_may_be_meant():
    for value in ("a" * (TEXT_MAX + 1), ["x"] * (VALUES_MAX + 1), nested(VALUES_MAX + 1), ["a" * TEXT_MAX, "b"]):
        assert both("kim*", value) == (MAYBE, False)
    assert both("a**", "a" * TEXT_MAX) == (YES, True)
    assert both("x", ["x"] * (VALUES_MAX - 1)) == (YES, True)
