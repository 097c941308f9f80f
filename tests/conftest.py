"""Shared by all tests: nothing depends on the caller's home, time zone, network or environment; which tests `make test`
runs, and which are left to `make test-all` and `make sweep`."""

import gc
import itertools
import math
import os
import re
import signal
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings

from tests.programs import need

for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:  # started in the background, or by nohup
        signal.signal(_number, _handler)


# The same few examples each time here, more of them in `make test-all`, many new ones in `make fuzz`.
settings.register_profile(
    "ordain",
    deadline=None,
    database=None,
    derandomize=True,
    max_examples=6,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile("often", settings.get_profile("ordain"), max_examples=30)
settings.register_profile("thorough", settings.get_profile("ordain"), derandomize=False, max_examples=300)
settings.load_profile("ordain")

HOMES = itertools.count()
KEPT = {"PATH", "LANG", "TMPDIR", "VIRTUAL_ENV", "CI", "PYTHONPATH"}
LONG_S, HEAVY_S = 5, 30


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A home of its own for every test, and nothing of the caller's environment beyond what programs need to start."""
    for name in set(os.environ) - KEPT:
        if not name.startswith("PYTEST"):
            monkeypatch.delenv(name)
    # Not `mktemp`, which looks through all earlier homes for the next free name.
    home = tmp_path_factory.getbasetemp() / "homes" / str(next(HOMES))
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ORDAIN_HOME", str(home / "state"))
    monkeypatch.setenv("TERM", "xterm")


# --- Which tests run -----------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tenth", metavar="SEED", help="of the cases of each sweep only a tenth, chosen by this seed")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of which no test is asked for need not be loaded."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    whole = re.search(r"^pytestmark = .*\bmark\.(slow|agents|mcp)\b", collection_path.read_text(), re.MULTILINE)
    return True if whole is not None and f"not {whole[1]}" in config.getoption("-m").split(" and ") else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: not to be looked through for garbage, which takes a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test that says `part(of=N)` all but every N-th case are slow; `--tenth` leaves one in ten of each sweep."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
        if isinstance(item, pytest.Function) and getattr(item.module, "need", None) is need:
            item.add_marker("programs")
    seed, left_out = config.getoption("--tenth"), set()
    for name, some in cases.items():
        part = some[0].get_closest_marker("part")
        for number, item in enumerate(some if part is not None else ()):
            if part is not None and number % part.kwargs["of"] != 0:
                item.add_marker("slow")
        if seed is not None and some[0].get_closest_marker("sweep") is not None:
            chosen = Random(f"{seed} {name}").sample(some, math.ceil(len(some) / 10))
            left_out.update(set(some).difference(chosen))
    items[:] = [item for item in items if item not in left_out]


# --- What took long ------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    why = [str(reason) for marker in item.iter_markers("slow") for reason in marker.args]
    if why or item.get_closest_marker("sweep") is not None:
        item.user_properties.append(("long", why[:1]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """The processor time of a test and of what it started, which says more than the clock of a busy machine."""
    before = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        item.user_properties.append(("processor_s", sum(os.times()[:4]) - before))


def took_long(config: pytest.Config) -> list[tuple[float, str, bool]]:
    """The tests that took long and do not say why, as `slow("…")` does: how long, and whether they are marked slow."""
    reporter, found = config.pluginmanager.get_plugin("terminalreporter"), []
    for one in reporter.getreports("passed") if reporter is not None else ():
        known = dict(one.user_properties)
        if one.when == "call" and known.get("processor_s", 0) > LONG_S and "long" not in known:
            found.append((known["processor_s"], one.nodeid, "slow" in one.keywords))
    return sorted(found, reverse=True)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A quick test that takes very long, on any machine, fails the run; what is above the line is named."""
    heavy = (seconds > HEAVY_S for seconds, _, slow in took_long(session.config) if not slow)
    if exitstatus == pytest.ExitCode.OK and any(heavy):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if found := took_long(terminalreporter.config):
        terminalreporter.section(f"above {LONG_S} s of processor time without a reason")
        for seconds, name, slow in found:
            terminalreporter.line(f"{seconds:6.1f} s  {name}{'' if slow else '   mark it slow'}")
