"""The command for agents: mcp, with the tokens of clients."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from socket import socket
from typing import Any

import click
from click.core import ParameterSource

from ordain.assemble.workspace import (
    has_door,
    make_state,
    open_clients,
    open_door,
    open_upstreams,
    open_workspace,
)
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.interfaces.cli.main import Commands
from ordain.interfaces.cli.session import FINE, REFUSED, Session, command
from ordain.interfaces.cli.signals import INTERRUPTED, ends_us
from ordain.interfaces.gateway.front import Caller, front_of, own_server
from ordain.interfaces.gateway.stdio import answer_refused, serve_gateway
from ordain.interfaces.http.entrance import address, hosts, listen
from ordain.interfaces.robot import envelope as robot
from ordain.interfaces.robot.envelope import extra_missing
from ordain.interfaces.view.report import ClientsResult
from ordain.interfaces.view.run import instant
from ordain.interfaces.view.text import visible

PORT = 7433
_OF_HTTP = {"host": "--host", "port": "--port", "allowed": "--allow-host"}


@click.group(cls=Commands, invoke_without_command=True)
@click.option("--http", is_flag=True, help="Serve over HTTP instead; every client needs a token.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen on.")
@click.option("--port", default=PORT, show_default=True, help="With --http: the port; 0 picks one that is free.")
@click.option(
    "--allow-host",
    "allowed",
    multiple=True,
    metavar="NAME:PORT",
    help="With --http: a name by which others reach it. What they send is not encrypted.",
)
@click.option("--step", is_flag=True, help="Serve the tools of a step instead, to the agent that carries it out.")
@click.option("--gateway", is_flag=True, help="Serve the tools of the configured servers as well, and guard them.")
@click.option("--server", "servers", multiple=True, metavar="NAME", help="With --gateway: only this one of them.")
@click.option("--json", "as_json", is_flag=True, hidden=True)
@click.pass_context
def mcp(
    context: click.Context,
    http: bool,
    host: str,
    port: int,
    allowed: tuple[str, ...],
    step: bool,
    gateway: bool,
    servers: tuple[str, ...],
    as_json: bool,
) -> None:
    """Serve agents over MCP on standard input and output: they propose, start and watch plans, and can ask for approval
    but never give it. An agent's settings name this command.

    With --http, agents reach it at http://127.0.0.1:PORT/mcp, each with a token that `ordain mcp token add NAME` made.
    Without any, one is made for this process and told here. Signals end the server; runs go on.

    With --step, it serves exactly the tools of the step whose agent started it, and is of no use to anybody else.

    With --gateway, it stands before the MCP servers of ordain.toml: their open tools are called as if it were not
    there, and guarded ones only by a plan (docs/gateway.md). To the agent of a step it is what --step is.

    Example: ordain mcp --http --port 0
    """
    for name, option in _OF_HTTP.items():
        if not http and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} goes with --http.", context)
    if servers and not gateway:
        raise click.UsageError("--server goes with --gateway.", context)
    if step and gateway:
        raise click.UsageError("--step and --gateway are two servers.", context)
    if step and http:
        raise click.UsageError("--step is spoken on standard input and output, never over HTTP.", context)
    alone, form = context.invoked_subcommand is None, {"as_json": as_json, "output_format": None}
    if step or (gateway and alone and has_door() and not http):
        context.invoke(_serve_step, **form)
    elif gateway and alone:
        reached = {"host": host, "port": port, "allowed": allowed} if http else None
        context.invoke(_serve_gateway, servers=servers, reached=reached, **form)
    elif alone:
        context.invoke(_serve, http=http, host=host, port=port, allowed=allowed, **form)


@command(name="mcp")
def _serve(session: Session, http: bool, host: str, port: int, allowed: tuple[str, ...]) -> int:
    _check(session)
    path = session.app.workspace.workspace_path
    workspaces = functools.partial(open_workspace, path, exact=True)
    if http:
        with _reached(path, host, port, allowed) as place:
            from ordain.interfaces.mcp.http import serve_plans

            serve_plans(workspaces, *place)
        return FINE
    from ordain.interfaces.mcp.plan_surface import serve_stdio

    _end_on_signals()
    _tell_person("docs/mcp.md")
    serve_stdio(workspaces, session.by.name)
    return FINE


@command(name="mcp")
def _serve_step(session: Session) -> int:
    """It opens no workspace: where an agent is, there may be none that it could see."""
    _check(session)
    from ordain.interfaces.mcp.step import serve_step

    _end_on_signals()
    serve_step(open_door)
    return FINE


@command(name="mcp")
def _serve_gateway(session: Session, servers: tuple[str, ...], reached: dict[str, Any] | None) -> int:
    """`reached` says where it is reached over HTTP; None: on standard input and output."""
    _check(session)
    try:
        path = session.app.workspace.workspace_path
        make_state(path)
        app = open_workspace(path, exact=True)
        app.guard.in_force()
        notices = app.workspace.settings()[2]
    except Refused as refused:
        if reached is not None or sys.stdin.isatty():
            raise
        session.refused(refused.problems)
        _end_on_signals()
        answer_refused(session.clean(" ".join(map(_in_words, refused.problems))))
        return REFUSED
    own = own_server(functools.partial(open_workspace, path, exact=True))
    front = front_of(app, open_upstreams(path), own, servers, _say)
    for notice in notices:
        _say(_in_words(notice))
    if not front.servers:
        _say("The trusted settings name no MCP server, so there is none to pass calls to.")
    if reached is not None:
        with _reached(path, **reached) as place:
            from ordain.interfaces.gateway.http import serve_gateway_http

            serve_gateway_http(front, app.close, *place)
        return FINE
    _tell_person("docs/gateway.md")
    asyncio.run(serve_gateway(front, Caller(name=session.by.name), tuple(ends_us()), app.close))
    return FINE


def _tell_person(page: str) -> None:
    if sys.stdin.isatty():
        click.echo(f"This speaks MCP, for agents: an agent's settings name this command ({page}).", err=True)


def _in_words(problem: Problem) -> str:
    command_line = [f"A person can run: {problem.command}"] if problem.command is not None else []
    return " ".join([f"{problem.code}: {problem.detail}", *problem.hints, *command_line])


def _say(words: str) -> None:
    click.echo(f"ordain: {visible(words)}", err=True)  # servers name their tools as they like


def _check(session: Session) -> None:
    if session.json:
        raise refuse(
            "E_MCP_START",
            "`ordain mcp` answers with no JSON document: it is a server that an MCP client starts.",
            "Name the command in the settings of an MCP client, which starts it by itself.",
            command="ordain mcp",
        )
    if importlib.util.find_spec("mcp") is None:
        raise extra_missing("mcp", "`ordain mcp` needs the library `mcp`, which is not here.")


def _end_on_signals() -> None:
    """Nothing ends a thread that waits for input, so the process is ended; what was recorded is on disk."""
    for number in ends_us():
        signal.signal(number, lambda *_: os._exit(INTERRUPTED))


@contextmanager
def _reached(
    path: str, host: str, port: int, allowed: tuple[str, ...]
) -> Iterator[tuple[socket, Sequence[str], Callable[[str], str | None]]]:
    clients = open_clients(path)
    names = [one.name for one in clients.all()]
    with listen(host, port, allowed) as listening:
        click.echo(f"Serving MCP for {path} at {address(listening)}", err=True)
        if allowed:
            click.echo(f"Reached by others as {', '.join(allowed)}. What is sent is not encrypted.", err=True)
        if names:
            click.echo(f"Clients with a token: {', '.join(names)}.", err=True)
        else:
            click.echo("No client has a token yet, so one was made for as long as this runs:", err=True)
            headers = {"Authorization": f"Bearer {clients.lend()}"}
            settings = {"mcpServers": {"ordain": {"type": "http", "url": address(listening), "headers": headers}}}
            click.echo(robot.to_json(settings).decode(), err=True)
        yield listening, hosts(listening, allowed), clients.holder


@command(name="token", example="ordain mcp token add laptop")
@click.argument("what", type=click.Choice(["add", "list", "revoke"]))
@click.argument("name", required=False)
def token(session: Session, what: str, name: str | None) -> int:
    """Manage tokens for `ordain mcp --http`: add a client and print its token, only once; list the clients;
    revoke a token, from its next request on. A client sees and handles the plans it proposed, and no others."""
    if (name is None) is not (what == "list"):
        raise click.UsageError("Name the client." if name is None else "`list` lists them all.")
    clients = open_clients(session.app.workspace.workspace_path)
    if name is not None and what == "add":
        if session.json:
            detail = "A token is a secret, and no document of ours holds one."
            command_line = f"ordain mcp token add {shlex.quote(name)}"
            raise refuse("E_CLIENT", detail, "Without --json the token is printed.", command=command_line)
        click.echo(clients.add(name, session.app.workspace.now()))
        click.echo(f"This is the token of {name}. It is not shown again, and only its digest is kept.", err=True)
        return FINE
    if name is not None and not clients.revoke(name):
        raise refuse("E_CLIENT", f"There is no client `{name}`.", command="ordain mcp token list")
    left = tuple(clients.all())
    lines = [f"{one.name:<20} since {instant(one.made_at)}" for one in left] or ["No client has a token."]
    return session.show(ClientsResult(clients=left), [f"Revoked the token of {name}."] if name is not None else lines)


mcp.add_command(token)
