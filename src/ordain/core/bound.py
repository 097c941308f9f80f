"""How much a document or a plan may hold, and a result. One number for each thing, for all who have to do with it."""

from __future__ import annotations

__all__ = [
    "ARTIFACT_BYTES_MAX",
    "ATTEMPTS_MAX",
    "COMMAND_BYTES_MAX",
    "CONCURRENCY_MAX",
    "DAY_MS",
    "DEPTH_MAX",
    "DOCUMENT_BYTES_MAX",
    "ENV_BYTES_MAX",
    "EXIT_CODE_MAX",
    "FACTOR_MAX",
    "HOUR_MS",
    "ID_LENGTH_MAX",
    "INTEGER_MAX",
    "NAME_LENGTH_MAX",
    "NESTED_PLANS_MAX",
    "OUTPUT_BYTES_MAX",
    "REPETITIONS_MAX",
    "STEPS_LARGE",
    "STEPS_MAX",
    "STEPS_OF_RUN_MAX",
    "STRING_BYTES_MAX",
    "TIER_MAX",
]

DOCUMENT_BYTES_MAX = 16 << 20
STRING_BYTES_MAX = 1 << 20
"""One text, wherever it stands in a plan."""
INTEGER_MAX = 2**53 - 1
"""The largest integer that every JSON reader holds exactly."""
DEPTH_MAX = 16
"""How many lists and mappings may stand inside one another."""

STEPS_MAX = 20_000
STEPS_OF_RUN_MAX = 200_000
"""With all that come to be while a run goes on: repeats inside of repeats multiply."""
STEPS_LARGE = 200
"""More steps than this nobody reviews with care."""
NESTED_PLANS_MAX = 3
"""How many plans may stand inside one another, the outermost not counted."""
ID_LENGTH_MAX = 64
NAME_LENGTH_MAX = 256

HOUR_MS = 3_600_000
DAY_MS = 86_400_000
"""The longest timeout and the longest delay."""
ATTEMPTS_MAX = 101
"""All attempts of a step: the first and a hundred further ones."""
FACTOR_MAX = 100
"""By which a delay may grow from one attempt to the next."""
CONCURRENCY_MAX = 64
REPETITIONS_MAX = 10_000
"""Items of one `for_each`."""
COMMAND_BYTES_MAX = 120_000
"""Linux takes a single argument of up to 128 KiB."""
ENV_BYTES_MAX = 120_000
"""The same goes for a variable with its name."""
EXIT_CODE_MAX = 255
TIER_MAX = 2

OUTPUT_BYTES_MAX = 1 << 20
"""How much of the end of an output or a result is at hand: for expressions and patterns, and of one that is too long to
be kept whole."""
ARTIFACT_BYTES_MAX = 64 << 20
"""How long an output or a result may be that is kept whole."""
