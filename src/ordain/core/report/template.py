"""What the verbs about templates answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ordain.core.plan.model import Parameter
from ordain.core.plan.value import PlanId
from ordain.core.text.problem import Problem

TemplateSource = Literal["workspace", "user", "built-in"]
"""Where a template is kept. Of two with one name the first in this order is taken."""


class TemplateParameter(msgspec.Struct, frozen=True, kw_only=True):
    """A value that a template wants or takes."""

    name: str
    type: str
    description: str | None
    wanted: bool
    """There is no document without it."""
    default: Any
    files: str | None
    """The pattern whose matches are the value where none is given."""


class TemplateLine(msgspec.Struct, frozen=True, kw_only=True):
    """One template that `ordain new` can make a document of; with problems, one that it cannot."""

    name: str
    source: TemplateSource
    file: str
    title: str | None = None
    about: str | None = None
    """What its author says of it: the first paragraph below the title."""
    parameters: tuple[TemplateParameter, ...] = ()
    hidden: bool = False
    """Another one of the same name is taken in its place."""
    problems: tuple[Problem, ...] = ()


class TemplateList(msgspec.Struct, frozen=True, kw_only=True):
    """Every template that there is here."""

    templates: tuple[TemplateLine, ...]


class NewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document that was made and not stored anywhere; `sources` are what it was made of."""

    text: str
    notation: str
    plan_id: PlanId
    title: str
    steps: int
    sources: tuple[str, ...]
    written: str | None = None
    """The file that it was written to, where one was named."""


def template_parameters(params: Mapping[str, Parameter], wanted: frozenset[str]) -> tuple[TemplateParameter, ...]:
    """The parameters of a template, those first without which there is no document."""
    found = [
        TemplateParameter(
            name=name,
            type=one.type,
            description=one.description,
            wanted=one.default is None and one.files is None and (one.required or name in wanted),
            default=one.default,
            files=one.files,
        )
        for name, one in params.items()
    ]
    return tuple(sorted(found, key=lambda one: not one.wanted))
