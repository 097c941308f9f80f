"""Deciding what a run asks a person: shown first, bound to what was shown, signed where signatures are demanded.

An answer is worth as much as an approval, for it lets an effect happen again or count without evidence.
"""

from __future__ import annotations

import msgspec

from ordain.core.approval import Principal
from ordain.core.decision import (
    Asked,
    choice_named,
    decided,
    find_question,
    persons_only,
    signed_decision,
    stale,
)
from ordain.core.problem import Refused
from ordain.core.signature import fingerprint
from ordain.core.state import RunState
from ordain.core.value import PlanId, RunId
from ordain.gate import Gate
from ordain.ports import Append, Credential
from ordain.records import WORKSPACE_STREAM
from ordain.surroundings import TIER, Surroundings

__all__ = ["Answering"]


class Answering:
    """People's answers to the runs of one workspace."""

    def __init__(self, here: Surroundings, gate: Gate) -> None:
        self._here, self._gate = here, gate

    def asked(self, item: str) -> Asked:
        """What a run asks a person by this name, as it stands; the person is shown it before they answer."""
        run_id = self._here.records.find_run(item.partition("/")[0])
        return _asked(item, *self._here.records.run(run_id))

    def check(self, asked: Asked, word: str, by: Principal, signer: str | None) -> None:
        """Raise Refused where this person's answer to this question could not count, before anything is typed."""
        choice_named(asked.question, word)
        self._gate.check_answering(by, signer, f"ordain answer {asked.question.item} {word}")

    async def answer(
        self, item: str, word: str, by: Principal, shown: Asked | None, credential: Credential | None
    ) -> RunId:
        """Record a person's decision about what a run asks; the run goes on with `resume`. `shown` is what the person
        saw: when that is no longer how things stand, nothing is recorded."""
        here = self._here
        run_id = here.records.find_run(item.partition("/")[0])
        persons_only("answer this", by, f"ordain answer {item} {word}")
        # While an executor is at work it alone appends to its run; it stops by itself when only people are waited for.
        with here.lock.claim(run_id):
            state, plan_id, head = here.records.run(run_id)
            workspace, asked = here.workspace_state(), _asked(item, state, plan_id, head)
            if shown not in (None, asked):
                raise stale(asked.question)
            signer = credential.name if credential is not None else None
            command = f"ordain answer {asked.question.item} {word}"
            approver = self._gate.check_answering(by, signer, command)
            if approver is not None:
                by = Principal(name=approver.name, channel=by.channel)
            key = fingerprint(approver.key) if approver is not None else None
            event = decided(state, asked.question, word, by, head=head, key=key)
            if credential is not None:
                said = signed_decision(event, workspace_id=asked.workspace_id, run_id=run_id, plan_id=plan_id)
                event = msgspec.structs.replace(event, signature=await here.sign(credential, said, by))
            try:
                await here.ledger.append(
                    here.now(),
                    Append(stream=WORKSPACE_STREAM, expected=workspace.size, events=()),
                    Append(stream=f"run/{run_id}", expected=state.size, events=(event,)),
                )
            except Refused as refused:
                if refused.problems[0].code != "E_LEDGER_CONFLICT":
                    raise
                raise stale(asked.question) from refused
        return run_id


def _asked(item: str, state: RunState, plan_id: PlanId, head: str) -> Asked:
    return Asked(
        question=find_question(state, item),
        run_id=state.run_id,
        plan_id=plan_id,
        workspace_id=state.workspace_identity.id,
        head=head,
        tier=TIER,
    )
