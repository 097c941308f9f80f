"""Every example lints without a problem, is carried out with a real shell, and does what it promises.

Each is tried in a copy of its directory, by a person who answers what is asked.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ordain
from tests.interfaces.terminal import Terminal
from tests.interfaces.workspace import run_id
from tests.words import Given, open_at_terminal, to_wire

EXAMPLES = Path(__file__).parents[1] / "examples"
KIM = ordain.Principal(name="kim", channel=ordain.Channel.TERMINAL)
ROBOT = ordain.Principal(name="ci", channel=ordain.Channel.ROBOT)

Answer = str | Given | Callable[[Path], str]
"""What a person answers; a function does something in the workspace first."""


class Tried:
    """An example that was carried out as far as it goes."""

    def __init__(self, name: str | Path, place: Path, answers: Mapping[str, Answer], params: Any, first: Any) -> None:
        source = EXAMPLES / name
        self.path = place / "workspace"
        shutil.copytree(source.parent, self.path)
        first(self.path)
        self.asked: dict[str, str] = {}
        self.events: list[dict[str, Any]] = []
        settings = (self.path / "ordain.toml").exists()
        asyncio.run(self._life(source.read_bytes(), source.name, answers, params, settings=settings))

    async def _life(
        self, data: bytes, name: str, answers: Mapping[str, Answer], params: Any, *, settings: bool
    ) -> None:
        app = open_at_terminal(self.path, exact=True)
        if settings:
            await app.approvals.trust(app.approvals.configuration()[1], KIM)
        # One of the page's plans shows what follows when a file is not there.
        found = app.plans.lint(data, name, params).problems
        assert [one for one in found if one.code != "W_PATH_UNKNOWN"] == []
        prepared = await app.plans.prepare(data, name, KIM, params)
        if prepared.review.requires_approval:
            await app.approvals.approve(prepared.review.plan_id, KIM)
        self.report = await app.runs.commit(prepared.review.plan_id, KIM, self._watch)
        while self.report.status == "waiting":
            for question in self.report.questions:
                assert question.step in answers, question
                self.asked[question.step] = question.text
                given = answers[question.step]
                await app.answers.answer(question.item, given(self.path) if callable(given) else given, KIM)
            self.report = await app.runs.resume(self.report.run_id, self._watch)
        await app.close()

    def _watch(self, recorded: Any) -> None:
        self.events.append(to_wire(recorded))

    @property
    def states(self) -> dict[str, str]:
        return {step.id: step.state.value for step in self.report.steps}

    @property
    def evidence(self) -> dict[str, str]:
        return {str(step.id): step.evidence for step in self.report.steps}

    def text(self, name: str) -> str:
        return (self.path / name).read_text()

    def ended(self, status: str = "completed", **states: str) -> None:
        """How the run ended, and the steps that did not pass."""
        assert self.report.status == status, self.report
        others = {name: state for name, state in self.states.items() if state != "passed"}
        assert others == {name.replace("_", "-"): state for name, state in states.items()}


@pytest.fixture
def tried(tmp_path: Path) -> Callable[..., Tried]:
    """Carry out an example: its name, answers by step, `params` as pairs of name and value, and what is done in the
    workspace first."""

    def carry_out(
        name: str, *, params: Any = (), first: Callable[[Path], object] = lambda path: None, **answers: Answer
    ) -> Tried:
        return Tried(name, tmp_path, {step.replace("_", "-"): given for step, given in answers.items()}, params, first)

    return carry_out


Try = Callable[..., Tried]

# --- The smallest ----------------------------------------------------------------------------------------------------


def test_look(tried: Try) -> None:
    done = tried("look.plan.md")
    done.ended()
    assert "approval_given" not in {event["type"] for event in done.events}


def test_tidy(tried: Try) -> None:
    done = tried("tidy.plan.md")
    done.ended()
    assert done.text("list.txt") == "a\nb\n"


def test_stamp(tried: Try) -> None:
    done = tried("stamp/stamp.plan.yaml", params=[("word", "checked")])
    done.ended()
    files = sorted((done.path / "in").glob("*.txt"))
    assert files and all(file.read_text().endswith("checked\n") for file in files)


@pytest.mark.slow
def test_greet(tried: Try) -> None:
    done = tried("greet/release.plan.md")
    done.ended()
    assert (done.path / "greet.tar.gz").exists() and done.text("outbox.txt") == "greet 1.1.0 is out\n"


# --- Results and conditions ------------------------------------------------------------------------------------------


def test_results(tried: Try) -> None:
    done = tried("results.plan.md")
    done.ended()
    lines = len((EXAMPLES / "results.plan.md").read_text().splitlines())
    assert done.text("used.txt") == (
        f"greet listens on 8080 and [8080, 8081]; {lines} lines, exit status 0, no nickname\n"
    )
    assert done.text("greet.txt") == f"{lines} lines; in a shell that would be ${{LINES}}\n"


def test_conditions(tried: Try) -> None:
    done = tried("conditions.plan.md")
    done.ended(thorough="skipped")
    assert done.text("said.txt") == "looked through quickly / no thorough look\nsmall\n"


def test_data(tried: Try) -> None:
    done = tried("data.plan.md")
    done.ended()
    assert msgspec.json.decode(done.text("data.json")) == {"measured": "42", "limit": 50, "units": ["mm", "cm"]}


def test_preconditions(tried: Try) -> None:
    done = tried("preconditions.plan.md")
    done.ended(large="skipped")
    assert done.text("shelf.txt") == "written\n"


# --- Repeats ---------------------------------------------------------------------------------------------------------


def test_repeat(tried: Try) -> None:
    done = tried("repeat.plan.md")
    done.ended(**{"long[0]": "skipped"})
    assert (done.evidence["greet"], done.evidence["long"]) == ("3 items passed", "2 items passed, 1 skipped")
    assert [done.text(f"greeting-{number}.txt") for number in range(3)] == [
        "hello ada\n",
        "hello grace\n",
        "hello edsger\n",
    ]
    assert sorted(done.text("long.txt").split()) == ["edsger", "grace"]
    assert done.text("greetings.txt") == '["hello ada", "hello grace", "hello edsger"]\n'


def test_batches(tried: Try) -> None:
    done = tried("batches.plan.md")
    done.ended()
    assert done.states.keys() >= {"add[0]", "add[1]", "add[2]"} and done.text("sum.txt") == "28\n"


@pytest.mark.slow
def test_matrix(tried: Try) -> None:
    done = tried("matrix.plan.md")
    done.ended()
    assert list(done.states) == ["try-1", "try-2", "try-3", "again", "again[0]", "again[1]", "again[2]", "count"]


def test_matrix_over_other_values(tried: Try) -> None:
    done = tried("matrix.plan.md", params=[("options", "posix")])
    done.ended()
    assert [file.name for file in done.path.glob("tried-*")] == ["tried-posix.txt"]


def test_nested(tried: Try) -> None:
    done = tried("nested.plan.yaml")
    done.ended(**{"second": "skipped", "second/look": "failed", "second/copy": "cancelled"})
    assert done.text("first.txt") == "stop\ntry\ntry\n", "what passed is not run again"
    assert done.text("deployed.txt") == "first copied, second left out\n"


# --- After a failure -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_retry(tried: Try) -> None:
    done = tried("retry.plan.md")
    done.ended(in_vain="skipped")
    delays: dict[str, list[int]] = {}
    for event in done.events:
        if event.get("not_before") is not None:
            delays.setdefault(event["step"], []).append(event["not_before"] - event["at"])
    assert delays.pop("in-vain") == [0]
    assert delays == {"constant": [100, 100], "linear": [50, 150], "exponential": [50, 100, 150]}
    assert done.text("in-vain.txt") == "x\nx\n"


def test_skip(tried: Try) -> None:
    done = tried("skip.plan.md")
    done.ended("failed", nice="skipped", part="failed", behind="cancelled")
    assert (done.text("next.txt"), done.text("beside.txt")) == ("next\n", "beside\n")
    assert not (done.path / "behind.txt").exists()


def test_abort(tried: Try) -> None:
    done = tried("abort.plan.md")
    done.ended("failed", slow="cancelled", look="failed", use_it="cancelled")
    assert done.report.reason == "settings.txt names no port; write one and run this again"


@pytest.mark.slow
def test_fallback(tried: Try) -> None:
    done = tried("fallback.plan.md")
    done.ended()
    assert list(done.states) == ["fetch", "fetch+clear", "fetch+other", "use-it"]
    assert done.text("sorted.txt") == "bonjour\ngreet\n"


def test_escalate(tried: Try) -> None:
    def write_key(workspace: Path) -> str:
        (workspace / "printer.key").write_text("secret\n")
        return "retry"

    done = tried("escalate.plan.md", key=write_key, printer="skip")
    done.ended(printer="skipped")
    assert done.asked["printer"] == "The printer does not answer. Go on without paper?"
    assert done.text("finished.txt") == "finished\n"


def test_replan(tried: Try) -> None:
    done = tried("replan.plan.md", build="skip", mend="pass")
    done.ended(build="skipped")
    assert "a planner is to propose another plan" in done.asked["build"]
    assert "a planner is to propose how to recover it" in done.asked["mend"]
    assert "unverified" in done.evidence["mend"]


# --- People and other runs -------------------------------------------------------------------------------------------


def test_ask(tried: Try) -> None:
    copies = Given(value={"count": 3, "paper": "A4"})
    done = tried("ask.plan.md", version="minor", words="it's; rm -rf $HOME", copies=copies)
    done.ended(warn="skipped")
    assert done.text("announcement.txt") == "minor: it's; rm -rf $HOME (3 times on A4)\n"


def test_ask_another_way(tried: Try) -> None:
    done = tried("ask.plan.md", version="major", words="new", copies='{"count": 1, "paper": "A5"}')
    done.ended()
    assert done.text("announcement.txt") == "major: new (1 times on A5)\nthis one breaks things\n"


@pytest.mark.slow
def test_approval(tried: Try) -> None:
    done = tried("approval.plan.md", delete="allow", tell="allow")
    done.ended()
    assert [file.name for file in (done.path / "backups").iterdir()] == ["2025.txt"]
    assert done.text("told.txt") == "2024.txt is gone\n"


def test_approval_denied(tried: Try) -> None:
    done = tried("approval.plan.md", delete="deny")
    done.ended("failed", delete="skipped", tell="cancelled")
    assert len(list((done.path / "backups").iterdir())) == 2 and not (done.path / "told.txt").exists()


def test_locks(tried: Try) -> None:
    done = tried("locks.plan.md")
    done.ended()
    assert done.text("staging.txt") == "used\n"


def test_signal(tmp_path: Path) -> None:
    class Signalled(Tried):
        """Somebody says what the run waits for, as soon as it waits."""

        def _watch(self, recorded: Any) -> None:
            super()._watch(recorded)
            if self.events[-1]["type"] == "attempt_waiting":
                self.given = asyncio.ensure_future(self._signal())

        async def _signal(self) -> None:
            outside = open_at_terminal(self.path, exact=True)
            await outside.signals.give("build-done", ROBOT, {"version": "1.4.2"})
            await outside.close()

    done = Signalled("signal.plan.md", tmp_path, {}, (), lambda path: None)
    done.ended()
    assert done.text("built.txt") == "1.4.2\n"


def test_budget(tried: Try) -> None:
    done = tried("budget.plan.md", **{".budget": "extend"})
    done.ended()
    assert done.text("thoughts.txt") == "thought\nagain\n"
    assert "The budget of the plan allows 1,000 tokens" in done.asked[".budget"]


def test_budget_that_is_not_extended(tried: Try) -> None:
    done = tried("budget.plan.md", **{".budget": "abort"})
    done.ended("failed", again="cancelled")
    assert done.text("thoughts.txt") == "thought\n"


def test_scope(tried: Try) -> None:
    done = tried("scope.plan.md")
    done.ended(panes="skipped")
    assert done.text("approved.txt") == "written\n" and not (done.path / "panes.txt").exists()
    assert "does not cover the action kind `send_text`" in done.evidence["panes"]


def test_custom(tried: Try) -> None:
    done = tried("custom/custom.plan.md")
    done.ended()
    assert done.text("announced.txt") == "to ada, grace: Version 1.4.2 is out\n"


@pytest.mark.slow
def test_reads(tried: Try) -> None:
    def leave_a_note(workspace: Path) -> None:
        async def post() -> None:
            outside = open_at_terminal(workspace, exact=True)
            await outside.topics.post("style", "We greet in capitals.", ROBOT)
            await outside.close()

        asyncio.run(post())

    done = tried("reads/reads.plan.md", first=leave_a_note)
    done.ended()
    assert done.text("greetings.txt") == "HELLO, ADA\nHELLO, GRACE\n"
    offers = [event["item"]["reads"] for event in done.events if event["type"] == "work_offered"]
    read = [[one["ref"] for one in reads] for reads in offers]
    assert read[0] == ["file:people.txt", "step:list-the-people", "topic:style"]
    assert read[1] == ["file:greetings.txt", *read[0]], "the second attempt reads what the first one wrote"


def test_tools(tried: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABEL_TOKEN", "nobody-may-see-this")

    def go_there(workspace: Path) -> None:
        monkeypatch.chdir(workspace)  # as `ordain` does, which is started there

    done = tried("tools/tools.plan.md", first=go_there)
    done.ended()
    assert done.text("story.txt.label") == "9 words, the longest is quick\n"
    assert "nobody-may-see-this" not in str(done.events)


def test_agents(tried: Try) -> None:
    done = tried("agents/agents.plan.md")
    done.ended()
    begun = [(one["step"], one["agent"], one["why"]) for one in done.events if one["type"] == "attempt_started"]
    by_default = ("fix", "coder", "the settings name it for all others")
    assert begun == [by_default, by_default, ("review", "reviewer", "the rule for the kind review names it")]
    assert [one["type"] for one in done.events if one.get("step") == "fix" and "contract_" in one["type"]] == [
        "contract_broken",
        "contract_held",
    ]
    assert done.text("review.md") == "Reviewed: Hello, world!\n"


# --- A whole release -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_release(tried: Try) -> None:
    done = tried("release/release.plan.md", part="minor", go="publish", publish="allow")
    done.ended()
    assert done.text("VERSION") == "1.1.0\n" and "## 1.1.0\n\n- Names are greeted" in done.text("CHANGELOG.md")
    package = done.path / "registry/greet-1.1.0.pyz"
    said = subprocess.run([sys.executable, package, "Kim"], capture_output=True, text=True, check=True).stdout
    assert said == "Hello, Kim!\n" and done.text("registry/index.txt").split()[-1] == package.name
    assert [name for name in done.states if name.startswith("test[")] == [f"test[{number}]" for number in range(6)]
    assert not list((done.path / "changes").iterdir())


@pytest.mark.slow
def test_release_that_goes_wrong_half_way_is_taken_back(tried: Try) -> None:
    def full(workspace: Path) -> None:
        (workspace / "registry/full").touch()

    done = tried("release/release.plan.md", part="major", go="publish", publish="allow", first=full)
    done.ended("failed", publish="failed", tidy="cancelled")
    assert done.report.reason == "Nothing was published."
    assert "no room in the index" in next(step.output_tail for step in done.report.steps if step.id == "publish")
    assert (done.states["publish+unpublish"], done.states["publish+put-back"]) == ("passed", "passed")
    for name in ("VERSION", "CHANGELOG.md", "registry/index.txt"):
        assert done.text(name) == (EXAMPLES / "release" / name).read_text()
    assert not list((done.path / "registry").glob("*.pyz")) and len(list((done.path / "changes").iterdir())) == 2


@pytest.mark.slow
def test_release_that_waits(tried: Try) -> None:
    done = tried("release/release.plan.md", part="patch", go="wait")
    done.ended(**{"raise": "skipped"}, publish="skipped", tidy="skipped")
    assert done.text("VERSION") == "1.0.0\n" and (done.path / "dist/greet-1.0.1.pyz").exists()


@pytest.mark.slow
def test_release_with_a_test_that_fails_asks_nobody_to_publish(tried: Try) -> None:
    def wrong(workspace: Path) -> None:
        (workspace / "greet/__init__.py").write_text((workspace / "greet/__init__.py").read_text().replace("!", "?"))

    done = tried("release/release.plan.md", part="patch", first=wrong)
    assert done.report.status == "failed" and set(done.asked) == {"part"}
    assert {done.states[f"test[{number}]"] for number in range(6)} > {"failed"}


RELEASE = (EXAMPLES / "README.md").read_text().partition("\n## A release")[2].partition("\n## ")[0]
TYPED = [re.split(r"^\$ ", block, flags=re.MULTILINE)[1:] for block in RELEASE.split("```")[1::2]]
"""What is typed in each block of the page about the release, each with what is shown."""


@pytest.mark.slow
def test_the_release_works_as_the_page_shows(tmp_path: Path) -> None:
    here, run = tmp_path, ""
    assert len(TYPED) == 2 and TYPED[0][0].startswith("cp -r examples/release /tmp/greet")
    for typed in (one for block in TYPED for one in block):
        line, *shown = typed.rstrip("\n").split("\n")
        if not line.startswith("ordain "):
            command = line.replace("/tmp/greet", str(tmp_path / "greet")).replace("examples/", f"{EXAMPLES}/")
            subprocess.run(["bash", "-c", command], cwd=here, check=True)
            here = tmp_path / "greet"
            continue
        words = shlex.split(re.sub(r"RUN-[A-Z2-7]+", run, line))[1:]
        with Terminal(*words, cwd=here, env={"TERM": "dumb", "NO_COLOR": "1"}, columns=300) as terminal:
            if words[0] == "run":
                terminal.expect("short id (")
                short = terminal.shown_until("): ")
                terminal.type(short)
            for answered in (one for one in shown if one.startswith("Your answer")):
                question, _, answer = answered.partition("): ")
                terminal.expect(question.removesuffix("):") + "): ")
                terminal.type(answer)
            seen = terminal.end().out
        run = run_id(seen)
        at = 0
        for expected in (one for one in shown if one.strip() != "…"):
            found = re.compile(_as_shown(expected), re.MULTILINE).search(seen, at)
            assert found is not None, f"{expected!r} is not shown after `{line}`:\n{seen}"
            at = found.end()
    assert (here / "VERSION").read_text() == "1.1.0\n"


def _as_shown(line: str) -> str:
    """A pattern for a line of the page: ids and times differ each time."""
    varies = r"RUN-[A-Z2-7]+|\b[0-9a-f]{12}\b|[0-9.]+(?= s\b)| +"
    parts = zip(re.split(varies, line), [*re.findall(varies, line), ""], strict=True)
    return "".join(re.escape(text) + (" +" if one.isspace() else r"\S+" if one else "") for text, one in parts) + " *$"


# --- The page about flow ---------------------------------------------------------------------------------------------

PAGE = (EXAMPLES.parent / "docs/flow.md").read_text()
PLANS = [text for _, text in re.findall(r"^(`{3,})(?:markdown|yaml)\n(.*?)^\1$", PAGE, re.DOTALL | re.MULTILINE)]


@pytest.mark.part(of=3)
@pytest.mark.parametrize("text", [pytest.param(text, id=text.partition("\n")[0]) for text in PLANS])
def test_the_plans_of_the_page_are_carried_out(text: str, tmp_path: Path) -> None:
    shown = tmp_path / "page" / "shown.plan"
    shown.parent.mkdir()
    shown.write_text(text)
    done = Tried(shown, tmp_path, {"words": "It is out.", "announce": "allow"}, (), lambda _: None)
    assert done.report.status == "completed", done.report


def test_the_page_has_a_plan_for_each_part_that_can_be_shown() -> None:
    assert len(PLANS) >= 6


# --- The list --------------------------------------------------------------------------------------------------------


def test_every_example_is_in_the_list_and_tried_here() -> None:
    page, tests = (EXAMPLES / "README.md").read_text(), Path(__file__).read_text()
    names = [str(path.relative_to(EXAMPLES)) for path in sorted(EXAMPLES.rglob("*.plan.*"))]
    assert len(names) > 20
    assert [name for name in names if f"({name})" not in page] == []
    assert [name for name in names if f'"{name}"' not in tests] == []
    assert [name for name in re.findall(r"\]\(([^)]+)\)", page) if not (EXAMPLES / name).exists()] == []
