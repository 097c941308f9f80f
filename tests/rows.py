"""Many rows in one test: as cases of their own they would cost more than they take."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

ParameterSet = type(pytest.param())


def untied(row: Any, wanted: int) -> Any:
    """What stands in a row that `pytest.param` made; any other row as it is."""
    if not isinstance(row, ParameterSet):
        return row
    assert not row.marks, "a row with marks needs a case of its own"
    return row.values if wanted > 1 else row.values[0]


def each(names: str, rows: Iterable[Any], ids: Iterable[Any] | Callable[[Any], Any] | None = None) -> Any:
    """Like `pytest.mark.parametrize`, but one test that tries every row and tells of all that failed."""
    wanted, given = [name.strip() for name in names.split(",")], list(rows)
    # `pytest.param` may give a row its name.
    tried = [untied(row, len(wanted)) for row in given]
    named = [row.id if isinstance(row, ParameterSet) else None for row in given]
    known = named if ids is None or callable(ids) else list(ids)

    def decorate(test: Callable[..., None]) -> Callable[[], None]:
        assert set(inspect.signature(test).parameters) == set(wanted), "a test with fixtures needs cases of its own"

        def every_row() -> None:
            failed: list[Exception] = []
            for row, name in zip(tried, known, strict=True):
                values: Sequence[Any] = row if len(wanted) > 1 else [row]
                try:
                    test(**dict(zip(wanted, values, strict=True)))
                except Exception as error:
                    error.add_note(f"in the row {str(name or values)[:300]}")
                    failed.append(error)
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(tried)} rows failed", failed)

        every_row.__name__, every_row.__qualname__ = test.__name__, test.__qualname__
        every_row.__module__, every_row.__doc__ = test.__module__, test.__doc__
        assert tried, f"no row for {test.__name__}"
        return every_row

    return decorate
