"""Estimate the time of a sweep by making a few shortened runs, which are not stored."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from normexp.config import plugins
from normexp.config.run import RunConfig
from normexp.execution.events import Finished, Started
from normexp.execution.executors import Executor, chosen, workers_to_count_on
from normexp.execution.pool.launch import LauncherError
from normexp.execution.worker import Job
from normexp.records.record import Losses, RunRecord, Status
from normexp.runner import time_left
from normexp.runner.run_selection import Options
from normexp.runner.time_left import Pace, Sample

if TYPE_CHECKING:
    from normexp.data.tasks import TaskName

SAMPLED_FROM_SECONDS = 20.0
"""Estimated time of a sweep from which a sample is worth its own time."""
RUN_SECONDS = 1.0
"""Target time of a shortened run."""
FEWEST_STEPS = 3
MOST_RUNS = 8
MOST_NETWORKS = 4


def seconds(
    todo: Sequence[RunConfig], stored: Iterable[RunRecord], options: Options, losses: Mapping[TaskName, Losses]
) -> tuple[float, str]:
    """Estimate the seconds for the runs, including tables and figures, and name the basis of the estimate.

    The basis is stored runs if there are some of every mixer; otherwise a sample, or a guess for short sweeps.
    """
    jobs, records = workers_to_count_on(options.jobs, options.scheduler), list(stored)
    pace = time_left.pace(records)
    unknown = {config.mixer for config in todo} - set(pace.slowness)
    if unknown and time_left.seconds(todo, pace, jobs) >= SAMPLED_FROM_SECONDS:
        pace = _sampled(todo, jobs, options, losses) or pace
    return time_left.seconds(todo, pace, jobs), pace.basis


def _sampled(todo: Sequence[RunConfig], jobs: int, options: Options, losses: Mapping[TaskName, Losses]) -> Pace | None:
    """Return the pace of a sample; None if runs are executed on other machines or workers fail."""
    if options.scheduler is not None:
        return None
    job = Job(plugins.loaded(), autograd=options.autograd, losses=losses)
    try:
        measured = sample(todo, jobs, chosen(options.executor, None), job)
    except LauncherError:
        return None
    return time_left.pace((), measured) if measured and time_left.slowness(measured.records) is not None else None


def sample(
    todo: Sequence[RunConfig], jobs: int, execute: Executor, job: Job, clock: Callable[[], float] = time.monotonic
) -> Sample | None:
    """Make one run of a single step, to time the start of the workers, then as many shortened runs as run in parallel.

    Return None if a run failed.
    """
    shapes = networks(todo)
    first = _timed([_shortened(shapes[0], 1)], 1, execute, job, clock)
    count = min(jobs, len(todo), MOST_RUNS)
    numbers = range(max(count, len(shapes)))
    short = [replace(shorter(shapes[number % len(shapes)]), seed=number) for number in numbers]
    timed = _timed(short, min(jobs, MOST_RUNS), execute, job, clock)
    if not all(record.status is Status.DONE for record, _ in (*first, *timed)):
        return None
    beside = [max(0.0, total - _trained(record)) for record, total in timed]
    (record, total), run_seconds = first[0], statistics.median(beside)
    start = max(0.0, total - _trained(record) - run_seconds)
    return Sample(records=[record for record, _ in timed], start_seconds=start, run_seconds=run_seconds)


def networks(todo: Sequence[RunConfig]) -> list[RunConfig]:
    """Return one run per kind of network, sorted by their share of the time, at most `MOST_NETWORKS`."""
    shares: dict[tuple[object, ...], float] = {}
    example: dict[tuple[object, ...], RunConfig] = {}
    for config in todo:
        kind = (config.mixer, config.dtype, config.norm, config.qk_norm, config.position, time_left.flops(config))
        shares[kind] = shares.get(kind, 0.0) + time_left.work(config)
        example.setdefault(kind, config)
    return [example[kind] for kind in sorted(shares, key=lambda kind: -shares[kind])[:MOST_NETWORKS]]


def shorter(config: RunConfig) -> RunConfig:
    """Shorten a run to the number of steps that should take `RUN_SECONDS`, with evaluations before and after."""
    return _shortened(config, max(FEWEST_STEPS, math.floor(RUN_SECONDS / time_left.guess(config, 1))))


def _shortened(config: RunConfig, steps: int) -> RunConfig:
    steps = min(steps, config.steps)
    return replace(config, steps=steps, eval_every=steps)


def _timed(
    configs: Sequence[RunConfig], jobs: int, execute: Executor, job: Job, clock: Callable[[], float]
) -> list[tuple[RunRecord, float]]:
    """Return the records, each with the seconds from its start to its end."""
    before, started, timed = clock(), dict[str, float](), list[tuple[RunRecord, float]]()
    with closing(execute(configs, jobs=jobs, work=job)) as events:
        for event in events:
            if isinstance(event, Started):
                started[event.config.run_id] = clock() if started else before
            elif isinstance(event, Finished):
                timed.append((event.record, clock() - started[event.record.run_id]))
    return timed


def _trained(record: RunRecord) -> float:
    return record.seconds.get("steps", 0.0) + record.seconds.get("eval", 0.0)
