"""Ports of the machine and its user: time, ids, secrets, keys, locks, the stop switch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from ordain.core.approval.approval import Moment
from ordain.core.approval.signature import PublicKey, Signature
from ordain.core.plan.value import Instant, RunId
from ordain.core.policy.fact import LineFacts
from ordain.core.policy.settings import Settings, UserSettings
from ordain.core.policy.stop import StopOrder


class Host(Protocol):
    """What the machine and its user give to Ordain itself, whatever a workspace says."""

    def user_settings(self) -> UserSettings:
        """The user's own settings; raises Refused where their file cannot be believed."""

    def variables(self, names: Iterable[str]) -> dict[str, str]:
        """The values of these variables of the environment, as far as they are set."""

    def programs(self, names: Iterable[str], *, own: bool = False) -> dict[str, str]:
        """Where these programs are, whatever PATH says; with `own`, whatever any variable says. Raises Refused as
        above."""

    def look_at(self, directory: str) -> tuple[str, bool]:
        """Where a directory really is, and whether others can write there."""

    def home(self) -> str | None:
        """The home of this account, whatever the environment says."""

    def understanding(self, settings: Settings) -> Callable[[str], LineFacts]:
        """What reads command lines by these settings. Nothing is loaded before it is asked, and it runs nothing."""


class Clock(Protocol):
    """Time, and waiting for it."""

    def now(self) -> Instant: ...

    def moment(self) -> Moment:
        """The same, with what a clock says that nobody can set."""

    async def sleep_until(self, instant: Instant) -> None: ...


class Ids(Protocol):
    """Fresh random names."""

    def mint(self, prefix: str) -> str:
        """`prefix` and at least 80 random bits in base32."""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """What a person types to use their key. Never recorded, never shown."""

    name: str
    passphrase: str

    def __repr__(self) -> str:
        return f"Credential(name={self.name!r})"


class Keyring(Protocol):
    """The approvers' keys that are kept here."""

    def create(self, credential: Credential) -> PublicKey:
        """Make a key under this name and passphrase; raises Refused with E_APPROVER when there is one already."""

    def public_key(self, name: str) -> PublicKey | None:
        """The public half of the key of this name, if it is kept here."""

    def sign(self, credential: Credential, statement: bytes) -> Signature | None:
        """The signature over these bytes; None when the passphrase is wrong."""

    def verify(self, key: PublicKey, signature: Signature, statement: bytes) -> bool:
        """Whether this key made this signature over these bytes."""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A client that may reach the MCP server over HTTP."""

    name: str
    made_at: Instant


class Clients(Protocol):
    """Whom tokens of the MCP server were given to. A token is told once and kept nowhere: only its digest is."""

    def add(self, name: str, at: Instant) -> str:
        """Make a token for a client of this name; raises Refused with E_CLIENT when it has one already."""

    def lend(self) -> str:
        """A token that is good for this process only and kept nowhere; whoever was told it is the client `local`."""

    def all(self) -> Sequence[Client]:
        """Every client that has a token that is kept, by name."""

    def holder(self, token: str) -> str | None:
        """The name of the client that this token was given to, as things stand now; None when it is no token."""

    def revoke(self, name: str) -> bool:
        """Let a client's token count no longer; whether it had one."""


class Notifier(Protocol):
    """Tells people outside that something waits for them."""

    def tell(self, command: Sequence[str], message: bytes) -> None:
        """Hand the message to the command and go on; what becomes of it changes nothing."""


class Secrets(Protocol):
    """The secrets that are known here, so that they can be kept out of everything written or shown."""

    def known(self, patterns: Sequence[str], files: Sequence[str]) -> tuple[Mapping[str, str], Sequence[str]]:
        """Name → value for the variables that match a pattern and for what is in the files; and the unread files."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who has claimed something."""

    name: str
    pid: int = 0
    silent_ms: int = 0
    """How long ago it last gave a sign of life."""


class WriterLock(Protocol):
    """Who is at work in a workspace. What is held dies with its holder."""

    def claim(self, what: str) -> AbstractContextManager[None]:
        """Be the only one who is at work on this (a run), or raise `Refused` with E_RUN_BUSY."""

    def place(self, holder: str, places: int) -> AbstractContextManager[None]:
        """Have one of so many places for those who change the workspace, or raise `Refused` with E_WORKSPACE_BUSY."""

    def beat(self) -> None:
        """Give a sign of life, for everything that is held."""

    def holder(self, what: str) -> Holder | None:
        """Who else has claimed this right now; None when nobody has, or we have."""

    def end(self, what: str, holder: Holder) -> bool:
        """End the process that was seen to have claimed this, and no other; whether nobody has it now."""


class StopSwitch(Protocol):
    """What stops work in a workspace, or in all of the user's. It needs no ledger."""

    def read(self) -> tuple[StopOrder, ...]:
        """What is in force here. What cannot be read counts as a stop."""

    def turn_on(self, stop: StopOrder) -> None:
        """Stop work; where it is stopped already, nothing changes."""

    def turn_off(self, stop: StopOrder) -> None: ...

    def end_runs(self, *, everywhere: bool) -> tuple[tuple[RunId, ...], tuple[RunId, ...]]:
        """Kill whoever carries out a run, here or in every workspace, and what steps left; the runs that had an
        executor, and those whose executor could not be killed."""
