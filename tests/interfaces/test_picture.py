"""Pictures of plans, compared with the texts in tests/golden/render/picture."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from tests.build import plan, step
from tests.interfaces.golden import RENDER, check_golden
from tests.plans import plans
from tests.rows import each
from tests.words import (
    Fallback,
    NestedPlan,
    Plan,
    RunId,
    RunReport,
    StepId,
    StepReport,
    StepState,
    Style,
    Task,
    mermaid_text,
    picture_lines,
    picture_result,
    plan_hash,
    plan_id,
    waits_for,
)

PLAIN, COLOUR = Style(False), Style(True)
SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=20)


def run_of(made: Plan, *states: StepState) -> RunReport:
    """A run whose first steps are in these states."""
    filled = [*states, *[StepState.PENDING] * (len(made.steps) - len(states))]
    return RunReport(
        run_id=RunId("RUN-Q5ZKAAAAAAAAAAAA"),
        plan_id=plan_id(made),
        plan_hash=plan_hash(plan_id(made)),
        title=made.title,
        status="waiting",
        steps=tuple(
            StepReport(number=n, id=one.id, description=one.description, state=state, attempts=1, evidence="")
            for n, (one, state) in enumerate(zip(made.steps, filled, strict=True), start=1)
        ),
        questions=(),
    )


CHAIN = plan(step("settings", tool="read_file", args={"path": "config.json"}), step("build"), step("ship", run="a\nb"))
DIAMOND = plan(
    step("fetch", needs=()),
    step("unit-tests", needs=("fetch",), run="pytest -q tests/unit " + "--strict-markers " * 8),
    step("type-check", needs=("fetch",)),
    step("release", needs=("unit-tests", "type-check")),
)
FAN = plan(
    step("split", needs=()),
    *(step(f"part-{number}", needs=("split",)) for number in range(1, 9)),
    step("join", needs=tuple(f"part-{number}" for number in range(1, 9))),
)
APART = plan(step("a", needs=()), step("b", needs=()), step("c", needs=("a",)), step("d", needs=()))


def thirty() -> Plan:
    """Three teams that meet now and then."""
    steps = [step("plan", needs=())]
    for number in range(1, 10):
        for team in ("api", "web", "docs"):
            before = [f"{team}-{number - 1}"] if number > 1 else ["plan"]
            before += ["api-3", "web-3"] if number == 4 and team == "docs" else []
            before += ["docs-6"] if number == 7 and team == "api" else []
            steps.append(step(f"{team}-{number}", needs=tuple(sorted(set(before)))))
    return plan(*steps, step("review", needs=("api-9", "docs-9", "web-9")), step("ship"), title="Three teams")


def many(count: int) -> Plan:
    """A start, batches of ten that wait for each other, and an end one by one."""
    steps = [step("start", needs=())]
    for number in range(count - 11):
        batch = number // 10
        needs = ("start",) if batch == 0 else tuple(f"work-{batch * 10 - 10 + member:03}" for member in range(10))
        steps.append(step(f"work-{number:03}", needs=needs))
    return plan(*steps, *(step(f"end-{number}") for number in range(10)), title="Two hundred")


WITH_FALLBACKS = plan(
    replace(step("write", run="make"), on_failure=Fallback(steps=(StepId("undo"),))),
    replace(step("think"), action=Task(task="Find out why.\nWrite it down.", agent="coder")),
    replace(step("inner"), action=NestedPlan(plan=plan(step("one"), step("two"), title="Inside"))),
    fallbacks=(step("undo", needs=(), run="git checkout ."), step("tell", needs=(), run="mail ops")),
    on_failure=Fallback(steps=(StepId("tell"),)),
)
HOSTILE = plan(
    replace(
        step("a", run='\x1b[2J"]; click a href "x"\u202e'), description='"] --> b; %%{init: {}}%% <img src=x>`#35;'
    ),
    replace(step("end", run="語" * 80), description="1. not a list 😀"),
    title='x"\n--- %%{init: {"securityLevel": "loose"}}%%',
)
ALL_STATES = plan(*(step(state.value, needs=()) for state in StepState), title="Every state")

SHOWN: dict[str, Callable[[], Iterable[str]]] = {
    "chain": lambda: picture_lines(CHAIN, None, PLAIN),
    "diamond": lambda: picture_lines(DIAMOND, None, PLAIN),
    "diamond-run": lambda: picture_lines(DIAMOND, run_of(DIAMOND, StepState.PASSED, StepState.FAILED), PLAIN),
    "diamond-run-colour": lambda: picture_lines(DIAMOND, run_of(DIAMOND, StepState.PASSED, StepState.FAILED), COLOUR),
    "fan": lambda: picture_lines(FAN, None, PLAIN),
    "apart": lambda: picture_lines(APART, None, PLAIN),
    "thirty": lambda: picture_lines(thirty(), None, PLAIN),
    "two-hundred": lambda: picture_lines(many(200), None, PLAIN),
    "two-hundred-run": lambda: picture_lines(
        many(200), run_of(many(200), *[StepState.PASSED] * 30, StepState.FAILED, StepState.IN_DOUBT), PLAIN
    ),
    "thousands": lambda: picture_lines(
        plan(*(step(f"s{n}", needs=(f"s{n - n % 3 - 1}",) if n > 2 else ()) for n in range(5000))), None, PLAIN
    ),
    "fallbacks": lambda: picture_lines(WITH_FALLBACKS, None, PLAIN),
    "hostile": lambda: picture_lines(HOSTILE, None, PLAIN),
    "states": lambda: picture_lines(ALL_STATES, run_of(ALL_STATES, *StepState), PLAIN),
    "mermaid-diamond": lambda: mermaid_text(DIAMOND).splitlines(),
    "mermaid-run": lambda: mermaid_text(DIAMOND, run_of(DIAMOND, StepState.PASSED, StepState.FAILED)).splitlines(),
    "mermaid-fallbacks": lambda: mermaid_text(WITH_FALLBACKS).splitlines(),
    "mermaid-hostile": lambda: mermaid_text(HOSTILE).splitlines(),
}


@each("name", SHOWN)
def test_golden(name: str):
    check_golden(f"picture/{name}.txt", SHOWN[name]())


def test_no_golden_text_is_left_over():
    assert {file.stem for file in (RENDER / "picture").glob("*.txt")} == set(SHOWN)


def test_thirty_steps_are_listed_and_more_are_summed_up():
    assert len(thirty().steps) == 30
    assert sum(bool(re.search(r"\d+\. ", line)) for line in picture_lines(thirty(), None, PLAIN)) == 30
    assert not any("wave" in line for line in picture_lines(thirty(), None, PLAIN))
    assert any("wave" in line for line in picture_lines(many(31), None, PLAIN))


@each("name", [name for name in SHOWN if not name.startswith("mermaid")])
def test_pictures_fit_a_hundred_columns(name: str):
    for line in SHOWN[name]():
        plain = re.sub(r"\x1b\[[0-9]+m", "", line)
        assert sum(2 if unicodedata.east_asian_width(one) == "W" else 1 for one in plain) <= 100, plain


@given(plans())
@SLOW
def test_the_list_says_who_waits_for_whom(made: Plan):
    rows = [line for line in picture_lines(made, None, PLAIN) if re.match(r"  ○ +[0-9]+\. ", line)]
    told = [re.match(r"  ○ +([0-9]+)\. \S+ +(?:after ([0-9, ]+?)  )?", row) for row in rows]
    number = {one.id: n for n, one in enumerate(made.steps, start=1)}
    assert [(int(row[1]), row[2] or "") for row in told if row] == [
        (number[name], ", ".join(str(n) for n in sorted(number[need] for need in needs)))
        for name, needs in waits_for(made).items()
    ]


def test_a_list_of_needs_that_is_too_long_is_cut_with_a_mark():
    steps = [step(f"s{n}", needs=()) for n in range(1, 20)]
    made = plan(*steps, step("all", needs=tuple(one.id for one in steps)))
    lines = list(picture_lines(made, None, PLAIN))
    assert "  ○  20. all  after 1, 2, 3, 4, 5, 6,…  do all" in lines and "… where there is more" in lines[-1]


# --- Mermaid: the grammar that we emit -------------------------------------------------------------------------------

TITLE = re.compile(r'title: "(?:[A-Za-z0-9 ]|\\U[0-9a-f]{8})*"')
LABEL = r"(?:[A-Za-z0-9 ]|#[0-9]+;|<br>)*"
NODE = re.compile(rf'  [sf][0-9]+\["{LABEL}"\]')
EDGE = re.compile(r"  (s[0-9]+) --> (s[0-9]+)")
DOTTED = re.compile(r"  [sf][0-9]+ -\.-> f[0-9]+")
CLASS = re.compile(r"  class(Def [a-z_]+ fill:#\w+,stroke:#\w+,color:#\w+| [sf0-9,]+ [a-z_]+)")


@given(plans(), st.data())
@SLOW
def test_whatever_a_plan_says_the_mermaid_text_is_ours(made: Plan, data: st.DataObject):
    states = data.draw(st.lists(st.sampled_from(StepState), max_size=len(made.steps)))
    head, title, foot, kind, *rest = mermaid_text(made, run_of(made, *states)).split("\n")[:-1]
    assert (head, foot, kind) == ("---", "---", "flowchart TD") and TITLE.fullmatch(title)
    known = (NODE, EDGE, DOTTED, CLASS)
    assert [line for line in rest if not any(form.fullmatch(line) for form in known)] == []
    edges = [found.groups() for line in rest if (found := EDGE.fullmatch(line))]
    number = {one.id: f"s{n}" for n, one in enumerate(made.steps, start=1)}
    assert edges == [(number[need], number[name]) for name, needs in waits_for(made).items() for need in needs]


def test_the_words_are_all_there():
    label = next(line for line in mermaid_text(HOSTILE).split("\n") if line.startswith("  s1"))
    shown = re.sub(r"#([0-9]+);", lambda found: chr(int(found[1])), label)
    assert shown == '  s1["1 · a<br>"] --> b; %%{init: {}}%% <img src=x>`#35;"]'


def test_what_stock_mermaid_would_refuse_is_drawn_in_groups():
    wide = [step(f"a{n}", needs=()) for n in range(30)]
    made = plan(
        *wide, *(step(f"b{n}", needs=tuple(one.id for one in wide)) for n in range(30)), step("end", needs=("b3",))
    )
    text = mermaid_text(made, run_of(made, StepState.PASSED, StepState.FAILED))
    lines = text.splitlines()
    assert sum(" --> " in line for line in lines) == 2 and "%% in groups" in text and len(text) < 50_000
    shown = [re.sub(r"#([0-9]+);", lambda found: chr(int(found[1])), line) for line in lines if line.startswith("  w")]
    assert shown[0].startswith('  w1["wave 1 · 30 steps<br>a0, a1, a2') and "1 passed, 1 failed" in shown[0]
    assert "  class w1 failed" in lines and "  class w2,w3 pending" in lines


def test_very_many_waves_are_few_groups():
    links = [step(f"s{n}", needs=(f"s{n - 1}",) if n else ()) for n in range(600)]
    pairs = [one for n in range(300) for one in (step(f"x{n}", needs=(f"s{n}",)), step(f"y{n}", needs=(f"s{n}",)))]
    text = mermaid_text(plan(*links, *pairs))
    assert 1 < text.count(" --> ") < 500 and len(text) < 50_000


# --- For robots ------------------------------------------------------------------------------------------------------


def test_the_picture_as_a_value():
    def told(number: int, name: str, waits: tuple[str, ...], wave: int, state: StepState | None) -> dict[str, object]:
        return {"number": number, "id": name, "waits_for": waits, "wave": wave, "state": state}

    value = to_builtins(picture_result(DIAMOND, run_of(DIAMOND, StepState.PASSED)))
    assert value["waves"] == (("fetch",), ("unit-tests", "type-check"), ("release",))
    assert value["steps"][0] == told(1, "fetch", (), 1, StepState.PASSED)
    assert value["steps"][3] == told(4, "release", ("unit-tests", "type-check"), 3, StepState.PENDING)
    assert to_builtins(picture_result(WITH_FALLBACKS, None))["fallbacks"] == (
        {"id": "undo", "for": ("write",), "for_all": False},
        {"id": "tell", "for": (), "for_all": True},
    )


def test_a_step_of_every_kind_has_a_line():
    lines = list(picture_lines(WITH_FALLBACKS, None, PLAIN))
    assert any("plan of 2 steps: Inside" in line for line in lines)
    assert any("coder: Find out why. …" in line for line in lines)
