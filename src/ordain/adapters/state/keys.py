"""Private keys of approvers: each in a file of the state directory, sealed under a passphrase that is kept nowhere.

A file holds the Ed25519 seed encrypted with ChaCha20-Poly1305 under scrypt; everything else in it is authenticated with
the seed. No key is ever replaced, and none counts because it lies here.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ordain.adapters.state.directory import PrivateFiles
from ordain.core.approval.signature import PublicKey, Signature, fingerprint, raw_key, raw_signature
from ordain.core.plan.canonical import canonical_bytes, digest
from ordain.core.text.problem import refuse
from ordain.ports.machine import Credential

PASSPHRASE_LENGTH_MIN = 8
COST = 2**17
"""scrypt's n for a new key: 128 MiB and a good part of a second for every guess."""
COST_MAX = 2**18
"""The most that a file may ask for, so that no file can take the machine's memory."""
FILE_BYTES_MAX = 4096
FILE_TYPE = "application/vnd.ordain.key-file.v1+json"
SEED_BYTES, SALT_BYTES, NONCE_BYTES, TAG_BYTES = 32, 16, 12, 16

_NAME = re.compile(r"[A-Za-z0-9_@-][A-Za-z0-9_.@-]{0,63}")


def _length(count: int) -> msgspec.Meta:
    return msgspec.Meta(min_length=count, max_length=count)


class WrongPassphrase(Exception):
    """The passphrase does not open the key; or somebody changed the file, which can not be told apart."""


class _Scrypt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the passphrase becomes the key that seals the seed."""

    n: int
    r: Literal[8] = 8
    p: Literal[1] = 1
    salt: Annotated[bytes, _length(SALT_BYTES)]

    def __post_init__(self) -> None:
        if not 2 <= self.n <= COST_MAX or self.n & (self.n - 1):
            raise ValueError(f"the cost {self.n} is no power of two up to {COST_MAX}")


class _KeyHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be read without the passphrase; authenticated with the seed."""

    version: Literal[1] = 1
    name: str
    public_key: PublicKey
    scrypt: _Scrypt
    nonce: Annotated[bytes, _length(NONCE_BYTES)]


class _KeyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    header: _KeyHeader
    sealed: Annotated[bytes, _length(SEED_BYTES + TAG_BYTES)]
    digest: str
    """Tells a damaged file from a wrong passphrase. It keeps nobody from changing the file: the seal does."""


def create(directory: Path, name: str, passphrase: str, cost: int = COST) -> PublicKey:
    """Make a key for `name`; raises Refused when there is one. `cost` is scrypt's n, which only tests lower."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    _check_name(name)
    if len(passphrase) < PASSPHRASE_LENGTH_MIN:
        raise refuse("E_APPROVER", f"The passphrase has fewer than {PASSPHRASE_LENGTH_MIN} characters.")
    seed = os.urandom(SEED_BYTES)
    header = _KeyHeader(
        name=name,
        public_key=public_half(seed),
        scrypt=_Scrypt(n=cost, salt=os.urandom(SALT_BYTES)),
        nonce=os.urandom(NONCE_BYTES),
    )
    cipher = ChaCha20Poly1305(_stretched(passphrase, header.scrypt))
    files = _files(directory)
    try:
        files.write(_file(name), _content(header, cipher.encrypt(header.nonce, seed, canonical_bytes(header))))
    except FileExistsError:
        raise files.refused(_file(name), "is there already, and no key is replaced") from None
    return header.public_key


def public_key(directory: Path, name: str) -> PublicKey | None:
    """The public half of a key that lies here, or None; as trustworthy as the file, which was not opened for it."""
    return found.header.public_key if (found := _read(directory, name)) is not None else None


def sign(directory: Path, name: str, passphrase: str, statement: bytes) -> Signature:
    """Sign with the key of `name`; raises WrongPassphrase, and Refused when there is no sound key."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    if (found := _read(directory, name)) is None:
        raise refuse(
            "E_APPROVER", f"There is no key of `{name}` here: {_files(directory).path(_file(name))} does not exist."
        )
    header = found.header
    cipher = ChaCha20Poly1305(_stretched(passphrase, header.scrypt))
    try:
        seed = cipher.decrypt(header.nonce, found.sealed, canonical_bytes(header))
    except InvalidTag:
        raise WrongPassphrase from None
    # Whoever knows the passphrase can seal anything; a signature must still not name another key than it was made with.
    if public_half(seed) != header.public_key:
        raise _files(directory).refused(_file(name), "holds two halves of a key that do not belong together")
    return signed(seed, statement)


def public_half(seed: bytes) -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return PublicKey(key=msgspec.to_builtins(public))


def signed(seed: bytes, statement: bytes) -> Signature:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    value = Ed25519PrivateKey.from_private_bytes(seed).sign(statement)
    return Signature(key=fingerprint(public_half(seed)), value=msgspec.to_builtins(value))


def verify(key: PublicKey, signature: Signature, statement: bytes) -> bool:
    """core.signature.Verifier: whether this key made this signature over these bytes, and the signature says so."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    with suppress(InvalidSignature, ValueError):
        Ed25519PublicKey.from_public_bytes(raw_key(key)).verify(raw_signature(signature), statement)
        return signature.key == fingerprint(key)
    return False


def _stretched(passphrase: str, how: _Scrypt) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    # One text may reach us composed or decomposed, by keyboard; and what the terminal could not decode still counts.
    secret = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
    return Scrypt(salt=how.salt, length=32, n=how.n, r=how.r, p=how.p).derive(secret)


def _content(header: _KeyHeader, sealed: bytes) -> bytes:
    whole = digest(FILE_TYPE, canonical_bytes({"header": header, "sealed": sealed}))
    return canonical_bytes(_KeyFile(header=header, sealed=sealed, digest=whole)) + b"\n"


def _read(directory: Path, name: str) -> _KeyFile | None:
    _check_name(name)
    files = _files(directory)
    if (content := files.read(_file(name), FILE_BYTES_MAX)) is None:
        return None
    try:
        found = msgspec.json.decode(content, type=_KeyFile)
    except ValueError:
        raise files.refused(_file(name), "is damaged, or no key file of this version") from None
    if content != _content(found.header, found.sealed):
        raise files.refused(_file(name), "is damaged: its digest is another")
    if found.header.name != name:
        raise files.refused(_file(name), f"holds the key of {found.header.name!a}")
    return found


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise refuse(
            "E_APPROVER",
            f"{name[:64]!a} is not the name of an approver.",
            "A name has up to 64 ASCII letters, digits and `_ - . @`, and does not begin with a dot.",
        )


def _files(directory: Path) -> PrivateFiles:
    return PrivateFiles(directory / "keys", "E_APPROVER")


def _file(name: str) -> str:
    return f"{name}.key"


class FileKeyring:
    """ports.Keyring over key files. The directory is asked for only when a key is: few commands use one."""

    def __init__(self, directory: Callable[[], Path], cost: int = COST) -> None:
        self._directory, self._cost = directory, cost

    def create(self, credential: Credential) -> PublicKey:
        return create(self._directory(), credential.name, credential.passphrase, self._cost)

    def public_key(self, name: str) -> PublicKey | None:
        return public_key(self._directory(), name)

    def sign(self, credential: Credential, statement: bytes) -> Signature | None:
        with suppress(WrongPassphrase):
            return sign(self._directory(), credential.name, credential.passphrase, statement)
        return None

    verify = staticmethod(verify)
