"""The commands about agents that we did not write: guard hook, install, report. Each is imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

_COMMANDS = {
    "hook": ("cmd_guard_host", "Answer the hook of an agent's host."),
    "install": ("cmd_guard_host", "Have an agent's host ask before every call."),
    "report": ("cmd_guard_report", "Tell what was called, and what could be open."),
}
"""By name, the module that has it, and one line about it."""


class _Guard(click.Group):
    """Knows the names of its commands, so that whoever needs one of them does not pay for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        found: click.Command = getattr(import_module(f"ordain.interfaces.cli.{_COMMANDS[cmd_name][0]}"), cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.group(cls=_Guard)
def guard() -> None:
    """What agents do outside of any plan: watch it, or refuse what needs one.

    Example: ordain guard report
    """
