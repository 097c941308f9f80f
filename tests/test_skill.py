"""The skill tells the truth: its good contracts are good, its bad ones are found out, its plans can be proposed, and
everything it names is there."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.patience import PATIENCE_S
from tests.words import (
    PLAN_SURFACE,
    Proposal,
    document_of,
    open_workspace,
    problem_pages,
    skill_body,
    skill_sections,
    skill_text,
)

WORDS_MAX = 2_000


def fenced(info: str) -> str:
    (found,) = re.findall(rf"^(`{{3,}}){info}\n(.*?)^\1$", skill_text(), re.DOTALL | re.MULTILINE)
    text: str = found[1]
    return text


def contracts(kind: str) -> list[tuple[str, str]]:
    """The contracts of one kind, and what is said of each."""
    lines = [line.partition("  # ") for line in fenced(f"shell {kind}").splitlines()]
    return [(contract, said) for contract, _, said in lines]


def codes(document: bytes, tmp_path: Path) -> set[str]:
    """What lint says of a document; which programs are installed here is another matter."""
    return {problem.code for problem in open_workspace(tmp_path).plans.lint(document).problems} - {
        "W_CONTRACT_PROGRAM",
        "W_PROGRAM_MISSING",
    }


def plan_with(contract: str) -> bytes:
    step = {
        "description": "One",
        "action": {"type": "run", "command": "./one.sh"},
        "verification": {"strategy": {"type": "contract", "command": contract}},
    }
    return json.dumps({"title": "One step", "steps": [step]}).encode()


# --- Contracts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "contract", ["git status", "grep -q ok log.txt", 'test "$(this)" = "$(that)"', "test ! -e build"]
)
def test_lint_really_does_not_see_what_the_skill_warns_of_itself(contract: str, tmp_path: Path) -> None:
    assert f"`{contract}`" in skill_text()
    assert codes(plan_with(contract), tmp_path) == set()


def test_a_good_contract_prints_what_it_saw() -> None:
    assert [one for one, _ in contracts("good") if re.search(r" -q| -s |-Fxq|/dev/null", one)] == []


def test_there_are_contracts_of_both_kinds() -> None:
    assert len(contracts("good")) >= 5 and len(contracts("bad")) >= 5
    assert all(said for _, said in [*contracts("good"), *contracts("bad")])


@pytest.mark.parametrize("contract", [contract for contract, _ in contracts("good")])
def test_lint_finds_nothing_wrong_with_a_good_contract(contract: str, tmp_path: Path) -> None:
    assert codes(plan_with(contract), tmp_path) == set()


@pytest.mark.part(of=4)
@pytest.mark.parametrize("contract", [contract for contract, _ in contracts("good")])
def test_a_good_contract_does_not_hold_where_nothing_was_done(contract: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", contract],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode != 0


@pytest.mark.parametrize(("contract", "code"), contracts("bad"))
def test_lint_says_of_a_bad_contract_what_the_skill_says(contract: str, code: str, tmp_path: Path) -> None:
    assert code in codes(plan_with(contract), tmp_path)


# --- Plans ---------------------------------------------------------------------------------------------------------


def test_its_document_can_be_proposed(tmp_path: Path) -> None:
    assert codes(fenced("markdown").encode(), tmp_path) == set()


def test_its_arguments_can_be_proposed_and_are_the_same_plan(tmp_path: Path) -> None:
    document = document_of(msgspec.convert(json.loads(fenced("json")), Proposal))
    assert codes(document, tmp_path) == set()
    app = open_workspace(tmp_path)
    by_arguments, by_document = (app.plans.in_document(data) for data in (document, fenced("markdown").encode()))
    assert by_arguments.plan == by_document.plan
    assert by_arguments.plan_id == by_document.plan_id


# --- Names ---------------------------------------------------------------------------------------------------------


def test_every_code_it_names_is_there() -> None:
    named = set(re.findall(r"\b[EWF]_[A-Z_]+\b", skill_text()))
    assert len(named) >= 10 and named <= problem_pages().keys()


def test_every_tool_it_names_is_there() -> None:
    named = set(re.findall(r"`(plan_\w+|tools_list)`", skill_text()))
    assert named and named <= {tool.name for tool in PLAN_SURFACE.tools}


# --- Form ----------------------------------------------------------------------------------------------------------


def test_it_is_a_skill_that_fits_into_a_window() -> None:
    head, _, body = skill_text().removeprefix("---\n").partition("\n---\n")
    front_matter = yaml.safe_load(head)
    assert front_matter.keys() == {"name", "description"}
    assert front_matter["name"] == "ordain" and len(front_matter["description"]) <= 1_024
    assert len(skill_text().split()) < WORDS_MAX
    assert skill_body() == body.lstrip("\n")


def test_sections_are_given_whole_and_in_the_order_asked_for() -> None:
    both = skill_sections("Honesty", "When to plan")
    assert re.findall(r"^## (.+)$", both, re.MULTILINE) == ["Honesty", "When to plan"]
    first, second = both.split("\n\n## When to plan\n")
    assert first in skill_text() and f"## When to plan\n{second}\n\n## Writing a plan\n" in skill_text()
    assert fenced("markdown") in skill_sections("Writing a plan"), "a heading inside a fence ends no section"
    with pytest.raises(KeyError):
        skill_sections("No such section")
