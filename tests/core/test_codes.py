"""Every code that is used has a page, every page is used, and the generated page is up to date."""

import re
import subprocess
import sys
from pathlib import Path

from ordain.core.text.problem import Problem, Severity
from ordain.interfaces.view.problem import problem_pages

ROOT = Path(__file__).parent.parent.parent


def used() -> set[str]:
    texts = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    return {code for text in texts for code in re.findall(r'"([EWFB]_[A-Z][A-Z_]+)"', text)}


def test_codes_and_pages_are_the_same_set():
    assert used() == set(problem_pages())


def test_every_page_says_something_in_whole_sentences():
    for code, page in problem_pages().items():
        assert not page.summary.endswith("."), code
        assert page.meaning.endswith("."), code
        assert page.remedy, code


def test_severity_comes_from_the_first_letter():
    severities = {Problem(code=code, detail="").severity for code in ("W_X", "E_X", "F_X", "B_X")}
    assert severities == set(Severity)


def test_the_generated_page_is_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "tools/make_docs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_code_appears_in_a_test():
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    named = {code for text in texts for code in re.findall(r"\b[EWFB]_[A-Z][A-Z_]+\b", text)}
    assert sorted(set(problem_pages()) - named) == [], "no test names these"
