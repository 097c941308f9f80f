"""The ends of outputs that a run's log has, for those who watch the run."""

from __future__ import annotations

from ordain.core.plan.value import RunId
from ordain.core.report.progress import AttemptOutput, read_output
from ordain.ports.workspace import StepLogs

LOOKED_BACK = 64 << 10
"""How much of a run's log is looked at by somebody who begins to watch it."""


class OutputTails:
    """The ends of outputs that whoever carries out a run puts into its log. They are shown, and nothing else."""

    def __init__(self, logs: StepLogs, run_id: RunId) -> None:
        self._logs, self._run_id = logs, run_id
        self._place = -LOOKED_BACK

    def since(self) -> tuple[AttemptOutput, ...]:
        """The newest of each step that was added since this was asked last."""
        data, end = self._logs.read(self._run_id, self._place)
        *lines, begun = data.split(b"\n")
        self._place = end - len(begun)
        found = [output for line in lines if (output := read_output(line)) is not None]
        ours = {output.step: output for output in found if output.stream == f"run/{self._run_id}"}
        return tuple(ours.values())
