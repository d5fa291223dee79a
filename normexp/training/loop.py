"""The training loop: train one network until its last step or until it becomes non-finite, and measure it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch

from normexp.config.run import RunConfig
from normexp.data.tasks import Batch
from normexp.model.network import Network
from normexp.records.execution_path import ExecutionPath
from normexp.records.record import CurveRow, Death, Result, SignalRow, Traces
from normexp.training.divergence import locate_step, locate_validation, replay, training_signal
from normexp.training.layer_signal import activations, rms
from normexp.training.paths.choice import Choice
from normexp.training.trainer import Step, Trainer, kept_state, parameter_count, seeded

Report = Callable[[int, float, float, tuple[float, ...]], None]
"""Called at each step with its number, loss (nats), gradient norm, and the last measured RMS of each layer's stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The result of a training run, its traces, the trained network, and seconds by part (data, steps, eval, replay).

    `choice` is the execution path of the steps, and the reason for it.
    """

    network: Network
    choice: Choice
    result: Result
    traces: Traces
    seconds: Mapping[str, float]


class _Timer:
    """Seconds by part of the training."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("data", "steps", "eval", "replay"), 0.0)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start


@dataclass
class _Session:
    """A training run in progress: the trainer and the measurements so far."""

    trainer: Trainer
    timer: _Timer
    curve: list[CurveRow] = field(default_factory=list)
    layers: list[SignalRow] = field(default_factory=list)
    stream_rms: tuple[float, ...] = ()
    measured_at: float = 0.0

    def measure_stream(self) -> None:
        """Measure the residual stream by one more forward pass, without affecting the training."""
        network = self.trainer.network
        sizes: list[float] = []

        def see(layer: int, part: str, values: torch.Tensor) -> None:
            if part == "stream":
                sizes.append(rms(values))

        with torch.no_grad(), kept_state(network), activations(network, see):
            self.trainer.loss(self.trainer.signal_batch)
        self.stream_rms, self.measured_at = tuple(sizes), time.monotonic()

    def evaluate(self, number: int) -> tuple[float, Death | None]:
        """Return the validation loss after update `number`; record the signal on the first validation sequences."""
        with self.timer.part("eval"):
            loss = self.trainer.evaluate()
            rows = training_signal(self.trainer, number, self.trainer.signal_batch)
            self.layers += rows
            self.stream_rms = tuple(row.value for row in rows if row.part == "stream")
            return loss, None if math.isfinite(loss) else locate_validation(self.trainer, number, loss)

    def step(self, number: int, batch: Batch) -> tuple[Step, Death | None]:
        """Make update `number`, and locate the fault if the step is non-finite."""
        with self.timer.part("steps"):
            step = self.trainer.step(number, batch)
            if step.bad is None:
                return step, None
            return step, locate_step(self.trainer, number, batch, step.bad, step.loss)


def train(
    config: RunConfig,
    *,
    report: Report | None = None,
    autograd: bool = False,
    path: ExecutionPath | None = None,
    look_seconds: float = math.inf,
) -> Training:
    """Train the config's network on the calling thread; `autograd` and `path` are as in Trainer.

    For `report`, the residual stream is measured at evaluations, and again when `look_seconds` have passed since.
    Raises ValueError if the task has nothing to learn or an infinite reference loss.
    """
    with seeded(config):
        return _train(config, report, partial(Trainer, autograd=autograd, path=path), look_seconds)


def _train(
    config: RunConfig, report: Report | None, make: Callable[[RunConfig], Trainer], look_seconds: float
) -> Training:
    timer = _Timer()
    with timer.part("data"):
        session = _Session(make(config), timer)
        session.trainer.task.check()
        batches = session.trainer.task.batches(config.seed, config.batch)
    val_loss, death = session.evaluate(0)
    session.curve.append(CurveRow(step=0, lr=None, train_loss=None, grad_norm=None, val_loss=val_loss))
    number = 0
    while death is None and number < config.steps:
        number += 1
        with timer.part("data"):
            batch = next(batches)
        step, death = session.step(number, batch)
        evaluated = None
        if death is None and (number % config.eval_every == 0 or number == config.steps):
            evaluated, death = session.evaluate(number)
        session.curve.append(
            CurveRow(step=number, lr=step.lr, train_loss=step.loss, grad_norm=step.grad_norm, val_loss=evaluated)
        )
        if report is not None:
            if death is None and time.monotonic() - session.measured_at > look_seconds:
                session.measure_stream()
            report(number, step.loss, step.grad_norm, session.stream_rms)
    with timer.part("replay"):
        death_layers = replay(config, death, make) if death is not None and number > 0 else []
    traces = Traces(curve=session.curve, layers=session.layers, death_layers=death_layers)
    return Training(
        network=session.trainer.network,
        choice=session.trainer.choice,
        result=_result(session, traces, death),
        traces=traces,
        seconds=timer.seconds,
    )


def _result(session: _Session, traces: Traces, death: Death | None) -> Result:
    evaluations = traces.evaluations
    finite = [loss for _, loss in evaluations if math.isfinite(loss)]
    last = traces.curve[-1]
    no_update = death is not None and death.where in ("activation", "loss", "grad")
    return Result(
        steps_done=last.step - no_update,
        losses=session.trainer.task.losses,
        init_val_loss=evaluations[0][1],
        best_val_loss=min(finite, default=None),
        final_val_loss=last.val_loss,
        peak_lr=max((row.lr for row in traces.curve if row.lr is not None), default=0.0),
        parameters=parameter_count(session.trainer.network),
        death=death,
    )
