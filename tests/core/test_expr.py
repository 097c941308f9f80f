"""Expressions: what they name, that they are boolean, and that they are bounded and never true by mistake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordain.adapters.tools.cel import Cel
from ordain.core.plan.expr import EXPRESSION_BYTES_MAX, VARIABLES, ExpressionError, Expressions, Named, named
from tests.patience import hang_guard
from tests.rows import each

CEL: Expressions = Cel()
REPEATED = VARIABLES | {"item", "index"}


@each(
    "expression, found",
    [
        ("true", Named()),
        ('steps["a"].output == 1', Named(steps=("a",))),
        ("steps.a.exit_code == 0 && steps['b-c'].status == ''", Named(steps=("a", "b-c"), statuses=("a",))),
        ('steps["a"]["output"] == 1', Named(steps=("a",))),
        ('.steps["a"].output == 1', Named(steps=("a",))),
        ('1 in .steps["a"].output', Named(steps=("a",))),
        ('x.steps["a"]', Named(others=("x",))),
        ('f().steps["a"] + [1].steps.b', Named()),
        ('stps["a"].exit_code == 0 || itm > 1', Named(others=("stps", "itm"))),
        ("data.l.all(x, x.y > 0 && [x].map(w, w) == [z])", Named(data=("l",), others=("z",))),
        ("type(1) == int && null == null && size([]) in [0]", Named()),
        ("\"steps.a\" == r\"steps[\\\" + '''steps.b'''", Named()),
        ("// steps.a.output\ntrue", Named()),
        ('data.k == params["p"] && data.`odd key` == data.k', Named(data=("k", "odd key"), params=("p",))),
        ("size(data) == 1", Named()),
    ],
)
def test_what_an_expression_names(expression, found):
    assert named(expression) == found


@pytest.mark.parametrize(
    "expression",
    ["size(steps) == 1", "steps[data.x].output", 'steps["a"]', 'steps["a"].foo', 'steps["\\x61"].output', "steps"],
)
def test_a_step_is_named_in_one_way(expression):
    assert named(expression).faults


@pytest.mark.parametrize(
    "expression",
    [
        "true",
        'steps["a"].exit_code == 0',
        "data.x == 1 || params.y == 'z'",
        'steps["a"].output.matches("(a+)+$")',
        "[1, 2].all(x, x > 0) && data.list.exists(x, x == 1)",
        "has(data.x) ? data.x == true : false",
    ],
)
def test_good_expressions(expression):
    assert CEL.check(expression, VARIABLES) is None


LIST = "[" + "1," * 99 + "1]"


@each(
    "expression, fault",
    [
        ("", "syntax error"),
        ("true &&", "syntax error"),
        ("1 + 1", "it is not boolean, but of the type int"),
        ("'true'", "it is not boolean, but of the type string"),
        ("data.x", "nobody can know beforehand"),
        ("nothing", "undeclared reference to 'nothing'"),
        ("item == 1", "undeclared reference to 'item'"),
        ("nosuch(1)", "undeclared reference to 'nosuch'"),
        ("1 == 'a'", "found no matching overload"),
        (f"{LIST}.all(a, {LIST}.all(b, {LIST}.all(c, true)))", "iteration budget exceeded"),
        (f"data.x == 1 && {LIST}.all(a, {LIST}.all(b, {LIST}.all(c, true)))", "iteration budget exceeded"),
        ("(" * 100 + "true" + ")" * 100, "recursion limit"),
        (" " * EXPRESSION_BYTES_MAX + "true", "longer than 4096 bytes"),
        ("'\ud800' == ''", "half a character"),
    ],
)
def test_faults_are_told_in_a_few_words(expression, fault):
    found = CEL.check(expression, VARIABLES)
    assert found is not None
    assert fault in found
    assert "\n" not in found and len(found) < 250


def test_a_repeated_step_has_its_item():
    assert CEL.check("item.x == 1 && index < 3", REPEATED) is None
    assert CEL.check("page.x == 1", VARIABLES | {"page", "index"}) is None


def values(**variables):
    return {"steps": {}, "data": {}, "params": {}, **variables}


def test_evaluating():
    steps = {"a": {"output": {"n": [1, 2]}, "exit_code": 0, "status": "passed"}}
    assert CEL.evaluate('steps["a"].exit_code == 0 && steps["a"].output.n[1] == 2', values(steps=steps)) is True
    assert CEL.evaluate('steps["a"].status == "failed"', values(steps=steps)) is False
    assert CEL.evaluate("item == 1.0 && index == 0", values(item=1, index=0)) is True


@hang_guard
@pytest.mark.parametrize(
    ("expression", "variables"),
    [
        ('steps["a"].exit_code == 0', values()),
        ('steps["a"].exit_code == 0', {}),
        ("data.x == 1", values(data={"x": object()})),
        ("data.x == 1", values(data={"x": 2**70})),
        ("data.x > 1", values(data={"x": "a"})),
        ("data.x.startsWith('a')", values(data={"x": 1})),
        ("1 / data.x == 1", values(data={"x": 0})),
        ("data.x", values(data={"x": True})),
        ("data.x", values(data={"x": "true"})),
        ("data.x.all(a, data.x.all(b, true))", values(data={"x": list(range(1000))})),
        ("data.x.map(a, data.y + data.y).size() > 0", values(data={"x": [1] * 1000, "y": "x" * 1_000_000})),
        ("true &&", values()),
        ("nothing == 1", values()),
    ],
)
def test_an_error_is_never_true(expression, variables):
    with pytest.raises(ExpressionError):
        CEL.evaluate(expression, variables)


@hang_guard
@pytest.mark.parametrize(
    "expression",
    [
        "['x']" + ".map(a, a + a)" * 25 + ".size() == 1",
        "[[1]]" + ".map(a, a + a)" * 20 + ".size() == 1",
        "['x']" + ".map(a, a + a + a + a + a + a + a + a)" * 10 + ".size() == 1",
        "[[1]]" + ".map(a, [a, a])" * 25 + " == []",
        "['x']" + "".join(f".map(v{n}, v{n} + v{n})" for n in range(25)) + ".size() == 1",
        f"{LIST}.all(a, {LIST}.all(b, ({' + '.join(['string(a)'] * 200)}).size() > 0))",
    ],
)
def test_what_would_grow_too_large_is_refused_before_it_is_begun(expression):
    assert CEL.check(expression, VARIABLES) is not None
    with pytest.raises(ExpressionError):
        CEL.evaluate(expression, values())


@pytest.mark.parametrize(
    "expression",
    [
        "data.l.filter(x, x.size > 3).map(x, x.name).exists(n, n == 'a' || n == 'b')",
        "data.l.all(x, x.n > 0) && data.m.all(x, x.n > 0) && data.k.exists(x, x.n == 1)",
        "data.l.all(x, ['a', 'b', 'c'].exists(y, x.startsWith(y)))",
    ],
)
def test_ordinary_loops_are_let_pass(expression):
    assert CEL.check(expression, VARIABLES) is None


def test_ordinary_work_on_large_results_is_done():
    steps = {"a": {"output": "x" * 1_000_000}}
    assert CEL.evaluate('["a", "b"].exists(w, steps["a"].output.contains(w))', values(steps=steps)) is False
    assert CEL.evaluate('steps["a"].output.matches("^(x+)+$")', values(steps=steps)) is True


@given(st.text(max_size=60) | st.text(alphabet="steps[\"'a].output=0&|!() \\`/\n", max_size=40))
def test_any_text_is_checked_and_named_without_an_exception(text):
    named(text)
    fault = CEL.check(text, VARIABLES)
    assert fault is None or fault


PARTS = st.sampled_from(
    [
        "[1, 2]", "['x']", ".map(a, a + a)", ".map(a, [a])", ".all(b, b == a)", ".size()", " == 1", " && ", "data.x",
        "(", ")", ".filter(c, true)", ".exists(a, ", "a", " + ", "[a, a]", "!", "true", " ? 1 : 2", "'xxxxxxxx'", ", ",
    ]
)  # fmt: skip


@hang_guard
@given(st.lists(PARTS, max_size=60).map("".join))
def test_any_expression_is_checked_and_evaluated_in_bounded_time(text):
    fault = CEL.check(text, VARIABLES)
    try:
        found = CEL.evaluate(text, values(data={"x": ["y" * 1000] * 100}))
    except ExpressionError:
        found = None
    assert found is None or (isinstance(found, bool) and fault is None)
