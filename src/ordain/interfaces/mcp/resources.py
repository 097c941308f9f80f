"""What can be read by address: plans and runs, `ordain://plan/…` and `ordain://run/…`, and the skill. Only looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ordain.app.app import App
from ordain.core.approval.approval import Principal
from ordain.core.report.report import PlanLine
from ordain.interfaces.mcp.surface import ClientCall, Content, ListedResource, ResourceTemplate
from ordain.interfaces.mcp.texts import mcp_texts
from ordain.interfaces.robot import envelope as robot
from ordain.interfaces.skill import skill_text
from ordain.interfaces.view.diff import comparison_result
from ordain.interfaces.view.preview import review_lines
from ordain.interfaces.view.report import log_result, review_result
from ordain.interfaces.view.run import Style

# --- Plan resources --------------------------------------------------------------------------------------------------

LISTED = 30


async def listed_plans(call: ClientCall) -> Sequence[ListedResource]:
    """The skill, and the newest plans of the caller with their newest runs."""
    async with call.app() as app:
        lines = tuple(app.lines(app.owned(call.by)[-LISTED:]))
    skill = ListedResource(*(getattr(PLAN_RESOURCES[0], name) for name in ListedResource._fields))
    return [skill, *(one for line in reversed(lines) for one in _listed(line))]


def new_plans(app: App, by: Principal, seen: int | None) -> tuple[int, bool]:
    """How many plans there are, and whether one of those after the first `seen` is the caller's."""
    count = app.plan_count()
    return count, seen is not None and count > seen and bool(app.owned(by, newest=count - seen))


def _recorded(app: App, names: Mapping[str, str]) -> int:
    return app.recorded(names["id"])


def _listed(line: PlanLine) -> list[ListedResource]:
    plan = ListedResource(f"ordain://plan/{line.lineage}", line.lineage, f"{line.title} ({line.status})")
    if line.last_run is None:
        return [plan]
    return [plan, ListedResource(f"ordain://run/{line.last_run}", line.last_run, f"The newest run of {line.title}")]


def _json(value: Any) -> Content:
    return Content(robot.to_json(value).decode())


async def _plan(call: ClientCall, names: Mapping[str, str]) -> Content:
    async with call.app() as app, app.asked_for("resource", names["id"], call.by):
        return _json(review_result(app.review(names["id"])))


async def _preview(call: ClientCall, names: Mapping[str, str]) -> Content:
    async with call.app() as app, app.asked_for("resource", names["id"], call.by):
        lines = review_lines(app.review(names["id"]), Style(False), detail="verbose")
        return Content("\n".join(lines), "text/plain")


async def _difference(call: ClientCall, names: Mapping[str, str]) -> Content:
    async with (
        call.app() as app,
        app.asked_for("resource", names["id"], call.by),
        app.asked_for("resource", names["from"], call.by),
    ):
        return _json(comparison_result(app.diff(app.stored(names["from"]), app.stored(names["id"]))))


async def _run(call: ClientCall, names: Mapping[str, str]) -> Content:
    async with call.app() as app, app.asked_for("resource", names["id"], call.by):
        return _json(app.run(names["id"]))


async def _log(call: ClientCall, names: Mapping[str, str]) -> Content:
    async with call.app() as app, app.asked_for("resource", names["id"], call.by):
        return _json(log_result(app.log(names["id"])))


async def _output(call: ClientCall, names: Mapping[str, str]) -> Content:
    async with call.app() as app, app.asked_for("resource", names["id"], call.by):
        found, parts = app.output(names["id"], names["step"])
        whole = found.kept_bytes == found.output_bytes
        data = b"".join(parts)
        return Content(app.redactor().tail(data, OUTPUT_MAX, whole=whole and len(data) <= OUTPUT_MAX), "text/plain")


OUTPUT_MAX = 1 << 20
"""How much of what a step wrote is told."""


async def _read_skill(call: ClientCall, names: Mapping[str, str]) -> Content:
    return Content(skill_text(), "text/markdown")


_RESOURCES: dict[str, tuple[Callable[[ClientCall, Mapping[str, str]], Awaitable[Content]], bool]] = {
    "skill": (_read_skill, False),
    "plan": (_plan, True),
    "plan-preview": (_preview, False),
    "plan-diff": (_difference, False),
    "run": (_run, True),
    "run-log": (_log, False),
    "step-output": (_output, False),
}
"""Who reads each kind, and whether it grows, so that it can be subscribed to. What is said of it is in
`data/mcp.toml`."""

PLAN_RESOURCES = tuple(
    ResourceTemplate(name=name, read=read, size=_recorded if grows else None, **mcp_texts()["resources"][name])
    for name, (read, grows) in _RESOURCES.items()
)
