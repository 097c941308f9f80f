"""What people read, compared with the texts in tests/golden/render. `ORDAIN_WRITE_GOLDEN=1` writes those anew."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from msgspec.structs import replace

from tests.build import plan, step
from tests.interfaces.golden import RENDER, check_golden
from tests.plans import changed, plans, sites
from tests.rows import each
from tests.words import (
    BUILT_IN,
    Base,
    Budget,
    Channel,
    Choice,
    Escalate,
    Evidence,
    Fallback,
    ForEach,
    Instant,
    LintReport,
    LockHeld,
    NestedPlan,
    Parameter,
    PatternMatch,
    Place,
    Plan,
    PlanLine,
    Precondition,
    Principal,
    Problem,
    Question,
    Retry,
    Review,
    RiskSources,
    RunCommand,
    RunId,
    RunReport,
    Settings,
    StepId,
    StepReport,
    StepState,
    Style,
    Task,
    Verdict,
    Verification,
    assignments,
    find_risks,
    instant,
    limits,
    lint_lines,
    plan_from_bytes,
    plan_hash,
    plan_id,
    planned_effects,
    problem_lines,
    review_lines,
    rule,
    run_lines,
    status_lines,
    understanding,
    visible,
)

PLAIN, COLOUR = Style(False), Style(True)

RUN = RunId("RUN-Q5ZKAAAAAAAAAAAA")
LINEAGE = "PLAN-H7TBAAAAAAAAAAAA"

PLAN: Plan = plan(
    step("settings", tool="read_file", args={"path": "config.json"}, needs=()),
    step(
        "write",
        tool="write_file",
        args={"path": "config.new.json", "content": '{\n  "mode": "fast"\n}\n', "mode": 420, "deep": {"a": [1, None]}},
        contract="cmp config.json config.new.json",
        on_failure=Retry(max_attempts=3, initial_delay_ms=1000, backoff_multiplier=2, then=Escalate()),
    ),
    step("suite", run="set -x\npytest -q \\\n  tests/auth", timeout_ms=600_000, idempotent=True, needs=("settings",)),
    step("mail", run="send-mail --to ops", idempotent=False, on_failure=Escalate()),
    title="Fix the timeout ⚠️ (#423)",
    context="Logins time out.\nSee the ticket.",
    on_failure=Retry(max_attempts=2),
    tools=("read_file", "write_file", "shell"),
    concurrency=2,
    timeout_ms=5_400_000,
    tier=0,
    workspace_id="WS-H7TBAAAAAAAAAAAA",
)

EVERYTHING = plan(
    replace(
        step("build", needs=()),
        action=RunCommand(command="make", env={"TARGET": "${params.target}", "PRICE": "$${5}"}),
        when='params.target != ""',
        writes=("build/**",),
    ),
    replace(
        step("think"),
        action=Task(task="Find out why.\nWrite it down.", agent="coder", reads=("file:a.txt", "file:a, b.txt\n- c")),
    ),
    replace(
        step("each", tool="odoo", args={"id": "${item}", "note": "$${item}"}),
        for_each=ForEach(source="${think.output}", max=50),
        preconditions=(LockHeld(lock_name="main"),),
        verification=Verification(strategy=PatternMatch(rule_id="says-ok"), description="It says ok"),
        on_failure=Fallback(steps=("undo",)),
        budget=Budget(tokens=200_000, cost_usd=1.5),
    ),
    replace(step("inner"), action=NestedPlan(plan=plan(step("one", run="a"), step("two", run="b"), title="Inside"))),
    fallbacks=(step("undo", needs=(), run="git checkout ."),),
    params={"target": Parameter(type="string", required=True)},
    protect=("tests/**",),
    task="Everything",
)

DRIFT = Problem(
    code="W_DOC_DRIFT",
    detail="fix.plan.md has changed since it was prepared; what runs is what was prepared.",
    command="ordain prepare fix.plan.md",
)


def review(one: Plan = PLAN, **fields: object) -> Review:
    ruling, identity = rule(one, BUILT_IN, Settings()), plan_id(one)
    values: dict[str, object] = {
        "plan_id": identity,
        "plan_hash": plan_hash(identity),
        "lineage": LINEAGE,
        "status": "proposed",
        "plan": one,
        "requires_approval": ruling.requires_approval,
        "reasons": ruling.reasons,
        "effects": planned_effects(one, BUILT_IN),
        "risks": find_risks(one, RiskSources(BUILT_IN, understanding(Path("/workspace"), Settings()))),
        "tasks": tuple(assignments(one, Settings(), {}, BUILT_IN)),
        "tier": 0,
        "workspace": "/home/kim/shop",
        "base": Base(tools="sha256:tools", config="defaults"),
        "limits": limits(Settings()),
        "document": "fix.plan.md",
        "proposer": Principal(name="kim", channel=Channel.MCP, agent="claude-code 2.1"),
        "notices": (DRIFT,),
    }
    return Review(**(values | fields))  # type: ignore[arg-type]


def test_what_an_agent_calls_itself_stands_in_quotes_and_says_nothing_else() -> None:
    agent = 'claude")\n  Approved by kim (terminal\u202e'
    proposer = Principal(name="kim", channel=Channel.MCP, agent=agent)
    (line,) = (line for line in review_lines(review(proposer=proposer), Style(False)) if "calls itself" in line)
    told = r"""by kim (mcp, calls itself "claude\")\n  Approved by kim (terminal‹U+202E›")"""
    assert line == f"  Lineage: {LINEAGE} (proposed), {told}"


def reported(number: int, state: StepState, evidence: str = "", **fields: object) -> StepReport:
    one = PLAN.steps[number - 1]
    attempts = 0 if state is StepState.PENDING else 1
    values = {"number": number, "id": one.id, "description": one.description, "state": state, "attempts": attempts}
    return StepReport(**(values | {"evidence": evidence} | fields))  # type: ignore[arg-type]


def run(status: str, *steps: StepReport, questions: tuple[Question, ...] = ()) -> RunReport:
    identity = plan_id(PLAN)
    return RunReport(
        run_id=RUN,
        plan_id=identity,
        plan_hash=plan_hash(identity),
        title=PLAN.title,
        status=status,
        steps=steps,
        questions=questions,
        took_ms=95_000,
    )


READ = reported(1, StepState.PASSED, "result observed by Ordain", duration_ms=12)
WROTE = reported(2, StepState.PASSED, "contract held (exit status 0)", duration_ms=1_250, attempts=3)

COMPLETED = run(
    "completed",
    READ,
    WROTE,
    reported(3, StepState.PASSED, "exit status 0, observed by Ordain", duration_ms=90_000),
    reported(4, StepState.PASSED, "unverified: kim said so (happened)", unverified=True, decided_by="kim"),
)

FAILED = run(
    "failed",
    READ,
    WROTE,
    reported(
        3,
        StepState.FAILED,
        "exit status 1",
        duration_ms=3_400,
        error="F_STEP_FAILED",
        output_tail="".join(f"line {n}\n" for n in range(1, 9)) + "\x1b[31mE\x1b[0m assert \x07 1 == 2 " + "=" * 160,
    ),
    reported(4, StepState.CANCELLED),
)

WAITS = run(
    "waiting",
    READ,
    reported(2, StepState.ESCALATED, "contract broken: exit status 1", duration_ms=20, output_tail="differ: byte 1\n"),
    reported(3, StepState.PENDING, waiting="waits for a free place (2 steps run at once)"),
    reported(4, StepState.IN_DOUBT, "it may have been done"),
    questions=(
        Question(
            item=f"{RUN}/write",
            step=StepId("write"),
            attempt=1,
            kind="escalation",
            text="`write` did not succeed. What now?",
            choices=(
                Choice(word="retry", meaning="one more attempt", consequence="It is carried out again."),
                Choice(word="skip", meaning="go on without it", consequence="Nobody looks what it left behind."),
            ),
            detail="exit status 1",
            output_tail="differ: byte 1\n",
        ),
        Question(
            item=f"{RUN}/mail",
            step=StepId("mail"),
            attempt=1,
            kind="doubt",
            text="`mail` was begun, and the executor died before it saw the end. Did it happen?",
            choices=(Choice(word="happened", meaning="its effect is there; go on", consequence="Unverified."),),
        ),
    ),
)

MANY = run(
    "failed",
    *(
        replace(
            reported(1, StepState.PASSED, "exit status 0, observed by Ordain", duration_ms=10 * number),
            number=number,
            id=StepId(f"shard-{number}"),
        )
        for number in range(1, 61)
        if number != 57
    ),
    replace(
        reported(3, StepState.FAILED, "exit status 1", duration_ms=3_400, error="F_STEP_FAILED", output_tail="no\n"),
        number=57,
        id=StepId("shard-57"),
    ),
)

PROBLEMS = (
    Problem(
        code="E_MD_HEADING",
        detail="`### 3. Three` should be number 2.",
        where=Place(file="fix.plan.md", line=9, column=1),
        hints=("Write `### 2. Three`.",),
    ),
    Problem(code="W_CONTRACT_SIGPIPE", detail="…", where=Place(file="fix.plan.md", line=5, step="one")),
    Problem(code="E_PLAN_EXPIRED", detail="Too long ago.", command="ordain prepare fix.plan.md"),
    Problem(
        code="F_STEP_FAILED",
        detail="It printed \x1b]0;evil\x07 and a line\nend",
        where=Place(file="evil\u202egnp.md", line=1),
        hints=("zero\u200bwidth",),
    ),
    Problem(code="B_BUG", detail="KeyError: 'x'"),
)


SEEN = Evidence(
    verdict=Verdict.HELD,
    duration_ms=1200,
    exit_code=0,
    output_tail="3 passed",
    output_bytes=2048,
    output_seal="hmac-sha256:0a",
    command_sha256="sha256:0b",
    env_names=("HOME", "PATH"),
    env_seal="hmac-sha256:0c",
    git_head="0d",
)
VERIFIED = run(
    "failed",
    reported(
        1,
        StepState.PASSED,
        "contract held (exit status 0)",
        meaning="All tests pass",
        seen_before=Evidence(verdict=Verdict.BROKEN, duration_ms=900, exit_code=1, detail="exit status 1"),
        verified=SEEN,
        output_tail=SEEN.output_tail,
    ),
    reported(
        2,
        StepState.FAILED,
        "protected files changed while it was at work, and were put back: `tests/a.py` is gone",
        error="F_CONTRACT_TAMPERED",
        tampered=("`tests/a.py` is gone",),
    ),
)


def plan_line(**fields: Any) -> PlanLine:
    usual: dict[str, Any] = {
        "lineage": LINEAGE,
        "plan_id": plan_id(PLAN),
        "title": PLAN.title,
        "document": "fix.plan.md",
        "proposer": Principal(name="kim", channel=Channel.TERMINAL),
        "opened_at": Instant(1_800_000_000_000),
        "prepared_at": Instant(1_800_000_000_000),
        "changed_at": Instant(1_800_000_060_000),
        "expires_at": Instant(1_800_600_000_000),
        "revisions": 1,
    }
    return PlanLine(**(usual | fields))


LINES = (
    plan_line(status="proposed"),
    plan_line(title="Hidden\u200b title", status="approved"),
    plan_line(status="executing", run=WAITS),
    plan_line(status="completed"),
)

GOOD = LintReport(
    file="fix.plan.md",
    dialect="markdown",
    plan_id=plan_id(PLAN),
    plan_hash=plan_hash(plan_id(PLAN)),
    title=PLAN.title,
    steps=4,
    problems=(PROBLEMS[1],),
)
BAD = LintReport(file=None, problems=PROBLEMS[:2])

TOOLS = plan(
    step("rename", tool="move", args={"path": "old.txt", "to": "new.txt", "overwrite": True}),
    step("clean", tool="delete", args={"path": "build", "recursive": True}),
    step("count", tool="exec", args={"argv": ["wc", "-l", "a b.txt"], "env": {"LC_ALL": "C"}}),
    step("tell", tool="shell", args={"command": "echo done >> log.txt"}),
    step(
        "order",
        tool="http_request",
        args={
            "method": "POST",
            "url": "https://shop.example/orders?dry=1",
            "headers": {"Content-Type": "application/json"},
            "body": '{"item": 1}',
            "status": 201,
        },
    ),
)

READS_ONLY = plan(step("look", tool="list_files", needs=()), tools=())

SHOWN: dict[str, Callable[[], Iterable[str]]] = {
    "preview-quiet": lambda: review_lines(review(), PLAIN, detail="quiet"),
    "preview-normal": lambda: review_lines(review(), PLAIN),
    "preview-verbose": lambda: review_lines(review(), PLAIN, detail="verbose"),
    "preview-draft": lambda: review_lines(review(lineage=None, proposer=None, status="draft", notices=()), PLAIN),
    "preview-reads-only": lambda: review_lines(review(READS_ONLY, document=None, notices=()), PLAIN),
    "preview-with-run": lambda: review_lines(review(run=WAITS, status="executing", notices=()), PLAIN),
    "preview-everything": lambda: review_lines(review(EVERYTHING, notices=()), PLAIN),
    "preview-tools": lambda: review_lines(review(TOOLS, notices=()), PLAIN),
    "preview-colour": lambda: review_lines(review(), COLOUR),
    "run-completed": lambda: run_lines(COMPLETED, PLAIN),
    "run-failed": lambda: run_lines(FAILED, PLAIN),
    "run-failed-colour": lambda: run_lines(FAILED, COLOUR),
    "run-verbose": lambda: run_lines(VERIFIED, PLAIN, verbose=True),
    "run-waiting": lambda: run_lines(WAITS, PLAIN),
    "run-many": lambda: run_lines(MANY, PLAIN),
    "run-many-quiet": lambda: run_lines(MANY, PLAIN, quiet=True),
    "run-stopped": lambda: run_lines(run("stopped", READ, reported(2, StepState.PENDING)), PLAIN),
    "problems": lambda: problem_lines(PROBLEMS, PLAIN),
    "problems-colour": lambda: problem_lines(PROBLEMS, COLOUR),
    "lint": lambda: [*lint_lines(GOOD, PLAIN), *lint_lines(BAD, PLAIN)],
    "status": lambda: status_lines(LINES, "/home/kim/shop", len(LINES), PLAIN),
    "status-empty": lambda: status_lines((), "/home/kim/shop", 0, PLAIN),
}


NOTATIONS = json.loads((RENDER.parent / "notations.json").read_text())


CONDITIONS = {variant.__struct_config__.tag for variant in get_args(Precondition)}


def texts(value: object) -> Iterable[str]:
    """Every text and number somewhere in a value."""
    if isinstance(value, dict):
        in_words = value.get("type") in CONDITIONS
        for key, inner in value.items():
            if (
                (key != "type" or not in_words)
                and key not in ("plan_version", "strategy", "needs")
                and not key.endswith("_ms")
            ):
                yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield from (visible(line).strip() for line in value.split("\n"))
    elif value is not None and not isinstance(value, bool):
        yield f"{value:g}" if isinstance(value, float) else str(value)


@each("name", sorted(NOTATIONS))
def test_an_approver_sees_every_value_of_a_plan(name: str) -> None:
    """Whatever the digest covers is shown, also what this version does not carry out yet."""
    canonical = NOTATIONS[name]["canonical"]
    shown = "\n".join(review_lines(review(plan_from_bytes(canonical.encode())), PLAIN, detail="verbose"))
    quoted = [(text, json.dumps(text, ensure_ascii=False)[1:-1]) for text in texts(json.loads(canonical))]
    missing = [text for text, again in quoted if text not in shown and again not in shown]
    assert missing == []


@each("name", SHOWN)
def test_golden(name: str):
    check_golden(f"{name}.txt", SHOWN[name]())


def test_calls_are_counted_for_the_attempt_that_they_are_of():
    def told(attempts: int) -> str:
        step = reported(3, StepState.FAILED, attempts=attempts, refused=8, calls=1)
        return "\n".join(run_lines(run("failed", step), PLAIN, verbose=True))

    assert "8 calls of its agent; which" in told(1) and "1 time, by its agent\n" in told(1) + "\n"
    assert "8 calls of its agent in its last attempt; which" in told(2)
    assert "1 time, by its agent in its last attempt" in told(2)


def test_no_golden_text_is_left_over():
    assert {file.stem for file in RENDER.glob("*.txt")} == set(SHOWN)


def test_colour_adds_nothing_but_colour():
    coloured = "\n".join(review_lines(review(), COLOUR))
    assert re.sub(r"\x1b\[[0-9]+m", "", coloured) == "\n".join(review_lines(review(), PLAIN))


def test_instants_are_shown_in_utc_wherever_one_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    assert instant(Instant(1_767_225_600_000)) == "2026-01-01 00:00:00 UTC"


# --- visible ---------------------------------------------------------------------------------------------------------

JOINERS = {"\u200c", "\u200d"}
BIDI = {*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)), "\u200e", "\u200f", "\u061c"}
HIDES = st.sampled_from(sorted({"\u200b", "\ufeff", "\u00ad", "\U000e0041", "\ufe0f", "\x1b", "\x9b", *JOINERS, *BIDI}))
TEXTS = st.lists(st.one_of(st.text(), HIDES, st.sampled_from(["a", "س", "👩", "⚠"]))).map("".join)


@given(TEXTS)
def test_nothing_that_steers_a_terminal_is_left(text: str):
    shown = visible(text)
    assert "\x1b" not in shown and not BIDI & set(shown)
    left = {character for character in shown if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert left <= JOINERS
    assert "\n" not in shown
    shown.encode()  # and it can be written anywhere


@given(TEXTS)
def test_joiners_and_styles_stay_only_inside_writing(text: str):
    shown = visible(text)
    for index, character in enumerate(shown):
        if character in JOINERS | {"\ufe0e", "\ufe0f"}:
            before = shown[index - 1 : index]
            assert (before and not before.isascii()) or shown[index + 1 : index + 2] == "\u20e3"
            assert before not in JOINERS


@given(st.text(alphabet=st.characters(codec="ascii", min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_left_alone(text: str):
    assert visible(text) == text


@given(TEXTS, TEXTS)
def test_two_texts_never_look_the_same_because_of_an_escape(one: str, other: str):
    def unescaped(shown: str) -> str:
        return re.sub("‹U\\+([0-9A-F]+)›", lambda found: chr(int(found[1], 16)), shown)

    assert unescaped(visible(one)) == one
    assert (visible(one) == visible(other)) == (one == other)


@pytest.mark.parametrize(
    "text",
    [
        "⚠️ careful",
        "می‌خواهم این برنامه را اجرا کنم",  # Persian, with a zero-width non-joiner in the first word
        "क्‍ष",  # Devanagari, with a zero-width joiner
        "👩‍💻 👩🏽‍🚀 🏳️‍🌈 ❤️‍🔥 1️⃣ ©️ ‼️",
        "שלום עולם",
        "Ünïcödé, ñandú, 日本語, ｆｕｌｌ",
        "nai\u0308ve",
    ],
)
def test_what_people_write_stays_readable(text: str):
    assert visible(text) == text


@each(
    "text, shown",
    [
        ("a\u200bb", "a‹U+200B›b"),
        ("pay\u200cpal", "pay‹U+200C›pal"),
        ("x\u200d", "x‹U+200D›"),
        ("⚠\u200dx", "⚠‹U+200D›x"),
        ("س\u200c", "س‹U+200C›"),
        ("a\ufe0fb", "a‹U+FE0F›b"),
        ("⚠\ufe0f\ufe0f", "⚠️‹U+FE0F›"),
        ("a\U000e0101b", "a‹U+E0101›b"),
        ("a\U000e0041\U000e007f", "a‹U+E0041›‹U+E007F›"),
        ("soft\xadhyphen", "soft‹U+AD›hyphen"),
        ("no\xa0break", "no‹U+A0›break"),
        ("\u3164 \u115f \u2800 \u034f", "‹U+3164› ‹U+115F› ‹U+2800› ‹U+34F›"),
        ("a\u2028b\u2029c\x85d", "a‹U+2028›b‹U+2029›c‹U+85›d"),
        ("\x1b[2J\x9bH\x07\r\b\x00\x7f", "‹U+1B›[2J‹U+9B›H‹U+7›‹U+D›‹U+8›‹U+0›‹U+7F›"),
        ("\u202eevil\u2069", "‹U+202E›evil‹U+2069›"),
        ("\ud800", "‹U+D800›"),
        ("\ue000\U0010ffff", "‹U+E000›‹U+10FFFF›"),
        ("tab\there\nthere ‹", "tab‹U+9›here‹U+A›there ‹U+2039›"),
    ],
)
def test_what_does_not_show_is_shown_escaped(text: str, shown: str):
    assert visible(text) == shown


def shown(one: Plan) -> list[str]:
    """What an approver sees of a plan, but for its id."""
    lines = review_lines(review(one, notices=()), PLAIN, detail="verbose")
    return [line for line in lines if not line.startswith("  ID: ")]


@pytest.mark.slow
@given(plans(nested=1), st.data())
@settings(max_examples=5)
def test_two_plans_never_look_the_same(made: Plan, data: st.DataObject) -> None:
    for site in sites(made):
        other = data.draw(changed(made, site))
        assert (plan_id(made) == plan_id(other)) == (shown(made) == shown(other)), site


class SameDraws(HypothesisProvider):
    """Draws no constants out of those modules of ours that happen to be imported by then."""

    def _maybe_draw_constant(self, *_: Any, **__: Any) -> None:
        return None


AVAILABLE_PROVIDERS["same_draws"] = SameDraws


@pytest.mark.part(of=4)
@pytest.mark.parametrize("name", sorted(NOTATIONS))
@given(data=st.data())
@settings(max_examples=1, backend="same_draws", phases=[Phase.generate])  # to shrink a failure takes minutes
def test_two_plans_of_any_variant_never_look_the_same(name: str, data: st.DataObject) -> None:
    made = plan_from_bytes(NOTATIONS[name]["canonical"].encode())
    for site in sites(made):
        other = data.draw(changed(made, site))
        assert (plan_id(made) == plan_id(other)) == (shown(made) == shown(other)), site
