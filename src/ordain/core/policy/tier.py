"""The trust tier of a plan's runs, what commands are held to at tier 1, and what may be sent to an HTTP server. A tier
is demanded: where it cannot be had nothing is run, so no run has a weaker one than was approved."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ordain.core.plan.model import Plan, nested_plan_of
from ordain.core.plan.value import Value
from ordain.core.text.limit import NESTED_PLANS_MAX
from ordain.core.text.pattern import WILD, normal
from ordain.core.text.problem import Problem

STRONGEST = 1
"""The strongest trust tier that this version can give, where the system lets it."""


def tier_of(plan: Plan, at_least: int) -> int:
    """The tier of a plan's runs; `at_least` is what the configuration demands of every plan."""
    tier, plans = at_least, [plan]
    for _ in range(NESTED_PLANS_MAX + 1):  # deeper ones are refused, and one that holds itself has no end
        tier = max(tier, *(one.tier or 0 for one in plans))
        steps = (step for one in plans for step in (*one.steps, *one.fallbacks))
        inside = (nested_plan_of(step) for step in steps)
        plans = list({id(one): one for one in inside if one is not None}.values())
        if not plans:
            break
    return tier


def tier_problem(tier: int, why: str) -> Problem:
    """The refusal where a tier is demanded that cannot be had, and why."""
    hints: tuple[str, ...] = ("Nothing is run at a weaker tier instead.",)
    if tier <= STRONGEST:
        hints = ("On Debian and Ubuntu: apt-get install bubblewrap (0.8 or newer).", *hints)
    return Problem(code="E_TIER", detail=f"Trust tier {tier} is demanded and cannot be had here: {why}.", hints=hints)


# --- Sandbox ---------------------------------------------------------------------------------------------------------
# It is made of directories and files, and knows no patterns: so `writes` can name nothing else.


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one command may use, and what it sees besides the workspace and the system's own programs."""

    processes: int = 1024
    open_files: int = 4096
    file_mib: int = 4096
    memory_mib: int = 0
    """Address space of one process; 0: no limit."""
    tmp_mib: int = 1024
    """How much fits in `/tmp`, which is memory."""
    read: tuple[str, ...] = ()
    """Files and directories that can be read too, written from `/` or `~/`."""
    control: tuple[str, ...] = ()
    """Patterns of control files that the settings add; file tools keep to them at every tier."""


class Writable(msgspec.Struct, frozen=True, kw_only=True):
    """A directory with everything beneath it, or a file."""

    path: str
    directory: bool
    """Whether it must be a directory, and is made where it is not there."""


def writable(pattern: str) -> Writable | None:
    """What a pattern of `writes` lets a command write; None where that is no whole directory and no single file. The
    path is empty where it is the whole workspace."""
    text = normal(pattern)
    path = text.removesuffix("/**") if text != "**" else ""
    fits = text == "**" or (path and WILD.isdisjoint(path))
    return Writable(path=path, directory=path != text) if fits else None


# --- Requests: addresses and headers that mean one thing to everybody ------------------------------------------------

_ADDRESS = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>(?:[/?](?:[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*)?)"
)
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?")
_OURS = frozenset(
    ["host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect"]
)
"""Headers that say how the request is carried, which is not the plan's to say."""


class Address(Value, frozen=True):
    """The parts of an address. Two with the same origin lead to the same server."""

    scheme: str
    host: str
    port: int
    target: str
    """The path and the query, as they are sent."""

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host.lower(), self.port


def read_address(text: str) -> Address | None:
    """The address; None for what could be taken for another: with a password, a fragment, letters beyond ASCII."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return None
    port = int(found["port"]) if found["port"] is not None else _PORTS[found["scheme"]]
    scheme, host, target = found["scheme"], found["host"].strip("[]"), found["target"]
    target = target if target.startswith("/") else f"/{target}"
    return Address(scheme=scheme, host=host, port=port, target=target) if 0 < port < 65536 else None


def unescaped(text: str) -> str:
    """What the escapes of addresses in a text stand for."""
    return _ESCAPES.sub(lambda at: bytes.fromhex(at[0].replace("%", "")).decode("utf-8", "replace"), text)


def header_fault(headers: Mapping[str, str]) -> str | None:
    """What is wrong with the headers, as the end of a sentence; None when they can be sent."""
    seen = set()
    for name, value in headers.items():
        lower = name.lower()
        if not _NAME.fullmatch(name):
            return f"`{name}`, which is not the name of a header"
        if lower in _OURS or lower.startswith("proxy-"):
            return f"`{name}`, which is not for a plan to set"
        if lower in seen:
            return f"`{name}` twice"
        if value and not _VALUE.fullmatch(value):
            return f"`{name}` with a value that is not one line of plain characters"
        seen.add(lower)
    return None
