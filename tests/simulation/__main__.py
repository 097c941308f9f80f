"""`python -m tests.simulation SEED [COUNT]`: one life told in full, or many lives counted."""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.simulation.life import Life, live
from tests.words import canonical_bytes


def main(first: int, count: int) -> None:
    if count == 1:
        print(canonical_bytes(Life(first).plan).decode())
        life = live(first)
        print("\n".join(life.world.trace), dict(life.counted), sep="\n")
        return
    counted: Counter[str] = Counter()
    began = time.perf_counter()
    for seed in range(first, first + count):
        counted += live(seed).counted
    for what, number in sorted(counted.items()):
        print(f"{number:8,}  {what}")
    print(f"{count / (time.perf_counter() - began):8.1f}  lives a second")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
