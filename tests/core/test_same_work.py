from __future__ import annotations

from ordain.adapters.process.shell_text import ShellText
from ordain.core.approval.diff.pairing import checks_of, is_same_work, work_of
from ordain.core.plan.action import CallTool
from ordain.core.plan.model import Plan, all_steps
from ordain.core.policy.bound_file import command_texts
from tests.build import plan, step
from tests.rows import each


def doing(actions: str) -> Plan:
    return plan(*(step(f"s{number}", run=f"make {one}") for number, one in enumerate(actions)))


@each(
    "new, old, same",
    [
        ("a", "a", True),
        ("a", "b", False),
        ("aaa", "a", True),
        ("ba", "ab", True),
        ("abcde", "abcdx", True),
        ("abcd", "abcx", False),
        ("abcdefgh", "abcdefxy", False),
        ("a", "abcdef", True),  # all of it was rejected
        ("ab", "a", True),  # padded
        ("abcd", "a", True),
        ("abcde", "a", False),  # about something else
        ("xaybz", "ab", True),
    ],
)
def test_what_is_the_same_work(new: str, old: str, same: bool) -> None:
    assert is_same(doing(new), doing(old)) is same


def is_same(new: Plan, old: Plan) -> bool:
    texts = [*command_texts(all_steps(new)), *command_texts(all_steps(old))]
    scripts = ShellText().scripts(texts)
    return is_same_work(work_of(new, scripts), work_of(old, scripts), checks_of(new, scripts))


OLD = ("rm -rf build", "git push origin main", "echo done")


@each(
    "new, same",
    [
        (("rm -rf build ", "git  push origin main;", "echo done"), True),
        (("rm -rf build # clean", "git push 'origin' \"main\"", "echo done"), True),
        (("env A=1 rm -rf build", "true && git push origin main"), True),
        (("/bin/rm -rf build", "\\git push origin main"), True),
        (("bash -c 'rm -rf build'", "sh -c 'git push origin main; echo'"), True),
        (("rm -rf build && git push origin main && echo done",), True),
        (("( rm -rf build; ) 2>/dev/null", "if true; then git push origin main; fi"), True),
        ((*OLD, *(f"echo p{number}" for number in range(6))), True),
        ((*OLD, *(f"ls p{number}" for number in range(9))), True),  # all that was rejected, whatever is around it
        (("rm -rf build", "git push origin main", "echo finished"), True),
        (("rm -rf dist", "git push origin main", "echo done"), False),
        (("git push origin main $X", "rm -rf build"), False),
        (("echo done",), False),
        (("rm -rf build >", "git push origin main"), False),  # nobody can read it
    ],
)
def test_commands_are_compared_by_what_they_start(new: tuple[str, ...], same: bool) -> None:
    old = plan(*(step(f"s{number}", run=one) for number, one in enumerate(OLD)))
    assert is_same(plan(*(step(f"s{number}", run=one) for number, one in enumerate(new))), old) is same


def test_a_program_is_compared_with_a_command_and_unknown_words_by_their_values() -> None:
    def calls(*argv: str) -> Plan:
        return plan(step("a", action=CallTool(tool="exec", args={"argv": list(argv)})))

    rejected = plan(step("a", run="rm -rf build"))
    assert is_same(calls("rm", "-rf", "build"), rejected)
    assert is_same(calls("/bin/bash", "-c", "rm -rf build"), rejected)
    assert not is_same(calls("rm", "-rf build"), rejected)
    assert not is_same(plan(step("a", run='X=a; rm "$X"')), plan(step("a", run='X=b; rm "$X"')))
    assert is_same(plan(step("a", run='X=a; rm "$X"')), plan(step("a", run="X=a;  rm ${X}")))
    assert not is_same(plan(step("a", run="echo a > b")), plan(step("a", run="echo a > c")))


def test_what_was_rejected_is_the_same_in_contracts() -> None:
    old = doing("ab")
    assert is_same(plan(step("x", run="true", contract="make a"), step("y", run="make b", contract="true")), old)
    assert is_same(plan(step("x", run="make z", contract="make a && make b")), old)
    assert not is_same(plan(step("x", run="make z", contract="make a")), old)
    assert not is_same(plan(step("x", run="make z", contract="make a")), doing("a")), "what is looked at is not done"
