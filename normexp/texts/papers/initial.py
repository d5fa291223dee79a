"""What papers predict of networks at initialization, measured with the program's own instrument.

The networks: 4 heads, width d = 64, hidden h = 128, relu, Xavier weights for Q, K and V separately, embeddings N(0, 1),
no positions, 32 sequences of 16 tokens. Tokens and targets are uniform and independent, so that nothing about the data
enters. All on one thread, so that numbers do not hang on the machine's cores.

What calculations at initialization share: the networks that a seed stands for, and how numbers are told.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.training.inspection import inspect
from normexp.training.layer_signal import activations, hooked, rms
from normexp.training.optimizers import float64_norm
from normexp.training.trainer import Trainer, thread_count

NETWORK = "width 64, hidden 128, 4 heads, relu, Xavier weights, random tokens"
SERIES = "L = 4, 8, 16, 40"


def seeds_of(seed: int, count: int = 3) -> Sequence[int]:
    """The seeds of the networks of one calculation; those of seed 0 are 0, 1, 2."""
    return range(seed * count, (seed + 1) * count)


def row(values: Iterable[float], digits: int = 2) -> str:
    """`0.2, 0.18, 0.21`."""
    return ", ".join(f"{value:.{digits}g}" for value in values)


def ends(values: Iterable[float], digits: int = 2) -> str:
    """`0.91 to 1.9`."""
    found = sorted(values)
    return f"{found[0]:.{digits}g} to {found[-1]:.{digits}g}"


def told(holds: bool, measured: str, seeds: Sequence[int], network: str = NETWORK, *, depth: str = "") -> Finding:
    """A finding on networks of these seeds; `depth` is what the paper's L is here."""
    at = f"{depth}, " if depth else ""
    sentence = f"{measured}; {at}{network}, network seeds {seeds[0]} to {seeds[-1]}"
    return Finding(holds=bool(holds), measured=measured, sentence=sentence, seeds=len(seeds))


DEPTHS = (4, 8, 16, 40)
SEEDS: Sequence[int] = range(3)
WIDTH = 64
UNIT_MIXER: Mapping[str, Any] = {"mixer": "linear", "init": "unit"}
UNIT_FFN: Mapping[str, Any] = {"mixer": "linear", "init": "unit", "init_gain": 2**0.25}
"""Branches whose outputs have mean square 1: a matrix alone; an FFN, whose relu halves, with both matrices up."""
TORCH: Mapping[str, Any] = {"mixer": "linear", "init": "torch"}

Seen = Mapping[tuple[str, str, int], float]
"""(part, quantity, layer) to value, as `inspect` has them."""


def network(position: str, depth: int, seed: int, **keys: Any) -> RunConfig:
    """The config of one network."""
    base: dict[str, Any] = {"width": WIDTH, "init": "xavier_split", "activation": "relu", "pos_embed": "none"}
    base |= {"order": 1, "sharpness": 1e-3, "optimizer": "adam", "lr": 1e-3}
    return RunConfig(position=position, depth=depth, seed=seed, **(base | keys))


def seen(position: str, depth: int, seed: int, **keys: Any) -> Seen:
    """Everything the instrument says of one network; each is built once."""
    return _seen(network(position, depth, seed, **keys))


@functools.cache
def _seen(config: RunConfig) -> Seen:
    with thread_count(1):
        return {(row.part, row.quantity, row.layer): row.value for row in inspect(config)}


def geometric(values: Iterable[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(list(values)))))


def spread(values: Iterable[float]) -> float:
    """Largest over smallest."""
    values = list(values)
    return max(values) / min(values)


def slope(values: Iterable[float], depths: Iterable[float] = DEPTHS) -> float:
    """The power of depth that fits the values."""
    return float(np.polyfit(np.log(list(depths)), np.log(list(values)), 1)[0])


def fit_of_line(values: Iterable[float]) -> tuple[float, float]:
    """Slope and R^2 of a straight line through the values at 0, 1, ..."""
    values = list(values)
    x = np.arange(len(values))
    return float(np.polyfit(x, values, 1)[0]), float(np.corrcoef(x, values)[0, 1] ** 2)


def times_root(values: Iterable[float]) -> list[float]:
    """Values for DEPTHS, each times sqrt(depth)."""
    return [value * math.sqrt(depth) for value, depth in zip(values, DEPTHS, strict=True)]


def mean_squares(position: str, depth: int, seed: int, **keys: Any) -> list[float]:
    """Mean square of the stream after layers 0 to depth."""
    return list(_mean_squares(network(position, depth, seed, **keys)))


@functools.cache
def _mean_squares(config: RunConfig) -> tuple[float, ...]:
    trainer = Trainer(config)
    found: dict[int, float] = {}

    def see(layer: int, part: str, values: Tensor) -> None:
        if part == "stream":
            found[layer] = rms(values) ** 2

    with thread_count(1), torch.no_grad(), activations(trainer.network, see):
        trainer.loss(trainer.signal_batch)
    return tuple(found[layer] for layer in range(config.depth + 1))


def expected_squares(position: str, depth: int, seeds: Iterable[int] = SEEDS, **keys: Any) -> list[float]:
    """The same, mean over seeds."""
    return [float(value) for value in np.mean([mean_squares(position, depth, s, **keys) for s in seeds], axis=0)]


def log2_growth(depth: int, seed: int, **keys: Any) -> float:
    """Doublings of the stream's mean square per layer without a norm."""
    return fit_of_line(np.log2(mean_squares("pre", depth, seed, norm="none", **keys)))[0]


@functools.cache
def _before_norms(branch: str, config: RunConfig) -> tuple[float, ...]:
    trainer = Trainer(config)
    found: list[float] = []
    blocks = list(trainer.network.blocks.values())[1:]
    doors = [block.get_submodule(f"{branch}.after") for block in blocks]
    with (
        thread_count(1),
        hooked([door.register_forward_pre_hook(lambda _, inputs: found.append(rms(inputs[0]) ** 2)) for door in doors]),
    ):
        trainer.loss(trainer.signal_batch)
    return tuple(found)


def before_norms(branch: str, seed: int, **keys: Any) -> tuple[float, ...]:
    """Post, 20 layers: mean square of x + f(x) before the norm after each branch of the name, from layer 2 on.

    There x has mean square 1, so that the norm multiplies the skip path by 1 over the root of this.
    """
    return _before_norms(branch, network("post", 20, seed, **keys))


def skip_factor(branch: str, seeds: Iterable[int] = SEEDS, **keys: Any) -> float:
    """What one norm of Post multiplies the skip path by; mean over layers and seeds."""
    return float(np.mean([value**-0.5 for seed in seeds for value in before_norms(branch, seed, **keys)]))


def w2_gradients(position: str, depth: int, seed: int, **keys: Any) -> list[float]:
    """Norm of the gradient of the FFN's second matrix in layers 1 to depth, of one mini-batch."""
    found = seen(position, depth, seed, **keys)
    return [found["fc2", "grad_norm", layer] for layer in range(1, depth + 1)]


def first_q_gradients(position: str, depths: Iterable[int] = DEPTHS, seeds: Sequence[int] = SEEDS) -> list[float]:
    """Norm of the gradient of layer 1's query matrix by depth; geometric mean over seeds."""
    return [geometric(seen(position, depth, seed)["q", "grad_norm", 1] for seed in seeds) for depth in depths]


def top_cosine(position: str, depth: int, seed: int) -> float:
    """Mean cosine between tokens after the last layer."""
    return seen(position, depth, seed)["stream", "token_cosine", depth]


def top_cosines(position: str, seeds: Sequence[int] = SEEDS) -> list[float]:
    """That for each of DEPTHS, mean over seeds."""
    return [float(np.mean([top_cosine(position, depth, seed) for seed in seeds])) for depth in DEPTHS]


def sgd_updates(position: str, seeds: Sequence[int] = SEEDS) -> list[float]:
    """RMS change of the logits by one step of SGD on the blocks' matrices, by depth; geometric mean over seeds."""
    return [geometric(seen(position, n, seed)["logits", "sgd_update", n + 1] for seed in seeds) for n in DEPTHS]


def adam_updates(position: str, seeds: Sequence[int] = SEEDS) -> list[float]:
    """RMS change of the logits by the first step of Adam at 1e-3, by depth; geometric mean over seeds."""
    return [geometric(seen(position, n, s)["logits", "update", n + 1] for s in seeds) for n in DEPTHS]


def _gradient_into(module: nn.Module, trainer: Trainer) -> float:
    """Norm of the loss's gradient with respect to what enters a module."""
    found: list[float] = []

    def keep(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        inputs[0].register_hook(lambda grad: found.append(float64_norm(grad)))  # type: ignore[no-untyped-call]

    with thread_count(1), hooked([module.register_forward_pre_hook(keep)]):
        trainer.backward(trainer.signal_batch)
    return found[0]


@functools.cache
def top_stream_gradient(position: str, depth: int, seed: int) -> float:
    """Norm of the loss's gradient with respect to the stream after the last layer, before the final norm."""
    trainer = Trainer(network(position, depth, seed))
    return _gradient_into(trainer.network.final_norm, trainer)


def top_stream_gradients(position: str, seeds: Sequence[int] = SEEDS) -> list[float]:
    """That for each of DEPTHS; geometric mean over seeds."""
    return [geometric(top_stream_gradient(position, depth, seed) for seed in seeds) for depth in DEPTHS]


@functools.cache
def first_norm_gradient(std: float, seed: int) -> float:
    """Pre, 8 layers: norm of the loss's gradient with respect to the embedded tokens, N(0, std^2)."""
    trainer = Trainer(network("pre", 8, seed))
    with torch.no_grad():
        trainer.network.embedding.weight.mul_(std)
    return _gradient_into(trainer.network.blocks["1"], trainer)


def first_norm_gradients(stds: Iterable[float], seeds: Sequence[int] = SEEDS) -> list[float]:
    """That by std; geometric mean over seeds."""
    return [geometric(first_norm_gradient(std, seed) for seed in seeds) for std in stds]
