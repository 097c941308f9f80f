"""`check`: each binding by itself."""

from typing import Any

from msgspec.structs import replace

from ordain.core.approval.approval import (
    NARROWED,
    Approval,
    Base,
    Channel,
    Moment,
    Principal,
    Situation,
    WorkspaceIdentity,
    action_kinds,
    check,
    drift,
)
from ordain.core.plan.action import SendText
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.value import Instant
from ordain.core.policy.sealing import SealedEnvironment
from tests.build import plan, step
from tests.rows import each

PLAN = plan(step("a"), step("b", tool="write_file", args={"path": "x", "content": "y"}))
KIM = Principal(name="kim", channel=Channel.TERMINAL)
WORKSPACE = WorkspaceIdentity(id="WS-1", path="/w", device=1, inode=2)
BASE = Base(tools="sha256:t", config="defaults", environment=SealedEnvironment())
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
HERE = Situation(workspace=WORKSPACE, base=BASE, tier=0, now=Moment(at=Instant(1_500_000)))
PANES = plan(
    replace(step("a"), action=SendText(text="hi", pane="build")),
    replace(step("b"), action=SendText(text="hi", pane_id=7)),
)
TYPED = replace(
    APPROVAL, plan_id=plan_id(PANES), action_kinds=("send_text",), panes={"build": "tmux:1/%3/99", "7": "tmux:1/%7/98"}
)
SEEN = replace(HERE, panes=dict(TYPED.panes))


def at(milliseconds: int, **clock: Any) -> Moment:
    return Moment(at=Instant(milliseconds), **clock)


def test_an_approval_in_its_own_situation_is_good():
    assert check(APPROVAL, PLAN, HERE) is None


def test_action_kinds_are_computed_from_the_plan():
    assert action_kinds(PLAN) == ("run", "tool:write_file")
    assert action_kinds(plan(step("a", tool="list_files", contract="touch x"))) == ("contract", "tool:list_files")


@each(
    "approval, made, here, code",
    [
        (APPROVAL, plan(step("a")), HERE, "E_PLAN_HASH_MISMATCH"),
        (replace(APPROVAL, action_kinds=("run",)), PLAN, HERE, "E_PLAN_HASH_MISMATCH"),
        (APPROVAL, PLAN, replace(HERE, workspace=replace(WORKSPACE, id="WS-2")), "E_PLAN_WORKSPACE"),
        (APPROVAL, PLAN, replace(HERE, workspace=replace(WORKSPACE, path="/v")), "E_PLAN_WORKSPACE"),
        (APPROVAL, PLAN, replace(HERE, workspace=replace(WORKSPACE, inode=3)), "E_PLAN_WORKSPACE"),
        (APPROVAL, PLAN, replace(HERE, workspace=replace(WORKSPACE, device=3)), "E_PLAN_WORKSPACE"),
        (APPROVAL, PLAN, replace(HERE, now=at(2_000_000)), "E_APPROVAL_EXPIRED"),
        (APPROVAL, PLAN, replace(HERE, now=at(900_000)), "E_APPROVAL_EXPIRED"),
        (APPROVAL, PLAN, replace(HERE, base=replace(BASE, tools="sha256:u")), "E_PLAN_STALE_BASE"),
        (APPROVAL, PLAN, replace(HERE, base=replace(BASE, config="sha256:c")), "E_PLAN_STALE_BASE"),
        (APPROVAL, PLAN, replace(HERE, tier=1), "E_PLAN_STALE_BASE"),
        (APPROVAL, PLAN, replace(HERE, base=replace(BASE, operands={"x": "sha256:1"})), "E_PLAN_STALE_BASE"),
        (APPROVAL, PLAN, replace(HERE, base=replace(BASE, git_head="0" * 40)), "E_PLAN_STALE_BASE"),
        (APPROVAL, PLAN, replace(HERE, misfits=lambda sealed: ["the secret `X`"]), "E_PLAN_STALE_BASE"),
        (replace(APPROVAL, base=replace(BASE, environment=None)), PLAN, HERE, "E_APPROVAL_UNSEALED"),
        (
            replace(APPROVAL, boot_id="b", elapsed_ms=5),
            PLAN,
            replace(HERE, now=at(1_500_000, boot_id="b", elapsed_ms=1_000_005)),
            "E_APPROVAL_EXPIRED",
        ),
        (TYPED, PANES, replace(SEEN, panes={**TYPED.panes, "build": "tmux:1/%3/100"}), "E_PLAN_PANE_MISMATCH"),
        (TYPED, PANES, replace(SEEN, panes={"build": TYPED.panes["build"]}), "E_PLAN_PANE_MISMATCH"),
        (replace(TYPED, panes={}), PANES, replace(SEEN, panes={}), "E_PLAN_PANE_MISMATCH"),
    ],
)
def test_each_binding_refuses_by_itself(approval, made, here, code):
    problem = check(approval, made, here)
    assert problem is not None
    assert problem.code == code
    assert problem.command is not None and problem.command.startswith("ordain approve ")


def test_panes_that_are_the_same_are_good_whatever_else_is_there():
    assert check(TYPED, PANES, replace(SEEN, panes={**SEEN.panes, "other": "tmux:1/%9/1"})) is None


def test_everything_that_changed_is_named():
    before = replace(BASE, definitions={"shell": "1", "read_file": "2"}, operands={"a": "sha256:1", "b": "sha256:2"})
    now = replace(before, definitions={"shell": "3", "read_file": "2"}, operands={"a": "absent", "b": "sha256:2"})
    problem = check(replace(APPROVAL, base=before), PLAN, replace(HERE, base=replace(now, git_head="f" * 40)))
    assert problem is not None
    told = " ".join([problem.detail, *problem.hints])
    assert "`shell`" in told and "`read_file`" not in told
    assert "`a` is gone" in told and "`b`" not in told and "commit" in told


def test_the_boot_clock_counts_only_within_the_same_boot():
    approval = replace(APPROVAL, boot_id="b", elapsed_ms=5)
    assert check(approval, PLAN, replace(HERE, now=at(1_500_000, boot_id="c", elapsed_ms=10**9))) is None
    assert check(approval, PLAN, replace(HERE, now=at(1_500_000, boot_id="b", elapsed_ms=999_999))) is None


def test_a_little_clock_skew_is_forgiven():
    assert check(APPROVAL, PLAN, replace(HERE, now=at(APPROVAL.issued_at - 30_000))) is None


def test_a_configuration_that_is_no_longer_trusted_is_not_told_by_two_equal_digests():
    trusted = Base(tools="t", config="sha256:" + "f" * 64)
    edited = replace(trusted, config=trusted.config + NARROWED)
    (words,) = drift(trusted, edited)
    assert "ordain.toml was edited or deleted since, and is not trusted as it is now" in words
    (words,) = drift(edited, trusted)
    assert "was not trusted as it stood then" in words
    (words,) = drift(trusted, replace(trusted, config="sha256:" + "0" * 64))
    assert words == "the configuration in force (it was sha256:ffffffffffff, it is sha256:000000000000)"
