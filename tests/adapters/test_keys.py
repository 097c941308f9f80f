"""Keys in files: made once, whole and ours alone; opened by their passphrase only; and no change goes unnoticed.

The files of these tests are written by a second hand: `json`, `base64` and `hashlib.scrypt`.
"""

import base64
import errno
import hashlib
import json
import os
import shlex
import stat
import subprocess
import sys
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given, reject
from hypothesis import strategies as st

from ordain.adapters.state import keys
from tests.words import (
    PublicKey,
    Refused,
    Signature,
    Verifier,
    WrongPassphrase,
    create,
    fingerprint,
    public_key,
    raw_signature,
    sign,
    statement,
    verify,
)

COST = 16
PASSPHRASE = "correct horse"

# RFC 8032, 7.1: seed, public key, message, signature.
VECTORS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]

# Made once from the first seed of RFC 8032, salt 00..0f and nonce 00..0b; files like it must open for ever.
GOLDEN = (
    b'{"digest":"a12f01349149595c26925d3be7d91de02696a549993d604e47559976f96bf997",'
    b'"header":{"name":"alice@example.org","nonce":"AAECAwQFBgcICQoL",'
    b'"public_key":{"algorithm":"ed25519","key":"11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="},'
    b'"scrypt":{"n":16,"p":1,"r":8,"salt":"AAECAwQFBgcICQoLDA0ODw=="},"version":1},'
    b'"sealed":"m7lNSQixbNhwuDDrWLUsKe4ZhK7X8c10jjPUZXxRFdfQyxQcVJclXwRkQ8hyU1ow"}\n'
)
ALICE = "alice@example.org"


def base(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def key_of(raw: bytes) -> PublicKey:
    return PublicKey(key=base(raw))


def plain(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def with_digest(content: dict[str, Any]) -> bytes:
    """A key file whose digest is right, as whoever changes a file on purpose would write it."""
    body = plain({"header": content["header"], "sealed": content["sealed"]})
    name = b"application/vnd.ordain.key-file.v1+json"
    whole = hashlib.sha256(b"DSSEv1 %d %s %d %s" % (len(name), name, len(body), body)).hexdigest()
    return plain({**content, "digest": whole}) + b"\n"


def put(directory: Path, content: bytes, name: str = ALICE) -> Path:
    path = directory / "keys" / f"{name}.key"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def refusal(call: Any, *args: Any) -> str:
    """The sentence of the only problem, after a look that it is one of ours."""
    with pytest.raises(Refused) as caught:
        call(*args)
    (problem,) = caught.value.problems
    assert problem.code == "E_APPROVER"
    return problem.detail


def noticed(directory: Path) -> bool:
    """Whether neither half of the key in the golden file's place can be had."""
    detail = refusal(public_key, directory, ALICE)
    assert refusal(sign, directory, ALICE, PASSPHRASE, b"x") == detail
    return str(directory / "keys" / f"{ALICE}.key") in detail


def test_a_made_key_signs_and_its_public_half_verifies(tmp_path):
    made = create(tmp_path, "alice", PASSPHRASE, COST)
    said = statement("approval", {"plan_id": "plan:00"})
    signature = sign(tmp_path, "alice", PASSPHRASE, said)
    check: Verifier = verify
    assert public_key(tmp_path, "alice") == made
    assert signature.key == fingerprint(made)
    assert check(made, signature, said)
    assert not check(made, signature, statement("trust", {"plan_id": "plan:00"}))
    assert create(tmp_path, "bob", PASSPHRASE, COST) != made


def test_the_golden_file_is_written_and_opened_for_ever(tmp_path, monkeypatch):
    seed, raw, _, signed_nothing = VECTORS[0]
    chance = iter([bytes.fromhex(seed), bytes(range(16)), bytes(range(12))])
    monkeypatch.setattr(os, "urandom", lambda count: next(chance, bytes(count)))
    (tmp_path / "new").mkdir()
    made = create(tmp_path / "new", ALICE, PASSPHRASE, COST)
    assert (tmp_path / "new/keys" / f"{ALICE}.key").read_bytes() == GOLDEN

    put(tmp_path, GOLDEN)
    assert public_key(tmp_path, ALICE) == made == key_of(bytes.fromhex(raw))
    assert raw_signature(sign(tmp_path, ALICE, PASSPHRASE, b"")).hex() == signed_nothing
    said = statement("approval", {"plan_id": "plan:" + "0" * 64, "uses": 1, "names": ["é", None, True]})
    assert sign(tmp_path, ALICE, PASSPHRASE, said) == Signature(
        key="ed25519:21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9",
        value="ZXk1vvm8vYVF6GRBUL/oWkstwaO48nRq3L/u134JsPbGE6ovX3p3iJnJ85qUkviwWp6LbPYps7SLAbaeuxowCA==",
    )


def test_the_golden_file_is_what_it_is_said_to_be():
    """Opened by a second hand."""
    content = json.loads(GOLDEN)
    assert with_digest(content) == GOLDEN
    opening = hashlib.scrypt(PASSPHRASE.encode(), salt=bytes(range(16)), n=16, r=8, p=1, dklen=32)
    seed = ChaCha20Poly1305(opening).decrypt(
        bytes(range(12)), base64.b64decode(content["sealed"]), plain(content["header"])
    )
    assert seed.hex() == VECTORS[0][0]


def test_a_key_costs_128_mebibytes_a_guess_unless_a_test_says_otherwise(tmp_path):
    create(tmp_path, "alice", PASSPHRASE)
    header = json.loads((tmp_path / "keys/alice.key").read_bytes())["header"]
    assert {**header["scrypt"], "salt": ""} == {"n": 2**17, "r": 8, "p": 1, "salt": ""}


def test_nothing_is_drawn_twice(tmp_path):
    drawn = []
    for name in ("a", "b"):
        create(tmp_path, name, PASSPHRASE, COST)
        header = json.loads((tmp_path / f"keys/{name}.key").read_bytes())["header"]
        drawn += [header["nonce"], header["scrypt"]["salt"], header["public_key"]["key"]]
    assert len(set(drawn)) == 6


@pytest.mark.parametrize("passphrase", ["", "Correct horse", "correct horse ", "correct hors"])
def test_a_wrong_passphrase_opens_nothing(tmp_path, passphrase):
    put(tmp_path, GOLDEN)
    with pytest.raises(WrongPassphrase):
        sign(tmp_path, ALICE, passphrase, b"x")


def test_a_passphrase_counts_as_text_and_not_by_its_keyboard(tmp_path):
    composed, decomposed = (unicodedata.normalize(form, "café métro") for form in ("NFC", "NFD"))
    assert composed != decomposed
    made = create(tmp_path, "alice", decomposed, COST)
    assert verify(made, sign(tmp_path, "alice", composed, b"x"), b"x")


def test_a_passphrase_that_the_terminal_could_not_decode_still_counts(tmp_path):
    made = create(tmp_path, "alice", "\udcff" * 8, COST)
    assert verify(made, sign(tmp_path, "alice", "\udcff" * 8, b"x"), b"x")
    with pytest.raises(WrongPassphrase):
        sign(tmp_path, "alice", "\udcfe" * 8, b"x")


def test_a_short_passphrase_is_refused_and_makes_nothing(tmp_path):
    assert refusal(create, tmp_path, "alice", "1234567", COST) == "The passphrase has fewer than 8 characters."
    assert os.listdir(tmp_path) == []
    create(tmp_path, "alice", "12345678", COST)


@pytest.mark.parametrize("name", ["a", "A.b", "a@b.org", "_-.@", "-", "x" * 64])
def test_names_that_are_taken(tmp_path, name):
    made = create(tmp_path, name, PASSPHRASE, COST)
    assert public_key(tmp_path, name) == made
    assert os.listdir(tmp_path / "keys") == [f"{name}.key"]


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "a/b", "../a", "a\n", "a b", "a\0", "é", "ａ", "x" * 65])
def test_names_that_are_refused(tmp_path, name):
    for call in (
        lambda: create(tmp_path, name, PASSPHRASE, COST),
        lambda: public_key(tmp_path, name),
        lambda: sign(tmp_path, name, PASSPHRASE, b"x"),
    ):
        assert "is not the name of an approver" in refusal(call)
    assert os.listdir(tmp_path) == []


def test_where_no_key_is_there_is_none(tmp_path):
    assert public_key(tmp_path, "alice") is None
    assert str(tmp_path / "keys/alice.key") in refusal(sign, tmp_path, "alice", PASSPHRASE, b"x")
    assert os.listdir(tmp_path) == []
    create(tmp_path, "bob", PASSPHRASE, COST)
    assert public_key(tmp_path, "alice") is None


def test_directory_and_file_are_for_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        create(tmp_path, "alice", PASSPHRASE, COST)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "keys/alice.key").stat().st_mode) == 0o600


def test_a_key_is_never_replaced(tmp_path):
    made = create(tmp_path, "alice", PASSPHRASE, COST)
    before = (tmp_path / "keys/alice.key").read_bytes()
    assert "is there already" in refusal(create, tmp_path, "alice", "another passphrase", COST)
    assert (tmp_path / "keys/alice.key").read_bytes() == before
    assert os.listdir(tmp_path / "keys") == ["alice.key"]
    assert public_key(tmp_path, "alice") == made


def test_a_link_in_the_place_of_a_new_key_leads_nowhere(tmp_path):
    create(tmp_path, "bob", PASSPHRASE, COST)
    (tmp_path / "keys/alice.key").symlink_to(tmp_path / "elsewhere")
    assert "is there already" in refusal(create, tmp_path, "alice", PASSPHRASE, COST)
    assert not (tmp_path / "elsewhere").exists()


def test_of_those_who_make_one_key_at_a_time_one_wins(tmp_path, monkeypatch):
    hands, really_link = 4, os.link
    together = threading.Barrier(hands, timeout=30)

    def link(*args: Any, **options: Any) -> None:
        together.wait()
        really_link(*args, **options)

    def make(number: int) -> PublicKey | None:
        try:
            return create(tmp_path, "alice", f"passphrase {number}", COST)
        except Refused:
            return None

    monkeypatch.setattr(os, "link", link)
    with ThreadPoolExecutor(hands) as pool:
        made = list(pool.map(make, range(hands)))
    (winner,) = [number for number, key in enumerate(made) if key is not None]
    assert public_key(tmp_path, "alice") == made[winner]
    assert verify(made[winner], sign(tmp_path, "alice", f"passphrase {winner}", b"x"), b"x")
    assert os.listdir(tmp_path / "keys") == ["alice.key"]


@pytest.mark.parametrize("call", ["fsync", "link"])
def test_what_is_not_written_whole_is_not_there(tmp_path, monkeypatch, call):
    create(tmp_path, "bob", PASSPHRASE, COST)

    def full(*args: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        assert "no space left" in refusal(create, tmp_path, "alice", PASSPHRASE, COST)
    assert os.listdir(tmp_path / "keys") == ["bob.key"]
    assert public_key(tmp_path, "alice") is None
    create(tmp_path, "alice", PASSPHRASE, COST)


@pytest.mark.part(of=3)
@pytest.mark.parametrize("flip", [0x01, 0x20, 0x80])
def test_a_change_of_any_byte_is_noticed(tmp_path, flip):
    for place in range(len(GOLDEN)):
        changed = bytearray(GOLDEN)
        changed[place] ^= flip
        put(tmp_path, bytes(changed))
        assert noticed(tmp_path), place


def test_a_file_cut_short_or_longer_is_noticed(tmp_path):
    for size in range(len(GOLDEN)):
        put(tmp_path, GOLDEN[:size])
        assert noticed(tmp_path), size
    for more in (b" ", b"\n", b"{}", b" " * 5000):
        put(tmp_path, GOLDEN + more)
        assert noticed(tmp_path)


FIELDS = [("header", "public_key", "key"), ("header", "nonce"), ("header", "scrypt", "salt"), ("sealed",)]


def at(content: Any, field: tuple[str, ...]) -> Any:
    for part in field[:-1]:
        content = content[part]
    return content


@pytest.mark.parametrize("field", FIELDS, ids=".".join)
def test_a_change_of_any_byte_on_purpose_opens_nothing(tmp_path, field):
    """With the digest made right, the seal is what notices."""
    raw = base64.b64decode(at(json.loads(GOLDEN), field)[field[-1]])
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1
        content = json.loads(GOLDEN)
        at(content, field)[field[-1]] = base(bytes(changed))
        put(tmp_path, with_digest(content))
        with pytest.raises(WrongPassphrase):
            sign(tmp_path, ALICE, PASSPHRASE, b"x")


def test_another_cost_opens_nothing(tmp_path):
    content = json.loads(GOLDEN)
    content["header"]["scrypt"]["n"] = 32
    put(tmp_path, with_digest(content))
    with pytest.raises(WrongPassphrase):
        sign(tmp_path, ALICE, PASSPHRASE, b"x")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            (("header", "scrypt", "n"), cost)
            for cost in (-16, 0, 1, 3, 17, 2**18 + 1, 2**19, 2**40, 2**63, 2**64, 16.5)
        ),
        *((("header", "scrypt", "r"), value) for value in (0, 1, 9, 2**30)),
        *((("header", "scrypt", "p"), value) for value in (0, 2, 2**30)),
        (("header", "version"), 2),
        (("header", "name"), "bob"),
        (("header", "name"), 1),
        (("header", "nonce"), base(bytes(8))),
        (("header", "scrypt", "salt"), ""),
        (("header", "scrypt", "salt"), base(bytes(1024))),
        (("header", "public_key", "key"), base(bytes(31))),
        (("header", "public_key", "algorithm"), "ed448"),
        (("header", "public_key", "more"), 1),
        (("header", "more"), 1),
        (("sealed",), base(bytes(47))),
        (("sealed",), base(bytes(49))),
        (("more",), 1),
    ],
)
def test_what_no_key_file_says_is_refused_before_it_costs_anything(tmp_path, monkeypatch, field, value):
    def stretched(*args: Any) -> bytes:
        raise AssertionError("scrypt was started")

    monkeypatch.setattr(keys, "_stretched", stretched)
    content = json.loads(GOLDEN)
    at(content, field)[field[-1]] = value
    put(tmp_path, with_digest(content))
    assert noticed(tmp_path)


def test_a_file_in_another_spelling_is_refused(tmp_path):
    for spelt in (
        json.dumps(json.loads(GOLDEN), indent=1).encode(),
        GOLDEN.replace(b'{"digest"', b'{"digest":"","digest"'),
    ):
        put(tmp_path, spelt)
        assert noticed(tmp_path)


def test_halves_that_do_not_belong_together_sign_nothing(tmp_path):
    """Only who knows the passphrase can make such a file."""
    content = json.loads(GOLDEN)
    content["header"]["public_key"]["key"] = base(bytes.fromhex(VECTORS[1][1]))
    opening = hashlib.scrypt(PASSPHRASE.encode(), salt=bytes(range(16)), n=16, r=8, p=1, dklen=32)
    seed = bytes.fromhex(VECTORS[0][0])
    content["sealed"] = base(ChaCha20Poly1305(opening).encrypt(bytes(range(12)), seed, plain(content["header"])))
    put(tmp_path, with_digest(content))
    assert "do not belong together" in refusal(sign, tmp_path, ALICE, PASSPHRASE, b"x")


@given(content=st.binary(max_size=60) | st.text(max_size=60).map(lambda text: json.dumps({"header": text}).encode()))
def test_any_other_content_is_refused(tmp_path_factory, content):
    directory = tmp_path_factory.mktemp("state")
    put(directory, content)
    assert noticed(directory)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_key_that_others_reach_is_refused_with_the_cure(tmp_path, mode):
    path = put(tmp_path, GOLDEN)
    path.chmod(mode)
    assert noticed(tmp_path)
    with pytest.raises(Refused) as caught:
        public_key(tmp_path, ALICE)
    subprocess.run(shlex.split(caught.value.problems[0].command or ""), check=True)
    assert public_key(tmp_path, ALICE) is not None


def test_a_directory_that_others_reach_is_refused(tmp_path):
    put(tmp_path, GOLDEN)
    (tmp_path / "keys").chmod(0o750)
    for call in (
        public_key,
        lambda *given: sign(*given, PASSPHRASE, b"x"),
        lambda *given: create(*given, PASSPHRASE, COST),
    ):
        assert refusal(call, tmp_path, ALICE) == f"{tmp_path / 'keys'} can be read or written by others."


def test_what_belongs_to_another_user_is_refused(tmp_path, monkeypatch):
    put(tmp_path, GOLDEN)
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    assert "belongs to another user" in refusal(public_key, tmp_path, ALICE)


def test_a_link_in_the_place_of_a_key_is_not_followed(tmp_path):
    path = put(tmp_path, GOLDEN)
    path.rename(tmp_path / "real")
    path.symlink_to(tmp_path / "real")
    assert noticed(tmp_path)
    assert refusal(public_key, tmp_path, ALICE).endswith("cannot be read: it is a link.")


def test_a_link_in_the_place_of_the_directory_is_not_followed(tmp_path):
    put(tmp_path, GOLDEN)
    (tmp_path / "keys").rename(tmp_path / "real")
    (tmp_path / "keys").symlink_to(tmp_path / "real")
    assert noticed(tmp_path)
    assert "cannot be written" in refusal(create, tmp_path, "bob", PASSPHRASE, COST)


def test_a_pipe_or_directory_in_the_place_of_a_key_is_refused_at_once(tmp_path):
    path = put(tmp_path, GOLDEN)
    path.unlink()
    os.mkfifo(path, 0o600)
    assert noticed(tmp_path)
    assert refusal(public_key, tmp_path, ALICE) == f"{path} is not a regular file."
    path.unlink()
    path.mkdir(0o700)
    assert noticed(tmp_path)


@pytest.mark.parametrize(("seed", "raw", "message", "value"), VECTORS)
def test_the_vectors_of_rfc_8032_verify(seed, raw, message, value):
    key, said = key_of(bytes.fromhex(raw)), bytes.fromhex(message)
    good = bytes.fromhex(value)
    assert verify(key, Signature(key=fingerprint(key), value=base(good)), said)
    assert not verify(key, Signature(key=fingerprint(key), value=base(good)), said + b"\0")
    for place in range(64):
        bad = bytearray(good)
        bad[place] ^= 1
        assert not verify(key, Signature(key=fingerprint(key), value=base(bytes(bad))), said)


def test_a_signature_has_one_value_only():
    """Its second half is a number below the group's order; the same number plus the order is refused."""
    _, raw, message, value = VECTORS[0]
    key, good = key_of(bytes.fromhex(raw)), bytes.fromhex(value)
    order = 2**252 + 27742317777372353535851937790883648493
    bad = good[:32] + (int.from_bytes(good[32:], "little") + order).to_bytes(32, "little")
    assert not verify(key, Signature(key=fingerprint(key), value=base(bad)), bytes.fromhex(message))


def test_a_good_signature_that_names_another_key_is_not_good():
    (_, raw, message, value), (_, other, _, _) = VECTORS[:2]
    key, said = key_of(bytes.fromhex(raw)), bytes.fromhex(message)
    named = Signature(key=fingerprint(key_of(bytes.fromhex(other))), value=base(bytes.fromhex(value)))
    assert not verify(key, named, said)
    assert not verify(key_of(bytes.fromhex(other)), named, said)


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=64, max_size=64), st.binary(max_size=40))
def test_verify_says_no_to_anything_else_and_never_raises(raw, value, said):
    try:
        key = key_of(raw)
    except ValueError:  # a weak one, for which such signatures are easily found
        reject()
    assert verify(key, Signature(key=fingerprint(key), value=base(value)), said) is False


def test_importing_keys_does_not_load_the_cryptography():
    code = "import sys, ordain.adapters.state.keys; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
