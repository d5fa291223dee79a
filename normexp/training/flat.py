"""All parameters of a network in one buffer, and their gradients in another: one optimizer call, one norm."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def float64_norm(values: Tensor) -> float:
    """Euclidean norm of all elements, accumulated in float64: non-finite just when an element is."""
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))


class FlatParameters:
    """Moves a network's parameters into one float buffer: matrices first, then gains, biases and scalars.

    The network's parameters become views of it, and their gradients views of `grads`, into which every backward pass
    adds. `groups` are the two halves as optimizer parameter groups; the second is never decayed.
    """

    def __init__(self, network: nn.Module) -> None:
        parameters = sorted(network.parameters(), key=lambda parameter: parameter.dim() < 2)
        self.values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self.grads = torch.zeros_like(self.values)
        sizes = [parameter.numel() for parameter in parameters]
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
        """Whether every parameter is finite.

        The sum, which is quick, is never finite where an element is not; where it overflows by itself, the norm in
        float64 decides.
        """
        return math.isfinite(float(self.values.sum())) or math.isfinite(float64_norm(self.values))
