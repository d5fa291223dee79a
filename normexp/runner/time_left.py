"""Estimate how long runs take, from the times of stored or sampled runs, or from a guess at the processor.

The time of a run is that of its steps and evaluations, whose relative cost is guessed, and a constant. The time of a
sweep is the start of the workers, the runs, and the tables and figures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from normexp.config.labels import plural
from normexp.config.run import RunConfig
from normexp.data.tasks import VALIDATION_SEQUENCES
from normexp.records.record import RunRecord

ASSUMED_RATE = 7e10
"""Floating-point operations per second of a training step on one core, if nothing has been measured."""
ASSUMED_OVERHEAD_SECONDS = 6e-4
"""Constant cost of a block per training step. LM head, loss and update together count as one block."""
BACKWARD = 3
"""Cost of forward and backward pass together, in forward passes."""
SIGNAL_STEPS = 2
"""Cost of the layer signal, in training steps. Each evaluation measures it with autograd and hooks."""
ASSUMED_RUN_SECONDS = 0.1
"""Time for the process, task and record of a run."""
ASSUMED_START_SECONDS = 3.0
"""Time for the workers to import torch, once."""
ASSUMED_END_SECONDS = 3.0
"""Time for tables and figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Shortened runs of a sweep, the seconds to start the workers, and the seconds per run outside training."""

    records: Sequence[RunRecord]
    start_seconds: float
    run_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The measured time of steps and evaluations relative to the guess, and the constant seconds.

    `slowness` is the ratio by mixer, `overall` the ratio for other mixers. `basis` describes what was measured.
    """

    basis: str
    overall: float = 1.0
    slowness: Mapping[str, float] = field(default_factory=dict)
    run_seconds: float = ASSUMED_RUN_SECONDS
    start_seconds: float = ASSUMED_START_SECONDS

    def run(self, config: RunConfig) -> float:
        """Return the estimated seconds of a run."""
        return self.slowness.get(config.mixer, self.overall) * work(config) + self.run_seconds

    @property
    def end_seconds(self) -> float:
        """Seconds for tables and figures, assumed to scale like steps."""
        return ASSUMED_END_SECONDS * self.overall


def flops(config: RunConfig) -> float:
    """Return the floating-point operations of the matrix products of one training step."""
    width = config.width
    mixer = 4 * width * width if config.mixer == "attention" else width * width
    block = mixer + 2 * width * config.hidden
    tokens = config.batch * config.seq_len
    return 2.0 * BACKWARD * tokens * (config.depth * block + width * config.vocab)


def guess(config: RunConfig, steps: float) -> float:
    """Return the seconds of `steps` steps on the assumed processor."""
    return steps * (flops(config) / ASSUMED_RATE + ASSUMED_OVERHEAD_SECONDS * (config.depth + 1))


def evaluation(config: RunConfig) -> float:
    """Return the seconds of an evaluation on the assumed processor: forward on the validation set, and layer signal."""
    return guess(config, VALIDATION_SEQUENCES / config.batch / BACKWARD + SIGNAL_STEPS)


def work(config: RunConfig, start: int = 0, stop: int | None = None) -> float:
    """Return the seconds on the assumed processor for the steps after `start` up to `stop`, by default the whole run.

    With `start` 0, this includes the evaluation before the first step.
    """
    stop = config.steps if stop is None else stop
    count = stop // config.eval_every - start // config.eval_every
    count += start == 0
    count += stop == config.steps > start and stop % config.eval_every != 0
    return guess(config, stop - start) + count * evaluation(config)


def longest_first(todo: Iterable[RunConfig]) -> list[RunConfig]:
    """Sort runs by guessed time, longest first, so that the workers finish at about the same time."""
    return sorted(todo, key=lambda config: -work(config))


def slowness(records: Iterable[RunRecord]) -> float | None:
    """Return the measured time of steps and evaluations relative to the guess; None without timed runs.

    This is the median weighted by the guess, so that many short runs do not outweigh a long one.
    """
    ratios = []
    for record in records:
        if record.result is not None and record.result.steps_done and _timed(record):
            guessed = work(record.config, 0, record.result.steps_done)
            ratios.append((_trained(record) / guessed, guessed))
    half, below = sum(weight for _, weight in ratios) / 2, 0.0
    for ratio, weight in sorted(ratios):
        below += weight
        if below >= half:
            return ratio
    return None


def beside_training(records: Iterable[RunRecord]) -> float | None:
    """Return the median seconds of a run outside steps and evaluations (data, a replay); None without timed runs."""
    others = [record.seconds["total"] - _trained(record) for record in records if _timed(record)]
    return max(0.0, statistics.median(others)) if others else None


def _trained(record: RunRecord) -> float:
    return record.seconds["steps"] + record.seconds.get("eval", 0.0)


def _timed(record: RunRecord) -> bool:
    return all(0 < record.seconds.get(name, 0) < math.inf for name in ("steps", "total"))


def pace(records: Iterable[RunRecord], sample: Sample | None = None) -> Pace:
    """Return the pace of the sample if given, else of stored runs, else a guess."""
    measured = list(records if sample is None else sample.records)
    overall = slowness(measured)
    if overall is None:
        return Pace(basis="a guess, since no runs are stored yet")
    mixers = {record.config.mixer for record in measured}
    ratios = {mixer: slowness(record for record in measured if record.config.mixer == mixer) for mixer in mixers}
    by_mixer = {mixer: ratio for mixer, ratio in ratios.items() if ratio is not None}
    if sample is None:
        beside = ASSUMED_RUN_SECONDS + (beside_training(measured) or 0.0)
        return Pace(basis="based on stored runs", overall=overall, slowness=by_mixer, run_seconds=beside)
    return Pace(
        basis=f"measured with {plural(len(measured), 'short run')}",
        overall=overall,
        slowness=by_mixer,
        run_seconds=sample.run_seconds,
        start_seconds=sample.start_seconds,
    )


def seconds(todo: Sequence[RunConfig], pace: Pace, jobs: int) -> float:
    """Return the seconds for a sweep of these runs on `jobs` workers, including the start and the figures."""
    if not todo:
        return 0.0
    runs = [pace.run(config) for config in todo]
    return pace.start_seconds + max(sum(runs) / jobs, *runs) + pace.end_seconds
