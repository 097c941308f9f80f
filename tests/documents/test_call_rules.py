"""`[rules.NAME]` of ordain.toml: what a rule says, and every way it can be wrong."""

import pytest

from ordain.core.policy.rule import CallRule, Example
from ordain.documents.settings import read_settings
from ordain.interfaces.cli.configuration import settings_template
from tests.rows import each

RULE = """
[rules.ours]
tools = ["mail:send", "mail:draft"]
where = { to = ["*@example.com", "ops@example.org"], urgent = false, copies = 1 }
besides = ["subject", "body"]
matches = ['mail:send {"to": "kim@example.com", "urgent": false}', { tool = "mail:draft", args = { to = ["a"] } }]
matches_not = ["mail:send"]
"""


def test_a_rule_is_read():
    settings, problems = read_settings(RULE.encode())
    assert problems == ()
    assert settings.rules == {
        "ours": CallRule(
            tools=("mail:send", "mail:draft"),
            where={"to": ("*@example.com", "ops@example.org"), "urgent": False, "copies": 1},
            besides=("subject", "body"),
            matches=(
                Example(tool="mail:send", args={"to": "kim@example.com", "urgent": False}),
                Example(tool="mail:draft", args={"to": ["a"]}),
            ),
            matches_not=(Example(tool="mail:send"),),
        )
    }


def test_the_template_shows_one():
    lines = settings_template().partition("# Rules")[2].splitlines()[1:]
    keys = [line.removeprefix("#   ").partition("    ")[0] for line in lines if line.startswith("#   ")]
    settings, problems = read_settings("\n".join(["[rules.x]", *keys]).encode())
    assert problems == ()
    assert settings.rules["x"].matches_not == (Example(tool="mail:send", args={"to": "kim@example.org"}),)


@each(
    "rule, detail",
    [
        ("", "tools must name what the rule is about"),
        ("tools = []", "tools must name what the rule is about"),
        ('tools = "mail"', "tools must be a list of names, at most 100"),
        ("tools = [5]", "tools must be a list of names, and one of them is none"),
        ('tools = [""]', "tools must be a list of names, and one of them is none"),
        ('tools = ["mаil"]', "tools names `mаil`, which is no name"),
        ('tools = ["rule:other"]', "tools names `rule:other`, and a rule is made of no others"),
        ('tools = ["mail"]\ntool = "x"', "tool is no key of a rule"),
        ('tools = ["mail"]\nwhere = "to"', "where must be a section that says what arguments are like"),
        ('tools = ["mail"]\nwhere = { to = "" }', "where.to must be a text of 1 to 500 characters"),
        (f'tools = ["mail"]\nwhere = {{ to = "{"x" * 501}" }}', "where.to must be a text of 1 to 500 characters"),
        ('tools = ["mail"]\nwhere = { to = "*" }', "where.to is like every text"),
        ('tools = ["mail"]\nwhere = { to = ["a", "***"] }', "where.to is like every text"),
        ('tools = ["mail"]\nwhere = { to = "*@**" }', "where.to has both `*` and `**`"),
        ('tools = ["mail"]\nwhere = { to = [] }', "where.to must have something in its list, and at most 100 of it"),
        ('tools = ["mail"]\nwhere = { to = { a = 1 } }', "where.to must be a text, a number, true, false, or a list"),
        ('tools = ["mail"]\nwhere = { to = [["a"]] }', "where.to must be a text, a number, true, false, or a list"),
        ('tools = ["mail"]\nwhere = { to = 2026-11-16 }', "where.to must be a text, a number, true, false, or a list"),
        ('tools = ["mail"]\nwhere = { to = nan }', "where.to must be a text, a number, true, false, or a list"),
        ('tools = ["mail"]\nwhere = { to = 9007199254740993 }', "where.to must be a text, a number, true, false, or"),
        ('tools = ["mail"]\nwhere = { to = "a\\u001bb" }', "where.to cannot be such a text: The control character"),
        ('tools = ["mail", "shell"]\nwhere = { a = 1 }', "tools has `shell` beside other tools, and where"),
        ('tools = ["exec"]\nwhere = { a = 1 }', "where.a is nothing to ask of a command"),
        ('tools = ["task", "agent:x"]\nwhere = { a = 1 }', "where is about arguments of calls, and tools has `task`,"),
        ('tools = ["mail"]\nbesides = ["a"]', "besides says nothing without `where`"),
        ('tools = ["mail"]\nbesides = ["a"]\nwhere = { a = 1 }', "besides names `a`, and so does where"),
        ('tools = ["mail"]\nmatches = "mail"', "matches must be a list of calls, at most 100"),
        ('tools = ["mail"]\nmatches = [5]', "matches, call 1, must be a text, or a section of `tool` and `args`"),
        ('tools = ["mail"]\nmatches = [{ tool = "mail", arg = {} }]', "matches, call 1, must be a text, or a section"),
        ('tools = ["mail"]\nmatches = [{ args = {} }]', "matches, call 1, must be a text, or a section"),
        ('tools = ["mail"]\nmatches = [""]', "matches, call 1, names no tool"),
        ('tools = ["mail"]\nmatches = ["mаil"]', "matches, call 1, names no tool"),
        ('tools = ["mail"]\nmatches = ["mail {"]', "matches, call 1, cannot be read: "),
        ("tools = ['mail']\nmatches = ['mail {\"a\": 1, \"a\": 2}']", "matches, call 1, cannot be read: "),
        ('tools = ["mail"]\nmatches = ["mail [1]"]', "matches, call 1, has arguments that are no JSON object"),
        (
            'tools = ["mail"]\nmatches = [{ tool = "mail", args = 5 }]',
            "matches, call 1, has arguments that no call has",
        ),
        ('tools = ["mail"]\nmatches = [{ tool = "mail", args = { a = inf } }]', "matches, call 1, has arguments that"),
        ('tools = ["mail"]\nmatches = [{ tool = "mail", args = { a = 07:30:00 } }]', "matches, call 1, has arguments"),
        ('tools = ["mail"]\nmatches_not = ["mail", 7]', "matches_not, call 2, must be a text, or a section"),
    ],
)
def test_everything_wrong_with_a_rule_is_told(rule, detail):
    _, problems = read_settings(f"[rules.x]\n{rule}\n".encode())
    assert [problem.code for problem in problems] == ["E_CONFIG"]
    assert problems[0].detail.startswith(f"ordain.toml: rules.x.{detail}")


def test_all_at_once():
    text = """
[rules.a]
tools = []
where = { to = "*", cc = "" }
matches = [1, 2]
[rules.b]
tols = ["x"]
[rules.-c]
"""
    _, problems = read_settings(text.encode())
    assert len(problems) == 8
    assert "Did you mean `tools`?" in [hint for problem in problems for hint in problem.hints]


def test_a_rule_is_a_section():
    _, (problem,) = read_settings(b"[rules]\nours = 5\n")
    assert problem.detail == "ordain.toml: rules.ours must be a section, written [rules.ours]."


def test_no_rule_holds_a_secret():
    token = "ghp_" + "a" * 36
    for rule in (f'where = {{ token = "{token}" }}', f'matches = [\'mail {{"token": "{token}"}}\']'):
        _, problems = read_settings(f'[rules.x]\ntools = ["mail"]\n{rule}\n'.encode())
        assert len(problems) == 1
        assert "rules.x holds what looks like" in problems[0].detail
        assert token not in problems[0].detail


def test_rules_are_so_many():
    text = "".join(f'[rules.r{number}]\ntools = ["mail"]\n' for number in range(101))
    settings, (problem,) = read_settings(text.encode())
    assert problem.detail == "ordain.toml has 101 rules; at most 100 are read."
    assert len(settings.rules) == 100


@pytest.mark.parametrize("name", ["rule", "claude-code"])
def test_no_tool_is_called_like_what_lists_name_otherwise(name):
    _, problems = read_settings(f'[tools.{name}]\nmcp = ["server"]\n'.encode())
    assert len(problems) == 1
