"""What is made of sightings: counts that add up, rules that a person could use, and nothing dangerous among them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.adapters.process.line import understanding
from ordain.core.guard.call import Call, CallStanding, Guard
from ordain.core.guard.report import NAMES_MAX, REST, SightingReport, WatchReport
from ordain.core.guard.sighting import Sighting
from ordain.core.lint.settings import list_problems
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import DEFINITIONS, SHELL, ToolDefinition, ToolSource
from ordain.core.plan.value import Instant
from ordain.core.policy.rule import ArgumentConditions, CallRule
from ordain.core.policy.settings import Settings
from ordain.core.text.limit import DAY_MS
from ordain.documents.settings import read_settings
from tests.rows import each

NOON = 1_794_830_400_000  # 2026-11-16 12:00 UTC
SINCE = Instant(NOON - 7 * DAY_MS)


def seen(tool: str, about: str = "", **fields: Any) -> Sighting:
    named = {"agent": "coder", "session": "1", "effect": "opaque", "standing": CallStanding.GUARDED, **fields}
    at, code = Instant(named.pop("at", NOON)), named.pop("code", "E_TOOL_GUARDED")
    return Sighting(
        at=at, through="gateway", tool=tool, refused=named.pop("refused", False), code=code, about=about, **named
    )


def reported(
    *sightings: Sighting, settings: Settings | None = None, in_plans: dict[str, int] | None = None
) -> WatchReport:
    settings = settings or Settings()
    watch = SightingReport(SINCE, Instant(NOON))
    for one in sightings:
        watch.add(one)
    effects = {f"{name}:{one}": kind for name, of in settings.sources.items() for one, kind in of.effects.items()}
    return watch.report(
        Guard(settings),
        opened=settings.open_calls,
        in_plans=in_plans or {},
        incomplete=False,
        known=DEFINITIONS,
        effects=effects,
    )


def test_calls_are_counted_by_tool_and_agent() -> None:
    report = reported(
        seen("mail:send", '{"to": "kim"}', at=NOON - DAY_MS, agent="a", refused=True),
        seen("mail:send", '{"to": "kim"}', agent="b", session="2"),
        seen("crm:list", agent="b", session="2"),
        seen("mail:send", at=NOON - 8 * DAY_MS),
        seen("mail:send", at=NOON + 2 * DAY_MS),
    )
    assert (report.calls, report.refused, report.would_be, report.sessions) == (3, 1, 2, 2)
    mail, crm = report.tools
    assert (mail.tool, mail.calls, mail.refused, mail.agents, mail.sessions) == ("mail:send", 2, 1, {"a": 1, "b": 1}, 2)
    assert (mail.first, mail.last) == (NOON - DAY_MS, NOON)
    assert (list(mail.examples), list(crm.examples)) == (['{"to": "kim"}'], [])
    assert [(one.agent, one.calls, one.tools) for one in report.agents] == [
        ("b", 2, {"mail:send": 1, "crm:list": 1}),
        ("a", 1, {"mail:send": 1}),
    ]


def test_agents_that_call_themselves_anything_fill_no_memory() -> None:
    many = [seen(f"tool{number}", agent=f"agent{number}", session=str(number)) for number in range(2 * NAMES_MAX)]
    report = reported(*many)
    assert (len(report.tools), len(report.agents)) == (NAMES_MAX + 1, NAMES_MAX + 1)
    assert {one.tool: one.calls for one in report.tools}[REST] == NAMES_MAX
    assert sum(one.calls for one in report.tools) == report.calls == 2 * NAMES_MAX
    assert REST not in {one.tool for one in report.suggestions}


def test_each_tool_says_how_many_plans_have_it() -> None:
    report = reported(
        *[seen("mail:send", session=str(n)) for n in range(2)], seen("crm:put"), in_plans={"mail:send": 3}
    )
    assert {one.tool: (one.calls, one.sessions, one.plans) for one in report.tools} == {
        "mail:send": (2, 2, 3),
        "crm:put": (1, 1, 0),
    }


# --- The rules of today ----------------------------------------------------------------------------------------------


def test_what_is_open_today_is_no_longer_counted_as_what_would_be_refused() -> None:
    noted = [seen("mail:inbox", "{}", destructive=True)] * 29
    refused = [seen("mail:inbox", "{}", destructive=True, refused=True)]
    settings = Settings(sources={"mail": ToolSource(mcp=("mail",), effects={"inbox": EffectClass.READS})})
    report = reported(*noted, *refused, settings=settings)
    assert (report.calls, report.would_be, report.refused, report.open_now) == (30, 0, 1, 30)
    assert (report.tools[0].effect, report.tools[0].destructive, report.tools[0].open_now) == ("reads", False, 30)
    assert (report.suggestions, report.unsuggested) == ((), ())


def test_what_was_cut_short_is_open_by_no_rule_but_by_its_path() -> None:
    long = _json(path="docs/a.md", content="x" * 300)[:200]
    rule = CallRule(tools=("write_file",), where={"path": "docs/**"}, besides=("content",))
    by_rule = Settings(open_calls=("rule:docs",), rules={"docs": rule})
    assert reported(seen("write_file", long), settings=by_rule).open_now == 0
    assert reported(seen("write_file", long), settings=Settings(open_calls=("path:docs/**",))).open_now == 1


# --- Suggested rules -------------------------------------------------------------------------------------------------


@each(
    "tool, fields",
    [
        ("db:put", {"effect": "checkable", "destructive": True}),
        ("db:put", {"effect": "checkable", "standing": CallStanding.DENIED, "code": "E_POLICY_DENIED"}),
        ("db:put", {"effect": "opaque"}),
        ("db:put", {"effect": "", "destructive": True}),
        ("list_all", {"effect": "opaque"}),
        ("shell", {"effect": "opaque"}),
        ("exec", {"effect": "checkable"}),
        ("db:getaway", {"effect": "opaque"}),
    ],
)
def test_what_could_do_harm_is_never_suggested(tool: str, fields: dict[str, Any]) -> None:
    assert reported(*[seen(tool, '{"a": "b"}', **fields)] * 20).suggestions == ()


@pytest.mark.parametrize("entry", ["db:put", "db", "checkable"])
@pytest.mark.parametrize("list_name", ["guarded", "ask", "deny"])
def test_what_somebody_named_is_not_suggested_to_be_opened(entry: str, list_name: str) -> None:
    settings = Settings(**{list_name: ("*", entry) if list_name == "guarded" else (entry,)})
    assert reported(*[seen("db:put", effect="checkable")] * 20, settings=settings).suggestions == ()


def test_what_sounds_as_if_it_reads_is_for_a_person_to_judge() -> None:
    report = reported(*[seen("crm:list_people", effect="opaque", destructive=True)] * 4, seen("crm:getUser"))
    first, second = report.suggestions
    assert (first.kind, first.tool, first.lets_through, first.of) == ("effects", "crm:list_people", 4, 4)
    assert "Nobody here knows" in first.why
    assert second.tool == "crm:getUser"
    assert tomllib.loads(report.toml) == {"tools": {"crm": {"effects": {"list_people": "reads", "getUser": "reads"}}}}


@pytest.mark.parametrize("name", ["find_and_replace", "getOrCreate", "check_out", "read-write", "list_then_delete"])
def test_what_sounds_as_if_it_does_more_than_read_is_not_suggested(name: str) -> None:
    assert not reported(seen(f"crm:{name}")).suggestions
    assert reported(seen("crm:get_orders")).suggestions and reported(seen("crm:list_inboxes")).suggestions


@each("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\r", "\n", "\u202e"])
def test_what_an_agent_said_begins_no_line_of_what_is_to_be_copied(end: str) -> None:
    value = f'x{end}[guard]{end}open = ["mail", "\u200b"]'
    calls = [seen("crm:tag", _json(tag=value, note=str(n)), effect="repeatable") for n in range(8)]
    report = reported(*calls, seen("crm:tag", _json(tag="other"), effect="repeatable"))
    lines = report.toml.splitlines()
    assert lines == report.toml.split("\n") and lines.count("[guard]") == 1
    assert all(line.isprintable() for line in lines)
    assert tomllib.loads(report.toml)["rules"]["crm-tag"]["where"] == {"tag": value}
    assert "`note`" in report.suggestions[0].why, "what is left free is said"


def _json(**args: str) -> str:
    return json.dumps(args, ensure_ascii=False)


def test_what_is_harmless_by_its_class_is_opened_by_name() -> None:
    report = reported(*[seen("db:put", effect="repeatable")] * 4, seen("make_dir", effect="repeatable"))
    assert [(one.kind, one.lets_through, one.of) for one in report.suggestions] == [("open", 4, 4), ("open", 1, 1)]
    assert tomllib.loads(report.toml) == {"guard": {"open": ["reads", "db:put", "make_dir"]}}


def test_a_rule_is_suggested_where_most_calls_have_an_argument_in_common() -> None:
    usual = [seen("db:put", f'{{"table": "lo\\"gs", "row": {number}}}', effect="repeatable") for number in range(8)]
    others = [seen("db:put", '{"table": "people", "row": 1}', effect="repeatable")] * 2
    hidden = [seen("db:put", '{"table": "[redacted DB_TOKEN]"}', effect="repeatable")]
    report = reported(*usual, *others, *hidden)
    (one,) = report.suggestions
    assert (one.kind, one.lets_through, one.of) == ("rule", 8, 11)
    made = tomllib.loads(report.toml)
    assert made["guard"] == {"open": ["reads", "rule:db-put"]}
    rule = msgspec.convert(made["rules"]["db-put"], CallRule, strict=False)
    assert [ArgumentConditions(rule).vouched(example.args) for example in rule.matches] == [True]
    assert [ArgumentConditions(rule).vouched(example.args) for example in rule.matches_not] == [False]
    settings = Settings(open_calls=tuple(made["guard"]["open"]), rules={"db-put": rule})
    definition = ToolDefinition(name="db:put", description="", effect=EffectClass.REPEATABLE, schema={})
    calls = [Call(tool="db:put", args={"table": table}, definition=definition) for table in ('lo"gs', "people")]
    assert [Guard(settings).judge(call).standing for call in calls] == [CallStanding.OPEN, CallStanding.GUARDED]


def mails(*to: str, **fields: Any) -> list[Sighting]:
    return [seen("mail:send", _json(to=one, subject=f"n {n}"), **fields) for n, one in enumerate(to)]


OURS = [f"p{n}@example.com" for n in range(20)]


def test_a_rule_is_suggested_where_most_calls_have_the_end_of_an_address_in_common() -> None:
    report = reported(*mails(*OURS, "eve@evil.example", effect="repeatable"))
    (one,) = report.suggestions
    assert (one.kind, one.lets_through, one.of) == ("rule", 20, 21)
    made = tomllib.loads(report.toml)["rules"]["mail-send"]
    assert (made["where"], made["besides"]) == ({"to": "*@example.com"}, ["subject"])
    assert made["matches_not"][0]["args"]["to"] == "eve@evil.example"
    everybody = reported(*mails(*OURS, effect="repeatable"))
    assert [(one.kind, one.lets_through) for one in everybody.suggestions] == [("rule", 20)]


def test_what_calls_have_in_common_is_told_where_nothing_is_suggested() -> None:
    (one,) = reported(*mails(*OURS, "eve@evil.example")).unsuggested
    assert one.why.endswith("20 of 21 calls have `to` like `*@example.com`.")


@pytest.mark.parametrize(
    ("tool", "fields", "why"),
    [
        ("mail:inbox", {"effect": "opaque"}, 'say so: [tools.mail.effects] inbox = "reads"'),
        ("mail:send", {"effect": "repeatable", "destructive": True}, "It is destructive"),
        ("shell", {"effect": "opaque"}, "a rule on facts"),
        ("nobody", {"effect": ""}, "Nobody here knows it"),
        ("write_file", {"kept": True}, "It is never open"),
    ],
)
def test_why_nothing_is_suggested_is_told(tool: str, fields: dict[str, Any], why: str) -> None:
    report = reported(*[seen(tool, _json(path="ordain.toml"), **fields)] * 2)
    assert report.suggestions == ()
    assert [(one.tool, one.calls) for one in report.unsuggested] == [(tool, 2)]
    assert why in report.unsuggested[0].why


@pytest.mark.parametrize(
    ("paths", "entry"),
    [
        (["docs/a.md", "docs/b.md", "docs/en/c.md"], "path:docs/**"),
        (["docs/a.md"] * 3, "path:docs/a.md"),
        (["a.txt"], "path:a.txt"),
        (["docs/a.md", "src/b.py"], "write_file"),
        (["docs/[a].md", "docs/*"], "path:docs/[a].md"),
        (["docs/../a", "${x}", "[redacted KEY]"], "write_file"),
    ],
)
def test_of_files_as_little_is_opened_as_was_written(paths: list[str], entry: str) -> None:
    written = [seen("write_file", _json(path=path, content="x" * 300)[:200], effect="repeatable") for path in paths]
    kept = seen("write_file", _json(path="ordain.toml"), effect="repeatable", kept=True)
    report = reported(*written, kept)
    (one,) = report.suggestions
    assert (one.entry, one.of) == (entry, len(paths) + 1)
    settings = Settings(open_calls=tuple(tomllib.loads(report.toml)["guard"]["open"]))
    assert reported(*written, kept, settings=settings).open_now == one.lets_through


@given(
    st.lists(
        st.builds(
            lambda tool, key, value, effect: seen(tool, msgspec.json.encode({key: value}).decode(), effect=effect),
            st.text(st.characters(codec="utf-8"), max_size=8).map(lambda name: f"srv:list_{name}") | st.just("db:put"),
            st.text(st.characters(codec="utf-8"), max_size=8),
            st.text(st.characters(codec="utf-8"), max_size=8) | st.just("usual"),
            st.sampled_from(["opaque", "repeatable"]),
        ),
        max_size=30,
    )
)
def test_whatever_was_called_what_is_to_be_copied_is_toml(sightings: list[Sighting]) -> None:
    report = reported(*sightings)
    made = tomllib.loads(report.toml)
    assert set(made.get("guard", {}).get("open", [])) >= {one.entry for one in report.suggestions if one.entry}


def test_what_another_version_noted_is_counted_and_never_suggested_to_be_opened() -> None:
    report = reported(*[seen("mail:list", '{"a": "b"}', effect="telepathic") for _ in range(9)])
    assert (report.calls, report.tools[0].effect, report.suggestions) == (9, "telepathic", ())


def test_tools_that_are_counted_together_are_not_suggested_to_be_opened_together() -> None:
    report = reported(*[seen(f"tool{n}:set", '{"a": "b"}', effect="repeatable") for n in range(NAMES_MAX + 20)])
    assert [one.calls for one in report.tools if one.tool == REST] == [20]
    assert REST not in {one.tool for one in report.suggestions}


# --- Commands, by program --------------------------------------------------------------------------------------------


def test_commands_are_grouped_by_program_and_the_narrowest_rule_is_suggested() -> None:
    settings = Settings()
    understand = understanding(Path("/home/kim/project"), settings)
    lines = [
        "pytest -q tests",
        "cd backend && pytest -x | tail -5",
        "git push --force",
        "git status",
        "made-up x",
        "ls | sh",
    ]
    watch = SightingReport(SINCE, Instant(NOON))
    for line in lines * 4:
        watch.add(seen("shell", _json(command=line)))
    report = watch.report(
        Guard(settings), opened=("reads",), in_plans={}, incomplete=False, known=DEFINITIONS, understand=understand
    )
    found = {one.program: (one.calls, one.risk, bool(one.label)) for one in report.programs}
    assert found["pytest"] == (8, "ordinary", True) and found["git push"] == (4, "raised", False)
    assert found["git status"][1] == "reads" and found["sh"][1] == "raised"
    reads, tests = report.suggestions
    assert (reads.entry, reads.lets_through) == ("shell:reads", 4)
    assert (tests.program, tests.lets_through, tests.of) == ("pytest", 8, 8) and "not contained at tier 0" in tests.why
    settings, problems = read_settings(report.toml.encode())
    assert problems == () and list_problems(msgspec.structs.replace(settings, understand=understand), DEFINITIONS) == ()
    guard = Guard(msgspec.structs.replace(settings, understand=understand))
    for line, is_open in (*zip(lines, (True, True, False, True, False, False), strict=True), ("pytest -p evil", False)):
        call = Call(tool="shell", args={"command": line}, definition=SHELL)
        assert (guard.judge(call).standing is CallStanding.OPEN) is is_open, line
