"""The ready rules for coding agents in the text of `ordain.toml`: put in, found again, taken out."""

from __future__ import annotations

import tomllib

import pytest

from tests.rows import each
from tests.words import CannotEdit, data_text, entries_of, read_settings, with_rules, without_rules

RULES = data_text("guard_rules.toml")
ENTRIES = entries_of(RULES)

TEXTS = {
    "nothing": "",
    "no section": "[policy]\nask = ['destructive']\n",
    "commented out": "[guard]  # calls\n# mode = 'observe'\n# open = ['reads']\n\n[control]\n",
    "one line": "[guard]\nmode = 'enforce'\nopen = ['reads', 'mail']  # ours\n",
    "several lines": "[guard]\nopen = [\n  'reads',  # all of it\n  'mail'\n]\n[control]\nfiles = ['a']\n",
    "empty list": "[guard]\nopen = []\n",
    "some already": "[guard]\nopen = ['shell:reads']\n[rules.mine]\ntools = ['shell']\n",
    "the template": data_text("settings.toml").replace("SECRET_NAMES", '["*TOKEN"]'),
}


@each("text", TEXTS.values(), ids=TEXTS.keys())
def test_they_are_put_in_once_and_taken_out_without_a_trace(text: str) -> None:
    written = with_rules(text, RULES)
    before, after = tomllib.loads(text), tomllib.loads(written)
    opened = before.get("guard", {}).get("open", ["reads"])
    assert sorted(after["guard"]["open"]) == sorted({*opened, *ENTRIES})
    assert after["rules"] == {**before.get("rules", {}), **tomllib.loads(RULES)["rules"]}
    assert with_rules(written, RULES) == written
    assert without_rules(written) == text
    assert without_rules(text) == text


def test_an_older_set_is_replaced() -> None:
    older = with_rules(TEXTS["one line"], "[rules.coding-old]\ntools = ['shell']\n")
    assert with_rules(older, RULES) == with_rules(TEXTS["one line"], RULES)


@pytest.mark.parametrize(
    "text",
    [
        "guard = { open = ['reads'] }\n",
        "guard.open = ['reads']\n",
        "[guard]\nopen = 'reads'\n",
        "[ guard ]\nmode = 'observe'\n",
        "[guard\n",
        "[rules.coding-git]\ntools = ['shell']\n",
        '[policy]\nnote = """\n[guard]\n"""\n[guard.x]\n',
    ],
)
def test_what_cannot_be_edited_safely_is_left_alone(text: str) -> None:
    with pytest.raises(CannotEdit):
        with_rules(text, RULES)


def test_the_rules_have_nothing_wrong_in_them() -> None:
    settings, problems = read_settings(with_rules("", RULES).encode())
    assert problems == ()
    assert all(rule.matches and rule.matches_not for rule in settings.rules.values())
