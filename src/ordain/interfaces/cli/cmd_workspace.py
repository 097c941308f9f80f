"""The commands around plans: init, config, tools, agents, topic, explain, skill."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from ordain import __version__
from ordain.core.plan.tool import first_paragraph, inventory_line
from ordain.core.plan.words import write_duration, write_failure
from ordain.core.policy.agent import shown_address
from ordain.core.policy.assignment import inventory_lines as agent_inventory
from ordain.core.policy.settings import Settings
from ordain.core.run.topic import MESSAGE_BYTES_MAX, Message
from ordain.core.text.control import CONFIGURATION_FILE
from ordain.core.text.problem import closest, refuse
from ordain.documents.settings import key_names, keys_set
from ordain.documents.settings_in_force import user_key_names
from ordain.documents.skill import is_skill, skill_text
from ordain.interfaces.cli.configuration import settings_template
from ordain.interfaces.cli.output_file import write_shared
from ordain.interfaces.cli.session import Session, command, in_utf8
from ordain.interfaces.view.picked import picked
from ordain.interfaces.view.problem import PageResult, glossary_entry, glossary_words, plain_text, problem_pages
from ordain.interfaces.view.report import (
    ConfigResult,
    InitResult,
    PostedResult,
    SettingValue,
    SkillResult,
    TopicResult,
    TopicsResult,
)
from ordain.interfaces.view.run import instant, who
from ordain.interfaces.view.text import visible
from ordain.interfaces.view.tool import AgentsResult, roster_lines, tools_result


@command()
def init(session: Session) -> int:
    """Create ordain.toml in the current directory, with every setting and its default.

    An existing file is never overwritten. Example: ordain init
    """
    target = Path(click.get_current_context().find_root().obj or ".") / CONFIGURATION_FILE
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    except FileExistsError:
        raise refuse("E_CONFIG", f"{target} is there already; it was left as it is.", command="ordain trust") from None
    except OSError as error:
        raise refuse("E_CONFIG", f"{target} cannot be written: {os.strerror(error.errno or 0).lower()}.") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(settings_template())
    lines = [f"Wrote {target}: every setting, at its default. After you change it: ordain trust"]
    return session.show(InitResult(written=str(target)), lines, next_=["ordain trust", "ordain config"])


@command(example="ordain config")
def config(session: Session) -> int:
    """Show the settings in force, and where each value came from."""
    settings, digest, notices = session.app.workspace.settings()
    trusted = session.app.workspace.workspace_state().trusted
    given = keys_set(trusted.text.encode()) if trusted is not None else frozenset()
    tree, names = msgspec.to_builtins(msgspec.structs.replace(settings, understand=None)), key_names()
    narrowed = digest.endswith("narrowed")
    values = {}
    for key, setting in names.items():
        source = "trusted" if key in given else "default"
        if narrowed and key in ("policy.allow", "guard.guarded", "guard.open"):
            source = "narrowed, until ordain.toml is trusted as it is now"
        elif narrowed and key in given and key.startswith("retention."):
            source = "off, until ordain.toml is trusted as it is now"
        value = shown_address(settings.planner_base_url) if key == "planner.base_url" else tree[setting]
        values[key] = SettingValue(value=value, source=source)
    for field, named in (("base_url", tree["agents"]), ("url", tree["sources"])):
        for one in named.values():
            if one.get(field):
                one[field] = shown_address(one[field])
    for name, field in {"agents": "agents", "tools": "sources", "rules": "rules", "commands": "commands"}.items():
        values |= {f"{name}.{one}": SettingValue(value=it, source="trusted") for one, it in tree[field].items()}
    user = session.app.workspace.user_settings()
    for key in user_key_names():
        section, _, name = key.partition(".")
        value = user.programs.get(name, "") if section == "programs" else getattr(user, name)
        values[key] = SettingValue(value=value, source=user.file if value else "default")
    commands = [one.command for one in notices if one.command is not None]
    width = max(map(len, values))
    lines = [f"In force: {digest}"]
    for key, one in values.items():
        shown = _words(names.get(key, ""), one.value, settings)
        lines.append(f"  {key:<{width}}  {visible(shown)}  {session.style.dim(one.source)}")
    return session.show(ConfigResult(digest=digest, settings=values), lines, notices=notices, next_=commands)


def _words(setting: str, value: object, settings: Settings) -> str:
    if setting.endswith("_ms") and isinstance(value, int):
        return f'"{write_duration(value)}"'
    if setting == "on_failure":
        return f'"{write_failure(settings.on_failure)}"'
    return json.dumps(value, ensure_ascii=False)


@command(example="ordain tools")
@click.option("--text", is_flag=True, help="As the inventory that planners get: one line for each, nothing else.")
def tools(session: Session, text: bool) -> int:
    """List everything that steps can call: its effect class, and where it comes from."""
    found, notices = session.app.workspace.tools()
    result = tools_result(found.values())
    if text:
        return session.show(result, map(visible, map(inventory_line, found.values())), notices=notices)
    width = max(len(tool.name) for tool in result.tools)
    lines = []
    for tool in result.tools:
        effect = session.style.warn(f"{tool.effect}, destructive") if tool.destructive else tool.effect
        source = session.style.dim(visible(tool.source))
        lines += [
            f"{visible(tool.name):<{width}}  {effect}  {source}",
            f"  {visible(first_paragraph(tool.description))}",
        ]
    return session.show(result, lines, notices=notices)


@command()
@click.option("--text", is_flag=True, help="As the inventory that planners get: one line for each, nothing else.")
def agents(session: Session, text: bool) -> int:
    """List the agents that can be given tasks: what each is, which tasks it gets by default, whether it can start here.

    This starts nothing. Example: ordain agents
    """
    notices, found = session.app.workspace.settings()[2], session.app.workspace.agents()
    commands = [one.command for one in notices if one.command is not None]
    lines: Iterable[str] = roster_lines(found, session.style)
    if text:
        lines = map(visible, agent_inventory(found))
    elif not found:
        lines = ["There are no agents yet: each is a section [agents.NAME] of ordain.toml (docs/agents.md)."]
    return session.show(AgentsResult(agents=found), lines, notices=notices, next_=commands)


@command(example="ordain explain E_CONTRACT_VACUOUS")
@click.argument("words", metavar="CODE|WORD…", nargs=-1, required=True)
def explain(session: Session, words: tuple[str, ...]) -> int:
    """Explain a problem code, or a word that Ordain uses in its own way."""
    asked = " ".join(words)
    pages, code = problem_pages(), asked.upper()
    page = pages.get(code)
    if page is None:
        entry = glossary_entry(asked)
        if entry is None:
            looks_like_code = code[:2] in ("E_", "W_", "F_", "B_")
            hints = closest(code, pages) if looks_like_code else closest(asked.lower(), glossary_words())
            kind = "code" if looks_like_code else "code or word"
            others = () if hints else ("docs/problems.md lists every code, docs/glossary.md every word.",)
            raise refuse("E_CODE_UNKNOWN", f"There is no {kind} `{asked}` to explain.", *hints, *others)
        lines = [f"{session.style.bold(', '.join(entry.words))}: {plain_text(entry.means)}"]
        return session.show(entry, lines)
    lines = [session.style.bold(f"{code}: {page.summary}"), "", page.meaning, "", page.remedy]
    return session.show(picked(PageResult, page, code=code), lines)


@command(example="ordain skill -o .claude/skills/ordain/SKILL.md")
@click.option("-o", "output", metavar="FILE", help="Write it to this file, new or an older skill of ours.")
def skill(session: Session, output: str | None) -> int:
    """Print what models that work with Ordain should know: when to plan, how to write plans and contracts, what
    refusals mean. With -o it becomes a skill that an agent loads by itself."""
    text = skill_text()
    if output is not None:
        write_shared(output, text.encode(), replace=is_skill(Path(output)))
    result = SkillResult(text=text, version=__version__, written=output)
    return session.show(result, [f"Wrote {output}."]) if output is not None else session.give(text, result)


NEWEST = 20


@command(example='ordain topic fix-auth -m "The client already waits 60 s."')
@click.argument("name", required=False)
@click.option("-m", "--message", "text", callback=in_utf8, metavar="TEXT", help="Leave this message; - reads it.")
@click.option("-n", "--newest", default=NEWEST, show_default=True, type=click.IntRange(1, 10_000), help="How many.")
def topic(session: Session, name: str | None, text: str | None, newest: int) -> int:
    """List the topics, read one, or leave a message in one for the agents that read it (`reads: topic:NAME`). Messages
    are recorded without secrets and permit nothing, so robots and steps may leave them too."""
    if name is None:
        if text is not None:
            raise click.UsageError("A message is left in a topic: name it.")
        topics = session.app.topics.all()
        width = max((len(one.topic) for one in topics), default=0)
        lines = [f"{visible(one.topic):<{width}}  {one.count:>5}  {_said(one.newest)}" for one in topics]
        nothing = ["There are no topics. The first message makes one: ordain topic NAME -m TEXT"]
        following = [f"ordain topic {shlex.quote(one.topic)}" for one in topics]
        return session.show(TopicsResult(topics=topics), lines or nothing, next_=following)
    if text is not None:
        return _post(session, name, _read_message() if text == "-" else text)
    line, found = session.app.topics.read(name, newest)
    lines = [session.style.dim(f"The newest {len(found)} of {line.count}:")] if len(found) < line.count else []
    for message in found:
        lines.append(session.style.dim(f"{message.number}  {_said(message)}"))
        lines += [f"    {visible(row)}" for row in message.text.splitlines()]
    return session.show(TopicResult(topic=line.topic, count=line.count, messages=found), lines)


def _post(session: Session, name: str, text: str) -> int:
    line = session.run(session.app.topics.post(name, text, session.by))
    result = PostedResult(topic=line.topic, count=line.count, posted=line.newest)
    lines = [f"Posted as number {line.count} of {visible(name)}."]
    return session.show(result, lines, next_=[f"ordain topic {shlex.quote(name)}"])


def _read_message() -> str:
    """What comes on standard input; no more of it than tells that it is too long."""
    try:
        return sys.stdin.buffer.read(MESSAGE_BYTES_MAX + 1).decode()
    except UnicodeDecodeError as error:
        if error.end >= MESSAGE_BYTES_MAX:  # cut within a character
            raise refuse("E_TOPIC", f"The message has more than {MESSAGE_BYTES_MAX:,} bytes.") from error
        raise refuse("E_TOPIC", "The message holds what is not UTF-8.") from error


def _said(message: Message) -> str:
    return f"{instant(message.at)}  {who(message.by)}"
