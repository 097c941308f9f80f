"""What a run keeps of the one before it, as its events are folded."""

from msgspec.structs import replace

from tests.build import plan, step
from tests.core.test_heart import OPENED
from tests.history import replay
from tests.words import ExecutorStarted, ForEach, GroupKind, Instant, RunId, StepId, StepUnfolded


def unfolded(seal: str) -> set[str]:
    """What may still be kept of a loop that was over items with the seal `x`, when it unfolds over these."""
    made = plan(replace(step("each"), for_each=ForEach(source="${params.x}", max=9)), step("after"))
    kept = tuple(map(StepId, ("each[0]", "each[1]", "after")))
    opened = replace(OPENED, continues=RunId("RUN-0"), may_keep=kept, unfolds_again={StepId("each"): "x"})
    event = StepUnfolded(step=StepId("each"), attempt=1, kind=GroupKind.ITEMS, count=2, items_seal=seal)
    history = [opened, ExecutorStarted(epoch=1, pid=1, boot_id="b"), event]
    return set(replay(made, [(Instant(0), one) for one in history]).may_keep)


def test_items_are_kept_only_where_they_are_what_they_were():
    assert unfolded("x") == {"each[0]", "each[1]", "after"}
    assert unfolded("y") == set()
