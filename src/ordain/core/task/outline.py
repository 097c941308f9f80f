"""The outline of a workspace that a planner is given: names, git's state, build commands, heads of a few files.

Secrets are taken out before anything is cut, a name is one line whatever stands in it, and the whole is bounded. All of
it was written by others: who shows it fences it in.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ordain.core.text.pattern import compile_later
from ordain.core.text.redaction import Redactor

OUTLINE_MAX = 24_000
"""How many characters an outline has at most."""
INSTRUCTIONS_BYTES_MAX = 6_000
"""How much of each instruction file is shown."""
MATCHES_MAX = 40
_README_BYTES_MAX, _NESTED_README_BYTES_MAX = 3_000, 400
_NESTED_READMES_MAX = 3
_MANIFEST_BYTES_MAX = 32 << 10
_MANIFESTS_MAX = 12
_NAMES_MAX = 150
"""Up to so many files are all named; of more, directories are counted."""
_DIRECTORIES_MAX, _TOP_FILES_MAX, _LANGUAGES_MAX, _CHANGED_MAX, _COMMANDS_MAX = 60, 30, 8, 30, 24
_NAME_MAX = 200
_NEW_LINE = "\n"
_WORDS_MAX = 24

_INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md")
_README = compile_later(r"(?:(?P<above>[^/]+)/)?readme(?:\.(?:md|rst|txt|adoc))?", re.IGNORECASE)
_MANIFESTS = (
    *("package.json", "pyproject.toml", "Makefile", "justfile", "tox.ini", "noxfile.py", "Cargo.toml", "go.mod"),
    *("setup.py", "requirements.txt", "pom.xml", "build.gradle", "build.gradle.kts", "CMakeLists.txt", "Gemfile"),
    *("composer.json", "mix.exs", "deno.json", "Dockerfile"),
)
_LANGUAGES = dict(
    (
        *(("py", "Python"), ("pyi", "Python"), ("js", "JavaScript"), ("mjs", "JavaScript"), ("cjs", "JavaScript")),
        *(("jsx", "JavaScript"), ("ts", "TypeScript"), ("tsx", "TypeScript"), ("go", "Go"), ("rs", "Rust")),
        *(("java", "Java"), ("kt", "Kotlin"), ("c", "C"), ("h", "C"), ("cc", "C++"), ("cpp", "C++"), ("hpp", "C++")),
        *(("cs", "C#"), ("rb", "Ruby"), ("php", "PHP"), ("swift", "Swift"), ("scala", "Scala"), ("ex", "Elixir")),
        *(("exs", "Elixir"), ("sh", "Shell"), ("sql", "SQL"), ("html", "HTML"), ("css", "CSS"), ("vue", "Vue")),
        *(("svelte", "Svelte"), ("md", "Markdown"), ("rst", "reStructuredText"), ("json", "JSON"), ("yaml", "YAML")),
        *(("yml", "YAML"), ("toml", "TOML"), ("tf", "Terraform"), ("lua", "Lua"), ("dart", "Dart")),
    )
)
_CHECKS = ("test", "tests", "check", "lint", "typecheck", "type-check", "build", "format", "fmt", "compile", "verify")
"""What scripts, targets and recipes that build or check are called."""
_TARGET = compile_later(r"^([A-Za-z][\w-]*)[ \t]*:(?![=:])", re.MULTILINE)
_PLAIN_NAME = compile_later(r"[\w.-]+", re.ASCII)
_WORD = compile_later(r"\w{3,}")
_STOP_WORD = compile_later(
    r"add|all|and|any|are|but|can|change|fix|for|from|has|into|its|make|new|not|one|our|remove|that|the|then|this|update"
    r"|use|when|with"
)


class GitState(msgspec.Struct, frozen=True, kw_only=True):
    """Where the work in a repository stands."""

    branch: str = ""
    """Empty where none is checked out."""
    commit: str = ""
    """Empty where there is none yet."""
    subjects: tuple[str, ...] = ()
    """First lines of the last commits, the newest first."""
    changed: tuple[tuple[str, str], ...] = ()
    """What is not committed: how git's short status calls it, and the path."""


class FileList(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a workspace by name, as git counts them; where there is no git, as they lie there."""

    paths: tuple[str, ...] = ()
    """Sorted. A name that is not UTF-8 stands here in escaped form."""
    whole: bool = True
    """Whether these are all."""
    git: GitState | None = None


class _OutlinePart(NamedTuple):
    """One part: its name, in our words; its text; how many characters of that are shown."""

    name: str
    text: str
    most: int = 4_000


Read = Callable[[str, int], str]
"""The beginning of a text file, so many bytes of it at most, without the secrets in it; nothing where it cannot or must
not be read."""


def write_outline(listing: FileList, read: Read, goal: str, redactor: Redactor) -> tuple[tuple[str, str], ...]:
    """The parts by name, those of most use to a planner first, until there is no more room."""
    parts, room = [], OUTLINE_MAX
    for part in _parts(listing, read, goal):
        # Heads had their secrets taken out before they were cut; names and subjects have them still.
        text = redactor.text(part.text).rstrip()
        most = min(part.most, room - len(part.name))
        if len(text) > most:
            text = f"{text[: max(most - 2, 0)].rpartition(_NEW_LINE)[0]}{_NEW_LINE}…"
        if text.strip("…\n ") and len(text) <= most:
            parts.append((part.name, text))
            room -= len(part.name) + len(text)
    return tuple(parts)


def _parts(listing: FileList, read: Read, goal: str) -> Iterator[_OutlinePart]:
    paths = listing.paths
    more = "" if listing.whole else "more than "
    yield _OutlinePart("files", "\n".join((f"{more}{len(paths):,} files", *_tree(paths))))
    numbers = ", ".join(f"{name} {number:,}" for name, number in _languages(paths))
    yield _OutlinePart("languages, by number of files", numbers)
    if listing.git is not None:
        yield _OutlinePart("git", "\n".join(_git(listing.git)))
    found = (path for path in paths if path.rpartition("/")[2] in _MANIFESTS and path.count("/") <= 2)
    manifests = sorted(found, key=lambda path: (path.count("/"), path))[:_MANIFESTS_MAX]
    texts = {path: read(path, _MANIFEST_BYTES_MAX) for path in manifests}
    yield _OutlinePart("manifests", "\n".join(_shown(path) for path in manifests))
    commands = list(dict.fromkeys(_commands(texts, frozenset(paths))))[:_COMMANDS_MAX]
    yield _OutlinePart("commands that build and check, as far as manifests tell; nobody ran them", "\n".join(commands))
    if len(paths) > _NAMES_MAX:
        yield _OutlinePart("paths that words of the goal occur in", "\n".join(map(_shown, _matching(paths, goal))))
    readmes = sorted(filter(_README.fullmatch, paths), key=lambda path: (path.count("/"), path))
    there, known = frozenset(paths), set[str]()
    heads = [(path, _README_BYTES_MAX) for path in readmes[:1] if "/" not in path]
    for path, most in (*heads, *((path, INSTRUCTIONS_BYTES_MAX) for path in _INSTRUCTIONS if path in there)):
        text = read(path, most)
        if text not in known:  # one is often a copy of another
            known.add(text)
            yield _OutlinePart(path, text, most)
    nested = [path for path in readmes if "/" in path][:_NESTED_READMES_MAX]
    begun = (f"{_shown(path)}:\n{read(path, _NESTED_README_BYTES_MAX)}" for path in nested)
    yield _OutlinePart("beginnings of other READMEs", "\n\n".join(begun))


def _shown(path: str) -> str:
    """A path on a line of its own, whatever stands in it."""
    line = path if path.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in path)
    return line if len(line) <= _NAME_MAX else f"{line[:_NAME_MAX]}…"


def _tree(paths: Sequence[str]) -> Iterator[str]:
    """All names where those are few; else how many files each directory holds, breadth first."""
    if len(paths) <= _NAMES_MAX:
        yield from map(_shown, paths)
        return
    counts = Counter[str]()
    for path in paths:
        parts = path.split("/")[:-1]
        counts.update("/".join(parts[:depth]) for depth in range(1, min(len(parts), 4) + 1))
    top = [path for path in paths if "/" not in path]
    yield from (_shown(path) for path in top[:_TOP_FILES_MAX])
    if len(top) > _TOP_FILES_MAX:
        yield f"… and {len(top) - _TOP_FILES_MAX:,} more files"
    # The first two levels in order; of those below, the largest.
    order = sorted(counts, key=lambda name: (name.count("/"), -counts[name], name))
    for name in order[:_DIRECTORIES_MAX]:
        yield f"{_shown(name)}/ {counts[name]:,}"
    if len(order) > _DIRECTORIES_MAX:
        yield f"… and {len(order) - _DIRECTORIES_MAX:,} more directories"


def _languages(paths: Sequence[str]) -> list[tuple[str, int]]:
    suffixes = Counter(path.rpartition("/")[2].rpartition(".")[2].lower() for path in paths)
    counts = Counter[str]()
    for suffix, number in suffixes.items():
        if suffix in _LANGUAGES:
            counts[_LANGUAGES[suffix]] += number
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:_LANGUAGES_MAX]


def _git(git: GitState) -> Iterator[str]:
    yield f"branch: {_shown(git.branch) or 'none'}; commit: {git.commit[:12] or 'none yet'}"
    yield f"not committed: {len(git.changed) or 'nothing'}"
    yield from (f"{what} {_shown(path)}" for what, path in git.changed[:_CHANGED_MAX])
    if len(git.changed) > _CHANGED_MAX:
        yield "…"
    if git.subjects:
        yield "last commits:"
        yield from (f"- {_shown(' '.join(subject.split()))}" for subject in git.subjects)


def _matching(paths: Sequence[str], goal: str) -> list[str]:
    """The paths in which most words of the goal occur."""
    words = [word for word in dict.fromkeys(_WORD.findall(goal.casefold())) if not _STOP_WORD.fullmatch(word)][
        :_WORDS_MAX
    ]
    stems = [word[:-1] if len(word) > 4 and word.endswith("s") else word for word in words]
    scored = []
    for path in paths:
        name = path.casefold()
        base = name.rpartition("/")[2]
        if score := sum(stem in name for stem in stems):
            scored.append((-score, -sum(stem in base for stem in stems), path.count("/"), path))
    return [path for *_, path in sorted(scored)[:MATCHES_MAX]]


# --- Commands --------------------------------------------------------------------------------------------------------


def _commands(texts: Mapping[str, str], paths: frozenset[str]) -> Iterator[str]:
    """The commands that manifests speak of. Only names of a known form become part of one."""
    for path, text in texts.items():
        above, slash, name = path.rpartition("/")
        if not all(map(_PLAIN_NAME.fullmatch, above.split("/"))) and slash:
            continue
        begin = f"cd {above} && " if slash else ""
        for command in _commands_of(name, text, above + slash, paths):
            yield begin + command


def _commands_of(name: str, text: str, above: str, paths: frozenset[str]) -> Iterator[str]:
    match name:
        case "package.json":
            locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
            manager = next((one for lock, one in locks.items() if above + lock in paths), "npm")
            scripts = _table(json.loads, text, "scripts")
            yield from (f"{manager} run {script}" for script in scripts if _is_check(script))
        case "pyproject.toml":
            tools = _table(tomllib.loads, text, "tool")
            commands = {"pytest": "pytest", "ruff": "ruff check .", "mypy": "mypy .", "tox": "tox"}
            yield from (command for tool, command in commands.items() if tool in tools)
        case "Makefile" | "justfile":
            program = "make" if name == "Makefile" else "just"
            yield from (f"{program} {target}" for target in _TARGET.findall(text) if _is_check(target))
        case _:
            yield from _PROGRAMS.get(name, ())


_PROGRAMS = {
    "tox.ini": ("tox",),
    "noxfile.py": ("nox",),
    "Cargo.toml": ("cargo build", "cargo test"),
    "go.mod": ("go build ./...", "go vet ./...", "go test ./..."),
    "pom.xml": ("mvn test",),
    "build.gradle": ("gradle test",),
    "build.gradle.kts": ("gradle test",),
    "mix.exs": ("mix test",),
}


def _is_check(name: str) -> bool:
    """Whether a script or target of this name builds or checks, and can stand in a command as it is."""
    plain = re.fullmatch(r"[A-Za-z][\w:.-]{0,40}", name, re.ASCII) is not None
    return plain and any(part in _CHECKS for part in (name, *re.split(r"[:._-]", name)))


def _table(read: Callable[[str], Any], text: str, name: str) -> Mapping[str, Any]:
    try:
        tree = read(text)
    except (ValueError, RecursionError):
        return {}
    found = tree.get(name) if isinstance(tree, dict) else None
    return found if isinstance(found, dict) else {}
