"""How long runs will take, from how long stored ones took; without any, from a guess at the processor's rate."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from normexp.record import RunRecord
from normexp.run import RunConfig

ASSUMED_RATE = 3e10
"""Floating-point operations a second of a training step on one core, where nothing has been measured."""
BACKWARD = 3
"""Forward and backward cost this many forwards."""


def flops(config: RunConfig) -> float:
    """Floating-point operations of the matrix products of one training step."""
    width = config.width
    mixer = 4 * width * width if config.mixer == "attention" else width * width
    block = mixer + 2 * width * config.hidden
    tokens = config.batch * config.seq_len
    return 2.0 * BACKWARD * tokens * (config.depth * block + width * config.vocab)


def measured_rate(records: Iterable[RunRecord]) -> float | None:
    """Operations a second that stored runs reached, over all their seconds; None without any."""
    rates = [
        flops(record.config) * record.result.steps_done / record.seconds["total"]
        for record in records
        if record.result is not None and record.result.steps_done and record.seconds.get("total")
    ]
    return statistics.median(rates) if rates else None


def seconds(todo: Sequence[RunConfig], records: Iterable[RunRecord], jobs: int) -> tuple[float, str]:
    """Seconds for the runs on `jobs` workers, and what the figure rests on."""
    rate = measured_rate(records)
    basis = "by stored runs" if rate is not None else "a guess: no run is stored yet"
    work = [flops(config) * config.steps / (rate or ASSUMED_RATE) for config in todo]
    return max(sum(work) / jobs, max(work, default=0.0)), basis
