"""The work for one run on any executor: train it with one thread, judge it, and return its record.

torch is imported inside the functions, so that a driver can refer to them without loading it.
"""

from __future__ import annotations

import functools
import math
import platform
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING

import normexp
from normexp.config.plugins import Plugin, add
from normexp.config.run import RunConfig
from normexp.execution.events import Progress
from normexp.execution.machine import processor
from normexp.records import outcome
from normexp.records.execution_path import ExecutionPath
from normexp.records.record import STEP, Losses, RunRecord, Status, step_word

if TYPE_CHECKING:
    from normexp.data.tasks import TaskName
    from normexp.training.loop import Training

Report = Callable[[Progress], None]
Work = Callable[[RunConfig, Report], RunRecord]
"""The function that an executor calls for each config. It must be picklable."""

THREADS = 1
"""torch threads of every run, independent of OMP_NUM_THREADS: their number changes the last digits of losses."""
REPORT_SECONDS = 0.2
"""Shortest time between two reports of a run."""


@dataclass(frozen=True, slots=True)
class Job:
    """Train and judge a config. Returns a record that is done, or failed with the traceback as its log.

    The text of `plugins` is sent with the job. With `save_weights`, records include the trained weights. With
    `autograd`, gradients are computed with autograd, equal to the faster paths up to rounding; `path` selects an
    execution path. `losses` are reference losses that the driver has already estimated, by task. With `watched`, layer
    signals are measured for every report, not only at evaluations.
    """

    plugins: tuple[Plugin, ...] = ()
    save_weights: bool = False
    autograd: bool = False
    losses: Mapping[TaskName, Losses] = field(default_factory=dict)
    watched: bool = False
    path: ExecutionPath | None = None

    def __call__(self, config: RunConfig, report: Report) -> RunRecord:
        from normexp.data.tasks import remember

        for plugin in self.plugins:
            add(plugin)
        remember(self.losses)
        work = functools.partial(
            _train, save_weights=self.save_weights, autograd=self.autograd, watched=self.watched, path=self.path
        )
        return attempt(work, config, report)


def attempt(work: Work, config: RunConfig, report: Report) -> RunRecord:
    """Return what `work` returns, or after an exception a failed record, with the traceback as its log."""
    start = time.perf_counter()
    try:
        return work(config, report)
    except Exception as fault:
        return RunRecord(
            config=config,
            status=Status.FAILED,
            error=one_line(fault),
            log=traceback.format_exc(),
            seconds={"total": time.perf_counter() - start},
            environment=environment() | {"torch_threads": THREADS} if "torch" in sys.modules else {},
        )


def one_line(fault: BaseException) -> str:
    """Return an exception's type and the first line of its message."""
    lines = str(fault).strip().splitlines()
    return f"{type(fault).__name__}: {lines[0]}" if lines else type(fault).__name__


def environment() -> dict[str, str | int]:
    """Return what results may depend on besides the config: versions, processor and torch threads."""
    import torch

    return {**machine(), "torch_threads": torch.get_num_threads()}


@functools.cache
def machine() -> Mapping[str, str]:
    """Return the part of the environment that is constant in this process and its forks."""
    import torch

    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": metadata.version("numpy"),
        "normexp": normexp.__version__,
        "platform": platform.platform(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "processor": processor(),
    }


def throttled(report: Report) -> Report:
    """Limit reports to one per REPORT_SECONDS. Others are dropped, unless they are non-finite."""
    next_time = 0.0

    def throttle(progress: Progress) -> None:
        nonlocal next_time
        now = time.monotonic()
        if now >= next_time or not (math.isfinite(progress.loss) and math.isfinite(progress.grad_norm)):
            next_time = now + REPORT_SECONDS
            report(progress)

    return throttle


def _train(
    config: RunConfig,
    report: Report,
    *,
    save_weights: bool = False,
    autograd: bool = False,
    watched: bool = False,
    path: ExecutionPath | None = None,
) -> RunRecord:
    from normexp.training.loop import train
    from normexp.training.trainer import thread_count

    def step(number: int, loss: float, grad_norm: float, rms_by_layer: tuple[float, ...]) -> None:
        report(Progress(config=config, step=number, loss=loss, grad_norm=grad_norm, rms_by_layer=rms_by_layer))

    start = time.perf_counter()
    with thread_count(THREADS):
        look_seconds = REPORT_SECONDS if watched else math.inf
        training = train(config, report=step, autograd=autograd, path=path, look_seconds=look_seconds)
        verdict = outcome.judge(training.result, training.traces.evaluations, vocab=config.vocab, steps=config.steps)
        seconds: Mapping[str, float] = {**training.seconds, "total": time.perf_counter() - start}
        return RunRecord(
            config=config,
            status=Status.DONE,
            result=training.result,
            verdict=verdict,
            traces=training.traces,
            weights=_weights(training, config) if save_weights else None,
            seconds=seconds,
            environment=environment() | {STEP: step_word(training.choice.path), **training.choice.made_by},
        )


def _weights(training: Training, config: RunConfig) -> bytes:
    from normexp.training.weights import weights_bytes

    return weights_bytes(training.network, config)
