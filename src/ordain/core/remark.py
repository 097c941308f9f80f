"""What a person should know of settings before trusting them: nothing is wrong, and it may not be what they want.

Pure. What is wrong is in `core.list_check`; here is what counts no longer, what is open as a whole, and names that may
be misspelt or may be newer than this version.
"""

from __future__ import annotations

from collections.abc import Iterator

from ordain.core.guard import EVERYTHING, Mode
from ordain.core.host_tool import CLAUDE_CODE, KNOWN, mangled, our_name
from ordain.core.judge import quoted
from ordain.core.problem import closest
from ordain.core.settings import DEFAULTS, Settings
from ordain.core.tool import HOST_TOOL, operation_name

__all__ = ["remarks"]

_OWN_SERVER = "ordain"
"""What our own server is called in the settings of agents' hosts."""


def remarks(before: Settings | None, now: Settings) -> Iterator[str]:
    """Sentences, the most telling first; `before` is what counted, None where nobody trusted anything yet."""
    before = before or DEFAULTS
    if before.guard_mode == Mode.ENFORCE and now.guard_mode != Mode.ENFORCE:
        yield "Nothing is refused any more outside of plans: [guard] mode is no longer `enforce`, calls are only noted."
    if EVERYTHING not in now.guarded:
        named = f" but {quoted(now.guarded)}" if now.guarded else ""
        yield f"Every tool that is known is open to agents outside of plans{named}: [guard] guarded has no `*`."
    for where, was, is_now in (
        ("[policy] deny", before.deny, now.deny),
        ("[policy] ask", before.ask, now.ask),
        ("[guard] guarded", before.guarded, now.guarded),
    ):
        if gone := set(was) - set(is_now) - {EVERYTHING}:
            yield f"{where} no longer names {quoted(gone)}."
    for name, source in now.sources.items():
        if mangled(name) == _OWN_SERVER and (source.mcp or source.url is not None):
            yield (
                f"[tools.{name}] is called like Ordain's own server: the hook of {CLAUDE_CODE} judges no call of a "
                "server that the host knows by that name. Call it otherwise."
            )
    yield from _of_hosts(now)


def _of_hosts(settings: Settings) -> Iterator[str]:
    """Names of a host's own tools that mean less than they seem to, or nothing as far as is known here."""
    lists = {
        "[policy] ask": settings.ask,
        "[policy] deny": settings.deny,
        "[guard] guarded": settings.guarded,
        "[guard] open": settings.open_calls,
        **{f"[rules.{name}] tools": rule.tools for name, rule in settings.rules.items()},
    }
    begins = operation_name(CLAUDE_CODE, "")
    for where, entries in lists.items():
        for entry in entries:
            tool = entry.removeprefix(begins)
            if not entry.startswith(begins) or not HOST_TOOL.fullmatch(entry):
                continue
            if ours := our_name(tool)[0]:
                yield f"{where} names `{entry}`, which is writing outside of the workspace; in it, that is `{ours}`."
            elif tool not in KNOWN:
                near = "".join(f" {hint}" for hint in closest(tool, sorted(KNOWN)))
                yield f"{where} names `{entry}`, which this version of Ordain does not know.{near}"
