"""The commands about agents that we did not write: guard hook, install, report. Each is imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

__all__ = ["guard"]

_COMMANDS = {"hook": "guard_hosts", "install": "guard_hosts", "report": "watching"}
"""By name, the module that has it."""


class _Guard(click.Group):
    """Knows the names of its commands, so that whoever needs one of them does not pay for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        found: click.Command = getattr(import_module(f"ordain.interfaces.cli.{_COMMANDS[cmd_name]}"), cmd_name)
        return found


@click.group(cls=_Guard)
def guard() -> None:
    """What agents do outside of any plan: watch it, or refuse what needs one.

    Example: ordain guard report
    """
