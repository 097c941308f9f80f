"""Custom actions that are Python callables: registered by the program that uses us, or named by the configuration.

A handler gets the payload and the step key, and gives back what JSON can say. It may be a coroutine function; any other
one is called in a thread. What it raises is a failure of the step, as an exit status is: somebody saw it end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ordain.adapters.python_calls import result_of
from ordain.adapters.python_names import imported
from ordain.core.tool import EffectClass, ToolDefinition, handler_name
from ordain.ports import ToolResult

__all__ = ["Handler", "PythonHandlers"]

Call = Callable[[Any, str], Any]
"""Gets the payload and the step key."""


class Handler(msgspec.Struct, frozen=True):
    """What carries out a type of custom actions. `effect` says what may be done after a crash; `checkable` says that a
    contract can tell whether it happened, and that it does not half happen."""

    call: Call
    effect: EffectClass | str = EffectClass.OPAQUE
    destructive: bool = False
    description: str = ""


class PythonHandlers:
    """ports.Handlers over callables."""

    def __init__(self, registered: Mapping[str, Handler | Call] | None = None) -> None:
        given = {
            handler_name(name): one if isinstance(one, Handler) else Handler(one)
            for name, one in (registered or {}).items()
        }
        self._calls = {name: one.call for name, one in given.items()}
        self._registered = {name: _definition(name, one) for name, one in given.items()}

    def registered(self) -> Mapping[str, ToolDefinition]:
        return self._registered

    async def call(self, handler: ToolDefinition, payload: Any, key: str) -> ToolResult:
        if self._registered.get(handler.name) == handler:
            found: Any = self._calls[handler.name]
        elif handler.registered or handler.python is None:
            return ToolResult(error="F_STEP_FAILED", detail=f"{handler.name} is not registered in this program")
        else:
            try:
                found = imported(handler.python)
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
    )
