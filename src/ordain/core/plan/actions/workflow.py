"""The actions `run_workflow` and `mark_event_handled`, which only other engines carry out."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, ClassVar

from ordain.core.plan.role import About, EffectClass, Name, Number, Payload
from ordain.core.plan.value import Value


class RunWorkflow(Value, frozen=True, tag_field="type", tag="run_workflow"):
    workflow_id: Annotated[str, Name("workflow")]
    params: Annotated[Mapping[str, Any], Payload()] = {}

    about: ClassVar[About] = About(
        effect=EffectClass.OPAQUE,
        target=attrgetter("workflow_id"),
        did="ran the workflow `{0.workflow_id}`",
        unsupported=True,
    )


class MarkEventHandled(Value, frozen=True, tag_field="type", tag="mark_event_handled"):
    event_id: Annotated[int, Number()]

    about: ClassVar[About] = About(
        effect=EffectClass.REPEATABLE, did="marked the event {0.event_id} as handled", unsupported=True
    )


def workflow_run(action: object) -> str | None:
    """The workflow that an action runs, if it runs one."""
    return action.workflow_id if isinstance(action, RunWorkflow) else None
