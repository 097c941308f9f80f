"""The keys of a state directory as a keyring."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ordain.adapters import keys
from ordain.core.signature import PublicKey, Signature
from ordain.ports import Credential

__all__ = ["FileKeyring"]


class FileKeyring:
    """ports.Keyring over key files. The directory is asked for only when a key is: few commands use one."""

    def __init__(self, directory: Callable[[], Path], cost: int = keys.COST) -> None:
        self._directory, self._cost = directory, cost

    def create(self, credential: Credential) -> PublicKey:
        return keys.create(self._directory(), credential.name, credential.passphrase, self._cost)

    def public_key(self, name: str) -> PublicKey | None:
        return keys.public_key(self._directory(), name)

    def sign(self, credential: Credential, statement: bytes) -> Signature | None:
        try:
            return keys.sign(self._directory(), credential.name, credential.passphrase, statement)
        except keys.WrongPassphrase:
            return None

    def verify(self, key: PublicKey, signature: Signature, statement: bytes) -> bool:
        return keys.verify(key, signature, statement)
