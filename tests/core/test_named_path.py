"""Files that words of a step need: told only where nothing before could have made them."""

from msgspec.structs import replace

from ordain.core.lint.program import wanted_words
from ordain.core.lint.rules import lint
from ordain.core.lint.survey import Facts, Survey
from ordain.core.plan.action import Task
from ordain.core.plan.tool import DEFINITIONS
from tests.build import plan, step
from tests.rows import each
from tests.words import ShellText


@each(
    "command, paths",
    [
        ("cat src/app.py ./notes.txt", {"src/app.py", "notes.txt"}),
        ("grep -n src/a.py docs/b.md", {"docs/b.md"}),
        ("python scripts/release.py out/x.json", {"scripts/release.py"}),
        ("pytest tests/test_a.py::test_b -k x.py --junitxml out.xml", {"tests/test_a.py"}),
        ("sort < in.txt > out.txt", {"in.txt"}),
        ("cat a.txt > b.txt && cat b.txt", {"a.txt"}),
        ("make && cat dist/app.js", set()),
        ("cd web && cat package.json", set()),
        ("cat a.txt || echo none", set()),
        ("! grep x a.txt", set()),
        ("test -f a.txt && cat b.txt", {"b.txt"}),
        ("cat $FILE *.txt ../x.txt /etc/x.conf https://a.example/b.json", set()),
        ("git push origin feature/x.py", set()),
        ("python -m json.tool x.json", set()),
        ("cat LICENSE", set()),
    ],
)
def test_only_what_is_surely_read_is_looked_for(command, paths):
    facts = Facts(tools=DEFINITIONS, scripts=ShellText().scripts([command]))
    assert wanted_words(Survey(plan(step("a", run=command))), facts) == paths


@each(
    "text, paths",
    [
        ("Fix `src/auth/handler.py`, and update docs/login.md.", {"src/auth/handler.py", "docs/login.md"}),
        ("Read README.md first. See https://a.example/x.md.", {"README.md"}),
        ("Write `src/new.py` beside `src/old.py`.", set()),
        ("Make the tests of handler.py pass.", set()),
        ("Update the docs in docs/.", set()),
    ],
)
def test_of_prose_only_what_is_to_be_read_or_changed(text, paths):
    made = plan(step("a", action=Task(task=text)))
    assert wanted_words(Survey(made), Facts(tools=DEFINITIONS)) == paths


READS = step("reads", run="cat data.txt", needs=("first",))
CHECKED = {"contract": "grep x data.txt"}


def act(text, **fields):
    return writing(step("first", action=Task(task=text)), **fields)


def writing(one, writes=()):
    return replace(one, writes=writes)


@each(
    "steps, blamed",
    [
        ([step("reads", run="cat data.txt", needs=())], ["reads"]),
        ([step("first", run="echo x > data.txt"), READS], []),
        ([step("first", run="make"), READS], []),
        ([writing(step("first", run="make"), ("build/**",)), READS], ["reads"]),
        ([step("first", run="ls"), READS], ["reads"]),
        ([step("first", tool="write_file", args={"path": "data.txt", "content": "x"}), READS], []),
        ([step("first", tool="write_file", args={"path": "${x.output}", "content": "x"}), READS], []),
        ([step("first", tool="make_dir", args={"path": "data"}), READS], ["reads"]),
        ([act("Gather the numbers."), READS], []),
        ([act("Gather the numbers.", writes=("numbers/**",)), READS], ["reads"]),
        ([step("first", run="make"), step("reads", run="cat data.txt", needs=())], ["reads"]),
        ([step("own", run="make", **CHECKED)], []),
        ([step("own", run="ls", **CHECKED)], ["own"]),
        ([step("own", tool="make_dir", args={"path": "d"}, **CHECKED)], ["own"]),
        ([step("own", tool="write_file", args={"path": "data.txt", "content": "x"}, **CHECKED)], []),
        ([step("own", action=Task(task="Gather."), **CHECKED)], []),
        ([act("Fix `data.txt`.")], ["first"]),
        ([act("Update `data.txt`.", writes=("data.txt",))], []),
        ([step("first", run="make"), step("then", action=Task(task="Fix data.txt"), needs=("first",))], []),
    ],
)
def test_it_is_told_where_nothing_before_could_have_made_it(steps, blamed):
    facts = Facts(tools=DEFINITIONS, unknown_paths=frozenset(["data.txt"]))
    found = [one.where.step for one in lint(plan(*steps), facts) if one.code == "W_PATH_UNKNOWN"]
    assert found == blamed
    there = Facts(tools=DEFINITIONS)
    assert not any(one.code == "W_PATH_UNKNOWN" for one in lint(plan(*steps), there))
