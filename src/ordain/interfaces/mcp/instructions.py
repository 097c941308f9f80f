"""What a model is told of Ordain when a session begins: known before our own server is there. Pure."""

from __future__ import annotations

INSTRUCTIONS = """\
Ordain carries out plans that a person approved. For work that changes something, propose a plan with plan_propose: \
steps with a command or a tool each, and a contract (a command that exits 0 only if the step has done its work). You \
are told everything that is wrong with it at once. A person approves it at a terminal; you cannot, and no tool can: \
call plan_approve for the command to pass on to them. Then plan_commit starts it and plan_status tells how it stands. \
Only what the harness saw counts as done: never claim that a step is done which plan_status does not call passed. \
The resource ordain://skill says how to write good plans and contracts, and what refusals mean."""

GUARDED = """\
Some calls of the tools here are guarded: they are refused with the plan to propose instead, and Ordain makes them \
once a person has approved it. Do not do the same in another way."""
"""What is told besides where other servers' tools stand beside ours."""
