"""The world that a disturbed run works in: a plan of every effect class, and how often each effect is really there.

Opaque steps write one line each to a file that Ordain never looks at; an edit done twice leaves two letters where one
belongs. So the world itself says what happened, whatever the ledger believes, and doubts are answered from it, as a
careful person would.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from tests.patience import eventually, patience
from tests.words import StepState, mark_of

__all__ = ["OPAQUE", "compare", "document", "furnish", "happened", "leftovers", "times"]

OPAQUE = ("first", "messy", "send", "last", "each[0]", "each[1]", "inner/in", "broken", "broken+mend")
"""Steps whose effect is a line of their own in the file of effects; some come to be only while the plan is run."""


def document(pause: str = ":") -> bytes:
    """The plan; `pause` is a command in the middle of some of its steps, where something can happen to them."""
    return f"""\
---
type: plan
---

# Survive

**Concurrency:** 3

## Steps

### 1. First

**run:** {pause}; echo first >> effects.log; {pause}

### 2. Read

**needs:** none
**tool:** read_file
**args:**
```yaml
path: notes.txt
```

### 3. Write

**needs:** none
**tool:** write_file
**args:**
```yaml
path: settings.txt
content: "mode = one"
```

### 4. Make

**needs:** none
**tool:** make_dir
**args:**
```yaml
path: made
```

### 5. Edit

**needs:** write
**tool:** edit_file
**args:**
```yaml
path: settings.txt
old: "= "
new: "= x"
```
**contract:** [[ $(<settings.txt) == *x* ]]

### 6. Move

**needs:** make
**tool:** move
**args:**
```yaml
path: from.txt
to: made/to.txt
```
**contract:** [[ -e made/to.txt ]]

### 7. Delete

**needs:** none
**tool:** delete
**args:**
```yaml
path: old.txt
```
**contract:** [[ ! -e old.txt ]]

### 8. Messy

**needs:** none
**run:** (sleep 300; echo late >> effects.log) & setsid -f sleep 300; echo messy >> effects.log

### 9. Again

**needs:** none
**run:** echo again > again.txt
**idempotent:** true

### 10. Send

**needs:** first
**run:** echo send >> effects.log; {pause}
**contract:** [[ $(<effects.log) == *send* ]]

### 11. List

**needs:** none
**run:** echo '["a", "b"]'
**idempotent:** true

### 12. Each

**needs:** none
**for_each:** {{in: "${{list.output}}", max: 5}}
**env:** AT=${{index}}
**run:** echo "each[$AT]" >> effects.log; {pause}

### 13. Inner

**needs:** list
**action:**
```yaml
type: nested_plan
plan:
  title: Within
  steps:
    - id: in
      description: In
      action: {{type: run, command: "echo inner/in >> effects.log; {pause}"}}
```

### 14. Broken

**needs:** first
**run:** echo broken >> effects.log; exit 1
**contract:** [[ $(<effects.log) == *mend* ]]
**on_fail:** fallback(mend)

### 15. Last

**needs:** read, edit, move, delete, messy, again, send, each, inner, broken
**run:** echo last >> effects.log
**contract:** [[ $(<effects.log) == *last* ]]

## Fallbacks

### mend. Mend it

**run:** echo broken+mend >> effects.log; {pause}
""".encode()


def furnish(workspace: Path) -> None:
    """Put there what the plan finds."""
    for name in ("notes.txt", "old.txt", "from.txt"):
        (workspace / name).write_text(f"{name}\n")


def times(workspace: Path) -> dict[str, int]:
    """How often the effect of each step is there. Raises AssertionError for what no step should have done."""
    effects, settings = workspace / "effects.log", workspace / "settings.txt"
    lines = effects.read_text().split() if effects.exists() else []
    assert set(lines) <= set(OPAQUE), lines
    content = settings.read_text() if settings.exists() else ""
    assert content.replace("x", "") in ("", "mode = one"), content
    old, new, to = (workspace / name for name in ("old.txt", "from.txt", "made/to.txt"))
    assert new.exists() + to.exists() == 1, "what was to be moved is lost, or there twice"
    return {
        **{step: lines.count(step) for step in OPAQUE},
        "write": int(bool(content)),
        "make": int((workspace / "made").is_dir()),
        "edit": content.count("x"),
        "move": int(to.exists()),
        "delete": int(not old.exists()),
        "again": int((workspace / "again.txt").exists()),
    }


def happened(workspace: Path, step: str) -> bool:
    """The truth about one step."""
    return times(workspace)[step] > 0


def compare(workspace: Path, steps: Mapping[str, tuple[StepState, int]], *, completed: bool) -> None:
    """What is believed of the steps, each with its attempts, against the world: nothing twice, nothing lost, nothing
    passed that did not happen, nothing happened that was not begun."""
    found = times(workspace)
    for step, (state, attempts) in steps.items():
        assert state is StepState.PASSED or not completed, f"{step} is {state.value}, and the run is called completed"
        if step not in found:
            continue  # it only reads
        said = f"{step} is {state.value} after {attempts} attempts, and its effect is there {found[step]} times"
        assert found[step] <= 1, said
        mended = any(count for name, count in found.items() if name.startswith(f"{step}+"))
        assert found[step] == 1 or mended or state is not StepState.PASSED, said
        assert found[step] == 0 or attempts > 0, said


def leftovers(run_id: str, patience_s: float = 5.0) -> list[int]:
    """Processes that outlive their run; one that was killed may take a moment to be gone on a busy machine."""

    def left() -> list[int]:
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        return [pid for pid in pids if f"/{run_id}/" in (mark_of(pid) or "")]

    with contextlib.suppress(AssertionError):
        eventually(lambda: not left(), "their end", patience(patience_s))
    return left()
