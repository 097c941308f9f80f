"""The page of every problem code, from `data/problems.toml`. Read only where somebody asks for one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from ordain.interfaces.view.result import picked


class Page(msgspec.Struct, frozen=True):
    """About one code. `summary` leaves out everything a user chose, so that it can be recognised."""

    summary: str
    meaning: str
    remedy: str


@cache
def problem_pages() -> Mapping[str, Page]:
    """Every page by its code."""
    return msgspec.convert(tomllib.loads(data_text("problems.toml")), dict[str, Page])


def data_text(name: str) -> str:
    """A text that comes with the package."""
    return files("ordain").joinpath("data", name).read_text(encoding="utf-8")


class PageResult(msgspec.Struct, frozen=True, kw_only=True):
    """The page about a problem's code."""

    code: str
    summary: str
    meaning: str
    remedy: str


def page_result(code: str, page: Page) -> PageResult:
    return picked(PageResult, page, code=code)
