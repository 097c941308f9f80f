"""What steps without an id are called: the slugs of their titles, which are always ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ordain.core.bound import ID_LENGTH_MAX
from ordain.core.value import StepId

__all__ = ["distinct_slugs", "slug"]

_OTHERS = re.compile(r"[^A-Za-z0-9]+")
_STEM_MAX = ID_LENGTH_MAX - len("-20000")


def slug(title: str, number: int) -> StepId:
    """The id of a step that was given none: its title in lower-case letters, digits and single dashes."""
    # Lower-casing after the cut to ASCII: some foreign letters become ASCII letters when lower-cased.
    word = _OTHERS.sub("-", title).lower().strip("-")[:ID_LENGTH_MAX].rstrip("-")
    return StepId(f"step-{number}") if not word or word.isdigit() or word == "none" else StepId(word)


def distinct_slugs(titles: Sequence[str]) -> list[StepId]:
    """The ids of steps that have nowhere to say one: slugs, and from the second of equal ones on `slug-2`, `slug-3` …

    A number that would make the slug of another title is passed over.
    """
    slugs = [slug(title, number) for number, title in enumerate(titles, 1)]
    taken = set(slugs)
    if len(taken) == len(slugs):
        return slugs
    seen: set[StepId] = set()
    numbers: Counter[str] = Counter()
    for at, word in enumerate(slugs):
        stem, name = word[:_STEM_MAX].rstrip("-"), word
        if word in seen:
            while name in taken:
                numbers[stem] += 1
                name = StepId(f"{stem}-{numbers[stem] + 1}")
            taken.add(name)
            slugs[at] = name
        seen.add(word)
    return slugs
