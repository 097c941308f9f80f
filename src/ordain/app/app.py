"""The verbs, by subject. A verb returns a value or raises `Refused`; it prints nothing and asks nobody. Who calls, and
through which channel, is always passed in: only a person's channel can approve, answer or trust."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from ordain.app.lint import DocumentLint
from ordain.app.renamed import find_renamed
from ordain.core.text.redaction import Redactor
from ordain.records.equipment import Equipment

if TYPE_CHECKING:
    from ordain.app.answers import Answers
    from ordain.app.approvals import Approvals
    from ordain.app.audits import Audits
    from ordain.app.beyond import Beyond
    from ordain.app.guard import GuardedCalls
    from ordain.app.plans import PlanVerbs
    from ordain.app.refusals import Refusals
    from ordain.app.runs import GoOn, RunVerbs
    from ordain.app.stop import Stops
    from ordain.app.templates import Templates
    from ordain.app.topics import Signals, Topics
    from ordain.app.workspace import WorkspaceView
    from ordain.ports.ports import Ports
    from ordain.records.surroundings import Surroundings


class App:
    """Ordain over one workspace: its verbs by subject. The first verb that needs the ledger opens it."""

    plans: PlanVerbs
    approvals: Approvals
    runs: RunVerbs
    answers: Answers
    signals: Signals
    topics: Topics
    refusals: Refusals
    stops: Stops
    templates: Templates
    workspace: WorkspaceView
    """Made together with the other subjects above, when the first of them is asked for."""

    def __init__(self, ports: Ports) -> None:
        self.ports, self.equipment = ports, Equipment(ports)
        self.documents = DocumentLint(self.equipment, lambda: self.here)
        self.go_on: GoOn | None = None
        """Asks a planner how a run goes on that waits for one, where there are planners."""

    @cached_property
    def _beyond(self) -> Beyond:
        from ordain.app.beyond import Beyond  # whoever looks at a document starts sooner without

        return Beyond(self.here, lambda: self.go_on)

    @cached_property
    def here(self) -> Surroundings:
        """What every verb looks at."""
        from ordain.records.surroundings import Surroundings  # a document is linted without, where there is no record

        return Surroundings(self.ports)

    def redactor(self) -> Redactor:
        """What keeps secrets out of everything shown; where no ledger was opened, by the defaults."""
        return self.workspace.redactor() if self.ports.ledger.opened is not None else self.equipment.redactor()

    @cached_property
    def guard(self) -> GuardedCalls:
        """What becomes of agents' calls outside of any run."""
        from ordain.app.guard import GuardedCalls  # only what stands between agents and their tools asks

        return GuardedCalls(self.here)

    @property
    def audits(self) -> Audits:
        """The verbs about the ledger as a whole."""
        from ordain.app.audits import Audits  # few commands look at all of it

        return Audits(self.here, self.plans.write_copies)

    async def close(self) -> None:
        self.ports.sources.close()
        if (ledger := self.ports.ledger.opened) is not None:
            await ledger.close()

    def let_go(self) -> None:
        """The same where only looking was done, and nobody can wait."""
        self.ports.sources.close()
        if (ledger := self.ports.ledger.opened) is not None:
            ledger.let_go()

    if not TYPE_CHECKING:  # so that our own code is checked against the new names

        def __getattr__(self, name: str) -> Any:
            return getattr(self._beyond, name) if name in App.__annotations__ else find_renamed(self, name)
