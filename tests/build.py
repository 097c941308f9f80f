"""Plans in one line: `plan(step("a"), step("b", needs="a", contract="test -f x"))`."""

from typing import Any, Literal

from tests.words import (
    PLAN_VERSION,
    Action,
    CallTool,
    Contract,
    FailurePolicy,
    Plan,
    PlanId,
    RunCommand,
    RunId,
    Step,
    StepId,
    Verification,
    WorkItem,
)


def step(
    name: str,
    *,
    run: str | None = None,
    tool: str | None = None,
    args: dict[str, Any] | None = None,
    action: Action | None = None,
    needs: str | tuple[str, ...] | None = None,
    contract: str | None = None,
    on_failure: FailurePolicy | None = None,
    timeout_ms: int | None = None,
    idempotent: bool | None = None,
    proof: Literal["red-then-green"] | None = None,
    protect: tuple[str, ...] = (),
    happened: str | None = None,
) -> Step:
    """A step; without `run`, `tool` or `action` it runs `do NAME`. `needs=None` means what a reader makes of
    nothing written."""
    if action is None:
        action = CallTool(tool=tool, args=args or {}) if tool else RunCommand(command=run or f"do {name}")
    wanted = (needs,) if isinstance(needs, str) else needs
    return Step(
        id=StepId(name),
        description=name,
        action=action,
        needs=tuple(StepId(need) for need in wanted) if wanted is not None else (StepId("<before>"),),
        verification=Verification(strategy=Contract(command=contract)) if contract else None,
        on_failure=on_failure,
        timeout_ms=timeout_ms,
        idempotent=idempotent,
        proof=proof,
        protect=protect,
        happened=happened,
    )


def plan(*steps: Step, title: str = "A plan", **fields: Any) -> Plan:
    """A plan of these steps; a step that did not say what it needs follows the one before it."""
    from msgspec.structs import replace

    placed = []
    for index, one in enumerate(steps):
        if one.needs == ("<before>",):
            one = replace(one, needs=(steps[index - 1].id,) if index else ())
        placed.append(one)
    return Plan(plan_version=PLAN_VERSION, title=title, steps=tuple(placed), **fields)


def work_item(**fields: Any) -> WorkItem:
    """The first attempt at a task."""
    named = {"agent": "coder", "kind": "code", "step": StepId("s1"), "key": "key-1", "timeout_ms": 1000, **fields}
    return WorkItem(plan_id=PlanId("plan:1"), run_id=RunId("RUN-1"), attempt=1, **named)
