"""The contract of ports.Protection, for a real directory and its in-memory twin; and what only a directory can do."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.workspace import MemoryProtection, MemoryWorkspace
from tests.words import REPLACED, ProtectedFile, ProtectedFiles, Refused

FILES = {"tests/a.py": b"assert a\0\xff", "tests/deep/b.py": b"", "src/a.py": b"a"}


class InDirectory:
    def __init__(self, path: Path) -> None:
        self.path, self.protection = path, ProtectedFiles(path)

    def write(self, name: str, data: bytes) -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_bytes(data)

    def remove(self, name: str) -> None:
        (self.path / name).unlink()

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()


class InMemory:
    def __init__(self, path: Path) -> None:
        workspace = MemoryWorkspace()
        self.files, self.protection = workspace.documents, MemoryProtection(workspace)

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data

    def remove(self, name: str) -> None:
        del self.files[name]

    def read(self, name: str) -> bytes:
        return self.files[name]


@pytest.fixture(params=[InDirectory, InMemory])
def place(request, tmp_path):
    made = request.param(tmp_path)
    for name, data in FILES.items():
        made.write(name, data)
    return made


def seal(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def saved(place, *patterns, known=()):
    return asyncio.run(place.protection.save(patterns, known))


def sealed(files):
    return {
        path: ProtectedFile(seal=seal(one.content), size=len(one.content), mode=one.mode) for path, one in files.items()
    }


def changed(place, files):
    return asyncio.run(place.protection.changed(sealed(files), seal))


def restore(place, files):
    asyncio.run(place.protection.restore(files))


def test_what_a_pattern_means_is_kept_exactly(place):
    found = saved(place, "tests/**")
    assert {path: one.content for path, one in found.items()} == {name: FILES[name] for name in list(FILES)[:2]}
    assert set(saved(place, "tests/", "src/*", known={"tests/a.py"})) == {"tests/deep/b.py", "src/a.py"}
    assert saved(place) == saved(place, "nothing/**") == {}
    assert changed(place, found) == {}


def test_changes_are_told_apart_and_put_back(place):
    found = saved(place, "tests/**", "src/**")
    place.write("tests/a.py", b"assert a\0\xfe")
    place.remove("tests/deep/b.py")
    place.write("tests/new.py", b"new")
    assert changed(place, found) == {"tests/a.py": "has changed", "tests/deep/b.py": "is gone"}
    restore(place, {path: found[path] for path in changed(place, found)})
    assert changed(place, found) == {}
    assert {name: place.read(name) for name in FILES} == FILES
    assert place.read("tests/new.py") == b"new"


# --- Only in a directory ---------------------------------------------------------------------------------------------


@pytest.fixture
def real(tmp_path):
    (tmp_path / "ws").mkdir()
    made = InDirectory(tmp_path / "ws")
    for name, data in FILES.items():
        made.write(name, data)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.py").write_bytes(b"outside")
    return made


def plant_link(real):
    (real.path / "tests/a.py").unlink()
    (real.path / "tests/a.py").symlink_to("../../outside/a.py")


def plant_link_with_the_same_content(real):
    (real.path / "../outside/a.py").write_bytes(FILES["tests/a.py"])
    plant_link(real)


def plant_directory_link(real):
    (real.path / "tests").rename(real.path / "elsewhere")
    (real.path / "tests").symlink_to("../outside")


def plant_directory(real):
    (real.path / "tests/a.py").unlink()
    (real.path / "tests/a.py/deep").mkdir(parents=True)
    (real.path / "tests/a.py/deep/x").write_bytes(b"x")


def plant_file_for_directory(real):
    (real.path / "tests").rename(real.path / "elsewhere")
    (real.path / "tests").write_bytes(b"a file")


def plant_pipe(real):
    (real.path / "tests/a.py").unlink()
    os.mkfifo(real.path / "tests/a.py")


def change_mode(real):
    (real.path / "tests/a.py").chmod(0o755)


def make_huge(real):
    os.truncate(real.path / "tests/a.py", 1 << 40)


def harden_link(real):
    (real.path / "tests/a.py").unlink()
    os.link(real.path / "../outside/a.py", real.path / "tests/a.py")


def plant_ordain_link(real):
    (real.path / ".ordain").symlink_to("../outside")
    plant_directory(real)


ATTACKS = [
    plant_link,
    plant_link_with_the_same_content,
    plant_directory_link,
    plant_directory,
    plant_file_for_directory,
    plant_pipe,
    change_mode,
    make_huge,
    harden_link,
    plant_ordain_link,
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_whatever_stands_in_its_place_a_file_is_put_back_and_nothing_outside_is_touched(real, attack):
    found = saved(real, "tests/**")
    attack(real)
    outside = (real.path / "../outside/a.py").read_bytes()
    became = changed(real, found)
    assert became
    restore(real, {path: found[path] for path in became})
    assert changed(real, found) == {}
    assert not (real.path / "tests").is_symlink() and not (real.path / "tests/a.py").is_symlink()
    assert (real.path / "../outside/a.py").read_bytes() == outside
    assert sorted(path.name for path in (real.path / "../outside").iterdir()) == ["a.py"]


def test_a_link_is_protected_as_a_link(real):
    (real.path / "tests/link").symlink_to("../src/a.py")
    found = saved(real, "tests/link")
    assert found["tests/link"].mode is None
    for spoil in (lambda: None, lambda: (real.path / "tests/link").symlink_to("/etc/passwd")):
        (real.path / "tests/link").unlink()
        spoil()
        assert changed(real, found)
        restore(real, found)
        assert os.readlink(real.path / "tests/link") == "../src/a.py"


def test_what_stood_in_the_place_is_set_aside(real):
    """It may be a person's work."""
    found = saved(real, "tests/a.py")
    real.write("tests/a.py", b"somebody's work")
    restore(real, found)
    ignored, aside = sorted((real.path / REPLACED).iterdir())
    assert (ignored.name, ignored.read_text()) == (".gitignore", "*\n")
    assert (aside / "tests/a.py").read_bytes() == b"somebody's work"


def test_only_its_owner_sees_no_more_than_before(real):
    (real.path / "tests/a.py").chmod(0o640)
    found = saved(real, "tests/a.py")
    (real.path / "tests/a.py").unlink()
    restore(real, found)
    assert stat.S_IMODE((real.path / "tests/a.py").stat().st_mode) == 0o640


def code(call, *args, **fields):
    with pytest.raises(Refused) as refused:
        call(*args, **fields)
    (problem,) = refused.value.problems
    return problem.code


def test_what_cannot_be_kept_is_refused(real):
    os.mkfifo(real.path / "tests/pipe")
    assert code(saved, real, "tests/pipe") == "E_PROTECT"
    real.protection = ProtectedFiles(real.path, bytes_max=8)
    assert code(saved, real, "tests/a.py") == "E_PROTECT"
    real.protection = ProtectedFiles(real.path, files_max=1)
    assert code(saved, real, "tests/**") == "E_PROTECT"


def test_what_git_keeps_or_is_ours_is_not_protected(real):
    real.write(".git/hooks/x", b"x")
    real.write(".ordain/plans/x", b"x")
    assert set(saved(real, "**")) == set(FILES)


NAMES = st.sampled_from(["tests/a.py", "tests/deep", "tests/deep/b.py", "tests", "tests/c"])


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["file", "link", "directory", "remove", "move"]), NAMES), max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_row_of_changes_can_be_put_back(tmp_path_factory, doings):
    path, outside = tmp_path_factory.mktemp("ws"), tmp_path_factory.mktemp("outside")
    real = InDirectory(path)
    for name, data in FILES.items():
        real.write(name, data)
    found = saved(real, "tests/**")
    for number, (doing, name) in enumerate(doings):
        try:
            if doing != "directory" and os.path.lexists(path / name):
                (path / name).rename(path / f"gone{number}")
            match doing:
                case "file":
                    (path / name).write_bytes(b"spoilt")
                case "link":
                    (path / name).symlink_to(outside)
                case "directory":
                    (path / name).mkdir()
        except OSError:
            continue
    restore(real, {name: found[name] for name in changed(real, found)})
    assert changed(real, found) == {}
    assert {name: real.read(name) for name in found} == {name: FILES[name] for name in found}
