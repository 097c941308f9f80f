"""The one place where what was observed becomes what may be written and shown: redacted, bounded, sealed.

Whatever comes from outside goes through a sink before it stands in an event. The exact bytes go beside the chain,
committed to by a seal that needs a key: a plain hash would let a secret in them be guessed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ordain.core.run.attempt import whole_seal
from ordain.core.text.limit import ARTIFACT_BYTES_MAX, OUTPUT_BYTES_MAX
from ordain.core.text.redaction import BLOCK_MAX, Hidden, Redactor
from ordain.core.text.tail import CUT_MARK, marked_tail
from ordain.ports.ledger import Artifact
from ordain.ports.process import PART_BYTES, Whole

TAIL_CHARACTERS = 4000
"""How much of an output stands in the ledger to be shown, after a mark where more came before it."""
SO_FAR_CHARACTERS = 1000
"""How much of one that is still being written is told."""


class Observed(NamedTuple):
    """An output as it may stand in an event."""

    tail: str
    size: int
    seal: str
    whole_seal: str = ""


class Sink:
    """Redacts with one set of secrets and seals for one ledger."""

    def __init__(self, redactor: Redactor, seal: Callable[[bytes], str]) -> None:
        self._redactor, self.seal = redactor, seal

    def text(self, text: str) -> str:
        return self._redactor.text(text)

    @property
    def ahead(self) -> int:
        """How many bytes more than are to be shown `beginning` wants to see."""
        return self._redactor.ahead

    def beginning(self, data: bytes, *, whole: bool) -> tuple[bytes, int]:
        """The beginning of something, or all of it, without the secrets in it; and how many those were."""
        return self._redactor.beginning(data, whole=whole)

    def words(self, data: bytes, *, whole: bool) -> bytes:
        """What an agent said, or the end of it, as it is kept: without its secrets, for nobody needs it exactly."""
        if whole:
            return self._redactor.data(data)
        return self._redactor.tail(data, 4 * len(data), whole=False).encode("utf-8", "replace")

    def value(self, value: Any) -> Any:
        """The same of a value; as text where it is still not without secrets then, such as a number that is one."""
        clean = self._redactor.value(value)
        encoded = json.dumps(clean, ensure_ascii=False)
        shown = self.text(encoded)
        return clean if shown == encoded else shown

    def output(self, data: bytes, size: int | None = None) -> Observed:
        """The end of an output of this size; of all of it where no size is given."""
        if not data:
            return Observed("", size or 0, "")
        whole = size is None or size == len(data)
        tail = self._redactor.tail(data, TAIL_CHARACTERS + 1, whole=whole)  # one more: whether anything is before it
        tail = marked_tail(tail if whole else f"{CUT_MARK}{tail[-TAIL_CHARACTERS:]}", TAIL_CHARACTERS)
        return Observed(tail, len(data) if size is None else size, self.seal(data))

    def hidden(self, parts: Iterable[bytes], *, whole: bool) -> tuple[Hidden, ...]:
        """Where secrets are in an output that is kept exactly, to be recorded with it."""
        return self._redactor.hidden(parts, whole=whole)

    def end(self, data: bytes, size: int, limit: int) -> str:
        """The last characters, at most so many, of an output of this size that ends in `data`."""
        return self._redactor.tail(data, limit, whole=size == len(data))

    @property
    def looks_back(self) -> int:
        """How many bytes `so_far` wants to see."""
        return BLOCK_MAX + self._redactor.window + 4 * SO_FAR_CHARACTERS

    def so_far(self, data: bytes, size: int) -> str:
        """The end of an output of which this much has been written until now, and more may come."""
        return self._redactor.so_far(data, SO_FAR_CHARACTERS, whole=size == len(data))

    def long(self, data: bytes, whole: Whole) -> Observed:
        """The same of an output of which `data` is only the end, with what commits to all of it."""
        return self.output(data, whole.size)._replace(whole_seal=whole_seal(self.seal, whole.sha256, whole.size))

    def artifact(self, data: bytes, whole: Whole) -> tuple[Observed, Artifact]:
        """The same, to be kept whole; only where its parts are there."""
        assert whole.parts is not None
        observed = self.long(data, whole)
        return observed._replace(seal=observed.whole_seal, whole_seal=""), Artifact(
            seal=observed.whole_seal, size=whole.size, parts=whole.parts
        )


def in_parts(data: bytes) -> Whole | None:
    """All of an output that is in memory, where it is longer than the end that is kept of it otherwise."""
    if len(data) <= OUTPUT_BYTES_MAX:
        return None
    fits = len(data) <= ARTIFACT_BYTES_MAX
    parts = (lambda: (data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES))) if fits else None
    return Whole(size=len(data), sha256=hashlib.sha256(data).digest(), parts=parts)
