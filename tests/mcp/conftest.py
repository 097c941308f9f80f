"""The scenarios of the conformance suite, as the suite itself lists them, so that a new one is never left out."""

from __future__ import annotations

import re

import pytest

from tests.mcp.node import CONFORMANCE, node

VERSIONS = ("2025-11-25", "2026-07-28")


def required(version: str) -> list[str]:
    """The scenarios that a server must pass to conform to this version."""
    listed = node(CONFORMANCE, "list", "--server", "--requirements", version)
    assert listed.returncode == 0, listed
    part = re.search(r"^Server scenarios.*:\n((?:  - .*\n)+)", listed.stdout, re.MULTILINE)
    assert part is not None, listed.stdout
    return re.findall(r"^  - (\S+)$", part.group(1), re.MULTILINE)


def optional(version: str) -> list[str]:
    """The scenarios of this version that are required of nobody, and that our server passes all the same."""
    listed = node(CONFORMANCE, "list", "--server")
    assert listed.returncode == 0, listed
    found = re.findall(r"^  - (\S+) \[([0-9,-]+)\]$", listed.stdout, re.MULTILINE)
    needed = set(required(version))
    return [name for name, versions in found if version in versions.split(",") and name not in needed]


def of_tasks() -> list[str]:
    """The scenarios of the Tasks extension. They are required of nobody; a run of ours is a task all the same."""
    listed = node(CONFORMANCE, "list", "--server")
    assert listed.returncode == 0, listed
    return re.findall(r"^  - (tasks-\S+) \[extension\]$", listed.stdout, re.MULTILINE)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" not in metafunc.fixturenames:
        return
    # Whoever runs the other tests need not have Node, nor wait for it.
    wanted = metafunc.config.option.markexpr == "mcp"
    cases = [("", "")]
    if wanted:
        cases = [(version, name) for version in VERSIONS for name in required(version)]
        cases += [(version, name) for version in VERSIONS for name in optional(version)]
        cases += [("extension", name) for name in of_tasks()]
    metafunc.parametrize(("version", "scenario"), cases)
