"""All parameters of a network in one buffer, and their gradients in another: one optimizer call, one norm."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def float64_norm(values: Tensor) -> float:
    """Euclidean norm of all elements, accumulated in float64: non-finite just when an element is."""
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))


def finite(values: Tensor) -> bool:
    """Whether every element is finite.

    The sum, which is quick, is never finite where an element is not; where it overflows by itself, the norm in
    float64 decides.
    """
    return math.isfinite(float(values.sum())) or math.isfinite(float64_norm(values))


class FlatParameters:
    """Moves a network's parameters into one float buffer: matrices first, then gains, biases and scalars.

    The network's parameters become views of it, and their gradients views of `grads`, into which every backward pass
    adds. `groups` are the two halves as optimizer parameter groups; the second is never decayed.
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
        """That of all gradients, by `float64_norm`."""
        return float64_norm(self.grads)

    def values_finite(self) -> bool:
        """Whether every parameter is finite."""
        return finite(self.values)

    def split(self, values: Tensor) -> dict[str, Tensor]:
        """The part of each parameter, by its name, of values that are laid out as the parameters are."""
        return dict(zip(self._names, torch.split(values, self._sizes), strict=True))
