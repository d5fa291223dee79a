"""One worker against two: wall time of the same small grid, alternating, with the ratio of each pair."""

from __future__ import annotations

import os
import statistics
import time

from normexp.execute.events import Finished
from normexp.execute.processes import processes
from normexp.run import RunConfig

PAIRS = 3
MAX_LOAD = 0.3


def seconds(jobs: int) -> float:
    """Wall time of eight runs of 12 layers."""
    configs = [RunConfig(depth=12, steps=60, eval_every=60, seed=seed) for seed in range(8)]
    start = time.perf_counter()
    ended = [event for event in processes(configs, jobs=jobs) if isinstance(event, Finished)]
    assert len(ended) == len(configs)
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    load = os.getloadavg()[0]
    print(f"load at the start {load:.2f}{' (too high: the figures are not to be trusted)' if load > MAX_LOAD else ''}")
    list(processes([RunConfig(depth=1, steps=1)], jobs=1))
    ratios = []
    for _ in range(PAIRS):
        one, two = seconds(1), seconds(2)
        ratios.append(one / two)
        print(f"1 worker {one:.1f} s, 2 workers {two:.1f} s, ratio {one / two:.2f}")
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
