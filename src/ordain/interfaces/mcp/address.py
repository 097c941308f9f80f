"""Addresses of resources: matching one with its template. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from urllib.parse import unquote

_PLACE = re.compile(r"\{(\w+)\}")


def match(template: str, uri: str) -> Mapping[str, str] | None:
    """The names in an address that fit the places of a template; None where it is another address. A name never
    reaches over a stroke, however that is written."""
    found = _pattern(template).fullmatch(uri)
    return {name: unquote(text) for name, text in found.groupdict().items()} if found is not None else None


@cache
def _pattern(template: str) -> re.Pattern[str]:
    parts = _PLACE.split(template)
    written = [rf"(?P<{part}>[^/?#]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts)]
    return re.compile("".join(written))
