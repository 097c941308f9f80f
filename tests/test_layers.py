"""The layer drawing in docs/architecture.md against the real imports, so that the drawing cannot lie; and the files and
names of code that pages for contributors tell of, against those that there are."""

import ast
import functools
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.rows import each
from tests.words import HOME
from tools.measure import trees

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"


@functools.cache
def layers() -> list[tuple[str, tuple[str, ...]]]:
    """Bottom to top: the name of each layer and the modules in it."""
    text = (ROOT / "docs/architecture.md").read_text()
    found = re.search(r"^```layers\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found, "docs/architecture.md has no ```layers drawing"
    drawn = []
    for line in found[1].splitlines():
        name, _, modules = line.partition(":")
        drawn.append((name.strip(), tuple(modules.split())))
    return drawn


@functools.cache
def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(SOURCE.rglob("*.py"))
    }


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    """Every node of a module of the package, parsed once for all tests of layers and style."""
    return list(ast.walk(trees()[str(path.relative_to(SOURCE / "ordain"))]))


@functools.cache
def imports(path: Path) -> set[str]:
    """Every module of ours that a file imports, also inside functions."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ordain"):
            found.add(node.module)
            found |= {
                f"{node.module}.{alias.name}" for alias in node.names if f"{node.module}.{alias.name}" in modules()
            }
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("ordain")}
    return found


def layer_of(module: str) -> int | None:
    levels = [
        level
        for level, (_, prefixes) in enumerate(layers())
        for prefix in prefixes
        if module == prefix or module.startswith(prefix + ".")
    ]
    return levels[0] if levels else None


def test_every_module_has_a_layer():
    packages = {"ordain", "ordain.core", "ordain.interfaces"}
    assert [name for name in modules() if name not in packages and layer_of(name) is None] == []


def test_imports_point_downwards():
    wrong = []
    for name, path in modules().items():
        level = layer_of(name)
        for used in imports(path):
            below = layer_of(used)
            if level is not None and below is not None and below > level:
                wrong.append(f"{name} imports {used}")
    assert wrong == []


PURE = {
    *(
        "__future__",
        "fnmatch",
        "posixpath",
        "shlex",
        "tomllib",
        "bisect",
        "collections",
        "difflib",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "json",
        "math",
    ),
    *("operator", "re", "string", "typing", "unicodedata"),
    *("msgspec", "rfc8785"),
}
"""What the core may import besides itself: nothing here knows a clock, a file, a process, chance or the network."""
IMPURE_BUILTINS = {"open", "print", "input", "exec", "eval", "__import__", "breakpoint"}


def test_core_imports_only_itself_and_pure_modules():
    for name, path in modules().items():
        if not name.startswith("ordain.core."):
            continue
        assert all(used.startswith("ordain.core") for used in imports(path)), name
        for node in nodes(path):
            used = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            if isinstance(node, ast.ImportFrom):
                used = {node.module or ""}
            used = {module.split(".")[0] for module in used} - {"ordain"}
            assert used <= PURE, f"{name} imports {used - PURE}"
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
            assert called not in IMPURE_BUILTINS, f"{name} calls {called}"


NEVER = {
    "ordain.core.run": ("ordain.core.lint",),
    "ordain.core.lineage": ("ordain.core.lint",),
    "ordain.core.task": ("ordain.core.lint",),
    "ordain.ports": ("ordain.documents",),
    "ordain.records": ("ordain.adapters",),
    "ordain.engine": ("ordain.adapters",),
    "ordain.app": ("ordain.adapters",),
    "ordain.interfaces": ("ordain.adapters",),
}
"""What rooms must not import though it is above them; docs/architecture.md says the same."""


def test_rooms_that_may_use_less_than_the_drawing_do():
    wrong = [
        f"{name} imports {used}"
        for name, path in modules().items()
        for room, forbidden in NEVER.items()
        if name.startswith(f"{room}.")
        for used in imports(path)
        if used.startswith(tuple(f"{one}." for one in forbidden))
    ]
    assert wrong == []


def loaded_at_once(path: Path) -> set[str]:
    """What a module imports when it is itself imported: not inside functions, not for type checking."""
    found: set[str] = set()
    for node in trees()[str(path.relative_to(SOURCE / "ordain"))].body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ordain"):
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & modules().keys()
            found |= inner or {node.module}
    return found & modules().keys()


def test_no_modules_import_each_other_in_a_ring():
    wanted = {name: loaded_at_once(path) - {name} for name, path in modules().items()}
    while free := [name for name, uses in wanted.items() if not uses & wanted.keys()]:
        for name in free:
            del wanted[name]
    assert wanted == {}


def test_no_command_imports_another():
    commands = {name: path for name, path in modules().items() if name.startswith("ordain.interfaces.cli.cmd_")}
    assert commands
    for name, path in commands.items():
        others = imports(path) & commands.keys() - {name}
        assert not others, f"{name} imports {others}: what commands share is in `session`, `terminal` or beside them"


def test_the_root_holds_the_entry_and_the_public_names_only():
    found = {path.name for path in (SOURCE / "ordain").glob("*.py")}
    assert found == {"__init__.py", "__main__.py"}


def test_importing_ordain_is_cheap():
    import subprocess
    import sys

    code = "import sys, ordain; print([m for m in ('msgspec', 'apsw', 'asyncio', 'click', 'yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("words", [["--version"], ["robot", "--help"], ["lint", "-"], ["mcp", "--help"]])
def test_a_command_loads_no_library_of_an_extra_that_it_does_not_use_and_nothing_that_starts_agents(
    tmp_path: Path, words: list[str]
):
    import os
    import subprocess
    import sys

    code = (
        "import atexit, sys; from ordain.interfaces.cli.main import main\n"
        "acting = ('ordain.app.beyond', 'ordain.assemble.adapters')\n"
        "extras = ('anyio', 'mcp', 'mcp_types', 'pydantic', 'starlette', 'toons', 'uvicorn')\n"
        "agents = lambda one: one.startswith('ordain.adapters.agents.') and one[23:] != 'local'\n"
        "needless = lambda one: one in extras + acting or agents(one)\n"
        "atexit.register(lambda: print(list(filter(needless, sys.modules)), file=sys.stderr))\n"
        f"main({words!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="# Look\n\n1. `true`\n",
        cwd=tmp_path,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "[]")


# --- What tests import -----------------------------------------------------------------------------------------------

UNITS = ("core", "documents", "twins")
TWICE = {"Message", "PER_HOUR", "Send", "main"}
"""Names that two modules have; the facade knows one of them."""


def deep_imports(path: Path) -> list[str]:
    """What a test takes from a module of ours. A module itself is for patching; a private name has no better place."""
    if "from ordain." not in (text := path.read_text()):
        return []
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}: {alias.name} of {node.module}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ordain.")
        for alias in node.names
        if f"{node.module}.{alias.name}" not in modules() and not alias.name.startswith("_")
    ]


def test_tests_import_from_the_facade() -> None:
    """A module can move then, and only tests/words.py moves with it."""
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path.parts[len(ROOT.parts) + 1] not in UNITS]
    deep = [found for path in tests if path.name != "words.py" for found in deep_imports(path)]
    names = [one for one in deep if one.split(": ")[1].split(" of ")[0] not in TWICE]
    assert not names, "import these from tests.words, and add them there:\n" + "\n".join(names)


def test_the_facade_finds_every_name() -> None:
    gone = [f"tests/words.py: no `{name}` in {home}; write where it is now" for name, home in HOME.items()
            if find_spec(home) is None or not hasattr(import_module(home), name)]  # fmt: skip
    assert not gone, "\n".join(gone)


# --- Pages for contributors ------------------------------------------------------------------------------------------

PAGES = ("AGENTS.md", "CONTRIBUTING.md", "README.md", "docs/architecture.md", "docs/style.md")
FOR_USERS = ("SECURITY.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
OTHERS = {"ordain.toml", "tidy.plan.md", "src/helper.py", "tests/helper.py"}
"""Files of users."""


def spans(page: str) -> list[tuple[int, str, str]]:
    """What stands between backticks: its line, what comes before it there, and itself. Blocks of code are left out."""
    found, fenced = [], False
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        fenced ^= line.startswith("```")
        if not fenced:
            found += [(number, line[: one.start()], one[1]) for one in re.finditer(r"(?<!`)`([^`]+)`(?!`)", line)]
    return found


def place_of(path: str) -> Path | None:
    """A file or folder by its name from the root of the repository or of the package."""
    return next((one for one in (ROOT / path, SOURCE / "ordain" / path) if one.exists()), None)


def is_in_a_room(name: str) -> bool:
    room, deeper, _ = name.partition("/")
    return bool(room and deeper) and re.fullmatch(r"\w[\w./-]+", name) is not None and place_of(room) is not None


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    stale = [
        f"{page}:{number}: no `{name}`; write where it is now, from the root or from src/ordain"
        for number, _, name in spans(page)
        if re.fullmatch(r"[\w./-]+\.(py|toml|md|json|txt|lock)|[a-z][\w./-]*/", name) or is_in_a_room(name)
        if name not in OTHERS and "NAME" not in name and place_of(name) is None
    ]
    assert not stale, "\n".join(stale)


@each("page", sorted({*FOR_USERS} - {*PAGES}))
def test_every_file_of_ours_that_a_page_for_users_names_is_there(page: str) -> None:
    stale = [
        f"{page}:{number}: no `{name}`; write where it is now"
        for number, _, name in spans(page)
        if re.fullmatch(r"[\w.-]+/[\w./-]+\.py", name) and name not in OTHERS and place_of(name) is None
    ]
    assert not stale, "\n".join(stale)


@functools.cache
def words_of_the_code() -> frozenset[str]:
    """Every word of the code; of those with a capital only what is defined."""
    text = "\n".join(path.read_text() for name in ("src", "tests", "tools") for path in (ROOT / name).rglob("*.py"))
    defined = re.findall(r"^\s*class (\w+)|^(\w+)(?:: [^=\n]+)? = ", text, re.MULTILINE)
    plain = {word for word in re.findall(r"\w+", text) if not re.match(r"[A-Z][a-z]", word)}
    return frozenset(plain.union(*defined))


def test_every_name_of_code_in_the_architecture_is_there() -> None:
    """A function or class by its name; one with a file behind it (`name` (`file.py`)) is in that file."""
    page, stale = "docs/architecture.md", []
    for number, around, name in spans(page):
        missing = [word for word in name.split(".") if word not in words_of_the_code()]
        if re.fullmatch(r"[A-Za-z_][\w.]*", name) and place_of(name) is None and name not in OTHERS and missing:
            stale.append(f"{page}:{number}: no code has `{name}`")
        path = place_of(name) if name.endswith(".py") else None
        behind = re.search(r"`([A-Za-z_][\w.]*)` \($", around)
        if path is not None and behind and behind[1].rpartition(".")[2] not in re.findall(r"\w+", path.read_text()):
            stale.append(f"{page}:{number}: `{behind[1]}` is not in `{name}`")
    assert not stale, "\n".join(stale)
