"""Addresses and headers: one meaning, or refused."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.core.lint.rules import lint
from ordain.core.lint.survey import Facts
from ordain.core.plan.action import CallTool
from ordain.core.plan.tool import BUILT_IN
from ordain.core.policy.effect import planned_effects
from ordain.core.policy.settings import Settings
from ordain.core.policy.tier import Address, header_fault, read_address
from tests.build import plan, step
from tests.rows import each


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("http://a", ("http", "a", 80, "/")),
        ("https://a.b-c.example:8443/x?y=%20&z#"[:-1], ("https", "a.b-c.example", 8443, "/x?y=%20&z")),
        ("http://a?x", ("http", "a", 80, "/?x")),
        ("http://[::1]:8080/", ("http", "::1", 8080, "/")),
        ("http://127.0.0.1/a//b/../c", ("http", "127.0.0.1", 80, "/a//b/../c")),
    ],
)
def test_addresses_are_taken_apart(text, parts):
    scheme, host, port, target = parts
    assert read_address(text) == Address(scheme=scheme, host=host, port=port, target=target)


@each(
    "text",
    [
        *("", "a", "//a", "ftp://a", "HTTP://a", "http:a", "http:///x", "http://", "file:///etc/passwd"),
        *("http://user@a/", "http://user:pass@a/", "http://good@evil/", "http://a/#part", "http://a\\@b/"),
        *("http://a:0/", "http://a:65536/", "http://a:x/", "http://a:/", "http://a:99999999999/"),
        *(
            "http://a/ b",
            "http://a/\r\nX: y",
            "http://a/\n",
            "http://a/\0",
            "http://a\t/",
            "http://a/%",
            "http://a/%zz",
        ),
        *(
            "http://аpple.example/",
            "http://a/ü",
            "http://-a/",
            "http://a-/",
            "http://.a/",
            "http://a./",
            "http://a/<x>",
        ),
        *("http://[::1", "http://[x]/", "http://a_b/", "http://a/\u202e"),
    ],
)
def test_what_could_be_read_in_two_ways_is_no_address(text):
    assert read_address(text) is None


@given(st.text(alphabet="htps:/.@#?%[]a1é \\\r\n", max_size=30) | st.from_regex(r"https?://.{0,20}", fullmatch=True))
def test_what_is_an_address_others_take_apart_alike(text):
    found = read_address(text)
    if found is not None:
        other = urlsplit(text)
        assert (other.scheme, other.hostname, other.username, other.fragment) == (
            found.scheme,
            found.host.lower(),
            None,
            "",
        )
        assert (other.port or {"http": 80, "https": 443}[other.scheme]) == found.port


def test_two_spellings_of_one_server_have_one_origin():
    one, two = read_address("http://A.example/x"), read_address("http://a.example:80/y")
    assert one is not None and two is not None and one.origin == two.origin


@pytest.mark.parametrize(
    "headers", [{}, {"Accept": "a/b"}, {"X-Empty": ""}, {"A": "b c\td"}, {"Content-Type": "application/json"}]
)
def test_good_headers(headers):
    assert header_fault(headers) is None


@each(
    "headers",
    [
        *({"A": "b\r\nC: d"}, {"A": "b\nc"}, {"A": "b\0"}, {"A": "ü"}, {"A": " b"}, {"A": "b "}, {"A": "\x7f"}),
        *({"": "x"}, {"A B": "x"}, {"A:": "x"}, {"A\r\n": "x"}, {"Ä": "x"}, {"X": "1", "x": "2"}),
        *({"host": "x"}, {"Content-Length": "0"}, {"Transfer-Encoding": "chunked"}, {"Proxy-Authorization": "x"}),
        *({"Connection": "x"}, {"Expect": "100-continue"}),
    ],
)
def test_headers_that_would_be_something_else(headers):
    assert header_fault(headers) is not None


def asking(**args):
    return replace(step("a"), action=CallTool(tool="http_request", args=args))


@each(
    "args, codes",
    [
        ({"url": "https://a/x"}, []),
        ({"url": "https://a/x", "method": "POST", "headers": {"A": "b"}, "body": "x", "status": 201}, []),
        ({"url": "https://a/${b.output}"}, []),
        ({"url": "${b.output}", "headers": {"A": "${b.output}"}}, []),
        ({}, ["E_TOOL_ARGS"]),
        ({"url": 1}, ["E_TOOL_ARGS"]),
        ({"url": "a"}, ["E_TOOL_ARGS"]),
        ({"url": "https://u@a/${b.output}"}, ["E_TOOL_ARGS"]),
        ({"url": "https://a/", "method": "get"}, ["E_TOOL_ARGS"]),
        ({"url": "https://a/", "method": "CONNECT"}, ["E_TOOL_ARGS"]),
        ({"url": "https://a/", "headers": {"Host": "b"}}, ["E_TOOL_ARGS"]),
        ({"url": "https://a/", "headers": ["A: b"]}, ["E_TOOL_ARGS"]),
        ({"url": "https://a/", "headers": {"A": 1}}, ["E_TOOL_ARGS"]),
        ({"url": "https://a/", "status": "200"}, ["E_TOOL_ARGS"]),
        ({"url": "https://a/", "retries": 3}, ["E_TOOL_ARGS"]),
    ],
)
def test_lint_says_what_is_wrong_with_a_request(args, codes):
    made = plan(step("b", run="true"), asking(**args))
    found = lint(made, Facts(tools=BUILT_IN, settings=Settings()))
    assert sorted(problem.code for problem in found) == codes


def test_a_request_is_shown_by_method_and_address():
    (effect,) = planned_effects(plan(asking(url="https://a/x", method="DELETE")), BUILT_IN)
    assert (effect.kind, effect.target, effect.effect) == ("request", "DELETE https://a/x", "opaque")
