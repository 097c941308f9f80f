"""docs/approvals.md tells the truth: its table of stages, its list of refusals, its settings and its commands; and the
pages beside it name no command that is not there."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

import click
import msgspec
import pytest

from tests.rows import each
from tests.words import (
    BUILT_IN,
    TRANSITIONS,
    VERBS,
    Agent,
    CallRule,
    LineageEvent,
    LockEvent,
    RunEvent,
    Settings,
    SignalGiven,
    Stage,
    TopicPosted,
    WorkspaceEvent,
    list_problems,
    main,
    problem_pages,
    read,
    read_settings,
    understanding,
)

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/approvals.md").read_text()
LEDGER = (ROOT / "docs/ledger.md").read_text()
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()
REFUSED = PAGE.partition("\n## When it is refused\n")[2]

# --- Tables ----------------------------------------------------------------------------------------------------------


def rows(text: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_table_of_stages_is_the_one_that_is_obeyed() -> None:
    shown: dict[str, dict[Stage | None, Stage]] = {}
    for what, sources, target in rows(PAGE.partition("<!-- stages -->")[2].partition("<!-- /stages -->")[0]):
        for source in sources.split(", "):
            stage = None if source == "new" else Stage(source)
            to = stage if target == "the same" else Stage(target)
            assert to is not None
            assert stage not in shown.setdefault(what, {}), f"{what} from {source} stands there twice"
            shown[what][stage] = to
    assert shown == {what: dict(moves) for what, moves in TRANSITIONS.items()}


def test_every_stage_is_explained() -> None:
    table = PAGE.partition("\n## The stages of a plan\n")[2].partition("<!-- stages -->")[0]
    assert set(re.findall(r"`(\w+)`", "".join(row[0] for row in rows(table)))) == set(Stage)


@pytest.mark.parametrize(
    "source", ["app/gate", "app/plans", "app/approvals", "records/surroundings", "core/approval/approval"]
)
def test_every_refusal_is_in_the_list(source: str) -> None:
    used = set(re.findall(r'"(E_[A-Z_]+)"', (ROOT / f"src/ordain/{source}.py").read_text()))
    assert used, "a module that refuses nothing need not be here"
    assert used <= listed()


def test_the_list_names_only_what_there_is() -> None:
    assert listed() <= problem_pages().keys()


def listed() -> set[str]:
    """The codes that begin a row of the list of refusals."""
    return set(re.findall(r"^\| `(E_[A-Z_]+)`", REFUSED, re.MULTILINE))


@pytest.mark.parametrize("kind", [WorkspaceEvent, LineageEvent, RunEvent, LockEvent])
def test_every_event_is_in_the_ledgers_page(kind: type) -> None:
    tags = {event.__struct_config__.tag for event in kind.__args__}  # type: ignore[attr-defined]
    assert {tag for tag in tags if f"`{tag}`" not in LEDGER} == set()


@pytest.mark.parametrize("event", [SignalGiven, TopicPosted])
def test_the_only_event_of_its_stream_is_in_the_ledgers_page(event: type) -> None:
    assert f"`{event.__struct_config__.tag}`" in LEDGER  # type: ignore[attr-defined]


def test_every_event_of_a_plans_life_is_in_the_architecture() -> None:
    life = ARCHITECTURE.partition("\n## A plan's life\n")[2].partition("\n## ")[0]
    events = {event.__struct_config__.tag for event in LineageEvent.__args__}
    assert [event.strip("`") for event, _ in rows(life)] == sorted(events, key=life.index)
    assert set(re.findall(r"\*([^*]+)\*", "".join(what for _, what in rows(life)))) == TRANSITIONS.keys()


# --- Examples --------------------------------------------------------------------------------------------------------


def fenced(language: str) -> list[str]:
    return re.findall(rf"^`{{3,}}{language}\n(.*?)^`{{3,}}$", PAGE, re.DOTALL | re.MULTILINE)


def test_its_plan_is_read() -> None:
    (document,) = re.findall(r"^````markdown\n(.*?)^````$", PAGE, re.DOTALL | re.MULTILINE)
    assert read(document.encode()).problems == ()


@pytest.mark.parametrize("text", fenced("toml"))
def test_its_settings_can_be_trusted(text: str) -> None:
    settings, problems = read_settings(text.encode())
    assert problems == ()
    assert list_problems(settings, BUILT_IN) == ()


@pytest.mark.parametrize("text", fenced("python"))
def test_its_programs_can_be_compiled(text: str) -> None:
    compile(text, "docs/approvals.md", "exec")


# --- The guard -------------------------------------------------------------------------------------------------------

GUARD = (ROOT / "docs/guard.md").read_text()


@pytest.mark.parametrize("text", re.findall(r"^```toml\n(.*?)^```$", GUARD, re.DOTALL | re.MULTILINE))
def test_the_settings_of_the_guard_can_be_trusted(text: str) -> None:
    settings, problems = read_settings(text.encode())
    settings = msgspec.structs.replace(settings, understand=understanding(ROOT, settings))
    assert problems == ()
    assert list_problems(settings, BUILT_IN) == ()


def test_the_refusal_of_an_example_reads_as_told() -> None:
    """As docs/guard.md shows it."""
    (_, text, *_) = re.findall(r"^```toml\n(.*?)^```$", GUARD, re.DOTALL | re.MULTILINE)
    first = re.search(r"matches = \[.*", text)
    assert first is not None
    wrong = text.replace(first[0], """matches = ['mail:send {"to": "kim@example.com", "cc": "lee@example.com"}']""", 1)
    (problem,) = list_problems(read_settings(wrong.encode())[0], BUILT_IN)
    told = " ".join(GUARD.partition("$ ordain trust\n")[2].partition("```")[0].split())
    assert told == " ".join((problem.code, problem.detail, *problem.hints))


@pytest.mark.parametrize("key", CallRule.__struct_fields__)
def test_every_key_of_a_rule_is_told(key: str) -> None:
    assert f"\n| `{key}` |" in GUARD


def test_the_default_settings_of_the_guard_are_told() -> None:
    told = read_settings(re.findall(r"^```toml\n(.*?)^```$", GUARD, re.DOTALL | re.MULTILINE)[0].encode())[0]
    assert msgspec.structs.replace(told, sources={}) == Settings()


# --- Agents ----------------------------------------------------------------------------------------------------------

AGENTS = (ROOT / "docs/agents.md").read_text()


@pytest.mark.parametrize("text", re.findall(r"^```toml\n(.*?)^```$", AGENTS, re.DOTALL | re.MULTILINE))
def test_the_settings_of_agents_can_be_trusted(text: str) -> None:
    assert read_settings(text.encode())[1] == ()


def test_the_kinds_of_work_are_those_of_the_rule() -> None:
    table = AGENTS.partition("| Kind |")[2].partition("\n\n")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|$", table, re.MULTILINE))
    assert told == {**{kind: ", ".join(verbs) for kind, verbs in VERBS.items()}, "code": "any other word"}


def test_every_key_of_an_agent_is_told_with_what_it_stands_beside() -> None:
    table = AGENTS.partition("| Key | Of | Means |")[2].partition("\n\n")[0]
    told = {
        key: set(re.findall(r"`(\w+)`", beside)) for key, beside in re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.M)
    }
    kinds = {"preset": '"pi"', "command": '["a"]', "python": '"a:b"', "human": "true"}
    values = {"env": '["A"]', "files": '["~/a"]', "network": "true", "own_tools": "true", "output": '"json"'}
    for key in Agent.__struct_fields__:
        if key in kinds or key == "registered":
            continue
        for kind, value in kinds.items():
            text = f"[agents.a]\n{kind} = {value}\n{key} = {values.get(key, chr(34) + '{{task}}' + chr(34))}\n"
            fits = read_settings(text.encode())[1] == ()
            assert fits == (kind in (told[key] or kinds)), (key, kind)


# --- Tools -----------------------------------------------------------------------------------------------------------


@each("name", BUILT_IN)
def test_every_tool_is_described_with_its_arguments_and_its_effect_class(name: str) -> None:
    tool = BUILT_IN[name]
    rows = [
        line for line in (ROOT / "docs/plan-format.md").read_text().splitlines() if line.startswith(f"| `{name}` |")
    ]
    assert len(rows) == 1 and all(f"`{parameter.name}`" in rows[0] for parameter in tool.parameters)
    table = (ROOT / "docs/architecture.md").read_text().partition("| Tool | Effect class | Atomic |")[2]
    cells = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    assert [row[2].strip() for row in cells if f"`{name}`" in row[1]] == [tool.effect.value]


# --- Links -----------------------------------------------------------------------------------------------------------


@each(
    "page",
    [
        "README.md",
        "SECURITY.md",
        "CHANGELOG.md",
        *sorted(str(one.relative_to(ROOT)) for one in (ROOT / "docs").rglob("*.md")),
    ],
)
def test_every_link_leads_somewhere(page: str) -> None:
    place = ROOT / page
    for target in re.findall(r"\]\(([^()\s]+)\)", place.read_text()):
        if ":" in target:
            continue
        file, _, anchor = target.partition("#")
        found = place.parent / file if file else place
        assert found.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(found), f"{page}: {target}"


def anchors(page: Path) -> set[str]:
    """What the headings of a page are linked by."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_word_of_the_glossary_stands_there_once() -> None:
    words = Counter(re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE))
    assert words and not [word for word, count in words.items() if count > 1]


# --- Commands --------------------------------------------------------------------------------------------------------

PAGES_WITH_COMMANDS = (
    "docs/approvals.md",
    "docs/gateway.md",
    "docs/guard.md",
    "docs/hooks.md",
    "docs/ledger.md",
    "docs/glossary.md",
    "docs/mcp.md",
    "docs/robots.md",
    "README.md",
    "SECURITY.md",
    "src/ordain/skill/SKILL.md",
)


def commands(page: str) -> list[str]:
    """Every command line that is shown: between backticks, or on a line of its own after `$` or `→`."""
    text = (ROOT / page).read_text()
    spans = re.findall(r"(?<!`)`(ordain [^`\n]+)`(?!`)", text)
    return sorted({*spans, *re.findall(r"^(?:\$|\s+→) (ordain .+)$", text, re.MULTILINE)})


@each("page, line", [(page, line) for page in PAGES_WITH_COMMANDS for line in commands(page)])
def test_every_command_shown_is_there(page: str, line: str) -> None:
    fault = fault_of(line)
    assert fault is None, f"{page}: {line}: {fault}"


@pytest.mark.parametrize(
    "line", ["ordain aprove PLAN", "ordain approve PLAN --stat", "ordain audit verfy", "ordain inbox PLAN", "ordain"]
)
def test_a_command_that_is_not_there_is_found(line: str) -> None:
    assert fault_of(line) is not None


def fault_of(line: str) -> str | None:
    """Why a command line could not be typed; a value that is left out, or stands for another one, is no fault."""
    name, *args = shlex.split(line.replace("\\|", "|"))
    command: click.Command = main
    try:
        while isinstance(command, click.Group):
            context = click.Context(command, info_name=name)
            options, args, _ = command.make_parser(context).parse_args(args)
            if not args:
                return None if options or command is not main else "no command"
            name, found, args = args[0], *command.resolve_command(context, args)[1:]
            assert found is not None
            command = found
        command.make_context(name, args)
    except click.BadParameter:
        return None
    except click.UsageError as error:
        return error.format_message()
    return None
