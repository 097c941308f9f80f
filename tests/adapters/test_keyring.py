"""The keyring over files and its twin in memory: the same answers to the same questions."""

from pathlib import Path

import pytest

from tests.twins.workspace import MemoryKeyring
from tests.words import Credential, FileKeyring, Keyring, Refused, fingerprint, statement

KIM = Credential(name="kim", passphrase="correct horse")
SAID = statement("approval", {"plan_id": "plan:00"})


@pytest.fixture(params=["files", "memory"])
def keyring(request: pytest.FixtureRequest, tmp_path: Path) -> Keyring:
    return FileKeyring(lambda: tmp_path, cost=16) if request.param == "files" else MemoryKeyring()


def test_a_made_key_signs_and_verifies(keyring):
    assert keyring.public_key("kim") is None
    key = keyring.create(KIM)
    assert keyring.public_key("kim") == key
    signature = keyring.sign(KIM, SAID)
    assert signature is not None and signature.key == fingerprint(key)
    assert keyring.verify(key, signature, SAID)
    assert not keyring.verify(key, signature, SAID + b" ")


def test_a_wrong_passphrase_signs_nothing(keyring):
    keyring.create(KIM)
    assert keyring.sign(Credential(name="kim", passphrase="correct house"), SAID) is None


def test_no_key_is_replaced(keyring):
    key = keyring.create(KIM)
    with pytest.raises(Refused) as refused:
        keyring.create(Credential(name="kim", passphrase="another one"))
    assert refused.value.problems[0].code == "E_APPROVER"
    assert keyring.public_key("kim") == key
    assert keyring.sign(KIM, SAID) is not None


def test_another_persons_key_verifies_nothing_of_this_one(keyring):
    keyring.create(KIM)
    other = keyring.create(Credential(name="pat", passphrase="correct horse"))
    signature = keyring.sign(KIM, SAID)
    assert signature is not None and not keyring.verify(other, signature, SAID)


def test_the_directory_is_asked_for_only_when_a_key_is():
    """Most commands use none, and must not need a state directory for it."""
    asked: list[str] = []

    def directory() -> Path:
        asked.append("asked")
        raise FileNotFoundError

    files, memory = FileKeyring(directory), MemoryKeyring()
    key = memory.create(KIM)
    signature = memory.sign(KIM, SAID)
    assert signature is not None and files.verify(key, signature, SAID)
    assert asked == []
    with pytest.raises(FileNotFoundError):
        files.public_key("kim")


def test_a_passphrase_is_never_shown():
    assert "horse" not in repr(KIM) and "horse" not in str(KIM) and "horse" not in f"{[KIM]}"
