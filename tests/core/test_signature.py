"""Keys and signatures have one spelling; two statements are never the same bytes."""

import base64
import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ordain.core.approval.signature import PublicKey, Signature, fingerprint, raw_key, raw_signature, statement
from ordain.core.plan.canonical import digest
from tests.rows import each

KEY = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
FINGERPRINT = "ed25519:21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9"
VALUE = base64.b64encode(bytes(range(64))).decode()


def test_a_fingerprint_is_the_whole_digest_of_the_raw_key():
    key = PublicKey(key=KEY)
    assert raw_key(key) == base64.b64decode(KEY)
    assert fingerprint(key) == FINGERPRINT == "ed25519:" + hashlib.sha256(base64.b64decode(KEY)).hexdigest()


def test_values_survive_json():
    for value in (PublicKey(key=KEY), Signature(key=FINGERPRINT, value=VALUE)):
        assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value
    assert raw_signature(Signature(key=FINGERPRINT, value=VALUE)) == bytes(range(64))


OTHER_SPELLING = KEY[:-2] + "p="
"""Its last character differs from the key's only in bits that are thrown away."""


def test_there_is_another_spelling_that_decoders_let_pass():
    assert base64.b64decode(OTHER_SPELLING, validate=True) == base64.b64decode(KEY)


@each(
    "text",
    [
        "",
        "é" * 44,
        KEY + "\n",
        " " + KEY,
        KEY.rstrip("="),
        KEY.replace("/", "_"),
        OTHER_SPELLING,
        base64.b64encode(bytes(31)).decode(),
        base64.b64encode(bytes(33)).decode(),
    ],
)
def test_what_is_no_key_is_not_made_one(text):
    with pytest.raises(ValueError, match="the key "):
        PublicKey(key=text)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode({"key": text}), type=PublicKey)


def test_another_algorithm_is_no_key_of_ours():
    with pytest.raises(ValueError, match="algorithm is 'rsa'"):
        PublicKey(algorithm="rsa", key=KEY)


PRIME = 2**255 - 19
CURVE = -121665 * pow(121666, -1, PRIME) % PRIME


def small_order(y: int) -> bool:
    """Whether a point with this y, doubled three times, is the neutral one; by RFC 8032's formulas, in y² alone."""
    for _ in range(3):
        square = y * y % PRIME
        # x² from the curve, and with it the doubled point's y = (y² + x²) / (1 - d x² y²).
        x_square = (square - 1) * pow(CURVE * square + 1, -1, PRIME) % PRIME
        y = (square + x_square) * pow(1 - CURVE * x_square * square, -1, PRIME) % PRIME
    return y == 1


EIGHTH = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
WEAK = [0, 1, PRIME - 1, EIGHTH, PRIME - EIGHTH]
"""One, one, and three times two points: all eight of them."""


@pytest.mark.parametrize("sign", [0, 2**255])
@pytest.mark.parametrize("y", [*WEAK, PRIME, PRIME + 1])
def test_a_key_for_which_anybody_could_sign_is_none(y, sign):
    assert small_order(y)
    with pytest.raises(ValueError, match="weak"):
        PublicKey(key=base64.b64encode((y + sign).to_bytes(32, "little")).decode())


@given(st.integers(0, 40) | st.integers(PRIME - 40, 2**255 - 1) | st.integers(0, 2**255 - 1))
def test_no_other_key_is_weak(y):
    text = base64.b64encode(y.to_bytes(32, "little")).decode()
    if small_order(y):
        with pytest.raises(ValueError, match="weak"):
            PublicKey(key=text)
    else:
        assert PublicKey(key=text).key == text


@pytest.mark.parametrize("name", ["", FINGERPRINT[:-1], FINGERPRINT.upper(), FINGERPRINT + "\n", "sha256:" + "0" * 64])
def test_a_signature_names_its_key_by_the_whole_fingerprint(name):
    with pytest.raises(ValueError, match="fingerprint"):
        Signature(key=name, value=VALUE)


@pytest.mark.parametrize("value", ["", KEY, VALUE + "AAAA", VALUE.rstrip("="), "-" * 88])
def test_what_is_no_signature_is_not_made_one(value):
    with pytest.raises(ValueError, match="the signature "):
        Signature(key=FINGERPRINT, value=value)


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_equal_fingerprint_exactly_when_equal_key(one, other):
    assume(any(one[1:]) and any(other[1:]))  # not weak
    keys = [PublicKey(key=base64.b64encode(raw).decode()) for raw in (one, other)]
    assert (fingerprint(keys[0]) == fingerprint(keys[1])) == (one == other)


def test_the_bytes_that_are_signed_never_change():
    """Written out, so that the code cannot drift together with its tests: old signatures must stay good."""
    value = {"plan_id": "plan:00", "uses": 1, "names": ("é", None, True)}
    assert statement("approval", value) == (
        b"DSSEv1 39 application/vnd.ordain.approval.v1+json 55 "
        b'{"names":["\xc3\xa9",null,true],"plan_id":"plan:00","uses":1}'
    )


def test_a_statement_is_framed_as_the_preimage_of_a_digest_is():
    made = hashlib.sha256(statement("plan", {"a": 1})).hexdigest()
    assert made == digest("application/vnd.ordain.plan.v1+json", b'{"a":1}')


# Few letters, and those of the framing itself, so that borders are imitated and values coincide.
TEXT = st.text('a1 "{}:,', max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


def said(value: Any) -> Any:
    """A value such that no boolean equals a number."""
    if isinstance(value, dict):
        return {key: said(inner) for key, inner in value.items()}
    return [said(inner) for inner in value] if isinstance(value, list) else (isinstance(value, bool), value)


@given(TEXT, VALUES, TEXT, VALUES)
def test_equal_statement_exactly_when_equal_kind_and_value(kind, value, other_kind, other):
    same = kind == other_kind and said(value) == said(other)
    assert (statement(kind, value) == statement(other_kind, other)) == same


@given(TEXT, VALUES, VALUES)
def test_statements_of_one_kind_differ_by_value(kind, value, other):
    assert (statement(kind, value) == statement(kind, other)) == (said(value) == said(other))


@given(TEXT, TEXT, VALUES)
def test_statements_of_one_value_differ_by_kind(kind, other, value):
    assert (statement(kind, value) == statement(other, value)) == (kind == other)
