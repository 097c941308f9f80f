"""Power lost at moments all over a life: nothing corrupt, nothing half, nothing lost that was acknowledged.

A seeded tenth here, all of it in `make sweep`; docs/reliability.md tells what is simulated. The controls show that the
same check finds what it is there to find: in a ledger that syncs too little, and on disks that lie.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from ordain.adapters.ledger import database as ledger_file
from ordain.adapters.state import directory as state_directory
from tests.crash.power import (
    SECTOR,
    STEPS,
    Acknowledged,
    Disk,
    Fault,
    Found,
    Life,
    Named,
    Op,
    Synced,
    World,
    Wrote,
    check_run,
    go_through,
    later_life,
    ledger_life,
    one_loss,
    put,
    run_life,
)
from tests.programs import need

pytestmark = pytest.mark.slow("disks are made anew as every loss of power would leave them")

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden" / "ledgers"
LEDGERS = (8, 600)
RUNS = (8, 100)
MIGRATIONS = (4, 100)
TWICE = (10, 40)
"""How many seeds there are in the sweep, and how many different remainders are opened for each."""
STATES = 5_000
"""At least so many are opened in all."""


def fine(found: Found, life: Life, what: str) -> None:
    assert not found.faults, found.first
    where = f"at {found.moments} of {len(life.ops) - life.begin + 1} moments"
    print(f"{what}: {found.states} remainders {where}, nothing wrong")


def ledger(folder: Path, seed: int, states: int) -> None:
    life = ledger_life(folder / "disk", seed)
    fine(go_through(life, seed, states), life, f"ledger, seed {seed}")


def run(folder: Path, seed: int, states: int) -> None:
    life = run_life(folder)
    fine(go_through(life, seed, states), life, f"run, seed {seed}")


def migration(folder: Path, seed: int, states: int) -> None:
    put(folder / "disk", {"ledger.db": (GOLDEN / "v1.db").read_bytes()})
    life = later_life(folder / "disk", seed)
    fine(go_through(life, seed, states), life, f"migration, seed {seed}")


def twice(folder: Path, seed: int, states: int) -> None:
    """What the power left is used, and the power goes again."""
    first = ledger_life(folder / "disk", seed)
    put(first.root, one_loss(first, seed))
    life = later_life(first.root, seed + 1)
    fine(go_through(life, seed, states), life, f"second loss, seed {seed}")


def test_a_tenth_of_a_ledgers_losses(tmp_path):
    ledger(tmp_path, 0, LEDGERS[0] * LEDGERS[1] // 10)


def test_a_tenth_of_a_runs_losses(tmp_path):
    run(tmp_path, 0, RUNS[0] * RUNS[1] // 10)


def test_a_tenth_of_a_migrations_losses(tmp_path):
    migration(tmp_path, 0, MIGRATIONS[0] * MIGRATIONS[1] // 10)


def test_a_tenth_of_losses_after_a_loss(tmp_path):
    twice(tmp_path, 0, TWICE[0] * TWICE[1] // 10)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("way", "seed", "states"),
    [
        (way, seed, states)
        for way, (seeds, states) in ((ledger, LEDGERS), (run, RUNS), (migration, MIGRATIONS), (twice, TWICE))
        for seed in range(100, 100 + seeds)
    ],
)
def test_all_losses(tmp_path, way, seed, states):
    way(tmp_path, seed, states)


def test_there_are_as_many_as_is_said():
    assert sum(seeds * states for seeds, states in (LEDGERS, RUNS, MIGRATIONS, TWICE)) >= STATES


def test_a_life_has_all_that_may_go_wrong(tmp_path):
    """Logs that are begun anew, deleted and made again, partly moved; large appends, several streams, groups."""
    life = ledger_life(tmp_path / "disk", 1)
    logs = {node for node, label in life.labels.items() if label == "/ledger.db-wal"}
    assert len(logs) >= 3, "the log was never deleted and made again"
    begun = [op.node for op in life.ops if isinstance(op, Wrote) and op.node in logs and op.offset == 0]
    assert max(map(begun.count, logs)) >= 2, "the log was never begun anew"
    assert max(len(answer.heads) for answer in life.answers) >= 3
    assert any(answer.kept for answer in life.answers)


# --- The model --------------------------------------------------------------------------------------------------------


def test_what_is_synced_stays_and_what_is_not_may_be_anything():
    old, new = b"o" * 2048, b"n" * 1024
    ops: list[Op] = [Named(0, (("file", 1),)), Wrote(1, 0, old), Synced(1), Synced(0), Wrote(1, 700, new)]
    disk = Disk({0: "/", 1: "/file"}, lambda label: True)
    for op in ops:
        disk.take(op)
    left = {disk.survivors(random.Random(seed))["file"] for seed in range(300)}
    assert {old, old[:700] + new + old[1724:]} < left, "neither lost nor there"
    assert all(content is not None and len(content) == 2048 for content in left)
    assert {content[:700] + content[1724:] for content in left if content is not None} == {b"o" * 1024}
    torn = {content for content in left if content is not None and set(content) == set(b"on")}
    assert any(content[700 : SECTOR * 2] != new[: SECTOR * 2 - 700] for content in torn), "never torn"
    assert any(set(content or b"") - set(b"on\0") for content in left), "never garbled"
    disk.take(Synced(1))
    assert {disk.survivors(random.Random(seed))["file"] for seed in range(50)} == {old[:700] + new + old[1724:]}


def test_a_name_is_there_for_good_only_when_its_directory_is_synced():
    ops: list[Op] = [Named(0, (("folder", 1),)), Named(1, (("file", 2),)), Wrote(2, 0, b"x"), Synced(2), Synced(1)]
    disk = Disk({0: "/", 1: "/folder/", 2: "/folder/file"}, lambda label: True)
    for op in ops:
        disk.take(op)
    left = [disk.survivors(random.Random(seed)) for seed in range(50)]
    assert {} in left and {"folder": None, "folder/file": b"x"} in left
    disk.take(Synced(0))
    assert disk.survivors(random.Random(0)) == {"folder": None, "folder/file": b"x"}


_CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) += ")
_UNFINISHED = " <unfinished ...>"
_FILE = re.compile(r"\d+<([^>]*)>")


def whole_lines(trace: str) -> Iterator[str]:
    """What strace wrote, with calls in one piece during which it saw another thread."""
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        thread = line.split(" ", 1)[0]
        if line.endswith(_UNFINISHED):
            begun[thread] = line.removesuffix(_UNFINISHED)
        elif "resumed>" in line:
            yield begun.pop(thread) + line.split("resumed>", 1)[1]
        else:
            yield line


def seen_by_the_kernel(trace: str, root: str) -> list[str]:
    """What strace saw beneath a directory, in the words of `power.told`."""
    found = []
    for line in whole_lines(trace):
        match = _CALL.match(line)
        if match is None or "= -1" in line:
            continue
        call, rest = match.groups()
        paths = _FILE.findall(rest) if call in ("pwrite64", "ftruncate", "fsync", "fdatasync") else []
        paths = paths or re.findall(r'"(/[^"]*)"', rest)
        if not paths or not f"{paths[-1]}/".startswith(f"{root}/") or paths[-1].endswith(("-shm", "-aside")):
            continue
        name, numbers = paths[-1].removeprefix(root) or "/", rest.rsplit(", ", 2)
        match call:
            case "pwrite64":
                found.append(f"write {name} {numbers[2]} {numbers[1]}")
            case "ftruncate":
                found.append(f"cut {name} {numbers[-1]}")
            case "fsync" | "fdatasync":
                found.append(f"sync {name}")
            case "link" | "linkat":
                found.append(f"linked {name}")
            case "unlink" | "unlinkat":
                found.append(f"gone {name}")
    return [re.sub(r"\.ledger\.db\.\w{8}", "ledger.db", line) for line in found]


def test_the_record_is_what_the_kernel_saw(tmp_path):
    """Every write, truncation, sync, link and deletion, in this order, with the syncs that SQLite adds by itself."""
    strace, log = need("strace"), tmp_path / "strace.log"
    calls = "pwrite64,write,ftruncate,fsync,fdatasync,link,linkat,unlink,unlinkat,rename,renameat,renameat2"
    argv = [strace, "-f", "-y", "-s", "0", "-o", log, "-e", f"trace={calls}"]
    script = [sys.executable, "-m", "tests.crash.power", tmp_path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([*argv, *script], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    # That a new file was named is not compared: strace would show the opening of files that are there, too.
    recorded = [line for line in json.loads(ended.stdout) if not line.startswith("named")]
    assert recorded.count("linked /ledger.db") == 1, "the draft got its name"
    assert len(recorded) > 300
    seen = seen_by_the_kernel(log.read_text(), str((tmp_path / "disk").resolve()))
    assert seen[: len(recorded)] == recorded
    assert seen[len(recorded) :] == ["gone /ledger.db-wal"], "what is done after the record has ended"


# --- Can it fail ------------------------------------------------------------------------------------------------------


def wrong(life: Life, *, believed: Callable[[str], bool] = lambda label: True, neighbours: bool = False) -> set[str]:
    """The kinds of the first faults that are found, among two hundred remainders at most."""
    return set(go_through(life, 7, 200, believed=believed, neighbours=neighbours, enough=15).faults)


@pytest.mark.parametrize("level", ["NORMAL", "OFF"])
def test_a_ledger_that_syncs_too_little_loses_what_it_acknowledged(tmp_path, monkeypatch, level):
    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "_set_up", lambda connection, ms: connection.pragma("synchronous", level))
        life = ledger_life(tmp_path / "disk", 7)
    # A log that is synced late is still whole; one that is never synced leads to a database that is not.
    assert wrong(life) == ({"lost"} if level == "NORMAL" else {"lost", "corrupt"})


LIES: dict[str, tuple[Callable[[str], bool], str]] = {
    "about everything": (lambda label: False, "lost"),
    "about logs": (lambda label: not label.endswith("-wal"), "lost"),
    "about directories": (lambda label: not label.endswith("/"), "lost"),
    "about databases": (lambda label: label.endswith(("/", "-wal")), "corrupt"),
}


@pytest.mark.parametrize(("believed", "kind"), LIES.values(), ids=LIES)
def test_a_disk_that_lies_about_syncs_is_noticed(tmp_path, believed, kind):
    assert kind in wrong(ledger_life(tmp_path / "disk", 7), believed=believed)


def test_a_disk_that_spoils_the_neighbours_of_what_it_writes_is_noticed(tmp_path):
    """SQLite takes it that there is none ("powersafe overwrite")."""
    assert "lost" in wrong(ledger_life(tmp_path / "disk", 7), neighbours=True)


def test_directories_whose_names_are_not_synced_are_noticed(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(state_directory, "_sync_names", lambda directory: None)
        life = run_life(tmp_path)
    found = go_through(life, 7, 200)
    assert found.faults == {"lost": 1}, found


def test_an_effect_before_its_intent_is_noticed(tmp_path):
    life = run_life(tmp_path)
    disk = Disk(life.labels, lambda label: True)
    for op in life.ops:
        if isinstance(op, World):
            break
        disk.take(op)
    due, tree = disk.due, disk.survivors(random.Random(0))
    first, second = STEPS
    check_run(life, tree, due, f"{first}\n")
    with pytest.raises(Fault, match="unbidden"):
        check_run(life, tree, due, f"{first}\n{second}\n")


def test_half_an_answer_is_noticed(tmp_path):
    """The same disk, when two appends that were answered one by one are taken for one."""
    life = ledger_life(tmp_path / "disk", 7)
    ops: list[Op] = []
    for op in life.ops:
        if isinstance(op, Acknowledged) and ops and any(isinstance(one, Acknowledged) for one in ops):
            number = max(n for n, one in enumerate(ops) if isinstance(one, Acknowledged))
            before = ops.pop(number)
            assert isinstance(before, Acknowledged)
            op = Acknowledged(before.heads + op.heads, before.kept + op.kept)
        ops.append(op)
    assert "half" in wrong(life._replace(ops=ops))


def test_the_file_system_is_as_before(tmp_path):
    """Recording leaves nothing behind that later tests would run over."""
    before = (os.open, os.fsync, apsw.vfs_names(), list(apsw.connection_hooks))
    shutil.rmtree(ledger_life(tmp_path / "disk", 1).root)
    assert (os.open, os.fsync, apsw.vfs_names(), list(apsw.connection_hooks)) == before
