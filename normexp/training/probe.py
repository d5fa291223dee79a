"""The signal inside a network: size of activations and gradients, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from normexp.nn.network import Network
from normexp.record import SignalRow

Sizes = dict[tuple[int, str], float]
"""(layer, part) to a size."""


def rms(values: Tensor) -> float:
    """Root mean square over all elements, in float64."""
    norm = float(torch.linalg.vector_norm(values.detach(), dtype=torch.float64))
    return norm / math.sqrt(max(1, values.numel()))


def _parts(network: Network) -> Iterator[tuple[int, str, nn.Module]]:
    for layer, block in enumerate(network.blocks.values(), start=1):
        yield layer, "mixer", block.get_submodule("mixer.f")
        yield layer, "ffn", block.get_submodule("ffn.f")
        yield layer, "stream", block
    yield len(network.blocks) + 1, "stream", network.final_norm


@contextmanager
def activation_sizes(network: Network) -> Iterator[Sizes]:
    """While open, each forward pass writes the RMS of the stream after every layer, and of what each branch computes.

    Layer 0 is the embedding (token and position), layer depth + 1 the input of the head.
    """
    sizes: Sizes = {}

    def measure(key: tuple[int, str], module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        sizes[key] = rms(output)

    def measure_input(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        sizes[(0, "stream")] = rms(inputs[0])

    parts = list(_parts(network))
    first = next((module for layer, part, module in parts if part == "stream"))
    handles = [module.register_forward_hook(partial(measure, (layer, part))) for layer, part, module in parts]
    handles.append(first.register_forward_pre_hook(measure_input))
    try:
        yield sizes
    finally:
        for handle in handles:
            handle.remove()


def gradient_sizes(network: Network) -> Sizes:
    """Norm of the gradient of each branch's parameters, in float64."""
    sizes: Sizes = {}
    for layer, block in enumerate(network.blocks.values(), start=1):
        for part in ("mixer", "ffn"):
            grads = [
                parameter.grad for parameter in block.get_submodule(part).parameters() if parameter.grad is not None
            ]
            norms = [torch.linalg.vector_norm(grad, dtype=torch.float64) for grad in grads]
            sizes[(layer, part)] = float(torch.linalg.vector_norm(torch.stack(norms)))
    return sizes


def signal_rows(step: int, activations: Sizes, gradients: Sizes) -> list[SignalRow]:
    """Tidy rows of one step, by layer."""
    kinds = (("rms", activations), ("grad_norm", gradients))
    rows = [
        SignalRow(step=step, layer=layer, part=part, quantity=quantity, value=value)
        for quantity, sizes in kinds
        for (layer, part), value in sizes.items()
    ]
    return sorted(rows, key=lambda row: (row.layer, row.part, row.quantity))
