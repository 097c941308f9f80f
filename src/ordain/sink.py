"""The one place where what was observed becomes what may be written and shown: redacted, bounded, sealed.

Whatever comes from outside (a command's output, a tool's result, an error's text, a person's words) goes through a
sink before it stands in an event. The exact bytes go beside the chain, committed to by a seal that needs a key: a
plain hash would let a secret in them be guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ordain.core.redaction import Redactor

__all__ = ["Observed", "Sink"]

TAIL_CHARACTERS = 4000
"""How much of an output stands in the ledger to be shown."""


class Observed(NamedTuple):
    """An output as it may stand in an event."""

    tail: str
    size: int
    seal: str


class Sink:
    """Redacts with one set of secrets and seals for one ledger."""

    def __init__(self, redactor: Redactor, seal: Callable[[bytes], str]) -> None:
        self._redactor, self.seal = redactor, seal

    def text(self, text: str) -> str:
        """A text without the secrets in it."""
        return self._redactor.text(text)

    def output(self, data: bytes, size: int | None = None) -> Observed:
        """The end of an output of this size; of all of it where no size is given."""
        if not data:
            return Observed("", size or 0, "")
        whole = size is None or size == len(data)
        tail = self._redactor.tail(data, TAIL_CHARACTERS, whole=whole)
        return Observed(tail, len(data) if size is None else size, self.seal(data))
