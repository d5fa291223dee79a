"""Optimizers in which one compiled kernel updates all parameters and checks that they stay finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from normexp.config.run import RunConfig
from normexp.training.optimizers import ADAM_EPS, SAFE_GRADIENT, FlatParameters, Optimizer, Parts, finite
from normexp.training.paths.compiled.library import load


class CompiledAdam:
    """Adam, or AdamW if `decoupled`."""

    def __init__(self, parts: Parts, config: RunConfig, *, decoupled: bool = False) -> None:
        functions = load().functions
        self._update = functions.adam_decoupled if decoupled else functions.adam_coupled
        self._betas, self._decoupled, self._count = (config.beta1, config.beta2), decoupled, 0
        self._decays_in_gradient = not decoupled and any(decay for _, decay in parts)
        self._moments = [(torch.zeros_like(part), torch.zeros_like(part)) for part, _ in parts]
        self._parts = [
            (_addresses(part.data, part.grad, *moments), part.numel(), decay)
            for (part, decay), moments in zip(parts, self._moments, strict=True)
        ]

    def step(self, lr: float) -> bool:
        """Make one update, and return whether every parameter is finite after it."""
        self._count += 1
        beta1, beta2 = self._betas
        size, root = lr / (1 - beta1**self._count), math.sqrt(1 - beta2**self._count)
        all_finite = True
        for addresses, count, decay in self._parts:
            shrink = lr * decay if self._decoupled else decay
            all_finite &= bool(
                self._update(*addresses, count, size, 1 - beta1, beta2, 1 - beta2, root, ADAM_EPS, shrink)
            )
        return all_finite

    def finite(self, grad_norm: float) -> bool:
        """See Optimizer and `normexp.training.optimizers.Adam`."""
        if grad_norm < SAFE_GRADIENT and not self._decays_in_gradient:
            return True
        return all(finite(second) for _, second in self._moments)

    def state(self) -> Tensor:
        """Return the second moments."""
        return torch.cat([second for _, second in self._moments])


class CompiledSGD:
    """Gradient descent without momentum."""

    def __init__(self, parts: Parts, config: RunConfig) -> None:
        self._update = load().functions.descend
        self._parts = [(_addresses(part.data, part.grad), part.numel(), decay) for part, decay in parts]

    def step(self, lr: float) -> bool:
        """Make one update, and return whether every parameter is finite after it."""
        all_finite = True
        for addresses, count, decay in self._parts:
            all_finite &= bool(self._update(*addresses, count, lr, decay))
        return all_finite

    def finite(self, grad_norm: float) -> bool:
        """Return True: there is no state."""
        return True

    def state(self) -> None:
        """Return None: there is no state."""


def _addresses(*tensors: Tensor | None) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors if tensor is not None]


def _adamw(parts: Parts, config: RunConfig) -> CompiledAdam:
    return CompiledAdam(parts, config, decoupled=True)


COMPILED_OPTIMIZERS: Mapping[str, Callable[[Parts, RunConfig], Optimizer]] = MappingProxyType(
    {"adam": CompiledAdam, "adamw": _adamw, "sgd": CompiledSGD}
)
"""The optimizers by name, as in `normexp.training.optimizers`."""


def compiled_grad_norm(flat: FlatParameters) -> float:
    """Return the Euclidean norm of all gradients, accumulated in float64: non-finite exactly if an element is."""
    return math.sqrt(load().functions.sum_of_squares(flat.grads.data_ptr(), flat.grads.numel()))
