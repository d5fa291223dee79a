"""Optimizers and learning-rate schedules, on flat parameters.

All parameters of a network are views of one buffer, and their gradients of another, so that an update or a gradient
norm takes a single call. The optimizers call the kernels underlying torch.optim directly, because its classes first
load torch's compiler, which takes longer than a short training run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig

ADAM_EPS = 1e-8
"""Added to the root of the second moment. Kingma and Ba 2015, arXiv 1412.6980, algorithm 1."""
SAFE_GRADIENT = 1e18
"""The square of a gradient below this bound is far below the largest float32."""

Parts = Sequence[tuple[nn.Parameter, float]]
"""Flat parameters with their gradients, and the weight decay of each."""


def float64_norm(values: Tensor) -> float:
    """Return the Euclidean norm of all elements, accumulated in float64: non-finite exactly if an element is."""
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))


def finite(values: Tensor) -> bool:
    """Return whether every element is finite.

    The sum is fast to compute and never finite if an element is not. If the sum overflows, the norm in float64 decides.
    """
    return math.isfinite(float(values.sum())) or math.isfinite(float64_norm(values))


class FlatParameters:
    """Moves a network's parameters into one float buffer: matrices first, then gains, biases and scalars.

    The network's parameters become views of the buffer, and their gradients views of `grads`, to which every backward
    pass adds. `groups` are the two halves as optimizer parameter groups; weight decay only applies to the first.
    """

    def __init__(self, network: nn.Module) -> None:
        named = sorted(network.named_parameters(), key=lambda pair: pair[1].dim() < 2)
        parameters = [parameter for _, parameter in named]
        self.values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self.grads = torch.zeros_like(self.values)
        self._names = [name for name, _ in named]
        self._sizes = sizes = [parameter.numel() for parameter in parameters]
        parts = zip(parameters, torch.split(self.values, sizes), torch.split(self.grads, sizes), strict=True)
        for parameter, values, grads in parts:
            parameter.data = values.view(parameter.shape)
            parameter.grad = grads.view(parameter.shape)
        border = sum(parameter.numel() for parameter in parameters if parameter.dim() >= 2)
        self.groups = [self._part(slice(0, border)), self._part(slice(border, None))]

    def _part(self, part: slice) -> nn.Parameter:
        parameter = nn.Parameter(self.values[part])
        parameter.grad = self.grads[part]
        return parameter

    def grad_norm(self) -> float:
        """Return the norm of all gradients, see `float64_norm`."""
        return float64_norm(self.grads)

    def values_finite(self) -> bool:
        """Return whether every parameter is finite."""
        return finite(self.values)

    def split(self, values: Tensor) -> dict[str, Tensor]:
        """Split values with the layout of the flat parameters into one part per parameter, by name."""
        return dict(zip(self._names, torch.split(values, self._sizes), strict=True))


class Optimizer(Protocol):
    """Makes updates from the current gradients. Call `finite` after each step.

    `step` returns whether every parameter is finite, or None if it did not check.
    """

    def step(self, lr: float) -> bool | None: ...

    def finite(self, grad_norm: float) -> bool:
        """Return whether the state is finite after a step. A second moment that is not makes all later updates 0."""

    def state(self) -> Tensor | None:
        """Return the state that may overflow while all else stays finite, in the order of the flat parameters."""


class Adam:
    """Adam (Kingma and Ba 2015), with weight decay in the gradient, or `decoupled` (Loshchilov and Hutter 2019)."""

    def __init__(self, parts: Parts, config: RunConfig, *, decoupled: bool = False) -> None:
        self._update = torch.ops.aten._fused_adamw_ if decoupled else torch.ops.aten._fused_adam_
        self._betas = {"beta1": config.beta1, "beta2": config.beta2}
        self._parts = [(part, decay, _State(part)) for part, decay in parts]
        self._decays_in_gradient = not decoupled and any(decay for _, decay in parts)

    @torch.no_grad()
    def step(self, lr: float) -> None:
        for part, decay, state in self._parts:
            state.count += 1
            self._update(
                [part], [part.grad], [state.first], [state.second], [], [state.count],
                lr=lr, weight_decay=decay, eps=ADAM_EPS, amsgrad=False, maximize=False, **self._betas,
            )  # fmt: skip

    def finite(self, grad_norm: float) -> bool:
        """See Optimizer. The second moments, means of squared gradients, are only checked if one may overflow."""
        if grad_norm < SAFE_GRADIENT and not self._decays_in_gradient:
            return True
        return all(finite(state.second) for _, _, state in self._parts)

    def state(self) -> Tensor:
        """Return the second moments."""
        return torch.cat([state.second for _, _, state in self._parts])


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

    def finite(self, grad_norm: float) -> bool:
        """Return True: there is no state."""
        return True

    def state(self) -> None:
        """Return None: there is no state."""


def _adamw(parts: Parts, config: RunConfig) -> Adam:
    return Adam(parts, config, decoupled=True)


OPTIMIZERS: Mapping[str, Callable[[Parts, RunConfig], Optimizer]] = MappingProxyType(
    {"adam": Adam, "adamw": _adamw, "sgd": SGD}
)


def make_optimizer(
    config: RunConfig, flat: FlatParameters, table: Mapping[str, Callable[[Parts, RunConfig], Optimizer]] = OPTIMIZERS
) -> Optimizer:
    """Return the config's optimizer for the flat parameters. `weight_decay` only applies to matrices."""
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
    """Return the learning rate of an update, counted from 1: lr * min(1, update / warmup) times the schedule."""
    warm = min(1.0, update / config.warmup) if config.warmup else 1.0
    return config.lr * warm * SCHEDULES[config.schedule](update, config)
