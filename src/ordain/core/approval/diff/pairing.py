"""Which step of one plan is which step of another, and whether two plans do the same work.

A step whose id is new is an old one renamed where nothing but its id, its needs and its description differ, for in a
document the id follows the title. Moved are those outside the longest run of steps that kept their order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import msgspec

from ordain.core.plan.canonical import canonical_bytes
from ordain.core.plan.command import Program, command_of, program_of
from ordain.core.plan.model import Plan, Step, all_steps, look_commands, nested_plan_of
from ordain.core.plan.value import StepId
from ordain.core.policy.program import bare, handed_text, unwrapped
from ordain.core.policy.script import Script, argument_script

_IDLE = frozenset(["true", ":", "echo", "printf", "pwd", "date", "sleep", "test", "[", "[[", "set", "exit"])
"""Commands that only print, wait or ask, and stand around the work of a plan."""


class StepPair(msgspec.Struct, frozen=True, kw_only=True):
    """One step in both plans. Positions count from zero."""

    old: Step
    new: Step
    old_position: int
    position: int
    moved: bool = False

    @property
    def renamed(self) -> bool:
        return self.old.id != self.new.id


class Pairing(msgspec.Struct, frozen=True, kw_only=True):
    """Two lists of steps put side by side, each in its own order."""

    pairs: tuple[StepPair, ...]
    """In the new order."""
    removed: tuple[tuple[int, Step], ...]
    added: tuple[tuple[int, Step], ...]


def pair(old: Sequence[Step], new: Sequence[Step]) -> Pairing:
    waiting: dict[StepId, deque[int]] = defaultdict(deque)
    for position, step in enumerate(old):
        waiting[step.id].append(position)
    found: dict[int, int] = {}
    added = []
    for position, step in enumerate(new):
        if waiting[step.id]:
            found[position] = waiting[step.id].popleft()
        else:
            added.append(position)
    removed = sorted(position for left in waiting.values() for position in left)
    for alike in (_without_name, _without_words):
        found |= _renamed(alike, old, new, removed, added)
        taken = set(found.values())
        removed = [position for position in removed if position not in taken]
        added = [position for position in added if position not in found]
    kept = _kept(found)
    return Pairing(
        pairs=tuple(
            StepPair(
                old=old[found[position]],
                new=new[position],
                old_position=found[position],
                position=position,
                moved=position not in kept,
            )
            for position in sorted(found)
        ),
        removed=tuple((position, old[position]) for position in removed),
        added=tuple((position, new[position]) for position in added),
    )


_without_name = partial(msgspec.structs.replace, id=StepId(""), needs=())
_without_words = partial(_without_name, description="")


def _renamed(
    alike: Callable[[Step], Step], old: Sequence[Step], new: Sequence[Step], removed: list[int], added: list[int]
) -> dict[int, int]:
    """Positions of one step under two names among the added and the removed, the first with the first."""
    if not removed or not added:
        return {}
    left: dict[bytes, deque[int]] = defaultdict(deque)
    for position in removed:
        left[canonical_bytes(alike(old[position]))].append(position)
    found = {}
    for position in added:
        if candidates := left.get(canonical_bytes(alike(new[position]))):
            found[position] = candidates.popleft()
    return found


def _kept(found: Mapping[int, int]) -> set[int]:
    """The new positions of the longest run of steps whose order is the same in both plans."""
    ends: list[int] = []
    holders: list[int] = []
    before: dict[int, int | None] = {}
    for position in sorted(found):
        length = bisect_left(ends, found[position])
        before[position] = holders[length - 1] if length else None
        ends[length : length + 1] = [found[position]]
        holders[length : length + 1] = [position]
    kept: set[int] = set()
    last: int | None = holders[-1] if holders else None
    while last is not None:
        kept.add(last)
        last = before[last]
    return kept


# --- The same work -------------------------------------------------------------------------------------------------


def work_of(plan: Plan, scripts: Mapping[str, Script]) -> frozenset[Any]:
    """What a plan does, each thing once, however it is quoted or started; what only prints counts where it is all."""
    found = {one for step in all_steps(plan) for one in _deeds(step, scripts)}
    return frozenset({one for one, idle in found if not idle} or {one for one, _ in found})


def checks_of(plan: Plan, scripts: Mapping[str, Script]) -> frozenset[Any]:
    """What the contracts and checks of a plan do, which are commands too."""
    texts = (text for step in all_steps(plan) for text in look_commands(step))
    return frozenset(one for text in texts if text in scripts for one, _ in _commands(scripts[text], {}))


def _deeds(step: Step, scripts: Mapping[str, Script]) -> Iterator[tuple[Any, bool]]:
    """What a step does, and whether that is nothing to speak of."""
    command, program = command_of(step.action), program_of(step.action)
    script = scripts.get(command.command) if command is not None else None
    if program is not None:
        script = argument_script(program.argv, scripts.get)
    if script is not None:
        yield from _commands(script, (command or program or Program(argv=())).env)
    elif nested_plan_of(step) is None:
        yield canonical_bytes(step.action), False


def _commands(script: Script, env: Mapping[str, str]) -> Iterator[tuple[Any, bool]]:
    values = *sorted(env.items()), *(pair for one in script.commands for pair in one.assignments)
    for one in script.commands:
        words = unwrapped(one.words)
        if words and (len(script.commands) == 1 or handed_text(words) is None):
            name = bare(words[0])
            # A word that nobody knows before it runs is told apart by the values that are set for it.
            more = values if None in words else ()
            yield (name, *words[1:], *more, *(one.outputs if name in _IDLE else ())), name in _IDLE and not one.outputs


def is_same_work(new: AbstractSet[Any], old: AbstractSet[Any], checks: AbstractSet[Any] = frozenset()) -> bool:
    """Whether what a plan does is what another one did: four fifths of it is the old one's; or it has all of two or
    more things that the old one did, be it in its contracts; or it has four fifths of them, and at most twice as many
    and two more, so that trifles around them hide nothing. Of up to four, all must be equal."""
    common = 5 * len(new & old)
    whole = len(old) > 1 and old <= new | checks
    padded = len(new) <= 2 * len(old) + 2
    return common >= 4 * len(new) or whole or (padded and common >= 4 * len(old))
