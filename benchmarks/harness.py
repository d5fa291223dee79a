"""What every benchmark shares: the machine's state said first, seconds of a call, ratios with spread, a CSV file."""

from __future__ import annotations

import csv
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent
MAX_LOAD = 0.3


def say_machine() -> None:
    """Print processor, cores, versions and load; warn where something else is running."""
    load = os.getloadavg()[0]
    torch, python = version("torch"), platform.python_version()
    print(f"{processor()}, {os.cpu_count()} cores, Python {python}, torch {torch}; load at the start {load:.2f}")
    if load > MAX_LOAD:
        print(f"warning: the load is above {MAX_LOAD}: something else is running, and the times are too long")


def processor() -> str:
    """The processor's name as Linux tells it, elsewhere as Python does."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def seconds(work: Callable[[], object]) -> float:
    """Wall time of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spread(values: Sequence[float], digits: int = 3) -> tuple[float, float, float]:
    """Median and quartiles (lower, upper); all the same for one value."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return round(median, digits), round(low, digits), round(high, digits)


def write_csv(name: str, rows: Sequence[Mapping[str, object]]) -> None:
    """The rows as benchmarks/NAME.csv."""
    with (FOLDER / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def say(row: Mapping[str, object]) -> None:
    """Print one row."""
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
