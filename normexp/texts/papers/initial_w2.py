"""Gradients of W2, the second matrix of the FFN: for one position, and expected over mini-batches."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig
from normexp.data.tasks import Batch
from normexp.texts.papers.initial import DEPTHS, geometric, network
from normexp.training.layer_signal import hooked
from normexp.training.optimizers import float64_norm
from normexp.training.trainer import Trainer, thread_count

BATCHES = 12
"""Number of mini-batches over which an expected gradient is averaged."""
TOP_DEPTHS = (6, 18, 24)


@functools.cache
def expected_gradients(config: RunConfig) -> tuple[float, ...]:
    """Return the magnitude of W2's gradient, averaged over mini-batches, in layers 1 to depth."""
    trainer = Trainer(config)
    some = slice(0, BATCHES * config.batch)
    with thread_count(1):
        trainer.backward(Batch(trainer.validation.inputs_nt[some], trainer.validation.targets_nt[some]))
    return tuple(
        float64_norm(_grad(_fc2(trainer, layer).get_parameter("weight"))) for layer in range(1, config.depth + 1)
    )


def top_over_bottom(position: str, seed: int, **keys: Any) -> float:
    """Return the expected gradient of W2 in the last three of 20 layers over that in the first three."""
    gradients = expected_gradients(network(position, 20, seed, **keys))
    return geometric(gradients[-3:]) / geometric(gradients[:3])


@functools.cache
def of_one_position(config: RunConfig, factor: float = 1.0) -> float:
    """Return the gradient magnitude of the last W2 for the loss of one position, as RMS over positions.

    The last layer's W1, and with it h = relu(W1 x), is multiplied by the factor. Nothing after W2 mixes positions, so
    the gradient of one position is the product of its h and the gradient at its output.
    """
    trainer = Trainer(config)
    fc2 = _fc2(trainer, config.depth)
    sizes: dict[str, Tensor] = {}

    def see(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        sizes["h"] = inputs[0].detach().double().square().sum(-1)
        output.register_hook(lambda grad: sizes.update(grad=grad.double().square().sum(-1)))  # type: ignore[no-untyped-call]

    with thread_count(1), hooked([fc2.register_forward_hook(see)]):
        with torch.no_grad():
            _ffn(trainer, config.depth).get_parameter("fc1.weight").mul_(factor)
        _only(trainer, [fc2.get_parameter("weight")])
        trainer.backward(trainer.signal_batch)
    squares = (sizes["h"] * sizes["grad"])[:, trainer.task.first :]
    return squares.numel() * math.sqrt(float(squares.mean()))


def last_w2_gradients(position: str, seeds: Sequence[int]) -> list[float]:
    """Return `of_one_position` by depth, as geometric mean over seeds."""
    return [geometric(of_one_position(network(position, depth, seed)) for seed in seeds) for depth in DEPTHS]


def growth_with_h(
    position: str, factors: Iterable[float], seeds: Sequence[int], *, final_norm: str = "none"
) -> list[float]:
    """Return `of_one_position` of a single layer by factor, relative to factor 1, as geometric mean over seeds."""
    configs = [network(position, 1, seed, final_norm=final_norm) for seed in seeds]
    return [geometric(of_one_position(config, k) / of_one_position(config) for config in configs) for k in factors]


@functools.cache
def top_layer_gradient(depth: int, seed: int, *, narrowed: bool) -> float:
    """Return the gradient magnitude of all matrices of the last layer of Post.

    If `narrowed`, the matrices of layer l of L are divided by L - l + 1 after initialization; the last layer is
    unchanged.
    """
    trainer = Trainer(network("post", depth, seed))
    blocks = trainer.network.blocks
    last = [parameter for parameter in blocks[str(depth)].parameters() if parameter.dim() > 1]
    with thread_count(1):
        with torch.no_grad():
            for layer, block in blocks.items() if narrowed else ():
                for matrix in (parameter for parameter in block.parameters() if parameter.dim() > 1):
                    matrix.div_(depth - int(layer) + 1)
        _only(trainer, last)
        trainer.backward(trainer.signal_batch)
    return math.hypot(*(float64_norm(_grad(matrix)) for matrix in last))


def top_layer_gradients(seeds: Sequence[int], *, narrowed: bool) -> list[float]:
    """Return `top_layer_gradient` for each of TOP_DEPTHS, as geometric mean over seeds."""
    return [geometric(top_layer_gradient(depth, s, narrowed=narrowed) for s in seeds) for depth in TOP_DEPTHS]


def _ffn(trainer: Trainer, layer: int) -> nn.Module:
    return trainer.network.blocks[str(layer)].get_submodule("ffn.f")


def _fc2(trainer: Trainer, layer: int) -> nn.Linear:
    fc2 = _ffn(trainer, layer).get_submodule("fc2")
    assert isinstance(fc2, nn.Linear)
    return fc2


def _only(trainer: Trainer, wanted: Sequence[Tensor]) -> None:
    """Disable gradients for all parameters but these."""
    for parameter in trainer.network.parameters():
        parameter.requires_grad_(any(parameter is other for other in wanted))


def _grad(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
