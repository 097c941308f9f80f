"""Rules about stored data: who reads a key that several steps store gets what the plan says, not what chance says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ordain.core.lint.facts import Facts
from ordain.core.lint.survey import Scope, Survey
from ordain.core.problem import Place, Problem
from ordain.core.refs import StoredData, Unreadable

__all__ = ["data_order"]

_PAIRS_MAX = 100_000
"""How many readers and storing steps are compared; a plan that has more gets no warning for the rest."""


def data_order(survey: Survey, facts: Facts) -> Iterator[Problem]:
    """Where several steps store one key, every reader comes before or after each of them, and one of them is last."""
    several = any(len(stores) > 1 for scope in survey.scopes for stores in scope.stores.values())
    compared = 0
    for scope, reader, key in _readers(survey) if several else ():
        stores = scope.stores.get(key, ())
        compared += len(stores)
        if len(stores) < 2 or compared > _PAIRS_MAX or scope.order.circles:
            continue
        apart = next((store for store in stores if not _in_order(scope, store, reader)), None)
        pair = _undecided(scope, stores, reader) if apart is None else None
        if apart is not None:
            what = f"is stored by `{apart}` too, which may come before or after it"
        elif pair is not None:
            what = f"is stored by `{pair[0]}` and `{pair[1]}`, which come in any order"
        else:
            continue
        yield Problem(
            code="W_DATA_ORDER",
            detail=f"`{reader}` reads the data `{key}`, which {what}.",
            where=Place(step=reader),
            hints=("Say with `needs` which comes first, or store it under another key.",),
        )


def _readers(survey: Survey) -> Iterator[tuple[Scope, str, str]]:
    """Every step that reads stored data, and which key, each once."""
    found: dict[tuple[int, str, str], Scope] = {}
    for mention in survey.mentions:
        if not isinstance(mention.reference, Unreadable) and isinstance(mention.reference.source, StoredData):
            found.setdefault((id(mention.scope), mention.step.id, mention.reference.source.key), mention.scope)
    for asked in survey.asked:
        if asked.step is not None:
            for key in asked.named.data:
                found.setdefault((id(asked.scope), asked.step.id, key), asked.scope)
    yield from ((scope, reader, key) for (_, reader, key), scope in found.items())


def _in_order(scope: Scope, one: str, other: str) -> bool:
    """Whether one of two steps always comes before the other; a fallback runs when the steps do that name it."""
    return all(
        first == then or scope.order.before(first, then) or scope.order.before(then, first)
        for first in _when_run(scope, one)
        for then in _when_run(scope, other)
    )


def _when_run(scope: Scope, name: str) -> Sequence[str]:
    return (name,) if name in scope.steps else [user for user in scope.users.get(name, ()) if user in scope.steps]


def _undecided(scope: Scope, stores: Sequence[str], reader: str) -> tuple[str, str] | None:
    """Two steps that both store what a reader reads, of which nobody can say which is last. Of those under a condition
    perhaps only one runs."""
    certain = [store for store in stores if store in scope.steps and scope.steps[store].when is None]
    before = sorted((store for store in certain if scope.order.before(store, reader)), key=scope.order.sort_key)
    return next(((one, before[-1]) for one in before[:-1] if not scope.order.before(one, before[-1])), None)
