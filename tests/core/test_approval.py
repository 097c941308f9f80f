"""`check`: each binding by itself."""

import pytest
from msgspec.structs import replace

from ordain.core.approval import (
    Approval,
    Base,
    Channel,
    Principal,
    Situation,
    WorkspaceIdentity,
    action_kinds,
    check,
)
from ordain.core.canonical import plan_id
from ordain.core.value import Instant
from tests.build import plan, step

PLAN = plan(step("a"), step("b", tool="write_file", args={"path": "x", "content": "y"}))
KIM = Principal(name="kim", channel=Channel.TERMINAL)
WORKSPACE = WorkspaceIdentity(id="WS-1", path="/w", device=1, inode=2)
BASE = Base(tools="sha256:t", config="defaults")
APPROVAL = Approval(
    approval_id="APPROVAL-1",
    plan_id=plan_id(PLAN),
    workspace=WORKSPACE,
    action_kinds=("run", "tool:write_file"),
    base=BASE,
    proposer=KIM,
    approver=KIM,
    tier=0,
    issued_at=Instant(1_000_000),
    expires_at=Instant(2_000_000),
    nonce="n",
)
HERE = Situation(workspace=WORKSPACE, base=BASE, tier=0, now=Instant(1_500_000))


def test_an_approval_in_its_own_situation_is_good():
    assert check(APPROVAL, PLAN, HERE) is None


def test_action_kinds_are_computed_from_the_plan():
    assert action_kinds(PLAN) == ("run", "tool:write_file")
    assert action_kinds(plan(step("a", tool="list_files", contract="touch x"))) == ("contract", "tool:list_files")


@pytest.mark.parametrize(
    ("approval", "made", "here", "code"),
    [
        (APPROVAL, plan(step("a")), HERE, "E_PLAN_HASH_MISMATCH"),
        (replace(APPROVAL, action_kinds=("run",)), PLAN, HERE, "E_PLAN_HASH_MISMATCH"),
        (APPROVAL, PLAN, replace(HERE, workspace=replace(WORKSPACE, id="WS-2")), "E_PLAN_WORKSPACE"),
        (APPROVAL, PLAN, replace(HERE, workspace=replace(WORKSPACE, path="/v")), "E_PLAN_WORKSPACE"),
        (APPROVAL, PLAN, replace(HERE, workspace=replace(WORKSPACE, inode=3)), "E_PLAN_WORKSPACE"),
        (APPROVAL, PLAN, replace(HERE, workspace=replace(WORKSPACE, device=3)), "E_PLAN_WORKSPACE"),
        (APPROVAL, PLAN, replace(HERE, now=Instant(2_000_000)), "E_APPROVAL_EXPIRED"),
        (APPROVAL, PLAN, replace(HERE, now=Instant(900_000)), "E_APPROVAL_EXPIRED"),
        (APPROVAL, PLAN, replace(HERE, base=replace(BASE, tools="sha256:u")), "E_PLAN_STALE_BASE"),
        (APPROVAL, PLAN, replace(HERE, base=replace(BASE, config="sha256:c")), "E_PLAN_STALE_BASE"),
        (APPROVAL, PLAN, replace(HERE, tier=1), "E_PLAN_STALE_BASE"),
    ],
)
def test_each_binding_refuses_by_itself(approval, made, here, code):
    problem = check(approval, made, here)
    assert problem is not None
    assert problem.code == code
    assert problem.command is not None and problem.command.startswith("ordain approve ")


def test_a_little_clock_skew_is_forgiven():
    assert check(APPROVAL, PLAN, replace(HERE, now=Instant(APPROVAL.issued_at - 30_000))) is None
