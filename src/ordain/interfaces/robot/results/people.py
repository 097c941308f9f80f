"""What the verbs about those who permit answer: approver list, revoke; and who has a token."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ordain.core.approval.signature import fingerprint
from ordain.core.lineage.workspace import Approver
from ordain.ports.machine import Client


class EnrolledApprover(Approver, frozen=True, kw_only=True):
    """A person whose key counts here, or did, with the mark that others know the key by."""

    fingerprint: str


def enrolled(found: Iterable[Approver]) -> tuple[EnrolledApprover, ...]:
    return tuple(EnrolledApprover(**msgspec.structs.asdict(one), fingerprint=fingerprint(one.key)) for one in found)


class ApproversResult(msgspec.Struct, frozen=True, kw_only=True):
    approvers: tuple[EnrolledApprover, ...]


class RevokedResult(msgspec.Struct, frozen=True, kw_only=True):
    """The approvals that ended."""

    revoked: tuple[str, ...]


class ClientsResult(msgspec.Struct, frozen=True, kw_only=True):
    """The clients that have a token of the MCP server."""

    clients: tuple[Client, ...]
