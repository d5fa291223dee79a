"""What the literature predicts of networks at initialization, measured with the program's own instrument.

The networks: 4 heads, width d = 64, hidden h = 128, relu, Xavier weights for Q, K and V separately, embeddings N(0, 1),
no positions, 32 sequences of 16 tokens. Tokens and targets are uniform and independent, so that nothing about the data
enters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from normexp.nn.norms import make_norm
from normexp.run import RunConfig
from normexp.training.inspection import inspect
from normexp.training.signal import hooked, rms
from normexp.training.trainer import Trainer

DEPTHS = (4, 8, 16, 40)
SEEDS = (0, 1, 2)
WIDTH = 64

Seen = Mapping[tuple[str, str, int], float]
"""(part, quantity, layer) to value, as `inspect` has them."""


def network(position: str, depth: int, seed: int, **keys: Any) -> RunConfig:
    """The config of one network."""
    base: dict[str, Any] = {"width": WIDTH, "init": "xavier_split", "activation": "relu", "pos_embed": "none"}
    base |= {"order": 1, "sharpness": 1e-3, "optimizer": "sgd"}
    return RunConfig(position=position, depth=depth, seed=seed, **(base | keys))


def seen(position: str, depth: int, seed: int, **keys: Any) -> Seen:
    """Everything the instrument says of one network; each is built once."""
    return _seen(network(position, depth, seed, **keys))


@functools.cache
def _seen(config: RunConfig) -> Seen:
    return {(row.part, row.quantity, row.layer): row.value for row in inspect(config)}


def geometric(values: Iterable[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(list(values)))))


def spread(values: Iterable[float]) -> float:
    """Largest over smallest."""
    values = list(values)
    return max(values) / min(values)


def slope(values: Iterable[float], depths: Iterable[int] = DEPTHS) -> float:
    """The power of depth that fits the values."""
    return float(np.polyfit(np.log(list(depths)), np.log(list(values)), 1)[0])


def mean_squares(position: str, depth: int, seed: int, **keys: Any) -> list[float]:
    """Mean square of the stream after layers 0 to depth."""
    found = seen(position, depth, seed, **keys)
    return [found["stream", "mean_square", layer] for layer in range(depth + 1)]


def w2_gradients(position: str, depth: int, seed: int, **keys: Any) -> list[float]:
    """Norm of the gradient of the FFN's second matrix in layers 1 to depth."""
    found = seen(position, depth, seed, **keys)
    return [found["fc2", "grad_norm", layer] for layer in range(1, depth + 1)]


def last_w2_gradients(position: str) -> list[float]:
    """That of the last layer for each of DEPTHS; geometric mean over seeds."""
    return [geometric(w2_gradients(position, depth, seed)[-1] for seed in SEEDS) for depth in DEPTHS]


def times_root(values: Iterable[float]) -> list[float]:
    """Values for DEPTHS, each times sqrt(depth)."""
    return [value * math.sqrt(depth) for value, depth in zip(values, DEPTHS, strict=True)]


def top_over_bottom(position: str, seed: int, **keys: Any) -> float:
    """W2's gradient in the last three of 20 layers over that in the first three."""
    gradients = w2_gradients(position, 20, seed, **keys)
    return geometric(gradients[-3:]) / geometric(gradients[:3])


WIDE, WIDE_SEEDS = {"width": 128, "hidden": 256}, range(6)


def first_q_gradients(position: str, depths: Iterable[int] = DEPTHS) -> list[float]:
    """Norm of the gradient of layer 1's query matrix by depth; geometric mean over seeds."""
    return [geometric(seen(position, depth, seed)["q", "grad_norm", 1] for seed in SEEDS) for depth in depths]


def top_cosine(position: str, depth: int, seed: int) -> float:
    """Mean cosine between tokens after the last layer."""
    return seen(position, depth, seed)["stream", "token_cosine", depth]


def sgd_updates(position: str) -> list[float]:
    """RMS change of the logits by one step of SGD on the blocks' matrices, by depth; geometric mean over seeds."""
    return [geometric(seen(position, n, seed)["logits", "sgd_update", n + 1] for seed in SEEDS) for n in DEPTHS]


def ffn_share(hidden: int) -> float:
    """Mean square of what an FFN with relu and Xavier weights makes of an input of mean square 1: 2dh / (d + h)^2."""
    return 2 * WIDTH * hidden / (WIDTH + hidden) ** 2


def fit_of_line(values: Iterable[float]) -> tuple[float, float]:
    """Slope and R^2 of a straight line through the values at 0, 1, ..."""
    values = list(values)
    x = np.arange(len(values))
    return float(np.polyfit(x, values, 1)[0]), float(np.corrcoef(x, values)[0, 1] ** 2)


@functools.cache
def before_norms(branch: str, seed: int, **keys: Any) -> list[float]:
    """Post, 20 layers: mean square of x + f(x) before the norm after each branch of the name, from layer 2 on.

    There x has mean square 1, so that the norm multiplies the skip path by 1 over the root of this.
    """
    trainer = Trainer(network("post", 20, seed, **keys))
    found: list[float] = []
    blocks = list(trainer.network.blocks.values())[1:]
    doors = [block.get_submodule(f"{branch}.after") for block in blocks]
    with hooked(
        [door.register_forward_pre_hook(lambda _, inputs: found.append(rms(inputs[0]) ** 2)) for door in doors]
    ):
        trainer.loss(trainer.signal_batch)
    return found


@functools.cache
def skip_factor(branch: str, **keys: Any) -> float:
    """What one norm of Post multiplies the skip path by; mean over layers and seeds."""
    return float(np.mean([value**-0.5 for seed in SEEDS for value in before_norms(branch, seed, **keys)]))


UNIT_MIXER = {"mixer": "linear", "init": "unit"}
UNIT_FFN = {"mixer": "linear", "init": "unit", "init_gain": 2**0.25}
"""Branches whose outputs have mean square 1: a matrix alone; an FFN, whose relu halves, with both matrices up."""
TORCH = {"mixer": "linear", "init": "torch"}


def log2_growth(depth: int, seed: int, **keys: Any) -> float:
    """Doublings of the stream's mean square per layer without a norm."""
    return fit_of_line(np.log2(mean_squares("pre", depth, seed, norm="none", **keys)))[0]


def normalized(norm: str, x_nd: torch.Tensor) -> torch.Tensor:
    """A norm of the program without eps, over the last axis."""
    module = make_norm(norm, x_nd.shape[-1], RunConfig(eps=0.0))
    assert module is not None
    with torch.no_grad():
        return module.to(x_nd.dtype)(x_nd)  # type: ignore[no-any-return]


def rms_statistics(mean: float, std: float) -> tuple[float, float]:
    """Mean and standard deviation of RMSNorm's output rows for rows from N(mean, std^2), 4096 features."""
    random = torch.Generator().manual_seed(0)
    y_nd = normalized("rms", mean + std * torch.randn(200, 4096, generator=random, dtype=torch.float64))
    return float(y_nd.mean()), float(y_nd.std(dim=-1).mean())


def largest_output(norm: str) -> float:
    """Of a norm over 64 features, for the input on which it is largest: all but one feature equal to zero."""
    return float(normalized(norm, torch.eye(WIDTH, dtype=torch.float64)).abs().max())
