"""What is written in JSON or YAML reads back as the same plan, and is written again byte for byte the same."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.canonical import canonical_bytes, plan_id
from ordain.core.plan.model import Plan
from ordain.documents.document import Document
from ordain.documents.reading import read
from ordain.documents.tree_writer import write_json, write_yaml
from ordain.documents.yaml import read_yaml, yaml_text
from tests.plans import LINES, TEXTS, VALUES, plans
from tests.rows import each


def read_text(text: str) -> Document:
    document = read(text.encode())
    assert document.problems == ()
    assert document.plan is not None
    return document


@given(plans())
def test_json_reads_back(plan: Plan) -> None:
    text = write_json(plan)
    document = read_text(text)
    assert document.notation == "json"
    assert document.plan is not None
    assert canonical_bytes(document.plan) == canonical_bytes(plan)
    assert write_json(document) == text


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
@given(plan=plans())
def test_yaml_reads_back(plan: Plan, loader: str) -> None:
    text = write_yaml(plan)
    with pytest.MonkeyPatch.context() as patch:
        if loader == "SafeLoader":  # as where PyYAML was built without libyaml
            patch.delattr(yaml, "CSafeLoader", raising=False)
        document = read_text(text)
    assert document.notation == "yaml"
    assert document.plan is not None
    assert canonical_bytes(document.plan) == canonical_bytes(plan)
    assert write_yaml(document) == text


@given(
    plans(),
    st.lists(st.tuples(LINES, TEXTS), max_size=3),
    st.dictionaries(st.sampled_from(["owner", "status", "tags"]), VALUES),
)
def test_notes_and_record_are_kept_and_never_hashed(
    plan: Plan, notes: list[tuple[str, str]], record: dict[str, Any]
) -> None:
    record = {key: value for key, value in record.items() if value is not None}
    source = Document(plan=plan, notes=tuple(notes), record={"": record} if record else {})
    for write in (write_json, write_yaml):
        again = read_text(write(source))
        assert again.plan is not None
        assert plan_id(again.plan) == plan_id(plan)
        assert again.notes == source.notes
        assert canonical_bytes(dict(again.record)) == canonical_bytes(dict(source.record))
        assert write(again) == write(source)


@given(plans(), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(plan: Plan, chance: Random) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            chance.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(inner) for inner in value] if isinstance(value, list) else value

    document = read_text(json.dumps(shuffled(json.loads(write_json(plan)))))
    assert document.plan is not None
    assert plan_id(document.plan) == plan_id(plan)


@given(plans())
def test_what_a_reader_fills_in_may_be_left_out(plan: Plan) -> None:
    """Ids that are slugs, needs that are the step before, defaults, and the version."""
    tree = json.loads(write_json(plan))
    del tree["plan_version"]
    before: list[str] = []
    for step in tree["steps"]:
        del step["step_number"]
        if step["needs"] == before:
            del step["needs"]
        before = [step["id"]]
    document = read_text(json.dumps(tree))
    assert document.plan is not None
    assert plan_id(document.plan) == plan_id(plan)


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
@given(value=VALUES | st.dictionaries(st.text("ab:# -'\"\n", max_size=1500), TEXTS))
def test_any_value_as_yaml(value: Any, loader: str) -> None:
    text = yaml_text(value)
    with pytest.MonkeyPatch.context() as patch:
        if loader == "SafeLoader":  # as where PyYAML was built without libyaml
            patch.delattr(yaml, "CSafeLoader", raising=False)
        again = read_yaml(text)
    assert again.problems == ()
    assert canonical_bytes(again.value) == canonical_bytes(value)


@each(
    "value, text",
    [
        ({"a": "plain words, really"}, "a: plain words, really\n"),
        ({"a": "no"}, 'a: "no"\n'),
        ({"a": "1.10"}, 'a: "1.10"\n'),
        ({"a": "- x"}, 'a: "- x"\n'),
        ({"a": "a: b"}, 'a: "a: b"\n'),
        ({"a": 'say "x"'}, 'a: say "x"\n'),
        ({"a": '"x"'}, "a: '\"x\"'\n"),
        ({"a": "one\ntwo\n"}, "a: |\n  one\n  two\n"),
        ({"a": "one\n\n  two"}, "a: |-\n  one\n\n    two\n"),
        ({"a": "one\ntwo\n\n"}, 'a: "one\\ntwo\\n\\n"\n'),
        ({"a": " one\ntwo"}, 'a: " one\\ntwo"\n'),
        (
            {"a": ["x", ["z"], {"b": 1, "c": []}, {}, None]},
            "a:\n  - x\n  - - z\n  - b: 1\n    c: []\n  - {}\n  - null\n",
        ),
        ({"a": ["one\ntwo"]}, "a:\n  - |-\n    one\n    two\n"),
        ({"a": "x\u2028"}, 'a: "x\\u2028"\n'),
        ({"k" * 2000: {"b": 1}}, "? " + "k" * 2000 + "\n:\n  b: 1\n"),
        ("x", "x\n"),
        (1e21, "1e+21\n"),
    ],
)
def test_yaml_spellings(value: Any, text: str) -> None:
    assert yaml_text(value) == text
    assert read_yaml(text).value == value


def test_a_document_that_could_not_be_read_is_never_written() -> None:
    with pytest.raises(ValueError, match="never written"):
        write_json(read(b"{}"))
