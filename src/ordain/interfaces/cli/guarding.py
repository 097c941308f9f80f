"""The commands about agents that we did not write: guard hook, guard install, guard report."""

from __future__ import annotations

import click

__all__ = ["guard"]


@click.group()
def guard() -> None:
    """What agents do outside of any plan: watch it, or refuse what needs one (docs/guard.md)."""
