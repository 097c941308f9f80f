"""Measure the house: lines by room, sizes, names that exist twice, modules that name actions, rings. Never fails.

make measure
"""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ordain"
EVERYWHERE = ("RunCommand", "CallTool", "Task")
"""Actions with machinery of their own, which may be named where that is."""
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 80
PARAMETERS_MAX = 12
"""Of a constructor."""


@cache
def trees() -> dict[str, ast.Module]:
    """Every module by its path beneath the package."""
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def room_of(name: str) -> str:
    parts = name.split("/")
    deep = parts[0] in ("core", "interfaces") and len(parts) > 2
    return "/".join(parts[: 2 if deep else 1]) if len(parts) > 1 else "(root)"


def class_names(modules: dict[str, ast.Module]) -> Counter[str]:
    return Counter(node.name for tree in modules.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def actions() -> set[str]:
    """The classes of the union `Action`."""
    declared = trees()["core/plan/action.py"].body
    return {node.name for node in declared if isinstance(node, ast.ClassDef)} | {"NestedPlan"}


def pairs(modules: dict[str, ast.Module]) -> set[tuple[str, str]]:
    """Modules outside the declarations and the performers, each with an action class that it names."""
    known = actions() - set(EVERYWHERE)
    homes = ("core/plan/action", "core/plan/model.py", "engine/perform")
    return {
        (name, found)
        for name, tree in modules.items()
        if not name.startswith(homes)
        for node in ast.walk(tree)
        for found in _names(node)
        if found in known
    }


def _names(node: ast.AST) -> list[str]:
    """What a node of a module names: also by an import under another name, or as a part of another module."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [name]
        case ast.ImportFrom(names=names):
            return [alias.name for alias in names]
    return []


def rings(modules: dict[str, ast.Module]) -> list[str]:
    """Modules that cannot be imported in any order, imports inside functions left out."""
    dotted = {"ordain." + name.removesuffix(".py").replace("/", "."): tree for name, tree in modules.items()}
    wanted = {
        name: {
            used
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module
            for used in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
            if used in dotted and used != name
        }
        for name, tree in dotted.items()
    }
    while free := [name for name, uses in wanted.items() if not uses & wanted.keys()]:
        for name in free:
            del wanted[name]
    return sorted(wanted)


def sizes() -> dict[str, int]:
    """The lines of every module."""
    return {name: len((SOURCE / name).read_text().splitlines()) for name in trees()}


def functions(modules: dict[str, ast.Module]) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, by its module and its own name with that of its class."""
    found = {}

    def walk(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                found[f"{name}{child.name}"] = child
            own = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            walk(child, f"{name}{child.name}." if own else name)

    for module, tree in modules.items():
        walk(tree, f"{module}:")
    return found


def long_modules() -> dict[str, int]:
    return {name: size for name, size in sizes().items() if size > MODULE_LINES_MAX}


def long_functions(modules: dict[str, ast.Module]) -> dict[str, int]:
    lines = {name: (node.end_lineno or 0) - node.lineno + 1 for name, node in functions(modules).items()}
    return {name: size for name, size in lines.items() if size > FUNCTION_LINES_MAX}


def wide_constructors(modules: dict[str, ast.Module]) -> dict[str, int]:
    """Constructors with too many parameters, and how many they have."""
    made = {name: node.args for name, node in functions(modules).items() if name.endswith(".__init__")}
    counts = {name: len((*args.posonlyargs, *args.args[1:], *args.kwonlyargs)) for name, args in made.items()}
    return {name: count for name, count in counts.items() if count > PARAMETERS_MAX}


def local_imports(modules: dict[str, ast.Module]) -> int:
    return sum(
        isinstance(inner, ast.ImportFrom) and (inner.module or "").startswith("ordain")
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in node.body
    )


def _listed(found: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in found.items()) or "none"


def main() -> None:
    modules = trees()
    lines = sizes()
    rooms: Counter[str] = Counter()
    for name, size in lines.items():
        rooms[room_of(name)] += size
    for room, size in sorted(rooms.items()):
        print(f"{room:24}{size:7,}")
    data = sum(len(path.read_text().splitlines()) for path in (SOURCE / "data").rglob("*") if path.is_file())
    tests = sum(len(path.read_text().splitlines()) for path in (ROOT / "tests").rglob("*.py"))
    filled = sorted(size for size in lines.values() if size)
    print(f"\nlines of Python {sum(lines.values()):,}, of data {data:,}, of tests {tests:,}")
    print(
        f"modules {len(filled)}: median {statistics.median(filled):.0f} lines, nine in ten up to "
        f"{filled[len(filled) * 9 // 10]}"
    )
    print(f"modules over {MODULE_LINES_MAX} lines: {_listed(long_modules())}")
    print(f"functions over {FUNCTION_LINES_MAX} lines: {_listed(long_functions(modules))}")
    print(f"constructors with more than {PARAMETERS_MAX} parameters: {_listed(wide_constructors(modules))}")
    print("modules at the root:", ", ".join(name for name in modules if "/" not in name))
    twice = sorted(name for name, count in class_names(modules).items() if count > 1)
    print(f"class names that exist twice: {len(twice)} {' '.join(twice)}")
    print(f"pairs of module and action class: {len(pairs(modules))}")
    print(f"imports of ours inside functions: {local_imports(modules)}")
    print(f"modules in rings: {' '.join(rings(modules)) or 'none'}")


if __name__ == "__main__":
    main()
