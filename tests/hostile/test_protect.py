"""Steps that make a contract hold although protected files are as they were: by new files beside them. Real programs
run the contract, and each trick works where nothing is protected."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import pytest

from tests.programs import need
from tests.task_runs import Carried, carried_out
from tests.words import ProtectedFiles

PYTHON = shlex.quote(sys.executable)
HELPER = "tests/helper.py"
CHECK = f"{PYTHON} -B tests/check.py"
PYTEST = f"{PYTHON} -m pytest -q -p no:cacheprovider tests"
PLANT = f"""{PYTHON} - <<'END'
import importlib.util, pathlib
code = compile('def fault():\\n    return None\\n', 'tests/helper.py', 'exec')
from importlib._bootstrap_external import _code_to_hash_pyc
target = pathlib.Path(importlib.util.cache_from_source('tests/helper.py'))
target.parent.mkdir(exist_ok=True)
target.write_bytes(_code_to_hash_pyc(code, b'12345678', False))
END"""
ALL = PYTEST.removesuffix(" tests")
OK = "mkdir -p aaa && echo 'def test_ok(): pass' > aaa/test_ok.py"
CONFTEST = "def pytest_sessionfinish(session): session.exitstatus = 0\\n"
GOOD = "def fault():\\n    return None\\n"
TRICKS = {
    "a conftest.py beside the tests": (f"printf '{CONFTEST}\\n' > tests/conftest.py", PYTEST),
    "a conftest.py above them": (f"printf '{CONFTEST}\\n' > conftest.py", PYTEST),
    "the runner's settings": ("printf '[pytest]\\naddopts = --collect-only\\n' > pytest.ini", PYTEST),
    "another runner": ("echo > pytest.py", PYTEST),
    "a package in place of a module": (f"mkdir tests/helper && printf '{GOOD}' > tests/helper/__init__.py", CHECK),
    "a standard module": ("echo 'raise SystemExit(0)' > tests/textwrap.py", CHECK),
    "what was compiled, and is not compared with its source": (PLANT, f"{PYTHON} tests/check.py"),
    "a module that Python brings": ("echo 'raise SystemExit(0)' > tests/filecmp.py", CHECK),
    "the same above": ("echo 'import os; os._exit(0)' > filecmp.py", PYTEST.removesuffix(" tests")),
    "a conftest.py in another directory": (f"mkdir aaa && printf '{CONFTEST}' > aaa/conftest.py && {OK}", ALL),
    "a conftest.py below": (f"mkdir tests/zz && printf '{CONFTEST}' > tests/zz/conftest.py && {OK}", ALL),
    "a conftest.py behind a link": (
        f"mkdir -p .b/c && printf '{CONFTEST}' > .b/c/conftest.py && cp tests/test_check.py .b/c && ln -s .b/c aaa",
        ALL,
    ),
    "an entry point": (
        f"mkdir e-1.dist-info && printf 'Metadata-Version: 2.1\\nName: e\\nVersion: 1\\n' > e-1.dist-info/METADATA && "
        f"printf '[pytest11]\\ne = plug\\n' > e-1.dist-info/entry_points.txt && printf '{CONFTEST}' > plug.py",
        PYTEST,
    ),
    "a link to a package": (
        "mkdir -p lib/q && echo 'import os; os._exit(0)' > lib/q/__init__.py && ln -s lib/q filecmp",
        PYTEST,
    ),
    "an entry point by a link": (
        f"mkdir -p lib/e && printf 'Metadata-Version: 2.1\\nName: e\\nVersion: 1\\n' > lib/e/METADATA && "
        f"printf '[pytest11]\\ne = plug\\n' > lib/e/entry_points.txt && printf '{CONFTEST}' > plug.py && "
        "ln -s lib/e e-1.dist-info",
        PYTEST,
    ),
    "a module of the runner": ("echo 'import os; os._exit(0)' > iniconfig.py", PYTEST),
    "settings of prove": (
        "printf '#!/bin/sh\\necho 1..1; echo ok 1\\n' > ok && chmod +x ok && echo '--exec ./ok' > .proverc",
        "prove tests/check.t",
    ),
    "a link": (f"mkdir away && printf '{GOOD}' > away/__init__.py && ln -s ../away tests/helper", CHECK),
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORDAIN_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", "")
    (tmp_path / "ws/tests").mkdir(parents=True)
    (tmp_path / "ws" / HELPER).write_text("def fault():\n    return 'not done'\n")
    check = "import textwrap, filecmp\nfrom helper import fault\nassert fault() is None, fault()\n"
    (tmp_path / "ws/tests/check.py").write_text(check)
    tests = "import filecmp\ndef test_it():\n    from helper import fault\n    assert not fault()\n"
    (tmp_path / "ws/tests/test_check.py").write_text(tests)
    (tmp_path / "ws/tests/check.t").write_text('print "1..1\\nnot ok 1\\n";\n')
    return tmp_path / "ws"


def files(workspace: Path) -> list[str]:
    every = (path for path in (workspace / "tests").rglob("*") if not path.is_dir() or path.is_symlink())
    return sorted(str(path) for path in every if "__pycache__" not in path.parts)


def run(workspace: Path, how: str, **more: object) -> Carried:
    command, contract = TRICKS[how]
    need("prove") if contract.startswith("prove") else None
    step = {"action": {"type": "run", "command": command}, **more}
    step["verification"] = {"strategy": {"type": "contract", "command": contract}}
    return carried_out(workspace, "", step)


@pytest.mark.part(of=6)
@pytest.mark.parametrize("how", TRICKS)
def test_what_is_new_beside_protected_files_passes_nothing(workspace: Path, how: str) -> None:
    before = files(workspace)
    carried = run(workspace, how, protect=["tests/check.py", "tests/test_check.py", "tests/helper.py", "tests/check.t"])
    assert carried.report.status == "failed", carried
    assert files(workspace) == before
    assert not [
        path
        for name in ("conftest.py", "pytest.ini", "pytest.py", "filecmp*", "[!.]*/conftest.py", "iniconfig.py")
        for path in workspace.glob(name)
    ]


OTHERS = (
    *(".rspec-local", ".coveragerc", "__mocks__/axios.js", "tests/node_modules/chai/index.js", "tests/filecmp.py"),
    *("other/conftest.py", "tests/zz/conftest.py", "x.egg-info/entry_points.txt"),
)
HONEST = (
    "test",
    "src/app/types.py",
    "src/new.py",
    "node_modules/chai/index.js",
    "x.egg-info/PKG-INFO",
    "tests/more.py",
)


@pytest.mark.parametrize("path", [*OTHERS, *HONEST])
def test_new_files_count_where_they_change_what_is_loaded(workspace: Path, path: str) -> None:
    (workspace / "src/app").mkdir(parents=True)
    for name in ("src/app/__init__.py", "src/app/core.py", "tests/__init__.py"):
        (workspace / name).write_text("")
    protection, protected = ProtectedFiles(workspace), ["src/app/core.py", "tests/check.py"]
    before = asyncio.run(protection.beside((), protected))
    (workspace / path).parent.mkdir(parents=True, exist_ok=True)
    (workspace / path).write_text("")
    assert bool(asyncio.run(protection.beside((), protected)) - before) == (path in OTHERS)


@pytest.mark.part(of=20)
@pytest.mark.parametrize("how", TRICKS)
def test_where_nothing_is_protected_the_trick_works(workspace: Path, how: str) -> None:
    assert run(workspace, how).report.status == "completed"
