"""Shared by all tests: nothing depends on the caller's home, time zone, network or environment."""

import os

import pytest
from hypothesis import HealthCheck, settings

# The same few examples each time here, many new ones in `make fuzz`.
settings.register_profile(
    "ordain",
    deadline=None,
    database=None,
    derandomize=True,
    max_examples=30,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile("thorough", settings.get_profile("ordain"), derandomize=False, max_examples=300)
settings.load_profile("ordain")

KEPT = {"PATH", "LANG", "TMPDIR", "VIRTUAL_ENV", "CI", "PYTHONPATH"}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A home of its own for every test, and nothing of the caller's environment beyond what programs need to start."""
    for name in set(os.environ) - KEPT:
        if not name.startswith("PYTEST"):
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ORDAIN_HOME", str(home / "state"))
    monkeypatch.setenv("TERM", "xterm")
