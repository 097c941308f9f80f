"""Which files a step names, what steps may write, and what is said of what no approval is bound to."""

import re
from typing import Annotated, Any, ClassVar

from hypothesis import given
from msgspec.structs import replace

from ordain.adapters.process.shell_text import ShellText
from ordain.core.plan.action import Ask, RunCommand, Task
from ordain.core.plan.model import Step, all_steps
from ordain.core.plan.role import About, EffectClass, PathWritten
from ordain.core.plan.tool import BUILT_IN
from ordain.core.plan.value import Value
from ordain.core.policy.bound_file import NotBound, Writes, command_texts, named_files, not_bound
from tests.build import plan, step
from tests.plans import plans
from tests.rows import each

READER = ShellText()
OPTION = re.compile(r"-\w$|-(?!x)\w+|--\w")
"""An option may be the name of a file too, but hardly ever is."""


def named(made: Step) -> Any:
    return named_files(made, READER.scripts(command_texts([made])))


@each(
    "command, paths",
    [
        ("bash scripts/deploy.sh -v", {"scripts/deploy.sh"}),
        ("tool --file=a.toml -fb.mk @c.json d=e.txt", {"a.toml", "b.mk", "c.json", "e.txt", "@c.json", "d=e.txt"}),
        ("./run.sh ./a//b/. /etc/hosts ../x", {"run.sh", "a/b", "/etc/hosts", "../x"}),
        ("curl https://x.org/a /dev/null .ordain/plan.md", {"https:/x.org/a"}),
        ("test -f go && [ -e stay ] && [[ -s x ]]", set()),
        ("cat < in.txt > out.txt", {"in.txt"}),
        ("flock lock sh -c 'sh x/y.sh'", {"lock", "sh", "sh x/y.sh", "x/y.sh"}),
        ("tool -var-file=a.tf -F f=@b.sh", {"a.tf", "b.sh", "f=@b.sh", "@b.sh", "ar-file=a.tf"}),
        ("k --from-file=k=f", {"k=f", "k", "f"}),
        ("cd sub & cat x.sh", {"sub", "x.sh"}),
        ("bash -- -x.sh", {"--", "-x.sh", ".sh"}),
        ("cat < -x.sh", {"-x.sh", ".sh"}),
        ("bash https://../x.sh", {"https:/../x.sh"}),
        ("cd sub && cat x < y", {"sub", "sub/x", "sub/y"}),
    ],
)
def test_the_paths_that_a_command_names(command: str, paths: set[str]) -> None:
    assert {one for one in named(step("a", run=command)).paths if not OPTION.match(one)} == paths


@each(
    "command, reasons",
    [
        ("su -c 'bash x.sh' kim", ["commands that cannot be taken apart"]),
        ("su - kim -c 'bash x.sh'", ["commands that cannot be taken apart"]),
        ("env -S 'bash x.sh'", ["commands that cannot be taken apart"]),
        ("env '--split-string=bash x.sh'", ["commands that cannot be taken apart"]),
        ("find . -exec sh -c 'cat x' ';'", ["commands that cannot be taken apart"]),
        ("git -C sub apply x.patch", ["relative paths after a change of directory"]),
        ("make -Csub all", ["relative paths after a change of directory"]),
        ("env --chdir=sub cat x", ["relative paths after a change of directory"]),
        ("sudo -Eu root bash -c 'cat x'", []),
        ("grep -C 3 -e 'a b' x", []),
        ("git commit -m 'a b'", []),
        ("f() { cat x.sh; }; cd scripts; f", ["relative paths after a change of directory"]),
        ("trap 'cat x.sh' EXIT; cd scripts", ["relative paths after a change of directory"]),
        ("for i in 1 2; do cat x.sh; cd scripts; done", ["relative paths after a change of directory"]),
        ("bash /proc/self/cwd/x.sh", ["words that are only known when they run"]),
        ("bash x\\\n.sh", ["words that are only known when they run"]),
        ("bash /dev/../srv/x.sh", ["words that are only known when they run"]),
        ("cat /dev/fd/../../cwd/x.sh", ["words that are only known when they run"]),
        ("cat /usr/../proc/self/cwd/x.sh", ["words that are only known when they run"]),
        ("make -s --file=/proc/self/cwd/mk", ["words that are only known when they run"]),
        ("env BASH_ENV=/proc/self/cwd/x.sh bash -c true", ["words that are only known when they run"]),
        ("cat /dev/null lib/proc/x", []),
        ("bash .ordain/x.sh", ["words that are only known when they run"]),
        ("echo x | xargs -I{} bash {}.sh", ["words that are only known when they run"]),
        ("cat <<E\n`bash x.sh`\nE", ["words that are only known when they run"]),
        ("BASH_ENV=$HOME/x bash s.sh", ["words that are only known when they run"]),
        ("PYTHONPATH=./lib:$PYTHONPATH python3 p.py", ["words that are only known when they run"]),
        ("PATH=./d:$PATH t.sh", ["words that are only known when they run"]),
        ("PATH=./d:$PATH; t.sh", ["words that are only known when they run"]),
        ("export BASH_ENV=$HOME/x; bash s.sh", ["words that are only known when they run"]),
        ('now=$(date); echo "$now"', []),
    ],
)
def test_options_that_are_not_followed_are_said_to_be_unknown(command: str, reasons: list[str]) -> None:
    made = named(step("a", run=command))
    assert [one.split(",")[0] for one in made.unknown] == reasons
    assert "sudo" not in command or "x" in made.paths


@each(
    "made, written",
    [
        (step("a", run="echo 1.1 > VERSION"), ("VERSION",)),
        (step("a", run="cd d; cat x >> y"), ("d/y",)),
        (step("a", run="cat x | grep y | head -1"), ()),
        (step("a", run="make all"), None),
        (step("a", run='echo x > "$y"'), None),
        (step("a", run="cat() { rm x; }; cat y"), None),
        (step("a", run="PATH=. cat y"), None),
        (step("a", run="echo 'x"), None),
        (step("a", run="echo x", contract="make check"), None),
        (step("a", run="echo x > y", contract="grep -q x y"), ("y",)),
        (replace(step("a", run="make all"), writes=("build/**",)), ("build/**",)),
        (step("a", tool="write_file", args={"path": "x", "content": "y"}), ("x",)),
        (step("a", tool="delete", args={"path": "x"}), ("x", "x/")),
        (step("a", tool="write_file", args={"path": "${b.output}", "content": "y"}), None),
        (step("a", tool="read_file", args={"path": "x"}), ()),
        (step("a", tool="of_others", args={}), None),
        (step("a", action=Task(task="Do it")), None),
        (replace(step("a", action=Task(task="Do it")), writes=("src/**",)), ("src/**",)),
        (step("a", action=Ask(question="Well?")), ()),
    ],
)
def test_what_a_step_may_write(made: Step, written: tuple[str, ...] | None) -> None:
    writes = Writes(BUILT_IN, READER.scripts(command_texts([made])), 0)
    assert writes.of(made) == written
    writes.add(made)
    for path, changes in (("x", ("x",)), ("build/a/b", ("build/**",)), ("x/deep", ("x/",))):
        assert writes.may_change(path) == (written is None or not set(written).isdisjoint(changes))


class Touch(Value, frozen=True, tag_field="type", tag="touch"):
    """An action as somebody may add one: its fields say what it writes."""

    path: Annotated[str, PathWritten()]
    below: Annotated[str, PathWritten(deep=True)]
    about: ClassVar[About] = About(effect=EffectClass.REPEATABLE, did="touched `{0.path}`")


def test_an_action_writes_what_its_fields_say() -> None:
    made = step("a", action=Touch(path="x", below="build"))  # type: ignore[arg-type]
    assert Writes(BUILT_IN, {}, 0).of(made) == ("x", "build", "build/")


def said(*steps: Step, files: dict[str, str]) -> list[tuple[str, tuple[str, ...]]]:
    made = plan(*steps)
    scripts = READER.scripts(command_texts(all_steps(made)))
    found = not_bound(made, [named_files(one, scripts) for one in all_steps(made)], files, Writes(BUILT_IN, scripts, 0))
    return [(one.reason.split(",")[0], one.first) for one in found]


def test_files_of_steps_after_one_that_may_write_anything_are_checked_at_the_start_only() -> None:
    first, then = step("a", run="python3 a.py"), step("b", run="python3 b.py", needs=("a",))
    beside = step("c", run="cat c.txt")
    files = dict.fromkeys(("a.py", "b.py", "c.txt"), "sha256:1")
    assert said(first, then, files=files) == [("checked at the start only", ("b.py",))]
    assert said(first, beside, files=files) == [("checked at the start only", ("c.txt",))]
    assert said(beside, step("d", run="cat b.py", needs=("c",)), files=files) == []


def test_a_few_names_stand_for_many() -> None:
    many = [step(f"s{n}", run=f"ls d{n}") for n in range(5)]
    files = {f"d{n}": "directory" for n in range(5)}
    assert said(*many, files=files) == [("directories", ("d0", "d1", "d2"))]
    assert NotBound(reason="r", count=5, first=("a",)).count == 5


@given(made=plans())
def test_no_plan_makes_it_fail(made: Any) -> None:
    scripts = READER.scripts(command_texts(all_steps(made)))
    names = [named_files(one, scripts) for one in all_steps(made)]
    files = {path: "directory" for one in names for path in one.paths}
    for one in not_bound(made, names, files, Writes(BUILT_IN, scripts, 0)):
        assert one.count >= len(one.first) > 0


def test_where_a_variable_says_where_cd_looks_nobody_knows_the_directory() -> None:
    made = step("a", action=RunCommand(command="cd app && cat x.sh", env={"CDPATH": "other"}))
    assert [one.split(",")[0] for one in named(made).unknown] == ["relative paths after a change of directory"]
