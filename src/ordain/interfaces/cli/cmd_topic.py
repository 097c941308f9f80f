"""The command about topics: the notes that people, programs and steps leave for agents."""

from __future__ import annotations

import shlex
import sys

import click

from ordain.core.run.topic import MESSAGE_BYTES_MAX, Message
from ordain.core.text.problem import refuse
from ordain.interfaces.cli.session import Session, command, in_utf8
from ordain.interfaces.view.result import PostedResult, TopicResult, TopicsResult
from ordain.interfaces.view.run import instant, who
from ordain.interfaces.view.text import visible

NEWEST = 20
"""How many messages are shown unless more are asked for."""


@command()
@click.argument("name", required=False)
@click.option("-m", "--message", "text", callback=in_utf8, metavar="TEXT", help="Leave this message; - reads it.")
@click.option("-n", "--newest", default=NEWEST, show_default=True, type=click.IntRange(1, 10_000), help="How many.")
def topic(session: Session, name: str | None, text: str | None, newest: int) -> int:
    """List the topics, read one, or leave a message in one for the agents that read it (`reads: topic:NAME`). Messages
    are recorded without secrets and permit nothing, so robots and steps may leave them too.

    Example: ordain topic fix-auth -m "The client already waits 60 s."
    """
    if name is None:
        if text is not None:
            raise click.UsageError("A message is left in a topic: name it.")
        return _list(session)
    if text is not None:
        return _post(session, name, _read_message() if text == "-" else text)
    line, found = session.app.topics.read(name, newest)
    lines = [session.style.dim(f"The newest {len(found)} of {line.count}:")] if len(found) < line.count else []
    for message in found:
        lines.append(session.style.dim(f"{message.number}  {_said(message)}"))
        lines += [f"    {visible(row)}" for row in message.text.splitlines()]
    return session.show(TopicResult(topic=line.topic, count=line.count, messages=found), lines)


def _list(session: Session) -> int:
    topics = session.app.topics.all()
    width = max((len(one.topic) for one in topics), default=0)
    lines = [f"{visible(one.topic):<{width}}  {one.count:>5}  {_said(one.newest)}" for one in topics]
    nothing = ["There are no topics. The first message makes one: ordain topic NAME -m TEXT"]
    following = [f"ordain topic {shlex.quote(one.topic)}" for one in topics]
    return session.show(TopicsResult(topics=topics), lines or nothing, next_=following)


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
