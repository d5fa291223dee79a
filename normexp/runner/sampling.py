"""A few shortened runs of a sweep, made to see how long all of it will take. Nothing of them is stored."""

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
"""A sweep that is guessed to take less is not worth the seconds that a sample takes."""
RUN_SECONDS = 1.0
"""A short run is guessed to take so long."""
FEWEST_STEPS = 3
MOST_RUNS = 8
MOST_NETWORKS = 4


def seconds(
    todo: Sequence[RunConfig], stored: Iterable[RunRecord], options: Options, losses: Mapping[TaskName, Losses]
) -> tuple[float, str]:
    """Seconds for the runs, tables and figures included, and what the figure rests on.

    That is stored runs, where there are some of every mixer; else, for all but short sweeps, a sample made now; else a
    guess.
    """
    jobs, records = workers_to_count_on(options.jobs, options.scheduler), list(stored)
    pace = time_left.pace(records)
    unknown = {config.mixer for config in todo} - set(pace.slowness)
    if unknown and time_left.seconds(todo, pace, jobs) >= SAMPLED_FROM_SECONDS:
        pace = _sampled(todo, jobs, options, losses) or pace
    return time_left.seconds(todo, pace, jobs), pace.basis


def _sampled(todo: Sequence[RunConfig], jobs: int, options: Options, losses: Mapping[TaskName, Losses]) -> Pace | None:
    """The pace of a sample; None where there is none to be had: on other machines, and where workers fail."""
    if options.scheduler is not None:
        return None
    job = Job(plugins.loaded(), autograd=options.autograd, losses=losses)
    try:
        found = sample(todo, jobs, chosen(options.executor, None), job)
    except LauncherError:
        return None
    return time_left.pace((), found) if found and time_left.slowness(found.records) is not None else None


def sample(
    todo: Sequence[RunConfig], jobs: int, execute: Executor, job: Job, clock: Callable[[], float] = time.monotonic
) -> Sample | None:
    """Make one run of a step, whose time is that of starting the workers, then as many short ones as run at once.

    None where a run did not come to its end.
    """
    shapes = networks(todo)
    first = _timed([_shortened(shapes[0], 1)], 1, execute, job, clock)
    count = min(jobs, len(todo), MOST_RUNS)
    numbers = range(max(count, len(shapes)))
    short = [replace(shorter(shapes[number % len(shapes)]), seed=number) for number in numbers]
    made = _timed(short, min(jobs, MOST_RUNS), execute, job, clock)
    if not all(record.status is Status.DONE for record, _ in (*first, *made)):
        return None
    beside = [max(0.0, whole - _trained(record)) for record, whole in made]
    (record, whole), run_seconds = first[0], statistics.median(beside)
    start = max(0.0, whole - _trained(record) - run_seconds)
    return Sample(records=[record for record, _ in made], start_seconds=start, run_seconds=run_seconds)


def networks(todo: Sequence[RunConfig]) -> list[RunConfig]:
    """One run of each kind of network, those first that take most of the time; at most `MOST_NETWORKS`."""
    shares: dict[tuple[object, ...], float] = {}
    example: dict[tuple[object, ...], RunConfig] = {}
    for config in todo:
        kind = (config.mixer, config.dtype, config.norm, config.qk_norm, config.position, time_left.flops(config))
        shares[kind] = shares.get(kind, 0.0) + time_left.work(config)
        example.setdefault(kind, config)
    return [example[kind] for kind in sorted(shares, key=lambda kind: -shares[kind])[:MOST_NETWORKS]]


def shorter(config: RunConfig) -> RunConfig:
    """The run with as many steps as are guessed to take `RUN_SECONDS`, evaluated before and after them."""
    return _shortened(config, max(FEWEST_STEPS, math.floor(RUN_SECONDS / time_left.guess(config, 1))))


def _shortened(config: RunConfig, steps: int) -> RunConfig:
    steps = min(steps, config.steps)
    return replace(config, steps=steps, eval_every=steps)


def _timed(
    configs: Sequence[RunConfig], jobs: int, execute: Executor, job: Job, clock: Callable[[], float]
) -> list[tuple[RunRecord, float]]:
    """Records, each with the seconds from its turn to its end."""
    before, started, found = clock(), dict[str, float](), list[tuple[RunRecord, float]]()
    with closing(execute(configs, jobs=jobs, work=job)) as events:
        for event in events:
            if isinstance(event, Started):
                started[event.config.run_id] = clock() if started else before
            elif isinstance(event, Finished):
                found.append((event.record, clock() - started[event.record.run_id]))
    return found


def _trained(record: RunRecord) -> float:
    return record.seconds.get("steps", 0.0) + record.seconds.get("eval", 0.0)
