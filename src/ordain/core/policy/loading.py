"""How protected files are loaded: what a new file could change about that, so that a contract holds that should not. A
new `conftest.py` decides what tests mean; a package in place of a module is what they import. Only names are
compared."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

from ordain.core.plan.action import CallTool
from ordain.core.plan.model import Step
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import DEFINITIONS
from ordain.core.text.control import folded
from ordain.core.text.pattern import PathPattern, compile_later, normal

CACHED = "__pycache__"
_CACHES = frozenset((CACHED, ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".ds_store"))

_RUNNERS = {
    "python": r"conftest\.py|sitecustomize\.py|usercustomize\.py|.*\.pth|\.?pytest\.ini|\.?pytest\.toml|noxfile\.py"
    r"|\.coveragerc|.*\.(dist|egg)-info/entry_points\.txt",
    "javascript": (
        r"\.mocharc.*|(jest|vitest|karma|playwright|cypress|ava|babel|wdio)\.(config|conf|setup|workspace)\..*|\.babelrc.*"
        r"|\.swcrc|setuptests\.[jt]sx?|\.npmrc|\.pnp\.[cm]?js|bunfig\.toml|\.taprc|\.nycrc.*|jasmine\.json|__mocks__(/.*)?"
    ),
    "ruby, php, elixir": r"\.rspec(-local)?|(spec|test|rails)_helper\.(rb|exs)|phpunit\.xml.*|pest\.php",
    "go, rust, java": r"go\.work|\.cargo/config(\.toml)?|rust-toolchain(\.toml)?|junit-platform\.properties|\.mvn/.*",
    "make": r"gnumakefile",
    "perl": r"\.proverc",
}
"""Files that only say how tests are run and found: nothing else is in them, so a change of one counts too."""
_ALSO = {
    "python": r"__init__\.py[cdi]?|pyproject\.toml|setup\.(cfg|py)|tox\.ini",
    "javascript": r"package\.json|[tj]sconfig.*\.json|(vite|webpack|rollup)\.config\..*|deno\.jsonc?",
    "others": r"makefile|go\.mod|.*_test\.go|cargo\.toml|build\.rs|rakefile|build\.gradle.*|pom\.xml",
}
"""Files with more in them, which steps have reason to change: only a new one counts."""
_RUNNER = compile_later("|".join(_RUNNERS.values()))
_ANY = compile_later("|".join((*_RUNNERS.values(), *_ALSO.values())))
_PYTHON = compile_later(r"(.*?)(?:\.(?:cpython|abi3|pypy)[^.]*)?\.(?:py|pyc|pyd|so)")
_SCRIPT = compile_later(r"(.*)\.(?:[cm]?[jt]sx?|json|node|rb|wasm)")
_PACKAGE = compile_later(r"(.*)/(?:__init__\..*|index\..*|package\.json)")
_TOOL_NAMES = "_pytest coverage hypothesis iniconfig mock nose nose2 packaging pluggy pygments pytest tox"
_TOOLS = frozenset(_TOOL_NAMES.split())
"""Modules that everything loads: one of the same name in the directory that is looked in first is loaded instead."""
_IS_TEST = compile_later(r"(?:.*[/_.-])?(?:tests?|specs?|checks?|verify)(?:[/_.-].*)?").fullmatch


def is_cached(path: str) -> bool:
    """Whether a program keeps it only to be faster."""
    return not _CACHES.isdisjoint(folded(path).split("/"))


def is_runner_file(path: str) -> bool:
    """Whether a file only says how tests are run."""
    name = folded(path)
    return bool(_RUNNER.fullmatch(_last(name)) or _RUNNER.fullmatch(_last(name, 2)))


def is_named_by(path: str, writes: Sequence[str], protected: Collection[str]) -> bool:
    """Whether what a step may write names a new file: by its path, or by a pattern that means no protected file too."""
    name = folded(path)
    for text in writes:
        known = normal(folded(text) + "/" * text.endswith("/"))
        if known == name:
            return True
        pattern = PathPattern(known)
        if pattern.matches(name) and not any(pattern.matches(folded(one)) for one in protected):
            return True
    return False


def may_write(step: Step) -> tuple[str, ...]:
    """What a step names that it writes: by `writes`, or as the path of a file tool."""
    action = step.action
    tool = DEFINITIONS.get(action.tool) if isinstance(action, CallTool) else None
    args = action.args if isinstance(action, CallTool) and tool and tool.effect is not EffectClass.READS else {}
    values = (args.get(name) for name in ("path", "to"))
    return (*step.writes, *(value for value in values if isinstance(value, str) and "${" not in value))


class LoadingRules:
    """What would change how protected files are loaded."""

    def __init__(
        self, protected: Collection[str], present: Collection[str] = (), standard: Collection[str] = ()
    ) -> None:
        """`present` are files in the workspace, `standard` the modules that Python brings."""
        self._standard = _TOOLS.union(map(folded, standard))
        files = [path for path in protected if not is_runner_file(path)]
        known = [folded(path) for path in files]
        made = {folded(path) for path in present}
        # A package is not where Python looks first, except for what is run as a script, as tests are.
        self._first = {
            "",
            *(_outer(path) for path in known if f"{_outer(path)}/__init__.py" not in made or _IS_TEST(path)),
        }
        self._first |= {
            next(one for one in _above(path)[::-1] if not one or f"{one}/__init__.py" not in made) for path in known
        }
        self._projects = {_outer(path) for path in made if _last(path) == "package.json"} | {""}
        self.is_python = any(path.endswith(".py") for path in known)
        self._shadows = {one for path in known for one in _shadows(path)}
        self.places = {"", *(outer for path in files for outer in _above(path))}
        """The directories to look in: those of protected files, and those above them."""

    def packages(self, directory: str) -> bool:
        """Whether a directory that lies in one of the places can be a package that is loaded instead of a file."""
        name = folded(directory)
        return name in self._shadows or is_looked_into(name) or self._is_standard(name)

    def changes(self, path: str) -> bool:
        """Whether a file in one of the places, or in a package there, changes what is loaded."""
        name = folded(path)
        if _last(name) == "node_modules":
            return _outer(name) not in self._projects
        package = _PACKAGE.fullmatch(name)
        if package is not None and self.packages(package[1]):
            return True
        if _ANY.fullmatch(_last(name)) or _ANY.fullmatch(_last(name, 2)):
            return True
        module = _PYTHON.fullmatch(name) or _SCRIPT.fullmatch(name)
        if module is None:
            return name in self._shadows  # a link
        return module[1] in self._shadows or (_PYTHON.fullmatch(name) is not None and self._is_standard(module[1]))

    def _is_standard(self, stem: str) -> bool:
        directory, _, name = stem.rpartition("/")
        return name in self._standard and directory in self._first


def is_looked_into(directory: str) -> bool:
    """Whether files in a directory of this name count."""
    return re.fullmatch(r"\.cargo|\.mvn|__mocks__|.*\.(dist|egg)-info", _last(folded(directory))) is not None


def _outer(path: str) -> str:
    return path.rpartition("/")[0]


def _above(path: str) -> tuple[str, ...]:
    return ("", *accumulate(path.split("/")[:-1], "{}/{}".format))


def _last(path: str, count: int = 1) -> str:
    return "/".join(path.split("/")[-count:])


def _shadows(path: str) -> Iterator[str]:
    """What would be loaded in place of a protected file, or of a package that it is in, without its ending."""
    module = _PYTHON.fullmatch(path)
    if module is None:
        other = _SCRIPT.fullmatch(path)
        yield from (other[1],) if other is not None else ()
        return
    yield module[1]
    for one in (module[1], *_above(module[1])[1:]):
        yield from (f"{outer}/{_last(one)}".lstrip("/") for outer in _above(one)[:-1])
