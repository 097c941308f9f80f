"""Everything that `ordain mcp` offers."""

from __future__ import annotations

from ordain import __version__
from ordain.interfaces.mcp.prompts import PLAN_PROMPTS
from ordain.interfaces.mcp.resources import PLAN_RESOURCES, listed_plans, new_plans
from ordain.interfaces.mcp.run_tasks import RunTasks
from ordain.interfaces.mcp.surface import Surface
from ordain.interfaces.mcp.texts import mcp_texts
from ordain.interfaces.mcp.tools import PLAN_TOOLS

PLAN_SURFACE = Surface(
    name="ordain",
    title="Ordain",
    version=__version__,
    instructions=mcp_texts()["instructions"],
    tools=PLAN_TOOLS,
    resources=listed_plans,
    news=new_plans,
    templates=PLAN_RESOURCES,
    prompts=PLAN_PROMPTS,
    tasks=RunTasks(),
)
