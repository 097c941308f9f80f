import pytest

from ordain.adapters.file_tools import DEFINITIONS
from ordain.core.policy import planned_effects, rule
from ordain.core.settings import Settings
from ordain.core.tool import ToolDefinition
from tests.build import plan, step

READ = step("r", tool="read_file", args={"path": "a"})
WRITE = step("w", tool="write_file", args={"path": "b", "content": "x"})


@pytest.mark.parametrize(
    ("steps", "settings", "asks", "denied"),
    [
        ([READ], Settings(), False, 0),
        ([READ, WRITE], Settings(), True, 0),
        ([step("a")], Settings(), True, 0),
        ([WRITE], Settings(allow=("reads", "repeatable")), False, 0),
        ([WRITE], Settings(allow=("write_file",)), False, 0),
        ([READ], Settings(ask=("read_file",)), True, 0),
        ([READ], Settings(deny=("reads",), allow=("reads",)), False, 1),
        ([step("a")], Settings(deny=("shell",), allow=("opaque",)), False, 1),
        ([step("a", tool="unknown")], Settings(allow=("reads",)), True, 0),
        ([READ], Settings(allow=()), True, 0),
        ([step("r", tool="list_files", contract="touch proof")], Settings(), True, 0),
        ([step("r", tool="list_files", contract="touch proof")], Settings(deny=("shell",)), False, 1),
    ],
)
def test_deny_wins_then_ask_then_allow_and_what_no_list_names_is_asked(steps, settings, asks, denied):
    ruling = rule(plan(*steps), DEFINITIONS, settings)
    assert (ruling.requires_approval, len(ruling.denied)) == (asks, denied)
    assert ruling.reasons or ruling.denied


def test_a_claim_in_the_plan_does_not_change_what_policy_sees():
    """`idempotent: true` is for recovery; it must not talk a command out of being asked about."""
    ruling = rule(plan(step("a", idempotent=True)), DEFINITIONS, Settings(allow=("reads", "repeatable")))
    assert ruling.requires_approval


def test_a_contract_is_an_effect_too():
    made = plan(step("r", tool="list_files", contract="touch proof"))
    assert [(e.kind, e.target) for e in planned_effects(made, DEFINITIONS)] == [
        ("read", "."),
        ("contract", "touch proof"),
    ]


def test_effects_are_computed_from_registry_and_bytes():
    tools = {**DEFINITIONS, "wipe": ToolDefinition(name="wipe", description="", effect="opaque", destructive=True)}
    made = plan(READ, WRITE, step("c", run="make", idempotent=True), step("d", tool="wipe", args={"path": "z"}))
    assert [(e.kind, e.target, e.destructive, e.claimed_repeatable) for e in planned_effects(made, tools)] == [
        ("read", "a", False, False),
        ("write", "b", False, False),
        ("command", "make", False, True),
        ("call", "wipe", True, False),
    ]
