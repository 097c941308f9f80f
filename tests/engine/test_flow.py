"""Plans that say what real work needs: results, conditions, repeats, nested plans, fallbacks.

Commands are the twin's: `do X` has the effect X, `check X` holds when X happened, and a script says what others give.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import Any

import pytest
from msgspec.structs import replace

from tests.build import plan, step
from tests.rows import each
from tests.scenario import KIM, Scenario
from tests.words import (
    Abort,
    Ask,
    Command,
    Continue,
    CustomCondition,
    Escalate,
    Fallback,
    Finished,
    ForEach,
    LockAvailable,
    LockHeld,
    NestedPlan,
    Retry,
    RunCommand,
    Skip,
    Step,
    StepCompleted,
    StepId,
    StoreData,
    Verification,
)


def gives(text: str, exit_code: int = 0) -> Finished:
    return Finished(duration_ms=1, exit_code=exit_code, output=text.encode(), output_bytes=len(text.encode()))


def using(name: str, needs: tuple[str, ...] = (), **env: str) -> Step:
    """A step that hands values to its command."""
    return step(name, action=RunCommand(command=f"do {name}", env=env), needs=needs)


def given(life: Scenario, name: str) -> dict[str, str]:
    """What the command of a step was given in the end."""
    call = next(call for call in reversed(life.shell.calls) if call.text == f"do {name}")
    return {key: value for key, value in call.env.items() if key.isupper() and not key.startswith("ORDAIN")}


def carried_out(*steps: Step, script: dict[str, Any] | None = None, **fields: Any) -> Scenario:
    return Scenario(*steps, **fields).script(**(script or {})).approve().run()


# --- Results -----------------------------------------------------------------------------------------------------


def test_a_command_gets_what_an_earlier_one_wrote_and_waits_for_it() -> None:
    life = carried_out(
        using("b", X="<${a.output}>", CODE="${a.exit_code}"), step("a", needs=()), script={"a": gives("one\n")}
    )
    assert given(life, "b") == {"X": "<one>", "CODE": "0"}
    life.expect(a="passed", b="passed")


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("${a.output.items[1].id}", "8"),
        ('${a.output["odd.key"]}', "x"),
        ("${a.output.items}", '[{"id": 7}, {"id": 8}]'),
        ('${a.output.gone ?? "none"}', "none"),
        ("$${a.output}", "${a.output}"),
    ],
)
def test_a_part_of_what_is_json(reference: str, value: str) -> None:
    output = json.dumps({"items": [{"id": 7}, {"id": 8}], "odd.key": "x"})
    life = carried_out(step("a"), using("b", X=reference), script={"a": gives(output)})
    assert given(life, "b") == {"X": value}


def test_no_value_can_become_a_reference_or_break_out_of_its_variable() -> None:
    evil = "'; rm -rf / #${a.exit_code} $(id)"
    life = carried_out(step("a"), using("b", X="${a.output}"), script={"a": gives(evil)})
    assert given(life, "b") == {"X": evil}


def test_a_whole_reference_keeps_its_type_in_the_arguments_of_a_tool() -> None:
    life = Scenario(
        step("a", tool="list_files", args={"path": "."}),
        step("b", action=StoreData(key="k", value={"all": "${a.output}", "first": "<${a.output[0]}>"})),
        using("c", X="${data.k}"),
    )
    life.toolbox.files |= {"one": "", "two": ""}
    life.approve().run().expect(a="passed", b="passed")
    assert json.loads(given(life, "c")["X"]) == {"all": ["one", "two"], "first": "<one>"}


def test_a_reference_to_what_is_not_there_fails_the_step_and_says_which() -> None:
    life = carried_out(step("a"), using("b", X="${a.output.no.part}"), script={"a": gives("plain")})
    life.expect(b="failed")
    assert life.report is not None
    assert "`${a.output.no.part}` gave a text that is not JSON" in life.report.steps[1].evidence
    assert not [call for call in life.shell.calls if call.text == "do b"]


def test_what_a_skipped_step_would_have_given_is_the_default() -> None:
    life = carried_out(
        replace(step("a"), on_failure=Skip()), using("b", X='${a.output ?? "nothing"}'), script={"a": gives("no", 1)}
    )
    assert given(life, "b") == {"X": "nothing"}
    life.expect(a="skipped", b="passed")


def test_a_value_too_large_for_a_variable_fails_the_step_and_says_what_to_do() -> None:
    life = carried_out(step("a"), using("b", X="${a.output}"), script={"a": gives("x" * 200_000)})
    assert life.report is not None and "hand it over in a file" in life.report.steps[1].evidence
    assert life.report.steps[1].error == "F_REF_VALUE"


@pytest.mark.parametrize("tool", ["shell", "exec"])
def test_any_value_becomes_text_in_a_variable_of_a_call(tool: str) -> None:
    args = {"command": "do b"} if tool == "shell" else {"argv": ["do", "b"]}
    env = {"N": "${a.output.n}", "L": "${a.output.l}", "M": "${a.output.m}", "T": "$${x}"}
    life = carried_out(
        step("a"),
        step("b", tool=tool, args={**args, "env": env}),
        script={"a": gives('{"n": 1.5, "l": ["${a.output}", "$$two"], "m": {"$${k": true}}')},
    )
    life.expect(b="passed")
    assert given(life, "b") == {"N": "1.5", "L": "${a.output}\n$$two", "M": '{"$${k": true}', "T": "${x}"}


def test_a_number_becomes_text_in_the_arguments_of_a_program() -> None:
    argv = ["do", "${a.output.n}", "${a.output.yes}", "<${a.output.l}>", "${a.output.t}"]
    life = carried_out(
        step("a"),
        step("b", tool="exec", args={"argv": argv}),
        script={"a": gives('{"n": 3, "yes": true, "l": [1], "t": "$${x} ${y}"}')},
    )
    life.expect(b="passed")
    assert life.shell.calls[-1].argv == ("do", "3", "true", "<[1]>", "$${x} ${y}")


@each(
    "tool, args, why",
    [
        ("exec", {"argv": ["do", "${a.output.m}"]}, "`argv[1]` would be a mapping"),
        ("exec", {"argv": ["do", "${a.output.l}"]}, "`argv[1]` would be a list"),
        ("exec", {"argv": ["do", "${a.output.nothing}"]}, "`argv[1]` would be nothing"),
        ("exec", {"argv": ["do", "${a.output.nul}"]}, "`argv[1]` would hold a NUL"),
        ("exec", {"argv": ["do", "${a.output.dash}"]}, "`argv[1]` would begin with `-`"),
        ("exec", {"argv": ["do", "${a.output.less}"]}, "`argv[1]` would begin with `-`"),
        ("exec", {"argv": ["do", "${a.output.empty}${a.output.dash}"]}, "`argv[1]` would begin with `-`"),
        ("exec", {"argv": ["do", "${a.output.dash}", "--"]}, "`argv[1]` would begin with `-`"),
        ("exec", {"argv": ["env", "--", "do", "${a.output.dash}"]}, "`argv[3]` would begin with `-`"),
        ("exec", {"argv": ["nice", "/usr/bin/find", "--", "${a.output.dash}"]}, "`argv[3]` would begin with `-`"),
        ("exec", {"argv": ["do", "b"], "env": {"X": "${a.output.nul}"}}, "the variable `X` holds a NUL"),
        ("write_file", {"path": "x", "content": "${a.output.l}"}, "`write_file` wants `content` to be a string"),
        ("delete", {"path": "${a.output.l}"}, "`delete` wants `path` to be a string"),
    ],
)
def test_a_value_that_does_not_fit_fails_the_step_before_anything_is_done(tool: str, args: Any, why: str) -> None:
    life = carried_out(
        step("a"),
        step("b", tool=tool, args=args),
        script={
            "a": gives(
                '{"l": ["x"], "m": {}, "nothing": null, "nul": "a\\u0000b", "dash": "--x", "less": -5, "empty": ""}'
            )
        },
    )
    life.expect(b="failed")
    assert life.report is not None and life.report.steps[1].error == "F_REF_VALUE"
    assert why in life.report.steps[1].evidence
    assert len(life.shell.calls) == 1 and not life.toolbox.calls


def test_what_cannot_become_an_option_may_begin_with_a_dash() -> None:
    argv = ["do", "--name=${a.output.x}", "-${a.output.x}", "a${a.output.x}", "--", "${a.output.x}"]
    life = carried_out(
        step("a"), step("b", tool="exec", args={"argv": argv}), script={"a": gives('{"x": "--to-command=sh"}')}
    )
    life.expect(b="passed")
    x = "--to-command=sh"
    assert life.shell.calls[-1].argv == ("do", f"--name={x}", f"-{x}", f"a{x}", "--", x)


def test_stored_data_is_what_was_stored_last() -> None:
    def store(name: str, value: Any, needs: tuple[str, ...]) -> Step:
        return step(name, action=StoreData(key="k", value=value), needs=needs)

    life = carried_out(
        step("a", needs=()),
        store("first", {"n": "${a.output}"}, ("a",)),
        using("early", ("first",), X="${data.k.n}"),
        store("second", {"n": [1]}, ("early",)),
        using("late", ("second",), X="${data.k.n}"),
        script={"a": gives("7")},
    )
    assert given(life, "early") == {"X": "7"} and given(life, "late") == {"X": "[1]"}


# --- Conditions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "state"), [("go", "passed"), ("no", "skipped")])
def test_a_step_runs_only_when_its_condition_holds(text: str, state: str) -> None:
    life = carried_out(
        step("a"), replace(step("b"), when='steps["a"].output == "go"'), step("c"), script={"a": gives(text + "\n")}
    )
    life.expect(b=state, c="passed")
    assert life.status() == "completed"


def test_a_condition_that_gives_no_answer_goes_by_the_failure_policy() -> None:
    asks = replace(step("b", on_failure=Continue()), when='steps["a"].output.size() > int(steps["a"].output)')
    life = carried_out(step("a"), asks, step("c", needs="a"), script={"a": gives("x")})
    life.expect(b="failed", c="passed")
    assert life.report is not None and life.report.steps[1].error == "F_PRECONDITION"


def test_a_condition_about_stored_data() -> None:
    wants = Verification(strategy=CustomCondition(name="small", expression="int(output) < data.limit"))
    life = carried_out(
        step("limit", action=StoreData(key="limit", value=5)),
        replace(step("b"), verification=wants),
        script={"b": gives("4")},
    )
    life.expect(b="passed")


def test_a_precondition_is_looked_at_again_with_each_try() -> None:
    waits = replace(
        step("b", on_failure=Retry(max_attempts=3, initial_delay_ms=1000)),
        preconditions=(LockHeld(lock_name="l"),),
    )
    life = carried_out(step("a"), waits)
    life.expect(b="failed")
    broken = [event for _, event in life.history() if type(event).__name__ == "PreconditionBroken"]
    assert [event.to.value for event in broken] == ["pending", "pending", "failed"]
    assert "this run does not hold the lock `l`; nobody holds it" in broken[0].detail
    assert not life.world.effects.count("b")


def test_preconditions_that_hold() -> None:
    ready = replace(
        step("b", needs=()),
        preconditions=(
            LockAvailable(lock_name="l"),
            StepCompleted(step_id="a"),
            CustomCondition(name="fine", expression='steps["a"].status == "passed"'),
        ),
    )
    carried_out(ready, step("a", needs=())).expect(a="passed", b="passed")


# --- Repeats -----------------------------------------------------------------------------------------------------


def repeats(name: str, source: str = "${list.output}", needs: tuple[str, ...] = (), **fields: Any) -> Step:
    bounds = {key: fields.pop(key) for key in ("max", "concurrency", "batch", "name") if key in fields}
    each = ForEach(source=source, **({"max": 10} | bounds))
    own = f"${{{bounds.get('name', 'item')}}}"
    made = step(name, action=RunCommand(command=f"do {name}", env={"X": own, "AT": "${index}"}), needs=needs)
    return replace(made, for_each=each, **fields)


def test_one_step_for_each_item_and_the_list_of_what_they_gave() -> None:
    async def echo(command: Command) -> Finished:
        return gives(f"{command.env['AT']}:{command.env['X']}\n")

    life = carried_out(
        step("list"),
        repeats("each"),
        using("after", X="${each.output}"),
        script={"list": gives('["a", {"b": 1}]'), "each": echo},
    )
    life.expect(**{"each[0]": "passed", "each[1]": "passed", "each": "passed"})
    assert given(life, "after") == {"X": '0:a\n1:{"b": 1}'}
    assert life.report is not None
    assert [(one.number, one.id) for one in life.report.steps] == [
        (1, "list"),
        (2, "each"),
        (2, "each[0]"),
        (2, "each[1]"),
        (3, "after"),
    ]


def test_an_item_is_told_from_the_others_by_what_it_is() -> None:
    life = carried_out(
        step("list"), repeats("each", on_failure=Escalate()), script={"list": gives('["alpha", {"b": 1}]'), "each": 1}
    )
    assert life.report is not None
    assert [one.label for one in life.report.steps] == ["", "", "alpha", '{"b": 1}']
    assert [one.text for one in life.report.questions] == [
        "`each: alpha` did not succeed. What now?",
        '`each: {"b": 1}` did not succeed. What now?',
    ]


def test_a_secret_in_an_item_is_not_shown() -> None:
    life = Scenario(step("list"), repeats("each"))
    life.secrets.values["TOKEN"] = "swordfish-swordfish"
    life.script(list=gives('["swordfish-swordfish"]')).approve().run()
    assert life.report is not None and "swordfish" not in life.report.steps[2].label
    assert given(life, "each")["X"] == "swordfish-swordfish"


def test_lines_are_items_where_there_is_no_list() -> None:
    carried_out(step("list"), repeats("each"), script={"list": gives("a\n\nb\n")}).expect(
        **{"each[0]": "passed", "each[1]": "passed"}
    )


def test_no_items_are_fine() -> None:
    life = carried_out(step("list"), repeats("each"), using("after", X="${each.output}"), script={"list": gives("[]")})
    assert life.status() == "completed" and given(life, "after") == {"X": ""}


def test_more_items_than_allowed_are_refused_before_any_is_begun() -> None:
    life = carried_out(step("list"), repeats("each", max=2), script={"list": gives("[1, 2, 3]")})
    life.expect(each="failed")
    assert life.report is not None and "3 items, and at most 2" in life.report.steps[1].evidence
    assert "each" not in life.world.effects


def test_batches() -> None:
    life = carried_out(step("list"), repeats("each", batch=2), script={"list": gives("[1, 2, 3]")})
    assert [call.env["X"] for call in life.shell.calls if call.text == "do each"] == ["[1, 2]", "[3]"]


def test_no_more_items_at_once_than_it_says() -> None:
    at_once, most = 0, 0

    async def slowly(command: Command) -> Finished:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        for _ in range(5):
            await asyncio.sleep(0)
        at_once -= 1
        return gives("")

    life = carried_out(
        step("list"),
        repeats("each", concurrency=2),
        script={"list": gives("[1,2,3,4,5]"), "each": slowly},
        concurrency=8,
    )
    assert life.status() == "completed" and most == 2


def test_an_item_that_fails_has_the_policy_for_itself() -> None:
    async def second_fails(command: Command) -> Finished:
        return gives("", int(command.env["AT"] == "1"))

    life = carried_out(
        step("list"),
        repeats("each", on_failure=Continue()),
        step("after"),
        step("beside", needs="list"),
        script={"list": gives("[1,2,3]"), "each": second_fails},
    )
    life.expect(**{"each[0]": "passed", "each[1]": "failed", "each[2]": "passed", "each": "failed"})
    life.expect(after="cancelled", beside="passed")
    assert life.report is not None
    assert "1 of its 3 items did not pass: each[1] (failed)" in life.report.steps[1].evidence


def test_the_command_that_answers_about_an_item_can_be_pasted_into_a_shell() -> None:
    life = carried_out(
        step("list"), repeats("each", on_failure=Escalate()), script={"list": gives("[1]"), "each": gives("", 1)}
    )
    assert life.report is not None
    (question,) = life.report.questions
    assert shlex.split(question.asking) == ["ordain", "answer", f"{life.report.run_id}/each[0]"]
    assert "'" in question.asking
    life.answer("each[0]", "skip").resume().expect(each="passed")


def test_a_condition_about_the_item_is_asked_of_each() -> None:
    life = carried_out(step("list"), repeats("each", when="item > 1"), script={"list": gives("[1,2,3]")})
    life.expect(**{"each[0]": "skipped", "each[1]": "passed", "each": "passed"})


def test_each_item_is_verified_by_itself() -> None:
    life = carried_out(
        step("list"),
        replace(repeats("each"), verification=step("x", contract="check each").verification),
        script={"list": gives("[1,2]")},
    )
    life.expect(**{"each[0]": "passed", "each": "passed"})


# --- Nested plans ------------------------------------------------------------------------------------------------


def nested(name: str, *steps: Step, needs: tuple[str, ...] | None = None, own: Any = None, **fields: Any) -> Step:
    return step(name, action=NestedPlan(plan=plan(*steps, **fields)), needs=needs, on_failure=own)


def test_a_nested_plan_has_names_of_its_own() -> None:
    life = carried_out(
        step("one"),
        nested("inner", step("one"), using("two", X="${one.output}")),
        using("after", X="${inner.output.two}"),
        script={"one": gives("1"), "two": gives("2")},
    )
    life.expect(**{"inner/one": "passed", "inner/two": "passed", "inner": "passed", "after": "passed"})
    assert given(life, "two") == {"X": "1"} and given(life, "after") == {"X": "2"}


def test_abort_in_a_nested_plan_ends_that_plan_and_no_more() -> None:
    life = carried_out(
        nested("inner", step("bad", on_failure=Abort()), step("rest"), own=Continue()),
        step("beside", needs=()),
        script={"bad": 1},
    )
    life.expect(**{"inner/bad": "failed", "inner/rest": "cancelled", "inner": "failed", "beside": "passed"})


def test_a_nested_plan_tried_again_keeps_what_passed() -> None:
    codes = iter([1, 0])

    async def second_time(command: Command) -> Finished:
        return gives("", next(codes))

    life = carried_out(
        nested("inner", step("good"), step("bad"), own=Retry(max_attempts=2)), script={"bad": second_time}
    )
    life.expect(**{"inner/good": "passed", "inner/bad": "passed", "inner": "passed"})
    assert life.world.effects.count("good") == 1


# --- Fallbacks ---------------------------------------------------------------------------------------------------


def falling_back(*names: str, contract: str | None = None) -> Step:
    return step("a", contract=contract, on_failure=Fallback(steps=tuple(StepId(name) for name in names)))


def test_fallback_steps_run_and_then_the_contract_decides() -> None:
    life = carried_out(
        falling_back("undo", "again", contract="check again"),
        step("b"),
        script={"a": 1},
        fallbacks=(step("undo", needs=()), step("again", needs=())),
    )
    life.expect(**{"a+undo": "passed", "a+again": "passed", "a": "passed", "b": "passed"})
    assert life.world.effects == ["undo", "again", "b"]
    assert life.report is not None and "after it had failed and its fallback was run" in life.report.steps[0].evidence


def test_without_a_contract_nothing_says_that_it_is_done() -> None:
    life = carried_out(falling_back("undo"), step("b"), script={"a": 1}, fallbacks=(step("undo", needs=()),))
    life.expect(**{"a+undo": "passed", "a": "failed", "b": "cancelled"})
    assert life.status() == "failed"


def test_what_went_wrong_first_is_told_after_a_fallback_too() -> None:
    life = carried_out(
        falling_back("undo", contract="check never"),
        script={"a": gives("no room", 3)},
        fallbacks=(step("undo", needs=()),),
        on_failure=Abort(message="the shelf is full"),
    )
    life.expect(a="failed", **{"a+undo": "passed"})
    assert life.report is not None and life.report.reason == "the shelf is full"
    assert life.report.steps[0].evidence.startswith("exit status 3; its fallback was run; contract broken")


def test_a_fallback_that_fails_leaves_the_plans_policy() -> None:
    life = carried_out(
        falling_back("undo", contract="check a"),
        script={"a": 1, "undo": 1},
        fallbacks=(step("undo", needs=()),),
        on_failure=Escalate(),
    )
    life.expect(a="escalated", **{"a+undo": "failed"})
    life.script(a=0).answer("a", "retry").script(undo=0)
    life.shell.script.pop("do a")
    life.resume().expect(a="passed")


def test_what_follows_a_fallback_that_did_not_help_can_be_said() -> None:
    policy = Fallback(steps=(StepId("undo"),), then=Abort(message="the shelf is full"))
    life = carried_out(
        step("a", contract="check never", on_failure=policy),
        fallbacks=(step("undo", needs=()),),
        on_failure=Continue(),
    )
    life.expect(a="failed", **{"a+undo": "passed"})
    assert life.report is not None and life.report.reason == "the shelf is full"
    skips = replace(policy, then=Skip())
    for last in (skips, Retry(max_attempts=2, then=skips)):
        life = carried_out(
            step("a", contract="check never", on_failure=last), step("b"), fallbacks=(step("undo", needs=()),)
        )
        life.expect(a="skipped", b="passed", **{"a+undo": "passed"})


def test_the_contract_that_led_to_a_fallback_stays_visible() -> None:
    life = carried_out(
        falling_back("undo", contract="check never"),
        script={"never": gives("shelf 1 is full", 1)},
        fallbacks=(step("undo", needs=()),),
    )
    (told,) = [one for one in life.report.steps if one.id == "a"] if life.report is not None else ()
    first, _, second = told.evidence.partition("; its fallback was run; ")
    assert first.startswith("contract broken") and second.startswith("contract broken")


def test_the_code_of_what_failed_first_is_the_code_of_the_step() -> None:
    life = carried_out(
        falling_back("undo", contract="check never"), script={"a": 3}, fallbacks=(step("undo", needs=()),)
    )
    assert life.report is not None and life.report.steps[0].error == "F_STEP_FAILED"


def test_a_fallback_is_the_last_thing_after_the_tries() -> None:
    policy = Retry(max_attempts=2, then=Fallback(steps=(StepId("undo"),)))
    life = carried_out(
        step("a", contract="check undo", on_failure=policy), script={"a": 1}, fallbacks=(step("undo", needs=()),)
    )
    life.expect(a="passed")
    assert [call.text for call in life.shell.calls if call.text.startswith("do")] == ["do a", "do a", "do undo"]


# --- A person's yes before a step --------------------------------------------------------------------------------


def test_a_destructive_call_whose_target_was_not_known_asks_first() -> None:
    life = Scenario(step("find"), step("clear", tool="delete", args={"path": "${find.output}"}))
    life.toolbox.files["old"] = "x"
    life.script(find=gives("old\n")).approve().run().expect(clear="escalated")
    assert life.report is not None and life.status() == "waiting"
    (question,) = life.report.questions
    assert question.kind == "step_approval" and '"path": "old"' in question.detail
    life.answer("clear", "allow").resume().expect(clear="passed")


def test_what_a_person_denies_is_skipped_and_blocks_what_needs_it() -> None:
    life = Scenario(replace(step("a"), approval="ask"), step("b"), step("c", needs=()))
    life.approve().run().expect(a="escalated", b="pending", c="passed")
    life.answer("a", "deny").resume().expect(a="skipped", b="cancelled")
    assert life.status() == "failed" and "a" not in life.world.effects
    assert life.report is not None and life.report.steps[0].evidence == "denied by kim"


def test_policy_denies_what_an_argument_came_to() -> None:
    life = Scenario(step("find"), step("use", tool="write_file", args={"path": "${find.output}", "content": "x"}))
    life.workspace.configuration_text = b'[policy]\ndeny = ["path:secret/**"]\n'
    life.prepare()
    asyncio.run(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM))
    life.script(find=gives("secret/key")).approve().run().expect(use="failed")
    assert life.report is not None and life.report.steps[1].error == "F_POLICY_DENIED"
    assert "secret/key" not in life.toolbox.files


@pytest.mark.parametrize(("found", "state"), [("for everybody", "passed"), ("CONFIDENTIAL: no", "failed")])
def test_a_rule_denies_what_an_argument_came_to(found: str, state: str) -> None:
    args = {"path": "a", "content": "${find.output}"}
    life = Scenario(step("find"), step("use", tool="write_file", args=args))
    life.workspace.configuration_text = b"""
[policy]
deny = ["rule:told"]
[rules.told]
tools = ["write_file"]
where = { content = "confidential:**" }
matches = ['write_file {"path": "a", "content": "Confidential: x"}']
matches_not = ['write_file {"path": "a", "content": "x"}']
"""
    life.prepare()
    asyncio.run(life.app.approvals.trust(life.app.approvals.configuration()[1], KIM))
    life.script(find=gives(found)).approve().run().expect(use=state)
    assert life.toolbox.files.get("a") == (found if state == "passed" else None)


def test_who_is_asked_is_told_what_did_not_hold() -> None:
    waits = replace(step("a", on_failure=Escalate()), preconditions=(LockHeld(lock_name="l"),))
    life = carried_out(waits)
    assert life.report is not None
    assert life.report.questions[0].detail == "this run does not hold the lock `l`; nobody holds it"


def test_a_step_that_was_not_begun_and_fell_back_in_vain_says_what_went_wrong_last() -> None:
    waits = replace(falling_back("undo", contract="check a"), preconditions=(LockHeld(lock_name="l"),))
    life = carried_out(waits, fallbacks=(step("undo", needs=()),))
    assert life.report is not None and life.report.steps[0].error == "F_CONTRACT_BROKEN"


def test_a_person_who_gives_up_ends_the_run_however_deep_the_question_was() -> None:
    life = carried_out(
        nested("inner", step("bad", on_failure=Escalate()), own=Skip()), step("after"), script={"bad": 1}
    )
    life.expect(**{"inner/bad": "escalated"}).answer("inner/bad", "abort").resume()
    assert life.status() == "failed" and "after" not in life.world.effects


def test_an_answer_keeps_its_type() -> None:
    asks = step("number", action=Ask(question="How many?", schema={"type": "integer"}))
    life = carried_out(asks, replace(step("b"), when='steps["number"].output == 4'))
    life.answer("number", "4").resume().expect(b="passed")
