"""Speed as ratios: beside a peer or the physical floor, always measured in the same run. See docs/benchmarks.md."""
