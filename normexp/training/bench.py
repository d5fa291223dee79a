"""Times of norms beside each other, and of training steps with them.

All candidates take turns within a round, in an order drawn anew for each, so that a drift of the machine meets them all
alike, and none is always run on what another left in the caches.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig
from normexp.data.tasks import Batch
from normexp.errors import UserError
from normexp.model.rms_norm import RMSNorm
from normexp.records.execution_path import ExecutionPath
from normexp.records.measurements import BOTH, FORWARD, STEP, Rounds
from normexp.training.paths.choice import fastest
from normexp.training.trainer import Trainer, parameter_count, thread_count

EPS = 1e-5
REFERENCE = "LayerNorm"
WARMUP_CALLS, WARMUP_STEPS = 3, 3
MEASURED_SECONDS = 5e-4
"""A measurement is of so many calls that LayerNorm's takes about so long."""
MOST_ROUNDS, FEWEST_ROUNDS, ROUNDS_SECONDS = 100, 5, 1.0
"""Where the rounds are not given: as many as fit in so many seconds, within these bounds."""
STILL = 1e-12
"""A learning rate that changes no parameter: a network that would die skips no update."""

Call = Callable[[], object]
Name = TypeVar("Name", bound=str)


class HandwrittenRMSNorm(nn.Module):
    """The formula as one writes it."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x / torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True) + self.eps)


CANDIDATES: Mapping[str, Callable[[int], nn.Module]] = MappingProxyType(
    {
        REFERENCE: lambda width: nn.LayerNorm(width, eps=EPS),
        "nn.RMSNorm": lambda width: nn.RMSNorm(width, eps=EPS),
        "handwritten": lambda width: HandwrittenRMSNorm(width, EPS),
        "normexp": lambda width: RMSNorm(width, EPS),
    }
)
"""The norms that are compared."""


def operators(shape: tuple[int, ...], threads: int, rounds: int | None = None) -> Iterator[Rounds]:
    """Every candidate at a shape (last axis: features), forward (in training), then forward with backward."""
    generator = torch.Generator().manual_seed(0)
    x, upstream = (torch.randn(shape, generator=generator) for _ in range(2))
    norms = {name: make(shape[-1]) for name, make in CANDIDATES.items()}
    parts: dict[str, Callable[[nn.Module], Call]] = {
        FORWARD: lambda norm: lambda: norm(x),
        BOTH: lambda norm: _both(norm, x.requires_grad_(), upstream),
    }
    for part, call in parts.items():
        with thread_count(threads):
            seconds = interleaved({name: call(norm) for name, norm in norms.items()}, rounds)
        yield Rounds(
            part=part,
            where="x".join(map(str, shape)),
            threads=threads,
            seconds=seconds,
            parameters={name: parameter_count(norm) for name, norm in norms.items()},
        )


def _both(norm: nn.Module, x: Tensor, upstream: Tensor) -> Call:
    inputs = (x, *norm.parameters())
    return lambda: torch.autograd.grad(norm(x), inputs, upstream)


def interleaved(calls: Mapping[str, Call], rounds: int | None) -> dict[str, list[float]]:
    """Seconds a call of each, round by round."""
    for call in calls.values():
        _seconds(call, WARMUP_CALLS)
    once = {name: _seconds(call, 1) for name, call in calls.items()}
    repeats = min(100, max(1, math.ceil(MEASURED_SECONDS / next(iter(once.values())))))
    if rounds is None:
        fitting = int(ROUNDS_SECONDS / (repeats * sum(once.values())))
        rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, fitting))
    return _in_turns({name: lambda call=call: _seconds(call, repeats) for name, call in calls.items()}, rounds)  # type: ignore[misc]


def _in_turns(measure: Mapping[Name, Callable[[], float]], rounds: int) -> dict[Name, list[float]]:
    found: dict[Name, list[float]] = {name: [] for name in measure}
    order, names = random.Random(0), list(measure)
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            found[name].append(measure[name]())
    return found


def _seconds(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def steps(configs: Mapping[str, RunConfig], rounds: int, where: str) -> Rounds:
    """Training steps on one thread, checks and update included, of the configs in turns; they share task and batch.

    Raises UserError where loss or gradient of one of them are non-finite from the start: its step is cut short.
    """
    trainers = {norm: Trainer(replace(config, lr=STILL)) for norm, config in configs.items()}
    first = next(iter(trainers.values()))
    batches = first.task.batches(first.config.seed, first.config.batch)
    with thread_count(1):
        for norm, trainer in trainers.items():
            for batch in itertools.islice(batches, WARMUP_STEPS):
                bad = trainer.step(1, batch).bad
                if bad is not None:
                    raise UserError(
                        f"a step with norm={norm} cannot be timed: its {bad} is non-finite from the start; "
                        "write fewer layers (depth=12) or tamer weights (init=torch init_gain=1)"
                    )
        seconds = _in_turns({norm: _stepper(trainer, batches) for norm, trainer in trainers.items()}, rounds)
    parameters = {norm: parameter_count(trainer.network) for norm, trainer in trainers.items()}
    return Rounds(part=STEP, where=where, threads=1, seconds=seconds, parameters=parameters)


def paths(config: RunConfig, rounds: int) -> dict[ExecutionPath, list[float]]:
    """Seconds of training steps on one thread by every path that works here, in turns, on the same batches.

    Raises UserError where a step of the config is non-finite from the start.
    """
    found = fastest().path
    working = [path for path in ExecutionPath if path is not ExecutionPath.COMPILED or path is found]
    working = working if found is not ExecutionPath.AUTOGRAD else [found]
    trainers = {path: Trainer(replace(config, lr=STILL), path=path) for path in working}
    batches = next(iter(trainers.values())).task.batches(config.seed, config.batch)
    with thread_count(1):
        for path, trainer in trainers.items():
            for batch in itertools.islice(batches, WARMUP_STEPS):
                bad = trainer.step(1, batch).bad
                if bad is not None:
                    raise UserError(f"a step by {path} cannot be timed: its {bad} is non-finite from the start")
        return _in_turns({path: _stepper(trainer, batches) for path, trainer in trainers.items()}, rounds)


def _stepper(trainer: Trainer, batches: Iterator[Batch]) -> Callable[[], float]:
    def step() -> float:
        batch = next(batches)
        return _seconds(lambda: trainer.step(1, batch), 1)

    return step
