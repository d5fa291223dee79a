"""One worker against two, and Dask beside normexp's own executor: wall time of the same runs, in turns.

Dask has two processes of its own, in which the same function trains the same configs, in an environment that is made
once under benchmarks/.envs. All times are of the runs alone, after a first small one in each pool: neither the start
of the fork server nor that of the cluster counts. Prints medians and quartiles, and of the ratios round by round;
writes benchmarks/scaling.csv.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.environments import ROOT, CannotInstall, environment
from benchmarks.harness import FOLDER, say, say_machine, seconds, spread, write_csv
from normexp.config.run import RunConfig
from normexp.execution.events import Finished
from normexp.execution.pool.pool import processes
from normexp.execution.worker import Job
from normexp.records.record import Status

ONE, TWO, DASK = "1 worker", "2 workers", "Dask, 2 workers"
RATIOS = ((ONE, TWO), (DASK, TWO))
"""The time of the first over that of the second."""


def ours(jobs: int, configs: list[RunConfig]) -> float:
    """Seconds of the configs on so many of normexp's workers."""

    def train() -> None:
        records = [event.record for event in processes(configs, jobs=jobs, work=Job()) if isinstance(event, Finished)]
        if len(records) != len(configs) or any(record.status is not Status.DONE for record in records):
            sys.exit("a run failed")

    return seconds(train)


def dask(python: str, configs: list[RunConfig]) -> float:
    """Seconds of the configs, which differ in their seed alone, on a new cluster."""
    keys = (str(len(configs)), str(configs[0].depth), str(configs[0].steps))
    call = [python, str(FOLDER / "peers" / "with_dask.py"), *keys]
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(call, capture_output=True, text=True, env=env)
    if ended.returncode:
        sys.exit(f"Dask failed: {ended.stderr}")
    return float(ended.stdout)


def contestants(configs: list[RunConfig]) -> dict[str, Callable[[], float]]:
    """What is measured; Dask is left out where it cannot be installed."""
    found: dict[str, Callable[[], float]] = {ONE: partial(ours, 1, configs), TWO: partial(ours, 2, configs)}
    try:
        return found | {DASK: partial(dask, str(environment("dask") / "python"), configs)}
    except CannotInstall as fault:
        print(f"Dask is left out: {fault}")
        return found


def in_turns(calls: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each call gives, round by round, another one first in each."""
    names, found = list(calls), dict[str, list[float]]()
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            found.setdefault(name, []).append(calls[name]())
    return {name: found[name] for name in names}


def rows_of(found: Mapping[str, list[float]]) -> list[dict[str, object]]:
    """A row for the seconds of each, and for each ratio."""
    measured = {name: ("s", values) for name, values in found.items()}
    for above, below in RATIOS:
        if above in found:
            pairs = zip(found[above], found[below], strict=True)
            measured[f"{above} / {below}"] = "ratio", [one / other for one, other in pairs]
    rows: list[dict[str, object]] = []
    for what, (unit, values) in measured.items():
        median, low, high = spread(values)
        rows.append({"what": what, "unit": unit, "rounds": len(values), "median": median, "low": low, "high": high})
    return rows


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=8, help="in each measurement")
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--steps", type=int, default=60)
    asked = parser.parse_args()
    configs = [
        RunConfig(depth=asked.depth, steps=asked.steps, eval_every=asked.steps, seed=seed) for seed in range(asked.runs)
    ]
    say_machine()
    calls = contestants(configs)
    ours(1, [RunConfig(depth=1, steps=1)])
    rows = rows_of(in_turns(calls, asked.rounds))
    for row in rows:
        say(row)
    write_csv("scaling", rows)


if __name__ == "__main__":
    main()
