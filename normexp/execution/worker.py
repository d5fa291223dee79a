"""What is done for one run, wherever it is executed: train it with one thread, judge it, make its record.

torch is imported inside the functions, so that a driver may name them without loading it.
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
"""What an executor does for each config. With processes it is pickled by name, so it stands in a module of its own."""

THREADS = 1
"""torch threads of every run, whatever OMP_NUM_THREADS says: their number changes the last digits of a loss."""
REPORT_SECONDS = 0.2
"""Least time between two reports of a run."""


@dataclass(frozen=True, slots=True)
class Job:
    """Train and judge a config: a record that is done, or failed with the traceback as its log; see `attempt`.

    The text of `plugins` travels with it. Records bring the trained weights if asked for.
    With `autograd`, autograd computes the gradients: the reference of the faster paths, equal to them up to rounding.
    `path` names another path than the fastest.
    `losses` are reference losses that the driver has estimated already, by their task. Where someone has the layers
    `watched`, they are measured for every report, not at evaluations alone.
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
    """What `work` returns; for an exception, a failed record: one line of error, and the traceback as its log."""
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
    """An exception's type and the first line of its message."""
    lines = str(fault).strip().splitlines()
    return f"{type(fault).__name__}: {lines[0]}" if lines else type(fault).__name__


def environment() -> dict[str, str | int]:
    """Versions, processor and torch threads of this process: what numbers may depend on besides their config."""
    import torch

    return {**machine(), "torch_threads": torch.get_num_threads()}


@functools.cache
def machine() -> Mapping[str, str]:
    """What stays the same in a process and those that are forked from it."""
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
    """The same report, but at most once in REPORT_SECONDS: those between are dropped, unless they are not finite."""
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
