"""At tier 1 an agent reaches its step's tools out of the sandbox, and they are held to what the step may write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interfaces.test_step_tools import AGENT, Site, call, names, write
from tests.programs import need

pytestmark = pytest.mark.slow("agents with tools in sandboxes, by bubblewrap")

FOUND = f'[sandbox]\nread = ["{AGENT}"]\n'


@pytest.fixture
def site(tmp_path: Path) -> Site:
    need("bwrap")
    return Site(tmp_path / "workspace")


@pytest.mark.parametrize("network", ["", "network = true\n"], ids=["no network", "network"])
def test_the_door_is_reached_out_of_the_sandbox_and_holds_calls_to_writes(site: Site, network: str) -> None:
    run = site.run(
        {"list": True},
        call("make_dir", path="src"),
        write("src/a"),
        write("b"),
        call("shell", command="echo x > src/s; touch ../u; ! touch t && cat src/s"),
        settings=network + FOUND,
        tools=["make_dir", "write_file", "shell"],
        step={"writes": ["src/**"]},
        plan={"tier": 1},
    )
    assert run.report.status == "completed" and sorted(names(run)) == ["cannot", "make_dir", "shell", "write_file"]
    assert (site.path / "src/a").exists() and (site.path / "src/s").exists()
    assert "E_CALL_BOUNDS" in run.refusal(3) and not (site.path / "b").exists()
    assert not (site.path / "t").exists() and not (site.path.parent / "u").exists()
    assert not run.said[4]["isError"] and run.words(4).endswith("x\n")
