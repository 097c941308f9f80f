"""A guarded call that somebody was seen to make: a note for people who tune rules, and no evidence."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec

from ordain.core.guard.call import Call, CallStanding, Cover, Judged, Met, Mode, Same, refusal_of
from ordain.core.plan.tool import unbearable
from ordain.core.plan.value import Instant
from ordain.core.text.limit import NAME_LENGTH_MAX

DAYS_KEPT = 90
"""For how many days sightings are kept."""
ABOUT_MAX = 200
_READ_MAX = 16 << 10
"""How much is looked at of what somebody said, for what is shown of it."""


class Sighting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call."""

    at: Instant
    agent: str
    """Who made it, as far as anybody can tell: a client's own word, unless it had a token of its own."""
    through: str
    """Where it was seen: `gateway`, or the host whose hook asked."""
    tool: str
    standing: CallStanding
    refused: bool
    """Whether it was, or would only have been."""
    code: str
    session: str = ""
    """What tells one session of the agent from another, where the host says."""
    effect: str = ""
    """The effect class that the tool had; empty where nobody knew the tool."""
    destructive: bool = False
    kept: bool = False
    """Whether it is never open, whatever the lists say."""
    about: str = ""
    """Its arguments, shortened and without secrets."""


def sighted(
    call: Call,
    judged: Judged,
    cover: Cover | None,
    mode: Mode,
    clean: Callable[[str], str],
    *,
    at: Instant,
    agent: str,
    through: str,
    session: str,
    same: Same | None = None,
) -> tuple[Met, Sighting]:
    """What becomes of a call that is not open, and what is noted of it; `clean` takes secrets out of a text."""
    named = msgspec.structs.replace(call, tool=_said(call.tool, clean))
    problem = refusal_of(named, judged, cover, same)
    met = Met(judged=judged, problem=problem, refused=mode is Mode.ENFORCE, cover=cover, same=same)
    about = json.dumps(call.args, ensure_ascii=False, default=str) if not unbearable(call.args) else ""
    sighting = Sighting(
        at=at,
        agent=_said(agent, clean),
        through=through,
        tool=named.tool,
        standing=judged.standing,
        refused=met.refused,
        code=problem.code,
        session=_said(session, clean),
        effect=call.definition.effect.value if call.definition is not None else "",
        destructive=call.definition is None or call.definition.destructive,
        kept=bool(call.kept),
        about=_said(about, clean, ABOUT_MAX),
    )
    return met, sighting


def _said(text: str, clean: Callable[[str], str], most: int = NAME_LENGTH_MAX) -> str:
    """What somebody said, as it may be kept and told: they may say anything."""
    return clean(text[:_READ_MAX].encode("utf-8", "replace").decode())[:most]
