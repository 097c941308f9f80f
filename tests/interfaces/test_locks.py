"""Named locks between real processes, on the command line."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.interfaces.terminal import Background
from tests.interfaces.test_robot import answered
from tests.interfaces.workspace import KIM, Workspace
from tests.patience import eventually
from tests.words import open_at_terminal

FINE = 0
LOCKED = """\
plan_version: 1
title: Section {name}
steps:
  - id: take
    action: {{type: acquire_lock, lock_name: db}}
  - id: work
    action:
      type: run
      command: |
        echo in-{name} >> sections
        until test -f go-{name}; do sleep 0.02; done
        echo out-{name} >> sections
  - id: give
    action: {{type: release_lock, lock_name: db}}
  - id: after
    action: {{type: run, command: echo {name} >> effects}}
"""


def trusted(workspace: Workspace, text: str) -> None:
    import asyncio

    workspace.write("ordain.toml", text)
    app = open_at_terminal(workspace.path)
    _, digest = app.approvals.configuration()
    asyncio.run(app.approvals.trust(digest, KIM))
    asyncio.run(app.close())


@pytest.mark.slow
def test_critical_sections_of_two_processes_never_overlap(workspace: Workspace):
    trusted(workspace, "[run]\nwriters = 3\n")
    names = ("a", "b", "c")
    for name in names:
        workspace.write(f"{name}.plan.yaml", LOCKED.format(name=name))
    plans = {name: workspace.approved(f"{name}.plan.yaml") for name in names}
    sections = workspace.path / "sections"

    def inside() -> list[str]:
        return sections.read_text().split() if sections.exists() else []

    with ExitStack() as stack:
        first = stack.enter_context(Background("commit", plans["a"], cwd=workspace.path))
        eventually(lambda: inside() == ["in-a"], "the first to be inside")
        others = [stack.enter_context(Background("commit", plans[name], cwd=workspace.path)) for name in "bc"]

        def waits() -> bool:
            told = answered(workspace.ordain("status", "--json"))["plans"]
            steps = [step for plan in told if plan.get("run") for step in plan["run"]["steps"]]
            return sum(step["state"] == "waiting" and "the lock `db`" in step["waiting"] for step in steps) == 2

        eventually(waits, "both others to wait")
        assert inside() == ["in-a"]
        for name in names:
            workspace.write(f"go-{name}", "")
        ended = [one.end() for one in (first, *others)]
    assert [one.status for one in ended] == [FINE] * 3, [one.err for one in ended]
    assert any("waits for the lock `db`, which RUN-" in one.err for one in ended[1:])
    told = inside()
    assert [word.split("-")[0] for word in told] == ["in", "out"] * 3
    assert all(told[i].removeprefix("in-") == told[i + 1].removeprefix("out-") for i in range(0, 6, 2))
    assert sorted(workspace.effects()) == ["a", "b", "c"]
    assert workspace.ordain("audit", "verify").status == FINE
