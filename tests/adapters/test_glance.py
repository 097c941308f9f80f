"""What a glance at a ledger leaves to those who read it in full, and what it does not hide."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.words import Instant, SqliteLedger, approved_plans

NOW = Instant(1_700_000_000_000)


def summed_up(tmp_path: Path, permission: Any, **state: Any) -> Path:
    """A ledger with the summary of an approved plan, and without events."""
    path = tmp_path / "ledger.db"
    asyncio.run(SqliteLedger.open(path).close())
    summary = {"stream": "plan:x", "fold": 3, "state": {"stage": "approved", "permissions": {"p": permission}, **state}}
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("INSERT INTO plans (opened, open, body) VALUES (1, 1, ?)", (json.dumps(summary).encode(),))
    return path


def test_an_approval_that_expired_approves_nothing(tmp_path: Path) -> None:
    assert approved_plans(summed_up(tmp_path, {"approval": {"expires_at": NOW}}), NOW) == []


@pytest.mark.parametrize("permission", [{}, {"approval": {}}, {"approval": []}, {"approval": {"expires_at": "x"}}])
@pytest.mark.parametrize("runs", [{}, {"RUN-1": None}])
def test_a_permission_that_cannot_be_read_is_left_to_who_reads_in_full(
    tmp_path: Path, permission: object, runs: dict[str, None]
) -> None:
    assert approved_plans(summed_up(tmp_path, permission, runs=runs), NOW) is None


def test_a_mistake_of_our_own_is_not_taken_for_something_out_of_the_ordinary(tmp_path: Path) -> None:
    class Mistaken(int):
        def __lt__(self, other: int) -> bool:
            raise KeyError(other)

    with pytest.raises(KeyError):
        approved_plans(summed_up(tmp_path, {"approval": {"expires_at": NOW + 1}}), Instant(Mistaken()))
