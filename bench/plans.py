"""Plans to measure with: values for the engine, Markdown for the reader."""

from __future__ import annotations

from ordain.core.plan.action import CallTool, RunCommand, Task
from ordain.core.plan.model import PLAN_VERSION, Action, Plan, Step
from ordain.core.plan.value import StepId

__all__ = [
    "FIVE_STEPS",
    "chain_plan",
    "commands_plan",
    "markdown_plan",
    "program_plan",
    "reading_plan",
    "tasks_plan",
    "wide_plan",
]

FIVE_STEPS = """\
# Renew the settings

**Context:** The service reads its settings at start.

## Steps

### 1. Make room
**run:** mkdir -p build

### 2. Write the settings
**tool:** write_file
**args:**
```yaml
path: build/settings.json
content: "{}"
```
**contract:** test -s build/settings.json

### 3. Read them back
**tool:** read_file
**args:**
```yaml
path: build/settings.json
```

### 4. Look around
**needs:** 1
**run:** ls -l build

### 5. Say so
**needs:** 3, 4
**run:** echo done
**timeout:** 1m
**on_fail:** retry(2, 1s), then escalate
"""
"""An ordinary small document: commands, tools with arguments, a contract, a failure policy."""


def chain_plan(count: int) -> Plan:
    """Tool steps that each need the one before."""
    return _plan(f"Chain of {count}", [CallTool(tool="nothing")] * count, chained=True)


def reading_plan(count: int) -> Plan:
    """Steps that look at the workspace, each after the one before: what runs again after a crash without asking."""
    return _plan(f"Looks of {count}", [CallTool(tool="list_files")] * count, chained=True)


def program_plan(argv: tuple[str, ...], count: int) -> Plan:
    """One program, again and again, each after the one before."""
    return _plan(f"Programs of {count}", [CallTool(tool="exec", args={"argv": list(argv)})] * count, chained=True)


def tasks_plan(count: int) -> Plan:
    """Tasks for one agent, each after the one before."""
    return _plan(f"Tasks of {count}", [Task(agent="coder", task="Do nothing, and say so.")] * count, chained=True)


def wide_plan(count: int, concurrency: int | None = None) -> Plan:
    """Tool steps that need nothing."""
    return _plan(f"Field of {count}", [CallTool(tool="nothing")] * count, chained=False, concurrency=concurrency)


def commands_plan(count: int, concurrency: int) -> Plan:
    """Commands that do nothing and need nothing."""
    return _plan(f"{count} commands", [RunCommand(command="true")] * count, chained=False, concurrency=concurrency)


def _plan(title: str, actions: list[Action], *, chained: bool, concurrency: int | None = None) -> Plan:
    steps = tuple(
        Step(
            id=StepId(f"step-{number}"),
            description=f"Step {number}",
            action=action,
            needs=(StepId(f"step-{number - 1}"),) if chained and number > 1 else (),
        )
        for number, action in enumerate(actions, start=1)
    )
    return Plan(plan_version=PLAN_VERSION, title=title, steps=steps, concurrency=concurrency)


def markdown_plan(count: int) -> str:
    """A document in the full Markdown form: commands with contracts, needs and failure policies, and every tenth step
    a tool call with YAML arguments."""
    parts = ["# A very large plan\n\n**Context:** Made to be measured.\n\n## Steps\n"]
    for number in range(1, count + 1):
        lines = [f"### {number}. Build part {number}", f"**id:** part-{number}"]
        if number > 10:
            lines.append(f"**needs:** part-{number - 10}, part-{number - 7}")
        if number % 10 == 0:
            lines += ["**tool:** write_file", "**args:**", "```yaml", f"path: out/part-{number}.txt"]
            lines += [f"content: part {number} was built", "```"]
        else:
            lines.append(f"**run:** make -C parts/part-{number} all")
        lines.append(f"**contract:** test -s out/part-{number}.txt")
        if number % 5 == 0:
            lines.append("**on_fail:** retry(2, 1s x2 max 30s), then escalate")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
