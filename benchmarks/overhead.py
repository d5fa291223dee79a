"""What normexp costs besides the training itself.

run: seconds of a run outside data, steps and evaluations, from one record stored to the next, in a worker after the
first; short: wall time of a sweep of one-step runs of depth 2, a run; resume, report, list: these commands over stored
runs, which one training and the store make (the first resume also draws the figures). Prints and writes
benchmarks/overhead.csv.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import say, say_machine, seconds, spread, write_csv
from benchmarks.work import WithData
from normexp.config import grid, sweep_file
from normexp.execution.events import Finished
from normexp.execution.pool.pool import processes
from normexp.execution.worker import Job
from normexp.runner.sweep import check_tasks
from normexp.storage.store import Store

Row = dict[str, object]
SHORT = "name: short\nbase: {{depth: 2, steps: 1}}\ngrid: {{seed: {{range: [0, {last}, 1]}}}}\n"
STORED = """name: stored
base: {{depth: 2, steps: 100, eval_every: 25}}
grid: {{position: [pre, post], lr: [1e-4, 3e-4, 1e-3, 3e-3, 1e-2], seed: {{range: [0, {last}, 1]}}}}
"""
POINTS_A_SEED = 10


def overhead_of_runs(runs: int) -> Iterator[float]:
    """Seconds of each run outside data, steps and evaluations; the first also starts what workers are forked from."""
    values: dict[str, Any] = {"depth": 20, "steps": 10, "eval_every": 10, "seed": list(range(runs))}
    plan = grid.plan_of(name="runs", title="Overhead", groups=[("", values)])
    configs = list(plan.configs.values())
    job = WithData(Job(losses=check_tasks(configs)))
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / plan.folder)
        store.begin(plan, (), force=False)
        last = time.perf_counter()
        for event in processes(configs, jobs=1, work=job):
            if isinstance(event, Finished):
                store.write(event.record)
                now, spent = time.perf_counter(), event.record.seconds
                yield now - last - 2 * spent["data"] - spent["steps"] - spent["eval"]  # the data was drawn twice
                last = now


def run_row(runs: int) -> Row:
    """Overhead of a run in milliseconds."""
    median, low, high = spread([1e3 * each for each in overhead_of_runs(runs + 1)][1:], digits=1)
    return {"what": "run", "runs": runs, "unit": "ms a run", "median": median, "low": low, "high": high}


def command(*words: str | Path) -> None:
    """Run normexp as a command of its own."""
    done = subprocess.run([sys.executable, "-m", "normexp", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr or done.stdout)


def short_row(runs: int) -> Row:
    """A sweep of one-step runs on two workers, as a command."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "short.yaml"
        asked.write_text(SHORT.format(last=runs - 1))
        total = seconds(lambda: command("sweep", asked, "--jobs", "2", "--out", folder))
    return {"what": "short", "runs": runs, "unit": "s a run", "median": round(total / runs, 4), "low": "", "high": ""}


def stored_rows(runs: int, repeats: int) -> Iterator[Row]:
    """Resume and report of a sweep whose runs are all stored."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "stored.yaml"
        asked.write_text(STORED.format(last=runs // POINTS_A_SEED - 1))
        plan = grid.plan(sweep_file.load(asked, ()), max_runs=runs)
        store = Store(Path(folder) / plan.folder)
        store.begin(plan, (), force=False)
        record = Job()(next(iter(plan.configs.values())), lambda progress: None)
        for config in plan.configs.values():
            store.write(replace(record, config=config))
        commands: dict[str, tuple[str | Path, ...]] = {
            "resume": ("sweep", asked, "--out", folder),
            "report": ("report", store.folder),
            "list": ("list", "--out", folder),
        }
        for what, words in commands.items():
            found = [seconds(partial(command, *words)) for _ in range(repeats)]
            median, low, high = spread(found, digits=2)
            yield {"what": what, "runs": len(plan.configs), "unit": "s", "median": median, "low": low, "high": high}


def measured(runs: int, short: int, stored: int, repeats: int) -> Iterator[Row]:
    """All rows, one after another."""
    yield run_row(runs)
    yield short_row(short)
    yield from stored_rows(stored, repeats)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="of 20 layers, whose overhead is measured")
    parser.add_argument("--short", type=int, default=1000, help="one-step runs of the sweep")
    parser.add_argument("--stored", type=int, default=10_000, help="runs that are resumed and reported")
    parser.add_argument("--repeats", type=int, default=3, help="of resume and of report")
    asked = parser.parse_args()
    say_machine()
    rows = []
    for row in measured(asked.runs, asked.short, asked.stored, asked.repeats):
        say(row)
        rows.append(row)
    write_csv("overhead", rows)


if __name__ == "__main__":
    main()
