"""Tokens of clients: told once, kept by their digest, and nothing believed of a file that others could have written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.words import Client, FileClients, Instant, Redactor, Refused

AT = Instant(1_794_000_000_000)


@pytest.fixture
def clients(tmp_path: Path) -> FileClients:
    return FileClients(lambda: tmp_path)


def test_a_token_is_known_to_whoever_looks_next_and_to_nobody_once_it_is_revoked(tmp_path: Path, clients: FileClients):
    other = FileClients(lambda: tmp_path)
    token = clients.add("ci", AT)
    assert other.holder(token) == "ci" and other.all() == (Client(name="ci", made_at=AT),)
    assert other.revoke("ci") and not other.revoke("ci")
    assert clients.holder(token) is None and clients.all() == ()


def test_a_token_that_was_good_a_moment_ago_is_looked_at_again(tmp_path: Path, clients: FileClients):
    other = FileClients(lambda: tmp_path)
    token = clients.add("ci", AT)
    assert clients.holder(token) == clients.holder(token) == "ci"
    assert other.revoke("ci") and clients.holder(token) is None
    again = other.add("ci", AT)  # the same file, and not the same token
    assert (clients.holder(token), clients.holder(again), clients.holder(again)) == (None, "ci", "ci")


def test_every_token_is_another_and_only_the_whole_of_it_counts(clients: FileClients):
    first, second = clients.add("one", AT), clients.add("two", AT)
    assert first != second and (clients.holder(first), clients.holder(second)) == ("one", "two")
    for wrong in ("", first[:-1], first + "x", first.upper(), f" {first}", "\udcff"):
        assert clients.holder(wrong) is None


def test_what_is_kept_is_for_its_owner_alone_and_holds_no_token(tmp_path: Path, clients: FileClients):
    before = os.umask(0)
    try:
        token = clients.add("ci", AT)
    finally:
        os.umask(before)
    file = tmp_path / "clients/ci.json"
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    assert token not in file.read_text() and token.removeprefix("ordain_mcp_") not in file.read_text()
    assert os.listdir(file.parent) == ["ci.json"]


def test_a_lent_token_is_this_processs_own_and_kept_nowhere(tmp_path: Path, clients: FileClients):
    token = clients.lend()
    assert clients.holder(token) == "local" and clients.all() == ()
    assert FileClients(lambda: tmp_path).holder(token) is None
    assert not list(tmp_path.rglob("*"))


def test_a_token_has_a_shape_that_is_hidden_wherever_it_stands(clients: FileClients):
    token = clients.lend()
    assert token not in Redactor({}).text(f"curl -H 'X: {token}' there")


def test_a_file_that_others_could_have_written_is_not_believed(tmp_path: Path, clients: FileClients):
    token = clients.add("ci", AT)
    file = tmp_path / "clients/ci.json"
    kept = file.read_bytes()

    def refused() -> str:
        with pytest.raises(Refused) as raised:
            clients.holder(token)
        assert raised.value.problems[0].code == "E_CLIENT"
        return raised.value.problems[0].detail

    file.chmod(0o644)
    assert "can be read or written by others" in refused()
    file.chmod(0o600)
    file.write_bytes(kept[:-5])
    assert "is damaged" in refused()
    file.unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(kept)
    file.symlink_to(elsewhere)
    assert "it is a link" in refused()
    file.unlink()
    (tmp_path / "clients/other.json").write_bytes(kept)
    (tmp_path / "clients/other.json").chmod(0o600)
    assert "is about 'ci'" in refused()
    (tmp_path / "clients/other.json").rename(file)
    assert clients.holder(token) == "ci"
    file.parent.chmod(0o755)
    assert "can be read or written by others" in refused()


def test_a_name_has_one_token_at_a_time(clients: FileClients):
    token = clients.add("ci", AT)
    with pytest.raises(Refused) as raised:
        clients.add("ci", AT)
    assert raised.value.problems[0].command == "ordain mcp token revoke ci"
    assert clients.holder(token) == "ci"
