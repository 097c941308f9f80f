"""The workspace's own stream: who counts, what counts, and what somebody wrote there who may not."""

import hashlib

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ordain.adapters.state.keys import public_half, signed, verify
from ordain.core.approval.approval import Channel, Principal, WorkspaceIdentity
from ordain.core.approval.signature import Signature, fingerprint
from ordain.core.lineage.workspace import (
    WorkspaceState,
    apply_workspace,
    enrolment,
    proof_of,
    revocation,
    trusting,
)
from ordain.core.plan.value import Instant
from ordain.core.run.event import (
    ApproverEnrolled,
    ApproverRevoked,
    ConfigTrusted,
    SignatureRefused,
    WorkspaceEvent,
    WorkspaceOpened,
)
from tests.rows import each

BY = Principal(name="somebody", channel=Channel.TERMINAL)
SEEDS = {name: hashlib.sha256(name.encode()).digest() for name in ("kim", "pat", "eve")}
KEYS = {name: public_half(seed) for name, seed in SEEDS.items()}
MARKS = {name: fingerprint(key) for name, key in KEYS.items()}
NOW = 1_000_000
OPENED = WorkspaceOpened(workspace=WorkspaceIdentity(id="WS-1", path="/w", device=1, inode=2))
TEXT = "[policy]\n"


def sha256(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def enrolled(name: str, seq: int, by: str | None = None, *, proof: Signature | None = None) -> ApproverEnrolled:
    """The enrolment of `name` as event number `seq`, signed by an approver where one is named."""
    return ApproverEnrolled(
        name=name,
        key=KEYS[name],
        by=BY,
        proof=proof or signed(SEEDS[name], proof_of("WS-1", name, KEYS[name])),
        signature=signed(SEEDS[by], enrolment("WS-1", seq, name, KEYS[name])) if by is not None else None,
    )


def trusted(seq: int, by: str | None = None, text: str = TEXT, workspace: str = "WS-1") -> ConfigTrusted:
    signature = signed(SEEDS[by], trusting(workspace, seq, sha256(text))) if by is not None else None
    return ConfigTrusted(digest=sha256(text), text=text, by=BY, signature=signature)


def revoked(name: str, seq: int, by: str) -> ApproverRevoked:
    signature = signed(SEEDS[by], revocation("WS-1", seq, MARKS[name]))
    return ApproverRevoked(key=MARKS[name], by=BY, reason="", signature=signature)


def fold(*events: WorkspaceEvent) -> WorkspaceState:
    state = WorkspaceState()
    for number, event in enumerate(events):
        apply_workspace(state, event, Instant(NOW + number), verify)
    return state


def names(state: WorkspaceState) -> list[str]:
    return [one.name for one in state.active]


def test_before_anybody_is_enrolled_a_persons_word_is_enough():
    state = fold(OPENED, trusted(2))
    assert state.trusted is not None and state.trusted.text == TEXT
    assert (state.workspace_id, state.unsigned, state.size) == ("WS-1", (), 2)


def test_approvers_vouch_for_approvers_and_sign_what_is_trusted():
    state = fold(OPENED, enrolled("kim", 2), enrolled("pat", 3, "kim"), trusted(4, "pat"), revoked("kim", 5, "pat"))
    assert (names(state), state.unsigned) == (["pat"], ())
    assert state.trusted is not None
    assert state.approvers[MARKS["kim"]].revoked_at == NOW + 4


ENROLLED = (OPENED, enrolled("kim", 2), trusted(3, "kim"), enrolled("pat", 4, "kim"), revoked("pat", 5, "kim"))
GOOD = trusted(3, "kim").signature
FORGED: dict[str, WorkspaceEvent] = {
    "trust that nobody signed": trusted(6, text="[run]\n"),
    "trust signed by nobody who is enrolled": trusted(6, "eve", "[run]\n"),
    "trust signed by a revoked key": trusted(6, "pat", "[run]\n"),
    "a signature of another event": trusted(5, "kim", "[run]\n"),
    "a signature of another workspace": trusted(6, "kim", "[run]\n", workspace="WS-2"),
    "the signature of another configuration": msgspec.structs.replace(trusted(6, text="[run]\n"), signature=GOOD),
    "a signed digest over another text": msgspec.structs.replace(trusted(6, "kim"), text="[run]\n"),
    "the very same trust once more": trusted(3, "kim"),
    "an enrolment that nobody signed": enrolled("eve", 6),
    "an enrolment signed by the new key": enrolled("eve", 6, "eve"),
    "an enrolment signed by a revoked key": enrolled("eve", 6, "pat"),
    "an enrolment with another key's proof": enrolled(
        "eve", 6, "kim", proof=signed(SEEDS["kim"], proof_of("WS-1", "eve", KEYS["eve"]))
    ),
    "an enrolment with the proof of another name": enrolled(
        "eve", 6, "kim", proof=signed(SEEDS["eve"], proof_of("WS-1", "pat", KEYS["eve"]))
    ),
    "a revocation signed by nobody who is enrolled": revoked("kim", 6, "eve"),
    "a revocation signed by a revoked key": revoked("kim", 6, "pat"),
    "the revocation of another key": msgspec.structs.replace(revoked("pat", 6, "kim"), key=MARKS["kim"]),
}


@each("what", FORGED)
def test_what_no_approver_signed_changes_nothing_and_is_named(what):
    before, after = fold(*ENROLLED), fold(*ENROLLED, FORGED[what])
    assert (after.trusted, after.approvers) == (before.trusted, before.approvers)
    assert len(after.unsigned) == 1 and after.unsigned[0].startswith("event 6: ")


def test_a_text_that_is_not_the_one_of_its_digest_never_counts():
    state = fold(OPENED, msgspec.structs.replace(trusted(2), text='[policy]\nallow = ["opaque"]\n'))
    assert state.trusted is None
    assert state.unsigned == ("event 2: a trusted configuration that is not the one of its digest",)


def test_a_key_that_was_revoked_never_counts_again():
    state = fold(*ENROLLED, enrolled("pat", 6, "kim"))
    assert names(state) == ["kim"]


def test_the_first_id_stays():
    other = WorkspaceOpened(workspace=msgspec.structs.replace(OPENED.workspace, id="WS-2"))
    assert fold(OPENED, other).workspace_id == "WS-1"


def test_after_the_last_key_was_revoked_nobodys_word_is_enough_again():
    state = fold(OPENED, enrolled("kim", 2), revoked("kim", 3, "kim"), trusted(4), enrolled("eve", 5))
    assert (names(state), state.trusted, len(state.unsigned)) == ([], None, 2)


REFUSED = SignatureRefused(name="kim", by=BY)


@each(
    "wrong, now, locked",
    [
        ([0] * 4, 0, False),
        ([0] * 5, 0, True),
        ([0, 10, 20, 30, 40], 59_999, True),
        ([0, 10, 20, 30, 40], 60_000, False),
        ([0] * 20, 59_999, True),
        ([0] * 5, -59_999, True),
        ([50_000] * 4 + [-9_999], 50_000, True),
        ([86_400_000] * 5, 0, False),
    ],
)
def test_five_wrong_passphrases_within_a_minute_are_too_many(wrong, now, locked):
    state = WorkspaceState()
    for at in wrong:
        apply_workspace(state, REFUSED, Instant(NOW + at), verify)
    assert state.locked(Instant(NOW + now)) is locked
    assert len(state.refused_at) <= 6


@given(st.lists(st.integers(0, 15), max_size=12))
def test_without_an_approvers_key_nothing_that_counts_can_be_changed(picks: list[int]):
    """Whatever a forger adds, and in whatever order: whom and what to believe stays as approvers left it."""
    forged = list(FORGED.values())
    before, after = fold(*ENROLLED), fold(*ENROLLED, *(forged[pick] for pick in picks))
    assert (after.trusted, after.approvers) == (before.trusted, before.approvers)
    assert len(after.unsigned) == len(picks)
