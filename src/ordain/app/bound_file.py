"""The files that the commands of a run read, as they were bound when it was permitted."""

from __future__ import annotations

from ordain.core.approval.approval import Approval
from ordain.core.run.run_state import RunState
from ordain.engine.shield import BoundFiles
from ordain.records.surroundings import Surroundings


def bound_files(here: Surroundings, state: RunState, approval: Approval | None) -> BoundFiles | None:
    """The files that commands read as the approval was bound to them, or as they were when the run started; None
    where it began before they were bound."""
    bound = state.operands
    if approval is not None and bound is None:
        bound = approval.base.operands if approval.base.commands else None
    if bound is None:
        return None
    return BoundFiles(
        state,
        bound,
        tools={**here.ports.toolbox.definitions(), **state.limits_in_force.handlers},
        scripts=here.scripts(state.plan),
        contents=here.contents,
        shown=here.shown_path,
        real=here.ports.workspace.real_path,
    )
