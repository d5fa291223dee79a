"""Times of norms, and of training steps with them, side by side.

Within a round every candidate is measured once, in an order that is shuffled for each round. Thus a drift of the
machine affects all candidates alike, and none always runs on the caches that a certain other one leaves behind.
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
"""Approximate duration of one measurement of LayerNorm, which determines the number of calls per measurement."""
MOST_ROUNDS, FEWEST_ROUNDS, ROUNDS_SECONDS = 100, 5, 1.0
"""Bounds of the number of rounds if it is not given, and the time that they should take."""
TINY_LR = 1e-12
"""A learning rate that changes no parameter, so that no network becomes non-finite and skips its update."""

Call = Callable[[], object]
Name = TypeVar("Name", bound=str)


class HandwrittenRMSNorm(nn.Module):
    """RMSNorm written as its formula."""

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
"""The norms that are timed."""


def operators(shape: tuple[int, ...], threads: int, rounds: int | None = None) -> Iterator[Rounds]:
    """Time all candidates at a shape (last axis: features): forward in training, then forward with backward."""
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
    """Return the seconds per call of each candidate, round by round."""
    for call in calls.values():
        _seconds(call, WARMUP_CALLS)
    once = {name: _seconds(call, 1) for name, call in calls.items()}
    repeats = min(100, max(1, math.ceil(MEASURED_SECONDS / next(iter(once.values())))))
    if rounds is None:
        fitting = int(ROUNDS_SECONDS / (repeats * sum(once.values())))
        rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, fitting))
    return _in_turns({name: lambda call=call: _seconds(call, repeats) for name, call in calls.items()}, rounds)  # type: ignore[misc]


def _in_turns(measure: Mapping[Name, Callable[[], float]], rounds: int) -> dict[Name, list[float]]:
    seconds: dict[Name, list[float]] = {name: [] for name in measure}
    order, names = random.Random(0), list(measure)
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            seconds[name].append(measure[name]())
    return seconds


def _seconds(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def steps(configs: Mapping[str, RunConfig], rounds: int, where: str) -> Rounds:
    """Time training steps of the configs, with checks and updates, on one thread. They share task and batches.

    Raises UserError if loss or gradient of a config are non-finite from the start, since its step would be cut short.
    """
    trainers = {norm: Trainer(replace(config, lr=TINY_LR)) for norm, config in configs.items()}
    first = next(iter(trainers.values()))
    batches = first.task.batches(first.config.seed, first.config.batch)
    with thread_count(1):
        for norm, trainer in trainers.items():
            for batch in itertools.islice(batches, WARMUP_STEPS):
                bad = trainer.step(1, batch).bad
                if bad is not None:
                    raise UserError(
                        f"cannot time a step with norm={norm}: its {bad} is non-finite from the start; "
                        "use fewer layers (depth=12) or smaller weights (init=torch init_gain=1)"
                    )
        seconds = _in_turns({norm: _stepper(trainer, batches) for norm, trainer in trainers.items()}, rounds)
    parameters = {norm: parameter_count(trainer.network) for norm, trainer in trainers.items()}
    return Rounds(part=STEP, where=where, threads=1, seconds=seconds, parameters=parameters)


def paths(config: RunConfig, rounds: int) -> dict[ExecutionPath, list[float]]:
    """Time training steps by every path that works here, on one thread and the same batches; return seconds per step.

    Raises UserError if a step of the config is non-finite from the start.
    """
    best = fastest().path
    working = [path for path in ExecutionPath if path is not ExecutionPath.COMPILED or path is best]
    working = working if best is not ExecutionPath.AUTOGRAD else [best]
    trainers = {path: Trainer(replace(config, lr=TINY_LR), path=path) for path in working}
    batches = next(iter(trainers.values())).task.batches(config.seed, config.batch)
    with thread_count(1):
        for path, trainer in trainers.items():
            for batch in itertools.islice(batches, WARMUP_STEPS):
                bad = trainer.step(1, batch).bad
                if bad is not None:
                    raise UserError(f"cannot time a step by {path}: its {bad} is non-finite from the start")
        return _in_turns({path: _stepper(trainer, batches) for path, trainer in trainers.items()}, rounds)


def _stepper(trainer: Trainer, batches: Iterator[Batch]) -> Callable[[], float]:
    def step() -> float:
        batch = next(batches)
        return _seconds(lambda: trainer.step(1, batch), 1)

    return step
