"""The commands about agents that we did not write: check, hook, init, install, report. Each is imported when called."""

from __future__ import annotations

import click

from ordain.interfaces.cli.main import LazyCommands

_COMMANDS = {
    "check": ("cmd_guard_check", "Say what a command does, and what the guard answers."),
    "hook": ("cmd_guard_host", "Answer the hook of an agent's host."),
    "init": ("cmd_guard_init", "Open what coding agents do all day."),
    "install": ("cmd_guard_host", "Have an agent's host ask before every call."),
    "report": ("cmd_guard_report", "Tell what was called, and what could be open."),
}


@click.group(cls=LazyCommands, sections={"Commands": _COMMANDS})
def guard() -> None:
    """Guard what agents do outside of plans: observe it, or refuse what needs a plan.

    Example: ordain guard report
    """
