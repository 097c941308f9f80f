"""docs/plan-format.md tells the truth: its documents are read, and every name of the format is in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from ordain.core.canonical import plan_id
from ordain.core.condition import Precondition, Strategy, WaitCondition
from ordain.core.failure import FailurePolicy
from ordain.core.model import Action, Budget, ForEach, Parameter, Plan, Step
from ordain.documents.field_line import PLAN_FIELDS, STEP_FIELDS
from ordain.documents.front_matter import FOR_READERS
from ordain.documents.reading import read
from ordain.documents.shape import RECORD_FIELDS, STEP_RECORD_FIELDS

PAGE = (Path(__file__).parents[2] / "docs/plan-format.md").read_text()
FENCES = re.findall(r"^(`{3,})(\w+)\n(.*?)^\1$", PAGE, re.DOTALL | re.MULTILINE)
DOCUMENTS = [(language, text) for _, language, text in FENCES if language != "text"]
WORDS = set(re.findall(r"[a-z_]+", PAGE))


@pytest.mark.parametrize(("language", "text"), DOCUMENTS)
def test_its_documents_are_read(language: str, text: str) -> None:
    document = read(text.encode())
    assert document.problems == ()
    assert document.notation == {"md": "markdown"}.get(language, language)


def test_there_are_documents_in_all_notations() -> None:
    assert {language for language, _ in DOCUMENTS} == {"markdown", "md", "yaml", "json"}


def test_the_smallest_plan_is_the_same_in_json() -> None:
    first, second = (read(text.encode()).plan for _, text in DOCUMENTS[:2])
    assert first is not None
    assert second is not None
    assert plan_id(first) == plan_id(second)


HEADINGS = ("# Title", "## Steps", "## Fallbacks")


def test_every_field_is_in_it() -> None:
    shown = {PLAN_FIELDS.shown(name) for name in PLAN_FIELDS.names} | STEP_FIELDS.names | STEP_FIELDS.aliases.keys()
    shown |= {*FOR_READERS, *RECORD_FIELDS, *STEP_RECORD_FIELDS, *HEADINGS}
    assert {name for name in shown if f"`{name}`" not in PAGE} == {"Title"}  # which is written `title`


@pytest.mark.parametrize("kind", [Action, Precondition, Strategy, WaitCondition, FailurePolicy, Plan, Step, Budget])
def test_every_variant_and_its_fields_are_in_it(kind: Any) -> None:
    for variant in get_args(kind) or (kind, ForEach, Parameter):
        assert variant.__struct_config__.tag in {None, *WORDS}
        assert {field.encode_name for field in msgspec.structs.fields(variant)} <= WORDS
