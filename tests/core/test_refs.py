"""References: what is one, what it refers to, and what is only text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.refs import (
    Default,
    Index,
    Item,
    ParamValue,
    Reference,
    StepExitCode,
    StepOutput,
    StoredData,
    Unreadable,
    is_reference,
    literal,
    misplaced_reference,
    parse,
    references,
    spelt,
    without_references,
)
from tests.plans import NAMES
from tests.rows import each


@each(
    "text, reference",
    [
        ("${a.output}", Reference(source=StepOutput(step="a"))),
        ("${ a.output }", Reference(source=StepOutput(step="a"))),
        ("${a-1_b.output.items[0].id}", Reference(source=StepOutput(step="a-1_b", path=("items", 0, "id")))),
        ('${s.output["a.b"]}', Reference(source=StepOutput(step="s", path=("a.b",)))),
        ('${s.output["}\\"]"].x}', Reference(source=StepOutput(step="s", path=('}"]', "x")))),
        ("${a.exit_code}", Reference(source=StepExitCode(step="a"))),
        ("${data.KEY}", Reference(source=StoredData(key="KEY"))),
        ('${data["a key"].part[2]}', Reference(source=StoredData(key="a key", path=("part", 2)))),
        ("${params.NAME}", Reference(source=ParamValue(name="NAME"))),
        ("${item}", Reference(source=Item())),
        ("${item.name}", Reference(source=Item(path=("name",)))),
        ("${page[0]}", Reference(source=Item(name="page", path=(0,)))),
        ("${index}", Reference(source=Index())),
        ('${a.output ?? "x } y"}', Reference(source=StepOutput(step="a"), default=Default(value="x } y"))),
        ("${a.output??-1.5e2}", Reference(source=StepOutput(step="a"), default=Default(value=-150.0))),
        ("${a.output ?? null}", Reference(source=StepOutput(step="a"), default=Default(value=None))),
        ("${a.output ?? []}", Reference(source=StepOutput(step="a"), default=Default(value=[]))),
        ("${item.x ?? true}", Reference(source=Item(path=("x",)), default=Default(value=True))),
    ],
)
def test_every_form_is_found_and_read(text, reference):
    assert list(references(text, "page")) == [text]
    assert parse(text, "page") == reference
    assert is_reference(text, "page")
    assert not is_reference(f"x{text}", "page")
    assert without_references(f"out/{text}/y", "page") == "out/x/y"
    assert list(references({"a": [f"see {text} and", {"b": (text,)}], "c": 1}, "page")) == [text, text]


@each(
    "text",
    [
        "${a.output",
        "${a.output ?? x}",
        "${a.output ?? 1e999}",
        "${a.output.0}",
        '${a.output["x]}',
        '${a.output["\\q"]}',
        "${a.output[1234567890]}",
        "${a.exit_code.x}",
        "${index.x}",
        "${data[0]}",
        "${data.}",
        "${params.a.b}",
        "${params[]}",
    ],
)
def test_what_can_only_be_meant_as_one_is_found_and_not_readable(text):
    (found,) = references(text)
    assert isinstance(parse(found), Unreadable)


@each(
    "text",
    [
        "$HOME",
        "$5.00",
        "$$",
        "${HOME}",
        "${x",
        "${items}",
        "${item-1}",
        "${a}",
        "${a.outputs}",
        "${database.x}",
        "$${a.output}",
        "$${item}",
        "$$${a.output}",
        "{a.output}",
        "$ {a.output}",
    ],
)
def test_anything_else_is_literal(text):
    assert list(references(text)) == []
    assert not is_reference(text)
    assert without_references(text) == text


def test_the_escape_is_taken_away_when_the_call_is_made():
    assert literal({"a": ["$${x} $$", 1]}) == {"a": ["${x} $$", 1]}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("echo ${a.output}", "${a.output}"),
        ("echo ${a.exit_code} ${b}", "${a.exit_code}"),
        ("echo ${data.k}", "${data.k}"),
        ('echo "${params["x"]}"', '${params["x"]}'),
        ("echo ${HOME} ${nobody.output} ${a} $${a.output} ${database.x}", None),
    ],
)
def test_in_commands_and_prose_only_known_names_count(text, found):
    assert misplaced_reference(text, {"a"}) == found


@given(st.text(alphabet='${}a.output exit_code item[0]"?x\\-\n', max_size=60))
def test_any_text_is_read_or_not_and_never_fails(text):
    for found in references(text):
        assert found in text
        parse(found)
    assert "${a.output}" not in without_references(text).replace("$${", "")


@given(st.lists(st.one_of(st.integers(0, 999), st.text(max_size=8)), max_size=4), st.text(max_size=8))
def test_what_is_written_is_read(path, default):
    import json

    shown = "".join(f"[{json.dumps(part)}]" for part in path)
    text = f"${{s.output{shown} ?? {json.dumps(default)}}}"
    assert list(references(text)) == [text]
    wanted = Reference(source=StepOutput(step="s", path=tuple(path)), default=Default(value=default))
    assert parse(text) == wanted


@given(st.text(max_size=80) | st.text(alphabet='${}a.output exit_code item[0]"?x\\-\n', max_size=60), NAMES)
def test_any_text_is_parsed_or_not_and_never_fails(text, item):
    parse(text, item)
    literal(text)
    misplaced_reference(text, {"a"})
    is_reference(text, item)


PATHS = st.lists(st.integers(0, 999_999_999) | st.text(max_size=8), max_size=4).map(tuple)
SOURCES = st.one_of(
    st.builds(StepOutput, step=NAMES, path=PATHS),
    st.builds(StepExitCode, step=NAMES),
    st.builds(StoredData, key=st.text(max_size=8), path=PATHS),
    st.builds(ParamValue, name=st.text(max_size=8)),
    st.builds(Item, name=st.just("page"), path=PATHS),
    st.builds(Index),
)
DEFAULTS = st.builds(Default, value=st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just([]))


@given(st.builds(Reference, source=SOURCES, default=st.none() | DEFAULTS))
def test_spelling_and_parsing_are_inverse(reference):
    text = spelt(reference)
    assert parse(text, "page") == reference
    assert list(references(f"see {text}, and", "page")) == [text]
    assert spelt(parse(text, "page")) == text


@given(st.text(alphabet='${}a.output exit_code item[0]"?x\\- ', max_size=60))
def test_what_is_found_means_the_same_however_it_is_spelt(text):
    for found in references(text):
        reference = parse(found)
        if isinstance(reference, Reference):
            assert parse(spelt(reference)) == reference


def test_a_value_that_holds_itself_has_an_end():
    value = ["${a.output}"]
    value.append(value)
    assert list(references({"a": value})) == ["${a.output}"]
