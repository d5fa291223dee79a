"""Networks at initialization for the predictions of papers, measured with the program's probe.

The networks have 4 heads, width d = 64, hidden width h = 128, ReLU, separate Xavier weights for Q, K and V, embeddings
N(0, 1), no position embedding, and 32 sequences of 16 tokens. Tokens and targets are uniform and independent, so that
data has no effect. Everything runs on one thread, so that numbers do not depend on the number of cores.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normexp.claims.claim import Finding, yes_or_no
from normexp.config.run import RunConfig
from normexp.training.inspection import inspect
from normexp.training.layer_signal import activations, hooked, rms
from normexp.training.optimizers import float64_norm
from normexp.training.trainer import Trainer, thread_count

NETWORK = "width 64, hidden 128, 4 heads, relu, Xavier weights, random tokens"
SERIES = "L = 4, 8, 16, 40"


def seeds_of(seed: int, count: int = 3) -> Sequence[int]:
    """Return the network seeds of one calculation: 0, 1, 2 for seed 0."""
    return range(seed * count, (seed + 1) * count)


def row(values: Iterable[float], digits: int = 2) -> str:
    """List values: `0.2, 0.18, 0.21`."""
    return ", ".join(f"{value:.{digits}g}" for value in values)


def ends(values: Iterable[float], digits: int = 2) -> str:
    """Return the range of values: `0.91 to 1.9`."""
    ordered = sorted(values)
    return f"{ordered[0]:.{digits}g} to {ordered[-1]:.{digits}g}"


def finding(holds: bool, measured: str, seeds: Sequence[int], network: str = NETWORK, *, depth: str = "") -> Finding:
    """Return a finding on networks of these seeds. `depth` says which depths L they have."""
    depths = f"{depth}, " if depth else ""
    sentence = f"{measured}; {depths}{network}, network seeds {seeds[0]} to {seeds[-1]}"
    return Finding(decision=yes_or_no(bool(holds)), measured=measured, sentence=sentence, seeds=len(seeds))


DEPTHS = (4, 8, 16, 40)
SEEDS: Sequence[int] = range(3)
WIDTH = 64
UNIT_MIXER: Mapping[str, Any] = {"mixer": "linear", "init": "unit"}
UNIT_FFN: Mapping[str, Any] = {"mixer": "linear", "init": "unit", "init_gain": 2**0.25}
"""Keys of branches with output of mean square 1: a matrix, and an FFN whose larger weights make up for the ReLU."""
TORCH: Mapping[str, Any] = {"mixer": "linear", "init": "torch"}

Seen = Mapping[tuple[str, str, int], float]
"""Values by (part, quantity, layer), as measured by `inspect`."""


def network(position: str, depth: int, seed: int, **keys: Any) -> RunConfig:
    """Return the config of one network."""
    base: dict[str, Any] = {"width": WIDTH, "init": "xavier_split", "activation": "relu", "pos_embed": "none"}
    base |= {"order": 1, "sharpness": 1e-3, "optimizer": "adam", "lr": 1e-3}
    return RunConfig(position=position, depth=depth, seed=seed, **(base | keys))


def seen(position: str, depth: int, seed: int, **keys: Any) -> Seen:
    """Return all quantities of one network. Each network is measured once."""
    return _seen(network(position, depth, seed, **keys))


@functools.cache
def _seen(config: RunConfig) -> Seen:
    with thread_count(1):
        return {(row.part, row.quantity, row.layer): row.value for row in inspect(config)}


def geometric(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(list(values)))))


def spread(values: Iterable[float]) -> float:
    """Return the largest value over the smallest."""
    values = list(values)
    return max(values) / min(values)


def slope(values: Iterable[float], depths: Iterable[float] = DEPTHS) -> float:
    """Return the exponent of the power law in depth that fits the values."""
    return float(np.polyfit(np.log(list(depths)), np.log(list(values)), 1)[0])


def fit_of_line(values: Iterable[float]) -> tuple[float, float]:
    """Return the slope and R^2 of a straight line through the values at 0, 1, ..."""
    values = list(values)
    x = np.arange(len(values))
    return float(np.polyfit(x, values, 1)[0]), float(np.corrcoef(x, values)[0, 1] ** 2)


def times_root(values: Iterable[float]) -> list[float]:
    """Return the values for DEPTHS, each times sqrt(depth)."""
    return [value * math.sqrt(depth) for value, depth in zip(values, DEPTHS, strict=True)]


def mean_squares(position: str, depth: int, seed: int, **keys: Any) -> list[float]:
    """Return the mean square of the residual stream after layers 0 to depth."""
    return list(_mean_squares(network(position, depth, seed, **keys)))


@functools.cache
def _mean_squares(config: RunConfig) -> tuple[float, ...]:
    trainer = Trainer(config)
    squares: dict[int, float] = {}

    def see(layer: int, part: str, values: Tensor) -> None:
        if part == "stream":
            squares[layer] = rms(values) ** 2

    with thread_count(1), torch.no_grad(), activations(trainer.network, see):
        trainer.loss(trainer.signal_batch)
    return tuple(squares[layer] for layer in range(config.depth + 1))


def expected_squares(position: str, depth: int, seeds: Iterable[int] = SEEDS, **keys: Any) -> list[float]:
    """Return the mean of `mean_squares` over seeds."""
    return [float(value) for value in np.mean([mean_squares(position, depth, s, **keys) for s in seeds], axis=0)]


def log2_growth(depth: int, seed: int, **keys: Any) -> float:
    """Return the doublings of the stream's mean square per layer without a norm."""
    return fit_of_line(np.log2(mean_squares("pre", depth, seed, norm="none", **keys)))[0]


@functools.cache
def _before_norms(branch: str, config: RunConfig) -> tuple[float, ...]:
    trainer = Trainer(config)
    squares: list[float] = []
    blocks = list(trainer.network.blocks.values())[1:]
    norms = [block.get_submodule(f"{branch}.after") for block in blocks]
    with (
        thread_count(1),
        hooked(
            [door.register_forward_pre_hook(lambda _, inputs: squares.append(rms(inputs[0]) ** 2)) for door in norms]
        ),
    ):
        trainer.loss(trainer.signal_batch)
    return tuple(squares)


def before_norms(branch: str, seed: int, **keys: Any) -> tuple[float, ...]:
    """Return the mean square of x + f(x) before the norm after each branch of Post, from layer 2 of 20 on.

    There, x has mean square 1, so that the norm multiplies the skip path by 1 over the square root of this value.
    """
    return _before_norms(branch, network("post", 20, seed, **keys))


def skip_factor(branch: str, seeds: Iterable[int] = SEEDS, **keys: Any) -> float:
    """Return the factor by which a norm of Post multiplies the skip path, as mean over layers and seeds."""
    return float(np.mean([value**-0.5 for seed in seeds for value in before_norms(branch, seed, **keys)]))


def w2_gradients(position: str, depth: int, seed: int, **keys: Any) -> list[float]:
    """Return the gradient magnitude of the FFN's second matrix in layers 1 to depth, on one mini-batch."""
    values = seen(position, depth, seed, **keys)
    return [values["fc2", "grad_norm", layer] for layer in range(1, depth + 1)]


def first_q_gradients(position: str, depths: Iterable[int] = DEPTHS, seeds: Sequence[int] = SEEDS) -> list[float]:
    """Return the gradient magnitude of layer 1's query matrix by depth, as geometric mean over seeds."""
    return [geometric(seen(position, depth, seed)["q", "grad_norm", 1] for seed in seeds) for depth in depths]


def top_cosine(position: str, depth: int, seed: int) -> float:
    """Return the mean cosine between tokens after the last layer."""
    return seen(position, depth, seed)["stream", "token_cosine", depth]


def top_cosines(position: str, seeds: Sequence[int] = SEEDS) -> list[float]:
    """Return the mean of `top_cosine` over seeds for each of DEPTHS."""
    return [float(np.mean([top_cosine(position, depth, seed) for seed in seeds])) for depth in DEPTHS]


def sgd_updates(position: str, seeds: Sequence[int] = SEEDS) -> list[float]:
    """Return the RMS change of the logits by one SGD step on the blocks' matrices, as geometric mean, by depth."""
    return [geometric(seen(position, n, seed)["logits", "sgd_update", n + 1] for seed in seeds) for n in DEPTHS]


def adam_updates(position: str, seeds: Sequence[int] = SEEDS) -> list[float]:
    """Return the RMS change of the logits by Adam's first step at 1e-3, as geometric mean over seeds, by depth."""
    return [geometric(seen(position, n, s)["logits", "update", n + 1] for s in seeds) for n in DEPTHS]


def _gradient_into(module: nn.Module, trainer: Trainer) -> float:
    """Return the magnitude of the loss gradient by the input of a module."""
    gradients: list[float] = []

    def keep(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        inputs[0].register_hook(lambda grad: gradients.append(float64_norm(grad)))  # type: ignore[no-untyped-call]

    with thread_count(1), hooked([module.register_forward_pre_hook(keep)]):
        trainer.backward(trainer.signal_batch)
    return gradients[0]


@functools.cache
def top_stream_gradient(position: str, depth: int, seed: int) -> float:
    """Return the magnitude of the loss gradient by the stream after the last layer, before the final norm."""
    trainer = Trainer(network(position, depth, seed))
    return _gradient_into(trainer.network.final_norm, trainer)


def top_stream_gradients(position: str, seeds: Sequence[int] = SEEDS) -> list[float]:
    """Return `top_stream_gradient` for each of DEPTHS, as geometric mean over seeds."""
    return [geometric(top_stream_gradient(position, depth, seed) for seed in seeds) for depth in DEPTHS]


@functools.cache
def first_norm_gradient(std: float, seed: int) -> float:
    """Return the magnitude of the loss gradient by the embedded tokens N(0, std^2), for Pre of 8 layers."""
    trainer = Trainer(network("pre", 8, seed))
    with torch.no_grad():
        trainer.network.embedding.weight.mul_(std)
    return _gradient_into(trainer.network.blocks["1"], trainer)


def first_norm_gradients(stds: Iterable[float], seeds: Sequence[int] = SEEDS) -> list[float]:
    """Return `first_norm_gradient` by std, as geometric mean over seeds."""
    return [geometric(first_norm_gradient(std, seed) for seed in seeds) for std in stds]
