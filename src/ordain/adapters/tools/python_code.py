"""Python that the configuration names and that runs in our own process: installed outside the workspace, or of the
workspace by the digests that a person trusted, and then from those very bytes.

Neither a directory on `sys.path`, nor an editable installation, nor a cached file leads into the workspace, not even by
what such code imports.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from pathlib import Path, PurePosixPath
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

from ordain.adapters.process.outside import is_planted, sealed
from ordain.core.policy.program import module_files, sealed_modules


class _Finder(MetaPathFinder, Loader):
    """Finds the modules whose text a person trusted, and refuses every other one that lies in a guarded workspace."""

    def __init__(self) -> None:
        self.modules: dict[str, tuple[str, bytes, bool]] = {}
        self.workspaces: list[Path] = []

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in self.modules:
            file, _, is_package = self.modules[name]
            return spec_from_loader(name, self, origin=file, is_package=is_package)
        others = (
            (one for one in sys.meta_path if one is not self and hasattr(one, "find_spec")) if self.workspaces else ()
        )
        spec = next((spec for one in others if (spec := one.find_spec(name, path, target)) is not None), None)
        if spec is not None:
            for place in filter(None, (place_of(spec, workspace) for workspace in self.workspaces)):
                raise ImportError(f"`{name}` is {place}, in the workspace, where any step can change it")
        return spec

    def exec_module(self, module: ModuleType) -> None:
        file, text, _ = self.modules[module.__name__]
        exec(compile(text, file, "exec"), module.__dict__)  # noqa: S102 - a person trusted this text

    def seal(self, modules: Mapping[str, tuple[str, bytes, bool]]) -> None:
        if modules.items() <= self.modules.items():
            return
        for name in modules:
            if self.modules.pop(name, None) is not None:
                sys.modules.pop(name, None)
            elif name in sys.modules or name.partition(".")[0] in sys.stdlib_module_names:
                raise ValueError(f"`files` has a module `{name}`, and another one of that name is there already")
        self.modules |= modules


_FINDER = _Finder()


def module_in(name: str, workspace: Path) -> tuple[str, ...]:
    """The files of the workspace that a module would be loaded from, or is looked for in vain outside; nothing is
    imported."""
    try:
        spec = find_spec(name.partition(".")[0])
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is not None and place_of(spec, workspace) is None:
        return ()
    there = (place + tail for place in ("", "src/", "lib/") for tail in module_files(name))
    file = next((one for one in there if (workspace / one).is_file()), None)
    if file is None:
        return () if spec is None else (f"{name.replace('.', '/')}.py",)
    packages = [str(one / "__init__.py") for one in PurePosixPath(file).parents[-2::-1]]
    return (*(one for one in packages if one != file and (workspace / one).is_file()), file)


def place_of(spec: ModuleSpec, workspace: Path) -> str | None:
    """Where in the workspace a module is; None where it is not there."""
    places = [one for one in (spec.origin, *(spec.submodule_search_locations or ())) if one is not None]
    return next((one for one in places if one.startswith("/") and is_planted(one, workspace)), None)


def load(name: str, files: Mapping[str, str], workspace: Path | None, *, keep: bool = False) -> Any:
    """What `module:name` names. With `keep`, nothing is loaded from the workspace by anybody in this process from now
    on; else only now."""
    if workspace is None:
        return resolve_name(name)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    if keep and workspace not in _FINDER.workspaces:
        _FINDER.workspaces.append(workspace)
    _FINDER.workspaces.append(workspace)
    try:
        if files:
            _FINDER.seal(sealed_modules(name.partition(":")[0], sealed(files, workspace)))
        return resolve_name(name)
    finally:
        _FINDER.workspaces.remove(workspace)
