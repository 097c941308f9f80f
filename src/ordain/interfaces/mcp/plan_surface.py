"""Everything that `ordain mcp` offers."""

from __future__ import annotations

from ordain import __version__
from ordain.interfaces.mcp.instructions import INSTRUCTIONS
from ordain.interfaces.mcp.plan_prompts import PLAN_PROMPTS
from ordain.interfaces.mcp.plan_resources import PLAN_RESOURCES, listed_plans, new_plans
from ordain.interfaces.mcp.plan_tools import PLAN_TOOLS
from ordain.interfaces.mcp.run_tasks import RunTasks
from ordain.interfaces.mcp.surface import Surface

__all__ = ["PLAN_SURFACE"]

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
