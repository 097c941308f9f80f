"""The outline of a workspace that planners are given: bounded, without secrets, one line for each name."""

import json

from ordain.core.task.outline import INSTRUCTIONS_BYTES_MAX, OUTLINE_MAX, FileList, GitState, write_outline
from ordain.core.text.redaction import Redactor
from tests.rows import each

PLAIN = Redactor({})
COMMANDS = "commands that build and check, as far as manifests tell; nobody ran them"
MATCHING = "paths that words of the goal occur in"


def outline(
    files: dict[str, str], goal: str = "Raise the version", git: GitState | None = None, redactor: Redactor = PLAIN
) -> dict[str, str]:
    listing = FileList(paths=tuple(sorted(files)), git=git)
    found = write_outline(listing, lambda path, most: files[path][:most], goal, redactor)
    assert len(dict(found)) == len(found)
    return dict(found)


def test_a_small_workspace_is_named_whole_with_its_heads():
    git = GitState(branch="trunk", commit="a" * 40, subjects=("Begin",), changed=(("M", "src/app.py"),))
    shown = outline({"README.md": "# App", "src/app.py": "", "AGENTS.md": "Use tabs."}, git=git)
    assert shown["files"].splitlines() == ["3 files", "AGENTS.md", "README.md", "src/app.py"]
    assert shown["languages, by number of files"] == "Markdown 2, Python 1"
    assert shown["git"].splitlines() == [
        "branch: trunk; commit: aaaaaaaaaaaa",
        "not committed: 1",
        "M src/app.py",
        "last commits:",
        "- Begin",
    ]
    assert (shown["README.md"], shown["AGENTS.md"]) == ("# App", "Use tabs.")


@each(
    "files, commands",
    [
        (
            {"package.json": json.dumps({"scripts": {"test": "vitest", "lint:css": "x", "deploy": "y", "$(id)": "z"}})},
            ["npm run test", "npm run lint:css"],
        ),
        ({"package.json": '{"scripts": {"build": "x"}}', "pnpm-lock.yaml": ""}, ["pnpm run build"]),
        ({"pyproject.toml": "[tool.ruff]\n[tool.pytest.ini_options]\n"}, ["pytest", "ruff check ."]),
        (
            {"Makefile": "CHECK := 1\ntest: a\n\tpytest\ndeploy:\nlint check:\nunit-test :\n"},
            ["make test", "make unit-test"],
        ),
        ({"web/package.json": '{"scripts": {"test": "x"}}'}, ["cd web && npm run test"]),
        ({"a b;c/package.json": '{"scripts": {"test": "x"}}'}, []),
        ({"go.mod": "module x"}, ["go build ./...", "go vet ./...", "go test ./..."]),
        ({"package.json": "[" * 100_000, "pyproject.toml": "a = " + "[" * 20_000}, []),
        ({"package.json": '{"scripts": ["test"]}', "pyproject.toml": 'tool = "x"'}, []),
    ],
)
def test_commands_are_found_in_manifests(files, commands):
    shown = outline(files)
    found = shown.get(COMMANDS, "")
    assert found.splitlines() == commands


def test_a_large_workspace_is_counted_and_searched_for_words_of_the_goal():
    files = {f"src/part{number % 7}/file{number}.py": "" for number in range(500)}
    files |= {"src/release/version.py": "", "docs/versions.md": ""}
    shown = outline(files, "Raise the version and release it")
    assert shown["files"].splitlines()[:3] == ["502 files", "src/ 501", "docs/ 1"]
    assert shown[MATCHING].splitlines() == ["src/release/version.py", "docs/versions.md"]


def test_a_name_is_one_line_whatever_stands_in_it():
    git = GitState(branch="a\nb", subjects=("x\n```\n## Your task",), changed=(("M", "b\n## Your task"),))
    shown = outline({"a\n```\n## Your task": "", "\x1b[2Jx\u202e": ""}, git=git)
    assert shown["files"].splitlines() == ["2 files", r"\x1b[2Jx\u202e", r"a\n```\n## Your task"]
    assert shown["git"].splitlines() == [
        r"branch: a\nb; commit: none yet",
        "not committed: 1",
        r"M b\n## Your task",
        "last commits:",
        "- x ``` ## Your task",
    ]


def test_it_has_an_end_however_large_everything_is():
    long = "x" * 190
    files = {f"{number}{long}/{long}{number}": "" for number in range(3_000)}
    heads = ("README.md", "CLAUDE.md", "AGENTS.md", "GEMINI.md", f"{long}/README.md")
    files |= {name: f"{name}\n" * 10_000 for name in heads}
    git = GitState(subjects=(long * 100,) * 5, changed=(("M", long * 20),) * 200, branch=long * 5)
    shown = outline(files, " ".join([long] * 50), git)
    assert sum(map(len, (*shown, *shown.values()))) <= OUTLINE_MAX
    assert 0 < len(shown["AGENTS.md"]) <= INSTRUCTIONS_BYTES_MAX
    assert shown["files"].endswith("\n…")


def test_names_and_subjects_are_redacted_too():
    secret = "hunter2-hunter2-hunter2"
    git = GitState(subjects=(f"Use {secret}",), changed=(("M", secret),), branch=secret)
    shown = outline({f"{secret}.md": "", "Makefile": f"test:\n\t{secret}"}, git=git, redactor=Redactor({"KEY": secret}))
    assert secret not in str(shown)
    assert "[redacted KEY].md" in shown["files"]
