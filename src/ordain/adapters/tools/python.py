"""Python functions as tools: the signature says their arguments, the docstring what they do, and `@tool` their effect.

The arguments are converted to the types of the signature, so that a function never sees one that does not fit.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints, overload

import msgspec

from ordain.adapters.process.outside import is_planted, sealed
from ordain.adapters.tools.file import in_thread
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import RESERVED, ToolDefinition, handler_name, operation_name
from ordain.core.policy.program import module_files, sealed_modules
from ordain.core.text.problem import Refused, refuse
from ordain.core.text.schema import understood
from ordain.ports.tool import ToolResult

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # a loader is whatever has its methods, and importing that class loads ten modules

# --- Python calls ----------------------------------------------------------------------------------------------------
# Calling Python that others wrote: nothing goes on behind anybody's back, and whatever goes wrong is a result.


async def called(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What a function gives, or raises. It may be a coroutine function; any other one is called in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **named)
    return await in_thread(partial(function, *args, **named))


async def result_of(function: Callable[..., Any], *args: Any, **named: Any) -> ToolResult:
    """The same, as a result."""
    try:
        value = await called(function, *args, **named)
    except Exception as error:
        return ToolResult(error="F_STEP_FAILED", detail=f"it raised {error!r}")
    try:
        return ToolResult(value=msgspec.json.decode(msgspec.json.encode(value)))
    except (TypeError, ValueError, RecursionError) as error:
        return ToolResult(error="F_STEP_FAILED", detail=f"it gave back what JSON cannot say: {error}")


# --- Python tools ----------------------------------------------------------------------------------------------------

STEP_KEY = "step_key"
"""An argument of this name is no argument of the tool: it gets the step key, the same one on every try of a step."""

_MARK = "__ordain_tool__"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What `@tool` says of a function."""

    name: str | None = None
    operation: str | None = None
    effect: EffectClass = EffectClass.OPAQUE
    destructive: bool = False
    atomic: bool = False
    happened: str = ""
    happened_final: bool = False


@overload
def tool(function: _Function, /) -> _Function: ...


@overload
def tool(
    *,
    name: str | None = None,
    operation: str | None = None,
    effect: EffectClass | str = EffectClass.OPAQUE,
    destructive: bool = False,
    atomic: bool = False,
    happened: str = "",
    happened_final: bool = False,
) -> Callable[[_Function], _Function]: ...


def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    operation: str | None = None,
    effect: EffectClass | str = EffectClass.OPAQUE,
    destructive: bool = False,
    atomic: bool = False,
    happened: str = "",
    happened_final: bool = False,
) -> Any:
    """Declare a function as a tool, or with `operation` as one operation of the tool `name`. `effect` says what may be
    done after a crash; `atomic`, that it never half happens; `happened` is a command that is asked in doubt, and
    `happened_final` says that its "did not" is final."""
    declared = _Declared(
        name=name,
        operation=operation,
        effect=EffectClass(effect),
        destructive=destructive,
        atomic=atomic,
        happened=happened,
        happened_final=happened_final and bool(happened),
    )

    def mark(marked: Any) -> Any:
        setattr(marked, _MARK, declared)
        _Arguments(marked)  # whoever declares a tool learns at once what is wrong with its signature
        return marked

    return mark if function is None else mark(function)


class _Arguments:
    """The arguments of a function, as a type that values can be converted to."""

    def __init__(self, function: Callable[..., Any]) -> None:
        hints = get_type_hints(function, include_extras=True)
        fields: list[Any] = []
        self.takes_key = False
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"a tool takes arguments by their names, and `{parameter}` has none of its own")
            if parameter.name == STEP_KEY:
                self.takes_key = True
                continue
            kind = hints.get(parameter.name, Any)
            if parameter.default is parameter.empty:
                fields.append((parameter.name, kind))
            else:
                # The function's own default is meant, whatever it is.
                fields.append((parameter.name, kind | msgspec.UnsetType, msgspec.UNSET))
        self._type = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        self.schema = understood(msgspec.json.schema(self._type))

    def converted(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The values that were given, of the types that the function wants; raises msgspec.ValidationError."""
        made = msgspec.convert(args, self._type)
        return {name: getattr(made, name) for name in self._type.__struct_fields__ if name in args}


class _PythonTool:
    def __init__(
        self,
        function: Callable[..., Any],
        *,
        python: str,
        name: str | None = None,
        among_others: bool = False,
        files: Mapping[str, str] = {},
    ) -> None:
        """`name` is what the configuration calls it, in place of what it calls itself; one `among_others` is an
        operation."""
        declared: _Declared = getattr(function, _MARK, _Declared())
        self.function, self.arguments = function, _Arguments(function)
        own = declared.name or str(getattr(function, "__name__", ""))
        operation = declared.operation or (own if among_others else None)
        tool_name = name or own
        called = tool_name if operation is None else operation_name(tool_name, operation)
        self.definition = ToolDefinition(
            name=called,
            description=inspect.getdoc(function) or f"The Python function {called}.",
            effect=declared.effect,
            schema=self.arguments.schema,
            atomic=declared.atomic,
            destructive=declared.destructive,
            python=python,
            files=files,
            registered=name is None,
            happened=declared.happened,
            happened_final=declared.happened_final,
        )
        for part in called.split(":", 1):
            if not _NAME.fullmatch(part):
                raise ValueError(f"{part!r} cannot be the name of a tool or an operation")
        if tool_name in RESERVED:
            raise ValueError(f"no tool can be called {tool_name!r}, which means something else")

    async def call(self, args: Mapping[str, Any], key: str) -> ToolResult:
        try:
            named = self.arguments.converted(args)
        except msgspec.ValidationError as error:
            return ToolResult(error="F_STEP_FAILED", detail=f"its arguments do not fit: {error}")
        return await result_of(self.function, **named, **({STEP_KEY: key} if self.arguments.takes_key else {}))


class PythonTools:
    """Tools that the program which uses us has handed over, and those that the configuration names."""

    def __init__(
        self, functions: Sequence[Callable[..., Any]] = (), workspace: Path | None = None, *, alone: bool = False
    ) -> None:
        """`name` is what the configuration calls it, if it does; one `among_others` is an operation."""
        self._workspace, self._alone = workspace, alone
        self._registered: dict[str, _PythonTool] = {}
        for function in functions:
            where = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', '?')}"
            made = _PythonTool(function, python=where)
            if made.definition.name in self._registered:
                raise ValueError(f"two tools are called {made.definition.name}")
            self._registered[made.definition.name] = made

    def registered(self) -> Mapping[str, ToolDefinition]:
        return {name: one.definition for name, one in self._registered.items()}

    def definitions(self, name: str, python: str, files: Mapping[str, str] = {}) -> Mapping[str, ToolDefinition]:
        """The tool, or the operations, that `module:name` holds, under the name it has here."""
        return {one.definition.name: one.definition for one in self._named(name, python, files)}

    async def call(self, definition: ToolDefinition, args: Mapping[str, Any], key: str) -> ToolResult:
        found = self._registered.get(definition.name)
        if not definition.registered and definition.python is not None:
            try:
                tools = self._named(definition.name.partition(":")[0], definition.python, definition.files)
            except Refused as refused:
                return ToolResult(error="F_STEP_FAILED", detail=refused.problems[0].detail)
            found = next((one for one in tools if one.definition.name == definition.name), None)
        # Who is asked in doubt may be said by the configuration, and changes nothing about the call.
        asked = {"happened": definition.happened, "happened_final": definition.happened_final}
        if found is None or msgspec.structs.replace(found.definition, **asked) != definition:
            detail = f"{definition.name} is not here as it was when the run was started"
            return ToolResult(error="F_STEP_FAILED", detail=detail)
        return await found.call(args, key)

    def _named(self, name: str, python: str, files: Mapping[str, str]) -> list[_PythonTool]:
        try:
            found = load(python, files, self._workspace, keep=self._alone)
            if isinstance(found, list | tuple):
                return [_PythonTool(one, python=python, name=name, among_others=True, files=files) for one in found]
            return [_PythonTool(found, python=python, name=name, files=files)]
        except (Exception, SystemExit) as error:  # a module can raise anything while it is imported
            raise refuse(
                "E_TOOL_SOURCE",
                f"The tool `{name}` cannot be had: {python} gives {error!r}.",
                "It names a function, or a list of functions, each an operation.",
                "A module of the workspace is loaded only where `files` has its digest, and every one that it imports.",
                command="ordain trust",
            ) from error


# --- Handlers --------------------------------------------------------------------------------------------------------
# Custom actions that are Python callables: registered by the program that uses us, or named by the configuration. A
# handler gives back what JSON can say; what it raises is a failure of the step, as an exit status is.

Call = Callable[[Any, str], Any]


class Handler(msgspec.Struct, frozen=True):
    """What carries out a type of custom actions. `effect` says what may be done after a crash; `checkable` says that
    a contract can tell whether it happened, and that it does not half happen. `happened` is a command that is asked
    in doubt, and `happened_final` says that its "did not" is final."""

    call: Call
    effect: EffectClass | str = EffectClass.OPAQUE
    destructive: bool = False
    description: str = ""
    happened: str = ""
    happened_final: bool = False


class PythonHandlers:
    """ports.Handlers over callables."""

    def __init__(
        self,
        registered: Mapping[str, Handler | Call] | None = None,
        workspace: Path | None = None,
        *,
        alone: bool = False,
    ) -> None:
        """What the configuration names is not loaded from the `workspace`; `alone`, as in `ToolSources`."""
        self._workspace, self._alone = workspace, alone
        self._calls: dict[str, Call] = {}
        self._registered: dict[str, ToolDefinition] = {}
        for action, given in (registered or {}).items():
            name, handler = handler_name(action), given if isinstance(given, Handler) else Handler(given)
            self._calls[name], self._registered[name] = handler.call, _definition(name, handler)

    def registered(self) -> Mapping[str, ToolDefinition]:
        return self._registered

    async def call(self, handler: ToolDefinition, payload: Any, key: str) -> ToolResult:
        if self._registered.get(handler.name) == handler:
            found: Any = self._calls[handler.name]
        elif handler.registered or handler.python is None:
            return ToolResult(error="F_STEP_FAILED", detail=f"{handler.name} is not registered in this program")
        else:
            try:
                found = load(handler.python, handler.files, self._workspace, keep=self._alone)
            except Exception as error:  # a module can raise anything while it is imported
                return ToolResult(error="F_STEP_FAILED", detail=f"{handler.python} cannot be imported: {error!r}")
        return await result_of(found, payload, key)


def _definition(name: str, handler: Handler) -> ToolDefinition:
    effect, call = EffectClass(handler.effect), handler.call
    qualified = getattr(call, "__qualname__", type(call).__qualname__)
    return ToolDefinition(
        name=name,
        description=handler.description or f"The custom action {name}.",
        effect=effect,
        atomic=effect is EffectClass.CHECKABLE,
        destructive=handler.destructive,
        python=f"{getattr(call, '__module__', '?')}:{qualified}",
        registered=True,
        happened=handler.happened,
        happened_final=handler.happened_final and bool(handler.happened),
    )


# --- Loading ---------------------------------------------------------------------------------------------------------
# Python that the configuration names and that runs in our own process: installed outside the workspace, or of the
# workspace by the digests that a person trusted, and then from those very bytes. Neither `sys.path`, nor an editable
# installation, nor a cached file leads into the workspace, not even by what such code imports.


class _Finder(Loader):
    """Finds the modules whose text a person trusted, and refuses every other one that lies in a guarded workspace."""

    def __init__(self) -> None:
        self.modules: dict[str, tuple[str, bytes, bool]] = {}
        self.workspaces: list[Path] = []

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in self.modules:
            file, _, is_package = self.modules[name]
            return spec_from_loader(name, self, origin=file, is_package=is_package)
        finders = sys.meta_path if self.workspaces else ()
        others = (one for one in finders if one is not self and hasattr(one, "find_spec"))
        spec = next((spec for one in others if (spec := one.find_spec(name, path, target)) is not None), None)
        if spec is not None:
            for place in filter(None, (place_of(spec, workspace) for workspace in self.workspaces)):
                raise ImportError(f"`{name}` is {place}, in the workspace, where any step can change it")
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """As Python makes every module."""

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
    """The files of the workspace that a module would be loaded from, or is looked for in vain outside."""
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
    """What `module:name` names; with `keep`, nothing in this process is loaded from the workspace from then on."""
    from pkgutil import resolve_name  # few workspaces have such tools

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
