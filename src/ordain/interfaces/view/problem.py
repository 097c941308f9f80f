"""The page of every problem code and the meaning of every word that is ours, read only where somebody asks for one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import msgspec


class Page(msgspec.Struct, frozen=True):
    """About one code. `summary` leaves out everything a user chose, so that it can be recognised."""

    summary: str
    meaning: str
    remedy: str


@cache
def problem_pages() -> Mapping[str, Page]:
    """Every page by its code."""
    import tomllib  # most commands explain nothing

    return msgspec.convert(tomllib.loads(data_text("problems.toml")), dict[str, Page])


def data_text(name: str) -> str:
    """A text that comes with the package."""
    from importlib.resources import files  # most commands read none

    return files("ordain").joinpath("data", name).read_text(encoding="utf-8")


class PageResult(msgspec.Struct, frozen=True, kw_only=True):
    """The page about a problem's code."""

    code: str
    summary: str
    meaning: str
    remedy: str


_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)[^)]*\)")


class WordResult(msgspec.Struct, frozen=True, kw_only=True):
    """A word that is ours, or that we use more narrowly than others do, and what it means."""

    words: tuple[str, ...]
    means: str


@cache
def glossary() -> tuple[WordResult, ...]:
    """Every word, in the order of the glossary."""
    import tomllib

    found = msgspec.convert(tomllib.loads(data_text("glossary.toml")), dict[str, str])
    return tuple(WordResult(words=tuple(names.split(", ")), means=means) for names, means in found.items())


def glossary_words() -> tuple[str, ...]:
    return tuple(word for entry in glossary() for word in entry.words)


def glossary_entry(word: str) -> WordResult | None:
    """What a word means, however it is written: `Effect-class` is `effect class`, `plans` is `plan`."""
    asked = " ".join(re.split(r"[\s_-]+", word.strip().lower()))
    for form in (asked, asked.removesuffix("s"), f"in {asked}"):
        for entry in glossary():
            if form in entry.words:
                return entry
    return None


def plain_text(means: str) -> str:
    """A meaning without the marks of Markdown; a link names the page it leads to."""
    return _LINK.sub(r"\1: docs/\2", means).replace("*", "")
