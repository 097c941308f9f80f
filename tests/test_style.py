"""The measurable part of docs/style.md."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from tools.measure import class_names, local_imports, long_functions, long_modules, pairs, trees, wide_constructors

ROOT = Path(__file__).parent.parent
NOUNS = {
    *("Finding", "Heading", "Spending", "Ruling", "Pairing", "Sighting", "Setting", "Remaining", "Missing"),
    *("Keyring", "FileKeyring", "SecretMissing", "AttemptWaiting", "_Nothing"),
    *("CallStanding", "PlanStanding", "_Listing"),
}
"""Classes that end in -ing and are nouns, or say how something is. It may only shrink."""
NOUN_MODULES = {
    *("loading.py", "pairing.py", "reading.py", "ruling.py", "sealing.py", "sighting.py"),
    "spending.py",
}
OTHERS_WORDS = ("manager", "helper", "util", "info")

LONG_MODULES: set[str] = set()
"""Modules over 600 lines. Each of these lists may only shrink: take off what you have made smaller."""
LONG_FUNCTIONS = {
    "core/run/state.py:_apply_to_step",
}
"""Functions over 80 lines; the one that stays is the table of `apply`."""
LOCAL_IMPORTS_MAX = 29
"""How many imports of ours may be inside functions: fewer than 30. Lower it when you have removed some."""


def test_every_class_has_a_name_of_its_own():
    assert [name for name, count in class_names(trees()).items() if count > 1] == []


def test_classes_and_modules_are_nouns():
    modules = trees()
    classes = {name for name in class_names(modules) if name.endswith("ing")}
    assert classes == NOUNS & classes, f"name these by what they are: {sorted(classes - NOUNS)}"
    assert classes >= NOUNS, f"take these off the list: {sorted(NOUNS - classes)}"
    files = {Path(name).name for name in modules if name.endswith("ing.py")}
    assert files == NOUN_MODULES, files ^ NOUN_MODULES


def test_nothing_is_called_by_a_word_that_says_nothing():
    modules = trees()
    named = {Path(name).stem for name in modules} | set(class_names(modules))
    assert [name for name in named for word in OTHERS_WORDS if word in name.lower().split("_")] == []


def test_only_the_root_says_what_is_public():
    found = {
        name
        for name, tree in trees().items()
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets)
    }
    assert found == {"__init__.py"}


def test_packages_are_entered_by_their_modules():
    for name, tree in trees().items():
        if name.endswith("/__init__.py"):
            assert all(isinstance(node, ast.Expr) for node in tree.body), f"{name} holds more than a docstring"


def test_no_module_is_too_long():
    assert set(long_modules()) == LONG_MODULES, f"over 600 lines: {long_modules()}"


def test_no_function_is_too_long():
    assert set(long_functions(trees())) == LONG_FUNCTIONS, f"over 80 lines: {long_functions(trees())}"


def test_no_constructor_takes_too_much():
    assert wide_constructors(trees()) == {}, "more than 12 parameters; hand over one value"


def test_few_imports_stand_inside_functions():
    assert local_imports(trees()) <= LOCAL_IMPORTS_MAX


NAMED = {
    ("core/lineage/ask.py", "Ask"),
    ("core/lineage/decision.py", "Ask"),
    ("core/lint/content.py", "Ask"),
    ("core/lint/content.py", "NestedPlan"),
    ("core/plan/canonical.py", "NestedPlan"),
    ("core/plan/template.py", "NestedPlan"),
    ("interfaces/view/frame.py", "Ask"),
    ("interfaces/view/picture.py", "Ask"),
    ("interfaces/view/picture.py", "NestedPlan"),
    ("interfaces/view/preview.py", "Ask"),
    ("interfaces/view/preview.py", "NestedPlan"),
}
"""Who names an action class outside of `core/plan/action`, `engine/perform` and the union in `core/plan/model`. May
only shrink: ask for a role, for what an `about` says, or `nested_plan_of`. `run`, `tool` and `task` are not counted:
they have machinery of their own (shell, toolbox, agents)."""


def test_hardly_anybody_names_an_action() -> None:
    found = pairs(trees())
    assert sorted(found - NAMED) == [], "These modules name an action; ask for a role or an `about` instead."
    assert sorted(NAMED - found) == [], "These are gone; take them off the list."
    assert len(NAMED) <= 12


# --- Tests that survive a move ---------------------------------------------------------------------------------------

PRIVATE_USES_MAX = 17
"""How often a test reaches for a private name of ours. Use a port, a twin or public behaviour, and lower it."""
PATCHES_MAX = 84
"""How often a test replaces something inside our modules. What injects a fault of the system itself is not counted."""
NAMED_TUPLES = {"_replace", "_asdict", "_fields"}
MAY_REACH_IN = re.compile(r"(?<!\bself)(?<!\bcls)\._[a-zA-Z]|setattr|\bpatch\.")


@cache
def nodes_of_tests() -> list[tuple[str, ast.Attribute | ast.Call]]:
    """Attributes and calls in the tests that may be either; a file is parsed only where its text has one."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if MAY_REACH_IN.search(text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute | ast.Call)
    ]


def is_of_the_system(target: ast.expr) -> bool:
    """Whether what is reached for belongs to Python and not to us: `os`, `asyncio.Task`, or `bash.time`."""
    while isinstance(target, ast.Call):
        target = target.func
    named = ast.unparse(target).split(".")
    return bool({named[0], named[-1]} & (sys.stdlib_module_names | {"Path"}))


def is_private_use(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in NAMED_TUPLES
        and ast.unparse(node.value) not in ("self", "cls", "super()")
        and not is_of_the_system(node.value)
    )


def is_patch(node: ast.AST) -> bool:
    """`monkeypatch.setattr`, `patch.object` and `patch.multiple` on something of ours."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("setattr", "object", "multiple")
        and bool(node.args)
        and not is_of_the_system(node.args[0])
    )


def test_tests_reach_for_few_private_names():
    found = [where for where, node in nodes_of_tests() if is_private_use(node)]
    assert len(found) == PRIVATE_USES_MAX, "\n".join([f"{len(found)} now, not {PRIVATE_USES_MAX}:", *found])


def test_tests_patch_little_of_ours():
    found = [where for where, node in nodes_of_tests() if is_patch(node)]
    assert len(found) == PATCHES_MAX, "\n".join([f"{len(found)} now, not {PATCHES_MAX}:", *found])


FIXED_WAITS = {
    "adapters/test_bash.py": 1,  # turns of the loop beside a command, counted
    "adapters/test_handlers.py": 1,  # a slow handler
    "adapters/test_python_tools.py": 1,  # a slow tool
    "hostile/test_stop.py": 1,  # meets another stage of starting each time
    "interfaces/test_planted_secrets.py": 1,  # a program that pauses in the middle of a secret
}
"""Sleeps of tests for less than five seconds. `eventually` waits for what must happen, `let_pass` for what must not; a
longer sleep plays something that hangs and is ended by the test."""


def test_no_test_waits_a_fixed_time() -> None:
    found = Counter(
        str(path.relative_to(ROOT / "tests"))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for slept in re.findall(r"\b(?:time|asyncio)\.sleep\(([^\n]*)\)", path.read_text())
        if not re.match(r"0(,|$)|[5-9]|\d{2,}", slept)
    )
    assert found - Counter(FIXED_WAITS) == Counter(), "Wait with `eventually` or `let_pass` (tests/patience.py)."
    assert Counter(FIXED_WAITS) - found == Counter(), "These are gone; take them off the list."
