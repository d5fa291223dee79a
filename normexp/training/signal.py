"""The signal inside a network: size of activations and gradients, and what attention does, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from normexp.nn.branches import Attention
from normexp.nn.network import Network
from normexp.record import SignalRow
from normexp.training.attention import watch_attention
from normexp.training.flat import float64_norm

Sizes = dict[tuple[int, str], float]
"""(layer, part) to a size."""
Signal = dict[str, Sizes]
"""Quantity to the sizes of its layers and parts."""


def rms(values: Tensor) -> float:
    """Root mean square over all elements, in float64."""
    return float64_norm(values.detach()) / math.sqrt(max(1, values.numel()))


def _parts(network: Network) -> Iterator[tuple[int, str, nn.Module]]:
    for layer, block in enumerate(network.blocks.values(), start=1):
        yield layer, "mixer", block.get_submodule("mixer.f")
        yield layer, "ffn", block.get_submodule("ffn.f")
        yield layer, "stream", block
    yield len(network.blocks) + 1, "stream", network.final_norm


@contextmanager
def hooked(handles: list[RemovableHandle]) -> Iterator[None]:
    """Remove the hooks at the end."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def activations(network: Network, see: Callable[[int, str, Tensor], None]) -> Iterator[None]:
    """While open, each forward pass shows layer, part and value of the stream after every layer and of every branch.

    Layer 0 is the embedding (token and position), layer depth + 1 the input of the head.
    """

    def see_output(layer: int, part: str, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        see(layer, part, output.detach())

    def see_input(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        see(0, "stream", inputs[0].detach())

    parts = list(_parts(network))
    first = next(module for _, part, module in parts if part == "stream")
    handles = [first.register_forward_pre_hook(see_input)]
    handles += [module.register_forward_hook(partial(see_output, layer, part)) for layer, part, module in parts]
    with hooked(handles):
        yield


@contextmanager
def forward_signal(network: Network) -> Iterator[Signal]:
    """While open, each forward pass writes the RMS of the stream after every layer and of what each branch computes.

    For mixers that attend, also `attention_entropy` and `max_logit`, as `attention_sizes` defines them.
    """
    sizes: Sizes = {}
    signal: Signal = {"rms": sizes}

    def see(layer: int, part: str, values: Tensor) -> None:
        sizes[layer, part] = rms(values)

    def see_attention(layer: int, entropy: float, largest: float) -> None:
        signal.setdefault("attention_entropy", {})[layer, "mixer"] = entropy
        signal.setdefault("max_logit", {})[layer, "mixer"] = largest

    handles = [
        handle
        for layer, part, module in _parts(network)
        if part == "mixer" and isinstance(module, Attention)
        for handle in watch_attention(module, partial(see_attention, layer))
    ]
    with activations(network, see), hooked(handles):
        yield signal


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


def signal_rows(step: int, signal: Mapping[str, Sizes]) -> list[SignalRow]:
    """Tidy rows of one step, by layer."""
    rows = [
        SignalRow(step=step, layer=layer, part=part, quantity=quantity, value=value)
        for quantity, sizes in signal.items()
        for (layer, part), value in sizes.items()
    ]
    return sorted(rows, key=lambda row: (row.layer, row.part, row.quantity))
