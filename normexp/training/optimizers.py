"""The tables of optimizers and of learning-rate schedules.

The updates are the kernels under torch.optim, called on flat parameters: its classes load torch's compiler first, which
takes longer than a short training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import torch
from torch import Tensor, nn

from normexp.run import RunConfig
from normexp.training.flat import FlatParameters

ADAM_EPS = 1e-8
"""Added to the root of the second moment. Kingma and Ba 2015, arXiv 1412.6980, algorithm 1."""

Parts = Sequence[tuple[nn.Parameter, float]]
"""Flat parameters, with their gradients, and the weight decay of each part."""


class Optimizer(Protocol):
    """Makes one update from the gradients that are there; says whether every parameter is finite, if it looked."""

    def step(self, lr: float) -> bool | None: ...


class Adam:
    """Adam (Kingma and Ba 2015); weight decay in the gradient or, `decoupled`, beside it (Loshchilov, Hutter 2019)."""

    def __init__(self, parts: Parts, config: RunConfig, *, decoupled: bool = False) -> None:
        self._update = torch.ops.aten._fused_adamw_ if decoupled else torch.ops.aten._fused_adam_
        self._betas = {"beta1": config.beta1, "beta2": config.beta2}
        self._parts = [(part, decay, _State(part)) for part, decay in parts]

    @torch.no_grad()
    def step(self, lr: float) -> None:
        for part, decay, state in self._parts:
            state.count += 1
            self._update(
                [part], [part.grad], [state.first], [state.second], [], [state.count],
                lr=lr, weight_decay=decay, eps=ADAM_EPS, amsgrad=False, maximize=False, **self._betas,
            )  # fmt: skip


class _State:
    def __init__(self, part: Tensor) -> None:
        self.first, self.second = torch.zeros_like(part), torch.zeros_like(part)
        self.count = torch.tensor(0.0)


class SGD:
    """Gradient descent without momentum, with weight decay in the gradient."""

    def __init__(self, parts: Parts, config: RunConfig) -> None:
        self._parts = parts

    @torch.no_grad()
    def step(self, lr: float) -> None:
        for part, decay in self._parts:
            assert part.grad is not None
            part.add_(part.grad.add(part, alpha=decay) if decay else part.grad, alpha=-lr)


def _adamw(parts: Parts, config: RunConfig) -> Adam:
    return Adam(parts, config, decoupled=True)


OPTIMIZERS: Mapping[str, Callable[[Parts, RunConfig], Optimizer]] = MappingProxyType(
    {"adam": Adam, "adamw": _adamw, "sgd": SGD}
)


def make_optimizer(
    config: RunConfig, flat: FlatParameters, table: Mapping[str, Callable[[Parts, RunConfig], Optimizer]] = OPTIMIZERS
) -> Optimizer:
    """The config's optimizer of a table, over the flat parameters; `weight_decay` falls on matrices alone."""
    return table[config.optimizer](list(zip(flat.groups, (config.weight_decay, 0.0), strict=True)), config)


def _cosine(update: int, config: RunConfig) -> float:
    rest = max(1, config.steps - config.warmup)
    return 0.5 * (1 + math.cos(math.pi * max(0, update - 1 - config.warmup) / rest))


def _inverse_sqrt(update: int, config: RunConfig) -> float:
    start = max(1, config.warmup)
    return math.sqrt(start / max(start, update))


SCHEDULES: Mapping[str, Callable[[int, RunConfig], float]] = MappingProxyType(
    {"constant": lambda update, config: 1.0, "cosine": _cosine, "inverse_sqrt": _inverse_sqrt}
)


def rate(update: int, config: RunConfig) -> float:
    """The learning rate of an update, counted from 1: lr * min(1, update / warmup) times the schedule."""
    warm = min(1.0, update / config.warmup) if config.warmup else 1.0
    return config.lr * warm * SCHEDULES[config.schedule](update, config)
