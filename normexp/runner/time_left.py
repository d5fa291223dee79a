"""How long runs will take: from how long stored or sampled ones took; without any, from a guess at the processor.

A run is its steps and its evaluations, which a guess weighs against each other, and some seconds beside them. A sweep
is its runs, the start of its workers before them, and tables and figures behind them.
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
"""Floating-point operations a second of a training step on one core, where nothing has been measured."""
ASSUMED_OVERHEAD_SECONDS = 6e-4
"""What a block costs in a training step however small it is; head, loss and update together count as one."""
BACKWARD = 3
"""Forward and backward cost this many forwards."""
SIGNAL_STEPS = 2
"""Training steps that the layers' signal costs, which each evaluation measures by autograd with hooks."""
ASSUMED_RUN_SECONDS = 0.1
"""A process, its task and its record."""
ASSUMED_START_SECONDS = 3.0
"""Workers import torch once."""
ASSUMED_END_SECONDS = 3.0
"""Tables and figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Shortened runs of a sweep, and seconds measured around them: to start the workers once, and beside each run."""

    records: Sequence[RunRecord]
    start_seconds: float
    run_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many times as long as guessed steps and evaluations take, and seconds that do not grow with them.

    `slowness` is by mixer, `overall` for any other. `basis` says what it rests on.
    """

    basis: str
    overall: float = 1.0
    slowness: Mapping[str, float] = field(default_factory=dict)
    run_seconds: float = ASSUMED_RUN_SECONDS
    start_seconds: float = ASSUMED_START_SECONDS

    def run(self, config: RunConfig) -> float:
        """Seconds of a run."""
        return self.slowness.get(config.mixer, self.overall) * work(config) + self.run_seconds

    @property
    def end_seconds(self) -> float:
        """Seconds of tables and figures, taken to be slow as steps are."""
        return ASSUMED_END_SECONDS * self.overall


def flops(config: RunConfig) -> float:
    """Floating-point operations of the matrix products of one training step."""
    width = config.width
    mixer = 4 * width * width if config.mixer == "attention" else width * width
    block = mixer + 2 * width * config.hidden
    tokens = config.batch * config.seq_len
    return 2.0 * BACKWARD * tokens * (config.depth * block + width * config.vocab)


def guess(config: RunConfig, steps: float) -> float:
    """Seconds for so many steps on an assumed processor."""
    return steps * (flops(config) / ASSUMED_RATE + ASSUMED_OVERHEAD_SECONDS * (config.depth + 1))


def evaluation(config: RunConfig) -> float:
    """Seconds for an evaluation on an assumed processor: the validation set forward, and the layers' signal."""
    return guess(config, VALIDATION_SEQUENCES / config.batch / BACKWARD + SIGNAL_STEPS)


def work(config: RunConfig, start: int = 0, stop: int | None = None) -> float:
    """Seconds on an assumed processor from after step `start` to after `stop`, by default all of a run.

    From 0 on, that includes the evaluation before the first step.
    """
    stop = config.steps if stop is None else stop
    count = stop // config.eval_every - start // config.eval_every
    count += start == 0
    count += stop == config.steps > start and stop % config.eval_every != 0
    return guess(config, stop - start) + count * evaluation(config)


def longest_first(todo: Iterable[RunConfig]) -> list[RunConfig]:
    """The runs by length as guessed, so that the last workers end about together; equal ones stay in their order."""
    return sorted(todo, key=lambda config: -work(config))


def slowness(records: Iterable[RunRecord]) -> float | None:
    """How many times as long as guessed the steps and evaluations of runs took; None without any.

    The median, each run weighing as much as its guess: many short ones do not decide over a long one.
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
    """Seconds of a run that are not of its steps and evaluations (data, a replay): the median, None without any."""
    others = [record.seconds["total"] - _trained(record) for record in records if _timed(record)]
    return max(0.0, statistics.median(others)) if others else None


def _trained(record: RunRecord) -> float:
    return record.seconds["steps"] + record.seconds.get("eval", 0.0)


def _timed(record: RunRecord) -> bool:
    return all(0 < record.seconds.get(name, 0) < math.inf for name in ("steps", "total"))


def pace(records: Iterable[RunRecord], sample: Sample | None = None) -> Pace:
    """That of a sample, or else of stored runs, or else a guess."""
    measured = list(records if sample is None else sample.records)
    overall = slowness(measured)
    if overall is None:
        return Pace(basis="a guess: no run is stored yet")
    mixers = {record.config.mixer for record in measured}
    found = {mixer: slowness(record for record in measured if record.config.mixer == mixer) for mixer in mixers}
    by_mixer = {mixer: ratio for mixer, ratio in found.items() if ratio is not None}
    if sample is None:
        beside = ASSUMED_RUN_SECONDS + (beside_training(measured) or 0.0)
        return Pace(basis="by stored runs", overall=overall, slowness=by_mixer, run_seconds=beside)
    return Pace(
        basis=f"measured now by {plural(len(measured), 'short run')}",
        overall=overall,
        slowness=by_mixer,
        run_seconds=sample.run_seconds,
        start_seconds=sample.start_seconds,
    )


def seconds(todo: Sequence[RunConfig], pace: Pace, jobs: int) -> float:
    """Seconds for a sweep of these runs on `jobs` workers, from the start of the first to the last figure."""
    if not todo:
        return 0.0
    runs = [pace.run(config) for config in todo]
    return pace.start_seconds + max(sum(runs) / jobs, *runs) + pace.end_seconds
