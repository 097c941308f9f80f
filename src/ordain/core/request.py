"""What may be sent to an HTTP server: addresses and headers that mean one thing to everybody who reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ordain.core.value import Value

__all__ = ["Address", "header_fault", "read_address"]

_ADDRESS = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>(?:[/?](?:[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*)?)"
)
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
    """The address, or None for what is none, or could be taken for another: one with a name and password, a
    fragment, letters beyond ASCII."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return None
    port = int(found["port"]) if found["port"] is not None else _PORTS[found["scheme"]]
    target = found["target"]
    if not 0 < port < 65536:
        return None
    return Address(
        scheme=found["scheme"],
        host=found["host"].strip("[]"),
        port=port,
        target=target if target.startswith("/") else f"/{target}",
    )


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
