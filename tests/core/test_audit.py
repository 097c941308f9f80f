"""A ledger is good as it was recorded; the rules of plans and runs are looked at, and nothing stored makes it raise.

What both verifiers find is in tests/test_verifiers.py. The story told here is theirs too.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import tomllib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordain.adapters.state import keys
from ordain.core.approval.signature import PublicKey, Signature, fingerprint
from ordain.core.ledger import chain
from ordain.core.ledger.audit import audit
from ordain.core.ledger.chain import Entry
from ordain.core.ledger.findings import Audit, Kind, Rules, Signed
from ordain.core.ledger.link import Tip
from ordain.core.plan.canonical import canonical_bytes, plan_id
from ordain.core.plan.model import Budget
from ordain.core.run.event import ConfigTrusted
from ordain.ports.machine import Credential
from tests.build import step
from tests.scenario import KIM, ROBOT, Scenario

PASSPHRASES = {name: Credential(name=name, passphrase=f"the passphrase of {name}") for name in ("kim", "ann")}
KIM_KEY, ANN_KEY = (keys.public_half(hashlib.sha256(name.encode()).digest()) for name in ("kim", "ann"))
KIM_MARK, ANN_MARK = fingerprint(KIM_KEY), fingerprint(ANN_KEY)
remembered = functools.lru_cache(maxsize=None)(keys.verify)
"""Signatures are looked at over and over here, and most are the same."""


def beside(first: Scenario, *steps: Any, title: str) -> Scenario:
    """Another plan of the same workspace."""
    other = Scenario(*steps, title=title)
    other.ledger, other.ids, other.keyring, other.clock = first.ledger, first.ids, first.keyring, first.clock
    other.workspace, other.world, other.shell = first.workspace, first.world, first.shell
    other.app = other.new_app()
    return other.prepare()


def signed(scenario: Scenario, name: str) -> Scenario:
    """A person approves what they were shown, with their key."""
    ref = str(scenario.plan_id)
    asyncio.run(scenario.app.approvals.approve(ref, KIM, scenario.app.plans.review(ref), PASSPHRASES[name]))
    return scenario


def story(*, skip: int = 0) -> list[Entry]:
    """A ledger with most of what happens: approvers, a trusted configuration, a signed run, a rejection, a key revoked
    with what it signed, a run that stopped and was resumed, a run that nobody signed for, one that policy let start.

    `skip` ids are not used, so that two stories differ in them.
    """
    first = Scenario(step("one"), step("two", contract="check two"), title="Signed")
    for _ in range(skip):
        first.ids.mint("")
    asyncio.run(first.app.approvals.enroll(PASSPHRASES["kim"], KIM))
    asyncio.run(first.app.approvals.enroll(PASSPHRASES["ann"], KIM, PASSPHRASES["kim"]))
    first.workspace.configuration_text = b"# another\n" if skip else b""
    asyncio.run(first.app.approvals.trust(first.app.approvals.configuration()[1], KIM, PASSPHRASES["kim"]))
    signed(first.prepare(), "kim").run()
    declined = beside(first, step("no"), title="Declined")
    asyncio.run(declined.app.plans.reject(str(declined.plan_id), KIM, "Not like this."))
    left = signed(beside(first, step("left"), title="Signed by one who left"), "ann")
    asyncio.run(left.app.approvals.revoke_approver("ann", KIM, "left", PASSPHRASES["kim"]))
    crashed = signed(beside(first, step("a"), step("b"), title="Crashed"), "kim")
    crashed.crash_at(6).run().resume()
    assert crashed.status() == "waiting"
    beside(first, step("c"), title="Unsigned").approve().run()
    reads = beside(first, step("look", tool="read_file", args={"path": "a.txt"}), title="Reads")
    asyncio.run(reads.app.runs.commit(str(reads.plan_id), ROBOT))
    return list(first.ledger.everything())


@functools.cache
def told(skip: int = 0) -> tuple[Entry, ...]:
    return tuple(story(skip=skip))


class Signatures(Rules):
    """What of a configuration the independent verifier knows, too."""

    def signatures(self, trusted: ConfigTrusted | None) -> bool:
        said = tomllib.loads(trusted.text).get("approval", {}) if trusted is not None else {}
        return said.get("require_signature") is True

    def removes_outputs(self, trusted: ConfigTrusted | None) -> bool:
        return trusted is not None and any(tomllib.loads(trusted.text).get("retention", {}).values())


def look(rows: Any, **how: Any) -> Audit:
    return audit(rows, verify=remembered, rules=Signatures(), **how)


def forged(events: list[tuple[str, bytes]]) -> list[Entry]:
    """Rows whose chains are right, whatever they say: what somebody writes who can write the file."""
    tips: dict[str, Tip] = {}
    rows = []
    for position, (stream, body) in enumerate(events, 1):
        size, head = tips.get(stream, chain.ORIGIN)
        head = chain.extend(head, body)
        tips[stream] = Tip(size + 1, head)
        rows.append(Entry(position, stream, size + 1, body, head))
    return rows


def edited(rows: Any, change: Callable[[dict[str, Any]], None]) -> list[Entry]:
    """The rows with every body changed as told, numbered anew, with chains that are right."""
    sizes: dict[str, int] = {}
    events = []
    for _, stream, _, body, _ in rows:
        value = msgspec.json.decode(body)
        change(value)
        sizes[stream] = value["seq"] = sizes.get(stream, 0) + 1
        events.append((stream, msgspec.json.encode(value)))
    return forged(events)


# --- As it was recorded ----------------------------------------------------------------------------------------------


def test_a_ledger_is_good_as_it_was_recorded() -> None:
    found = look(told())
    assert found.findings == ()
    assert found.good and found.events == len(told())
    assert found.streams == len({row.stream for row in told()}) and found.plans == 6
    tip = chain.checkpoint(row.head for row in told())
    assert (found.events, found.head) == (tip.size, tip.head.hex())
    assert [(run.approval, run.by, run.key, run.status) for run in found.runs] == [
        (Signed.SIGNED, "kim", KIM_MARK, "completed"),
        (Signed.SIGNED, "kim", KIM_MARK, None),
        (Signed.UNSIGNED, "kim", None, "completed"),
        (Signed.NOT_NEEDED, None, None, "failed"),
    ]
    assert {one.name: one.revoked_at is not None for one in found.approvers} == {"kim": False, "ann": True}


def test_a_signed_approval_vouches_for_what_its_approver_saw() -> None:
    approved = [row.position for row in told() if b'"approval_given"' in row.body and b'"signature":{' in row.body]
    assert look(told()).signed_events == approved[-1] - 1
    assert look(told()[: approved[0] - 1]).signed_events == 0


def test_an_empty_ledger_is_good() -> None:
    assert look(()) == Audit(
        events=0, streams=0, plans=0, head="00" * 32, findings=(), runs=(), approvers=(), signed_events=0
    )


def test_every_beginning_of_a_ledger_is_good_where_it_could_have_stopped() -> None:
    """No finding depends on what comes later, but for what is written in one append."""
    for size in range(len(told())):
        kinds = {finding.kind for finding in look(told()[:size]).findings}
        assert kinds <= {Kind.COMMITMENT}  # a run and its plan are written together


# --- Rules -----------------------------------------------------------------------------------------------------------


def kinds(rows: list[Entry]) -> set[Kind]:
    return {finding.kind for finding in look(rows).findings}


def test_a_run_that_cannot_have_gone_so_is_found() -> None:
    def change(value: dict[str, Any]) -> None:
        if value["event"]["type"] == "attempt_started":
            value["event"]["attempt"] += 1

    assert Kind.HISTORY in kinds(edited(told(), change))


def test_a_plan_that_cannot_have_gone_so_is_found() -> None:
    rows = [row for row in told() if b'"plan_rejected"' in row.body]
    events = [(row.stream, row.body) for row in told()]
    value = msgspec.json.decode(rows[0].body)
    value["seq"] += 1
    assert kinds(forged([*events, (rows[0].stream, msgspec.json.encode(value))])) == {Kind.HISTORY}


def test_an_approval_that_names_other_actions_is_found() -> None:
    def change(value: dict[str, Any]) -> None:
        if value["event"]["type"] == "approval_given" and "signature" not in value["event"]:
            value["event"]["approval"]["action_kinds"] = ["tool:read_file"]

    found = look(edited(told(), change)).findings
    assert [finding.kind for finding in found if finding.kind is not Kind.COMMITMENT] == [Kind.ACTIONS]


def test_a_plan_in_another_spelling_is_found_though_its_digest_fits() -> None:
    from ordain.core.plan.canonical import PLAN_TYPE, digest

    row = next(row for row in told() if b'"plan_prepared"' in row.body)
    plan = bytes(msgspec.json.decode(row.body, type=_Body).event.plan)
    spaced = plan.replace(b'{"', b'{ "', 1)
    renamed = f"plan:{digest(PLAN_TYPE, spaced)}".encode()
    old = msgspec.json.decode(row.body)["event"]["plan_id"].encode()
    opened = told()[0]
    body = row.body.replace(plan, spaced).replace(old, renamed)
    assert kinds(forged([(opened.stream, opened.body), (row.stream, body)])) == {Kind.FORM}


def test_a_plan_that_cannot_be_read_is_named_and_wrong_only_once_it_was_started() -> None:
    from ordain.core.plan.canonical import PLAN_TYPE, digest

    row = next(row for row in told() if b'"plan_prepared"' in row.body)
    plan = bytes(msgspec.json.decode(row.body, type=_Body).event.plan)
    broken = plan.replace(b'"needs":[]', b'"needs":7', 1)
    old, new = (f"plan:{digest(PLAN_TYPE, one)}".encode() for one in (plan, broken))
    opened, body = told()[0], row.body.replace(plan, broken).replace(old, new)
    rows = [(opened.stream, opened.body), (row.stream, body)]
    found = look(forged(rows))
    assert (found.findings, len(found.unreadable)) == ((), 1) and "cannot be read" in found.unreadable[0]
    started = next(one for one in told() if one.stream == row.stream and b'"run_started"' in one.body)
    rows += [(row.stream, started.body.replace(old, new))]
    assert Kind.FORM in kinds(forged(rows)) and look(forged(rows)).unreadable == ()


class _Prepared(msgspec.Struct):
    plan: msgspec.Raw


class _Body(msgspec.Struct):
    event: _Prepared


# --- Whatever is stored ----------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from(["workspace", "lineage/PLAN-A", "run/RUN-A", "else", ""]), st.binary())))
def test_no_bytes_make_it_raise(events: list[tuple[str, bytes]]) -> None:
    found = look(forged(events))
    assert {(finding.kind, finding.seq) for finding in found.findings} <= {
        (Kind.UNREADABLE, seq) for seq in range(1, len(events) + 1)
    }
    assert found.good is not bool(events)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_no_value_makes_it_raise(data: st.DataObject) -> None:
    """One value somewhere in one event becomes another, with chains that are right."""
    index = data.draw(st.integers(0, len(told()) - 1))

    def change(value: dict[str, Any]) -> None:
        nonlocal index
        index -= 1
        if index != -1:
            return
        at: Any = value["event"]
        while True:
            key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
            if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
                break
            at = at[key]
        at[key] = data.draw(JSON)

    look(edited(told(), change), keys=frozenset({KIM_MARK}), checkpoint=Tip(3, bytes(32)))


@pytest.mark.parametrize("position", [-1, 0, 2**62])
def test_a_row_in_an_impossible_place_is_found(position: int) -> None:
    rows = [*told()[:3], told()[3]._replace(position=position)]
    assert Kind.MISSING in kinds(rows)


def test_a_signature_that_is_never_looked_at_does_not_count() -> None:
    """Who verifies nothing believes nobody."""

    def nobody(key: PublicKey, signature: Signature, said: bytes) -> bool:
        return False

    found = audit(told(), verify=nobody)
    assert Signed.SIGNED not in {run.approval for run in found.runs}
    assert not found.approvers and found.signed_events == 0


@pytest.mark.parametrize("what", [{"cost_usd": 1e300}, {"cost_usd": 5.0}])
def test_a_sum_that_nothing_can_count_is_found_and_makes_nothing_raise(what: dict[str, float]) -> None:
    """In a plan that nobody linted, or as what an attempt says that it used."""
    life = Scenario(step("a"), budget=Budget(cost_usd=5.0)).approve().run()
    old = life.plan
    new = replace(old, budget=Budget(**what))  # type: ignore[arg-type]

    def change(value: dict[str, Any]) -> None:
        event = value["event"]
        if event["type"] == "plan_prepared":
            event["plan"] = msgspec.Raw(canonical_bytes(new))
        if event["type"] == "attempt_ended" and new == old:
            event["outcome"]["used"] = {"cost_usd": 1e308}

    rows = edited(life.ledger.everything(), change)
    swapped = [(row.stream, row.body.replace(plan_id(old).encode(), plan_id(new).encode())) for row in rows]
    assert Kind.HISTORY in {finding.kind for finding in look(forged(swapped)).findings}


@pytest.mark.parametrize("evidence", [{"verdict": "broken", "duration_ms": 1}, {"verdict": "held", "duration_ms": 1}])
def test_a_step_that_passed_by_no_contract_that_held_is_found(evidence: dict[str, Any]) -> None:
    """One whose evidence says otherwise; and one that has no contract."""
    broken = evidence["verdict"] == "broken"
    life = Scenario(step("a", contract="check a" if broken else None)).approve().run()

    def change(value: dict[str, Any]) -> None:
        event = value["event"]
        if event["type"] == "contract_held":
            event["evidence"] = evidence
        if event["type"] == "attempt_ended" and not broken:
            event["to"] = "verifying"

    rows = [(row.stream, row.body) for row in edited(life.ledger.everything(), change)]
    if not broken:
        at = next(index for index, (_, body) in enumerate(rows) if b"attempt_ended" in body)
        stream, body = rows[at]
        held = msgspec.json.decode(body)
        held["seq"] += 1
        held["event"] = {"type": "contract_held", "step": "a", "attempt": 1, "evidence": evidence}
        rows.insert(at + 1, (stream, msgspec.json.encode(held)))
        finished = msgspec.json.decode(rows[at + 2][1])
        finished["seq"] += 1
        rows[at + 2] = (stream, msgspec.json.encode(finished))
    assert "no contract that was seen to hold" in str(look(forged(rows)).findings)
