"""All parameters of a network in one buffer, and their gradients in another: one optimizer call, one norm."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class FlatParameters:
    """Moves a network's parameters into one float buffer: matrices first, then gains, biases and scalars.

    The network's parameters become views of it, and their gradients views of `grads`, into which every backward pass
    adds. `groups` are the two halves as optimizer parameter groups; the second is never decayed.
    """

    def __init__(self, network: nn.Module) -> None:
        decayed = [parameter for parameter in network.parameters() if parameter.dim() >= 2]
        others = [parameter for parameter in network.parameters() if parameter.dim() < 2]
        self.values = torch.cat([parameter.detach().flatten() for parameter in (*decayed, *others)])
        self.grads = torch.zeros_like(self.values)
        start = 0
        for parameter in (*decayed, *others):
            stop = start + parameter.numel()
            parameter.data = self.values[start:stop].view_as(parameter)
            parameter.grad = self.grads[start:stop].view_as(parameter)
            start = stop
        border = sum(parameter.numel() for parameter in decayed)
        self.groups = [self._part(slice(0, border)), self._part(slice(border, None))]

    def _part(self, part: slice) -> nn.Parameter:
        parameter = nn.Parameter(self.values[part])
        parameter.grad = self.grads[part]
        return parameter

    def grad_norm(self) -> float:
        """Euclidean norm of all gradients, accumulated in float64: non-finite just when an element is."""
        return _norm(self.grads)

    def values_finite(self) -> bool:
        """Whether every parameter is finite.

        The sum, which is quick, is never finite where an element is not; where it overflows by itself, the norm in
        float64 decides.
        """
        return math.isfinite(float(self.values.sum())) or math.isfinite(_norm(self.values))


def _norm(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))
