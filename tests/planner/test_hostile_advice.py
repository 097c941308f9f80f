"""Advice made to break what it is put into: it goes back, and no order is lost by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.planner.planners import SETTINGS, codes, submits
from tests.planner.test_replanning import Replanning
from tests.words import problems_of

TOOL = """\
# Write it

## Steps

### 1. Write

**id:** write
**tool:** write_file
**args:**
```yaml
path: VERSION/below
content: x
```
**on_fail:** recover
"""


def _nested(depth: int) -> str:
    return '{"k":' * depth + "1" + "}" * depth


@pytest.mark.parametrize(
    "args",
    [_nested(150), _nested(900), f'{{"path": 1{"0" * 400}}}', '{"path": -0.0, "content": 9007199254740993}'],
    ids=["deep", "deeper", "huge", "inexact"],
)
def test_arguments_that_no_document_holds_go_back(tmp_path: Path, args: str) -> None:
    asking = Replanning(tmp_path, SETTINGS)
    answer = f'{{"advice": "retry", "reason": "because", "args": {args}}}'
    report = asking.started(TOOL, [submits(answer), submits(answer)])
    assert report.status == "waiting" and [one.step for one in report.questions] == ["write"]


def test_no_order_is_lost_by_what_is_left_out_or_done_before(tmp_path: Path) -> None:
    names = ("a", "b", "c")
    steps = [
        f"### {number}. Step {name}\n\n**id:** {name}\n**run:** {'exit 3' if name == 'b' else 'true'}\n"
        for number, name in enumerate(names, 1)
    ]
    asking = Replanning(tmp_path, SETTINGS)
    report = asking.started("# Three\n\n## Steps\n\n" + "\n".join(steps))
    assert _needs(asking, report.run_id, advice="skip") == {"a": (), "c": ("a",)}


def test_everything_that_is_to_be_done_before_is_waited_for(tmp_path: Path) -> None:
    asking = Replanning(tmp_path, SETTINGS)
    report = asking.started("# One\n\n## Steps\n\n### 1. B\n\n**id:** b\n**run:** exit 3\n")
    new = "\n".join(
        f"### {number}. {name}\n\n**id:** {name}\n**needs:** none\n**run:** touch {name}\n"
        f"**contract:** test -e {name}\n"
        for number, name in enumerate(("m", "n"), 1)
    )
    assert _needs(asking, report.run_id, advice="insert", steps=new) == {"m": (), "n": (), "b": ("m", "n")}


def _needs(asking: Replanning, run_id: str, **advice: Any) -> dict[str, tuple[str, ...]]:
    planned = asking.replan(run_id, [submits(json.dumps({"reason": "because", **advice}))], recover=True)
    assert planned.prepared is not None, codes(problems_of(planned))
    return {one.id: one.needs for one in planned.prepared.review.plan.steps}
