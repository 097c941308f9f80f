"""Everything that `ordain mcp` offers."""

from __future__ import annotations

from ordain import __version__
from ordain.interfaces.mcp.plan_prompts import PLAN_PROMPTS
from ordain.interfaces.mcp.plan_resources import PLAN_RESOURCES, listed_plans, new_plans
from ordain.interfaces.mcp.plan_tools import PLAN_TOOLS
from ordain.interfaces.mcp.run_tasks import RunTasks
from ordain.interfaces.mcp.surface import Surface

__all__ = ["PLAN_SURFACE"]

INSTRUCTIONS = """\
Ordain carries out plans that a person approved. For work that changes something, propose a plan with plan_propose: \
steps with a command or a tool each, and a contract (a command that exits 0 only if the step has done its work). You \
are told everything that is wrong with it at once. A person approves it at a terminal; you cannot, and no tool can: \
call plan_approve for the command to pass on to them. Then plan_commit starts it and plan_status tells how it stands. \
Only what the harness saw counts as done: never claim that a step is done which plan_status does not call passed. \
The resource ordain://skill says how to write good plans and contracts, and what refusals mean."""

PLAN_SURFACE = Surface(
    name="ordain",
    title="Ordain",
    version=__version__,
    instructions=INSTRUCTIONS,
    tools=PLAN_TOOLS,
    resources=listed_plans,
    news=new_plans,
    templates=PLAN_RESOURCES,
    prompts=PLAN_PROMPTS,
    tasks=RunTasks(),
)
