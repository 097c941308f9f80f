"""What plan values are made of: the base of them all, and the ids by which things are named."""

from __future__ import annotations

from typing import NewType

import msgspec

PlanId = NewType("PlanId", str)
"""`plan:` and 64 hex digits: the digest of the plan's canonical bytes."""
StepId = NewType("StepId", str)
"""The author's word for a step, or the slug of its title."""
RunId = NewType("RunId", str)
"""`RUN-` and random base32: one carrying-out of one plan."""
Instant = NewType("Instant", int)
"""Milliseconds since 1970-01-01 UTC."""


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Base of everything inside a plan: immutable, keyword-only, unknown fields refused; a tree, so without `gc`."""
