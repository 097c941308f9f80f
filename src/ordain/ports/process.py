"""Ports of commands: what runs them, and what is seen of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, Self

import msgspec

from ordain.core.policy.sealing import RunEnvironment
from ordain.core.policy.tier import SandboxLimits

PART_BYTES = 1 << 20
"""How much of something long is held in memory at a time."""


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """All of an output that is longer than the end of it that is at hand."""

    size: int
    sha256: bytes
    parts: Callable[[], Iterator[bytes]] | None = None
    """Its bytes, from the beginning; None where they are too many, or there was no room for them."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A bash command to run in the workspace with exactly this environment, marked so that it can be found again."""

    text: str
    env: Mapping[str, str]
    timeout_ms: int
    mark: str
    errors_apart: bool = False
    """Whether what it writes to standard error is kept apart from its output."""
    argv: tuple[str, ...] = ()
    """A program and its arguments, to be run without a shell; the text is then only how a person would type it."""
    whole: bool = False
    """Whether all of a long output is wanted, and not only its end."""
    stdin: bytes = b""
    """What it reads from its standard input, which ends after that."""
    reports: bool = False
    """Whether it may report what it uses: it is given the name of a file for that, in the variable `ORDAIN_USAGE`."""
    writes: tuple[str, ...] | None = None
    """What of the workspace it may change, as patterns that `core.sandbox` knows; None: all of it. Held at tier 1."""
    network: bool = False
    """Whether it has the network. Held at tier 1."""
    sees: tuple[str, ...] = ()
    """Directories and files besides that it can read at tier 1, where it could not otherwise."""
    home: tuple[str, ...] = ()
    """Files of the home directory, written from `~/`, of which it has a copy in its own at tier 1."""
    changes: tuple[str, ...] = ()
    """Directories besides that it can change at tier 1: of its room."""
    covered: tuple[str, ...] = ()
    """Files of the workspace in place of which it sees nothing at tier 1."""
    directory: str = ""
    """Where it is started, where that is not the workspace."""
    apart: bool = False
    """Whether it is started in an empty directory of its own, and `{workspace}` in its words means the workspace."""
    found_outside: bool = False
    """Whether its program is looked for nowhere in the workspace."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a process. Exactly one of `exit_code`, `signal` and `fault` is set, unless it timed out."""

    duration_ms: int
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    still_there: str | None = None
    """Why one that timed out could not be ended."""
    fault: str | None = None
    """Why it could not be started."""
    output: bytes = b""
    """The end of what it wrote, exactly: all of it up to a bound."""
    errors: bytes = b""
    """The same of standard error, where that was to be kept apart; it is in `output` otherwise."""
    output_bytes: int = 0
    """How much it wrote in all, but for what is kept apart."""
    errors_bytes: int = 0
    whole: Whole | None = None
    """All of it, where that was wanted and `output` is only its end."""
    leftovers: int = 0
    reported: bytes = b""
    """What it wrote to the file for what it uses, up to a bound."""
    control: tuple[str, ...] = ()
    """What is said of the control files that it made or changed in a sandbox, and that were set aside."""


class Sealable(Protocol):
    """What starts programs for a run."""

    def sealed(self, given: RunEnvironment) -> Self:
        """The same, with these variables and programs and no others, whatever the environment says."""


class Shell(Sealable, Protocol):
    """Runs commands, each in its own session, and ends what it started with it, as far as it can be found."""

    async def run(self, command: Command) -> Finished:
        """Run to the end or to the timeout. When cancelled, kills everything it started first."""

    def written(self, mark: str, most: int) -> tuple[bytes, int]:
        """The last bytes, at most so many, that the command with this mark has written so far, and how many in all."""

    def sweep(self, mark_prefix: str, *, again: bool = False) -> int:
        """Kill every process whose mark begins so, with all that it started; how many. `again` looks a second time:
        what a dead executor was starting bears its mark only a moment later."""

    def environment(self, names: Sequence[str]) -> dict[str, str]:
        """The values of these variables, as far as they are set."""


class Sandbox(Protocol):
    """Where commands run at trust tier 1, held to what they may reach."""

    def fault(self) -> str | None:
        """Why nothing can be held to anything here; None where it can."""

    def unseen(self, limits: SandboxLimits, argv: Sequence[str], names: Sequence[str]) -> str | None:
        """Why a program, handed the variables of these names, cannot be started in it, though it is there; None where
        it can, as far as can be told."""

    def shell(self, limits: SandboxLimits) -> Shell:
        """What runs commands in it, each within these limits."""
