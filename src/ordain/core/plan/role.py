"""Roles: what every field of an action, a condition or a failure policy is for, and what an action is like. Lint,
policy, diffs and the engine ask for roles, so that none of them has to know an action by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from ordain.core.text.limit import DAY_MS


class EffectClass(StrEnum):
    """What happens to the world when a tool is called, in the order of how little may be assumed after a crash."""

    READS = "reads"
    """Changes nothing."""
    REPEATABLE = "repeatable"
    """The same arguments twice have the effect of once."""
    CHECKABLE = "checkable"
    """A contract can tell whether it happened."""
    OPAQUE = "opaque"
    """Nobody can tell from outside; only a person may say."""


ConcernKind = Literal[
    "destructive_effect", "contract_removed", "contract_weakened", "proof_removed", "protect_narrowed",
    "inputs_narrowed", "tools_widened", "writes_widened", "network_allowed", "workspace_unbound", "tier_lowered",
    "approval_dropped", "approval_scope_changed", "ask_removed", "step_removed", "action_replaced",
    "condition_removed", "condition_added", "repeatable_claimed", "repeat_allowed", "failure_softened",
    "fallback_named", "worktree_dropped", "budget_raised", "repetitions_raised", "retry_raised", "command_new",
    "path_written", "path_rewritten", "effect_new", "command_changed", "content_changed", "effect_changed",
    "instructions_changed", "parameter_changed", "question_changed", "condition_changed", "wait_changed",
    "lock_changed", "repetitions_changed", "contract_new", "contract_changed", "needs_removed", "agent_changed",
    "model_changed", "pool_changed", "failure_changed", "concurrency_raised", "timeout_raised", "reads_changed",
    "field_changed",
]  # fmt: skip
"""What can be wrong with a change, the most dangerous first; the order of the list is the order of showing."""

Said = tuple[ConcernKind, str]
"""A kind, and what is said of a step or a plan, to follow its name."""


def listed(names: Iterable[str]) -> str:
    """Names in a sentence."""
    return ", ".join(f"`{name}`" for name in names)


# --- Roles of fields -------------------------------------------------------------------------------------------------


class Role(msgspec.Struct, frozen=True):
    """What a field is for."""


class PathRead(Role, frozen=True):
    """A path in the workspace that is read."""

    expected: bool = True
    """Lint demands that it is there or that a step before writes it. Else only its being there is looked at, so that no
    approval is bound to what is in it."""


class PathWritten(Role, frozen=True):
    """A path in the workspace that is written."""

    deep: bool = False


class CommandText(Role, frozen=True):
    """What a shell gets; no reference may stand in it."""

    what: str


class Prose(Role, frozen=True):
    """What a person, an agent or a pane reads; no reference may stand in it."""

    what: str
    machine: bool = False
    """A program reads it too, so that no word in it may pass for another."""


class Name(Role, frozen=True):
    """A name, which no reference can decide."""

    what: str
    kind: str | None = None
    """What `name_fault` calls it; None where the spelling of such names is judged elsewhere."""


class HandlerName(Name, frozen=True):
    """The name of the handler that carries an action out."""


class DataKey(Name, frozen=True):
    """The key under which an action stores data."""


class StepName(Role, frozen=True):
    """The id of a step of the same plan."""


class PaneName(Role, frozen=True):
    """The name or number of a pane. Of several fields the last that is given counts."""


class Duration(Role, frozen=True):
    """Milliseconds that a run can keep to."""

    what: str
    zero: bool = False

    def fault(self, value: float, what: str) -> str | None:
        """What is wrong with a value of the field, which is called `what`; None when nothing is."""
        if self.zero:
            return f"{what} must be between zero and a day" if not 0 <= value <= DAY_MS else None
        return f"{what} must be more than zero and at most a day" if not 0 < value <= DAY_MS else None


class Count(Role, frozen=True):
    """A number with a limit."""

    what: str
    most: int
    said: str = ""
    """What is said where it is beyond, if not which numbers it must be between."""

    def fault(self, value: float, what: str) -> str | None:
        if 1 <= value <= self.most:  # which NaN is not
            return None
        return (self.said if value > self.most else "") or f"{what} must be between 1 and {self.most}"


class Number(Role, frozen=True):
    """Any number that every reader holds exactly."""


class Payload(Role, frozen=True):
    """The values of an action in which references may stand. At most one field has this role."""


class Handed(Role, frozen=True):
    """What an agent is handed: `file:`, `topic:` or `step:` and a name."""


class ToolScope(Role, frozen=True):
    """The tools that an agent may use."""


class Expression(Role, frozen=True):
    """A condition in the expression language."""


class Schema(Role, frozen=True):
    """The JSON Schema of an answer."""


class Picked(Role, frozen=True):
    """What is only hashed, shown and used as it stands."""


class Inner(Role, frozen=True):
    """A value with roles of its own."""

    what: str = ""
    """What durations in it are called here, where that depends on the place."""


class Nested(Role, frozen=True):
    """A plan, whose steps are judged one by one."""


R = TypeVar("R", bound=Role)


class FieldPart(NamedTuple, Generic[R]):
    """One value of a field, with its role; `what` is what it is called where it stands."""

    field: str
    role: R
    value: Any
    what: str


class _Field(NamedTuple):
    name: str
    role: Any
    many: bool
    what: str


@cache
def fields(cls: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a class, with their types as whoever walks types wants them: without roles."""
    return tuple(
        msgspec.structs.replace(field, type=get_args(field.type)[0]) if get_origin(field.type) is Annotated else field
        for field in msgspec.structs.fields(cls)
    )


@cache
def roles(cls: type[msgspec.Struct]) -> Mapping[str, Role]:
    """The role of each field that has one."""
    found: dict[str, Role] = {}
    for field in msgspec.structs.fields(cls):
        meta = get_args(field.type)[1:] if get_origin(field.type) is Annotated else ()
        found.update((field.name, one) for one in meta if isinstance(one, Role))
    return found


@cache
def field_with(cls: type[msgspec.Struct], role: type[Role]) -> str | None:
    """The first field of a class with this role; None where it has none."""
    return next((name for name, one in roles(cls).items() if isinstance(one, role)), None)


def value_with(value: msgspec.Struct, role: type[Role]) -> Any:
    """What the first field with this role holds; None where there is none."""
    name = field_with(type(value), role)
    return getattr(value, name) if name is not None else None


def parts(value: msgspec.Struct, *kinds: type[R], inside: bool = True) -> Iterator[FieldPart[R]]:
    """Every value with one of these roles, in the order of the fields; then those of inner values."""
    own, inner = _asked(type(value), kinds)
    for name, role, many, what in own:
        given = getattr(value, name)
        if many and given is not None:
            yield from (FieldPart(name, role, one, what) for one in given)
        elif given is not None:
            yield FieldPart(name, role, given, what)
    for name, _, _, what in inner if inside else ():
        below = getattr(value, name)
        for part in parts(below, *kinds) if below is not None else ():
            yield part._replace(what=what) if what and isinstance(part.role, Duration) else part


S = TypeVar("S", bound=msgspec.Struct)


def changed(value: S, change: Callable[[Any, str], str]) -> S:
    """The same with what `change` makes of each text that has a role, told which; in inner values and lists too."""
    changes: dict[str, Any] = {}
    for name, role in roles(type(value)).items():
        given = getattr(value, name)
        if isinstance(role, Inner) and isinstance(given, msgspec.Struct):
            changes[name] = changed(given, change)
        elif isinstance(given, str):
            changes[name] = change(role, given)
        elif isinstance(given, tuple) and all(isinstance(one, str) for one in given):
            changes[name] = tuple(change(role, one) for one in given)
    return msgspec.structs.replace(value, **changes) if changes else value


@cache
def _asked(cls: type[msgspec.Struct], kinds: tuple[type[Role], ...]) -> tuple[tuple[_Field, ...], tuple[_Field, ...]]:
    """The fields of a class with one of these roles, and those with inner values."""
    types = {field.name: field.type for field in fields(cls)}
    every = [_Field(name, role, _is_tuple(types[name]), getattr(role, "what", "")) for name, role in roles(cls).items()]
    own = tuple(field for field in every if isinstance(field.role, kinds))
    return own, tuple(field for field in every if isinstance(field.role, Inner))


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple or any(get_origin(one) is tuple for one in get_args(kind))


# --- What an action is like ------------------------------------------------------------------------------------------


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to know of an action besides its fields."""

    effect: EffectClass
    """What it counts as for policy and after a crash. Of a call and a custom action, the registry says it."""
    did: str
    """What a step did that does it no more, with `{0.field}` for its fields."""
    kind: str = "action"
    target: Callable[[Any], str] = lambda action: ""
    """What it is done to, in one word."""
    waits: Literal["outside", "person"] | None = None
    """All that it does is to wait: for something outside of its run, or for a person's answer."""
    recorded: bool = False
    """It happens in the ledger's own transaction or has no effect: what is not recorded has not happened, whatever the
    plan says."""
    ledger_only: bool = False
    """It changes nothing but the ledger. What only reads need not say so."""
    asks: bool = False
    """A run asks a person less without it."""
    held: bool = False
    """What it got is given back when its run ends, so that another run has to do it again."""
    changed: Said | None = None
    """Of an action that only holds up the run: what is said when it is not what it was. To add one is harmless."""
    unsupported: bool = False
    """The format has it and this version does not carry it out."""


def about(action: Any) -> About:
    """What there is to know of an action."""
    found: About = action.about
    return found
