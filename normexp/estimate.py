"""How long runs will take, from how long stored ones took; without any, from a guess at the processor."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from normexp.record import RunRecord
from normexp.run import RunConfig

ASSUMED_RATE = 7e10
"""Floating-point operations a second of a training step on one core, where nothing has been measured."""
ASSUMED_OVERHEAD_SECONDS = 6e-4
"""What a block costs in a training step however small it is; head, loss and update together count as one."""
BACKWARD = 3
"""Forward and backward cost this many forwards."""


def flops(config: RunConfig) -> float:
    """Floating-point operations of the matrix products of one training step."""
    width = config.width
    mixer = 4 * width * width if config.mixer == "attention" else width * width
    block = mixer + 2 * width * config.hidden
    tokens = config.batch * config.seq_len
    return 2.0 * BACKWARD * tokens * (config.depth * block + width * config.vocab)


def guess(config: RunConfig, steps: int) -> float:
    """Seconds for so many steps on an assumed processor."""
    return steps * (flops(config) / ASSUMED_RATE + ASSUMED_OVERHEAD_SECONDS * (config.depth + 1))


def longest_first(todo: Iterable[RunConfig]) -> list[RunConfig]:
    """The runs by length as guessed, so that the last workers end about together; equal ones stay in their order."""
    return sorted(todo, key=lambda config: -guess(config, config.steps))


def slowness(records: Iterable[RunRecord]) -> float | None:
    """How many times as long as guessed the steps of stored runs took; None without any.

    The median, each run weighing as much as its guess: many short ones do not decide over a long one.
    """
    ratios = []
    for record in records:
        if record.result is not None and record.result.steps_done and _timed(record):
            guessed = guess(record.config, record.result.steps_done)
            ratios.append((record.seconds["steps"] / guessed, guessed))
    half, below = sum(weight for _, weight in ratios) / 2, 0.0
    for ratio, weight in sorted(ratios):
        below += weight
        if below >= half:
            return ratio
    return None


def beside_steps(records: Iterable[RunRecord]) -> float:
    """Seconds of a stored run that are not of its steps (data, evaluations): the median, 0 without any."""
    others = [record.seconds["total"] - record.seconds["steps"] for record in records if _timed(record)]
    return max(0.0, statistics.median(others)) if others else 0.0


def _timed(record: RunRecord) -> bool:
    return all(0 < record.seconds.get(name, 0) < math.inf for name in ("steps", "total"))


def seconds(todo: Sequence[RunConfig], records: Iterable[RunRecord], jobs: int) -> tuple[float, str]:
    """Seconds for the runs on `jobs` workers, and what the figure rests on: stored runs of the same mixer, or any."""
    stored = list(records)
    overall = slowness(stored)
    basis = "by stored runs" if overall is not None else "a guess: no run is stored yet"
    factors: dict[str, float] = {}
    for mixer in {config.mixer for config in todo}:
        alike = slowness(record for record in stored if record.config.mixer == mixer)
        factors[mixer] = alike or overall or 1.0
    beside = beside_steps(stored)
    work = [guess(config, config.steps) * factors[config.mixer] + beside for config in todo]
    return max(sum(work) / jobs, max(work, default=0.0)), basis
