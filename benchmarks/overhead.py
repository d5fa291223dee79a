"""What a run costs outside of its steps and evaluations, in a worker process, after the first one."""

from __future__ import annotations

import os
import statistics
import time

from normexp.execute.events import Finished
from normexp.execute.processes import processes
from normexp.record import RunRecord
from normexp.run import RunConfig

RUNS = 9


def main() -> None:
    """Runs one after another; the data of 100 steps is drawn on the way."""
    print(f"load at the start {os.getloadavg()[0]:.2f}")
    configs = [RunConfig(depth=20, steps=100, eval_every=100, seed=seed) for seed in range(RUNS)]
    last, overheads, data = time.perf_counter(), [], []
    for event in processes(configs, jobs=1):
        if isinstance(event, Finished):
            now = time.perf_counter()
            record: RunRecord = event.record
            overheads.append(now - last - record.seconds["steps"] - record.seconds["eval"])
            data.append(record.seconds["data"])
            last = now
    print(f"outside steps and evaluations: median {statistics.median(overheads[1:]):.3f} s a run, of it data", end=" ")
    print(f"{statistics.median(data[1:]):.3f} s ({RUNS - 1} runs after the first, which took {overheads[0]:.2f} s)")


if __name__ == "__main__":
    main()
