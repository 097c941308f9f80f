"""Programs that some tests drive for real. Tests never install anything: `tools/install-programs` does."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

REQUIRED = os.environ.get("ORDAIN_TEST_PROGRAMS") == "required"  # read once: every test has a clean environment


def need(program: str) -> str:
    """The path of a program. Where it is missing the test is skipped with the reason; in `make test-all`, where nothing
    may be skipped unnoticed, it fails."""
    found = shutil.which(program)
    if found is not None:
        return found
    reason = f"{program} is not installed; tools/install-programs installs what the tests drive"
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


def set_programs(monkeypatch: pytest.MonkeyPatch, **programs: Path) -> None:
    """Have the user's own configuration name these programs."""
    home = Path(tempfile.mkdtemp(prefix="ordain-config-", dir=os.environ["HOME"]))
    (home / "ordain").mkdir()
    lines = "".join(f'{name} = "{path}"\n' for name, path in programs.items())
    (home / "ordain" / "config.toml").write_text(f"[programs]\n{lines}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
