"""Gradients by layer at initialization, Post-LN beside Pre-LN (section 2.2)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.texts.article.printed import Make, in_settings, setting
from normexp.texts.figures import Seen
from normexp.training.inspection import matrix_gradient_sizes
from normexp.training.layer_signal import hooked
from normexp.training.trainer import Trainer

DEPTH = 20
SERIES = (10, 20, 40)


def by_layer(config: RunConfig) -> list[float]:
    """Norm of the gradient of each layer's last FFN matrix, from the first layer on, on one batch."""
    trainer = Trainer(config, autograd=True)
    trainer.backward(trainer.signal_batch)
    sizes = matrix_gradient_sizes(trainer.network)
    return [sizes[layer, "fc2"] for layer in range(1, config.depth + 1)]


def rise(make: Make, position: str, seeds: Iterable[int], depth: int = DEPTH) -> float:
    """The mean gradient of the last three layers over that of the first three; over seeds, the geometric mean."""
    sizes = [by_layer(make(depth=depth, seed=seed, position=position)) for seed in seeds]
    return statistics.geometric_mean(sum(size[-3:]) / sum(size[:3]) for size in sizes)


def of_networks(seed: int, count: int = 3) -> range:
    """The seeds of the networks that one calculation looks at."""
    return range(seed * count, (seed + 1) * count)


def of_stream(config: RunConfig, *, skip_alone: bool = False) -> list[float]:
    """Norm of the loss's gradient with respect to the stream, before the first layer and after each.

    With `skip_alone` what comes back by the skip paths and no branch: those are cut from the gradient.
    """
    trainer = Trainer(config, autograd=True)
    streams: list[Tensor] = []
    blocks = list(trainer.network.blocks.values())
    handles = [blocks[0].register_forward_pre_hook(lambda module, inputs: streams.append(inputs[0]))]
    handles += [block.register_forward_hook(lambda module, inputs, y: streams.append(y)) for block in blocks]
    for block in blocks if skip_alone else []:
        for branch in ("mixer.f", "ffn.f"):
            f = block.get_submodule(branch)
            handles.append(f.register_forward_hook(lambda module, inputs, y: y.detach()))
    with hooked(handles):
        loss = trainer.loss(trainer.signal_batch)
    return [float(torch.linalg.vector_norm(grad)) for grad in torch.autograd.grad(loss, streams)]


def top_heavy(seed: int, post: str = "post", pre: str = "pre") -> Finding:
    """At 20 layers, the last three layers' gradients are 1.5 times the first three's in Post-LN, and not in Pre-LN.

    In the settings with GELU, else as a Transformer with ReLU, which the paper's theorem is about.
    """

    def look(make: Make) -> Seen:
        rises = [rise(make, position, of_networks(seed)) for position in (post, pre)]
        return rises[0] > 1.5 > rises[1], f"Post {rises[0]:.2f}, Pre {rises[1]:.2f}"

    transformer = setting("as a Transformer")
    relu = {"as a Transformer with ReLU": look(lambda **keys: transformer(activation="relu", **keys))}
    return in_settings(
        look, "gradient of fc2 in the last three layers over that in the first three, three networks", relu
    )


def larger_at_the_top(seed: int, post: str = "post", pre: str = "pre") -> Finding:
    """At 20 layers, the last layer's gradient is more than 1.5 times as large in Post-LN as in Pre-LN."""

    def look(make: Make) -> Seen:
        one, other = (
            statistics.fmean(by_layer(make(depth=DEPTH, seed=s, position=position))[-1] for s in of_networks(seed))
            for position in (post, pre)
        )
        return one > 1.5 * other, f"Post {one:.3f}, Pre {other:.3f}"

    return in_settings(look, "gradient of fc2 in the last layer, mean of three networks")


def exponential(seed: int, post: str = "post", pre: str = "pre") -> Finding:
    """How much steeper Post-LN's gradients rise than Pre-LN's grows from 20 to 40 layers as an exponential would."""

    def look(make: Make) -> Seen:
        networks = of_networks(seed, 2)
        gaps = [rise(make, post, networks, depth) / rise(make, pre, networks, depth) for depth in SERIES]
        return exponential_in_depth([math.log(gap) for gap in gaps]), " ".join(f"{gap:.2f}" for gap in gaps)

    return in_settings(look, "rise over the layers, Post over Pre, at 10, 20 and 40 layers, two networks")


def exponential_by_skip(seed: int, position: str = "post") -> Finding:
    """By the skip paths alone, the stream's gradient at the top over that at the input grows exponentially with depth.

    In Pre-LN it is 1: no branch and no norm stands in the skip path.
    """

    def look(make: Make) -> Seen:
        sizes = [of_stream(make(depth=d, seed=seed, position=position), skip_alone=True) for d in SERIES]
        gaps = [size[-1] / size[0] for size in sizes]
        return exponential_in_depth([math.log(gap) for gap in gaps]), " ".join(f"{gap:.3g}" for gap in gaps)

    sentence = (
        "by the skip paths alone, gradient of the stream at the top over that at the input, at 10, 20 and 40 layers"
    )
    return in_settings(look, f"{sentence}, seed {seed}")


def exponential_in_depth(logarithms: Sequence[float]) -> bool:
    """Of logarithms at 10, 20 and 40 layers: they rise, at last nearer to an exponential than to a power law."""
    ten, twenty, forty = logarithms
    exponential, power = twenty + 2 * (twenty - ten), twenty + (twenty - ten)
    return ten < twenty < forty and abs(forty - exponential) < abs(forty - power)


def norm_amplifies(seed: int, residual: bool = True) -> Finding:
    """The Jacobian of the last layer's norm has a spectral norm above 1.1 at initialization."""

    def look(make: Make) -> Seen:
        trainer = Trainer(make(depth=DEPTH, seed=seed, position="post", residual=residual), autograd=True)
        norms = {at: trainer.network.get_submodule(f"blocks.{at}.ffn.after") for at in (1, DEPTH)}
        seen: dict[int, Tensor] = {}
        handles = [
            norm.register_forward_pre_hook(lambda module, inputs, at=at: seen.update({at: inputs[0].detach()}))
            for at, norm in norms.items()
        ]
        with torch.no_grad(), hooked(handles):
            trainer.loss(trainer.signal_batch)
        sizes = {at: _spectral_norm(norm, seen[at][:4, 8]) for at, norm in norms.items()}
        return sizes[DEPTH] > 1.1, f"{sizes[DEPTH]:.2f} (first layer {sizes[1]:.2f})"

    return in_settings(look, f"spectral norm of the norm's Jacobian in the last layer of Post-LN, seed {seed}")


def _spectral_norm(norm: torch.nn.Module, x_bd: Tensor) -> float:
    """The mean over tokens."""
    jacobians = [torch.autograd.functional.jacobian(norm, x_d) for x_d in x_bd]  # type: ignore[no-untyped-call]
    return statistics.fmean(float(torch.linalg.matrix_norm(jacobian, ord=2)) for jacobian in jacobians)


def does_not_vanish(seed: int, position: str = "pre") -> Finding:
    """In Pre-LN of 20 layers, the stream's gradient at the input is at least that at the top."""

    def look(make: Make) -> Seen:
        sizes = of_stream(make(depth=DEPTH, seed=seed, position=position))
        return sizes[0] >= sizes[-1], f"{sizes[0] / sizes[-1]:.3g}"

    return in_settings(look, f"gradient of the stream at the input over that after the last layer, seed {seed}")


def post_has_no_floor(seed: int, position: str = "post") -> Finding:
    """In Post-LN of 20 layers, less than half of the stream's gradient comes to the input by the skip paths alone.

    In Pre-LN all of it does: the identity term.
    """

    def look(make: Make) -> Seen:
        sizes = of_stream(make(depth=DEPTH, seed=seed, position=position), skip_alone=True)
        return sizes[0] < 0.5 * sizes[-1], f"{sizes[0] / sizes[-1]:.3g}"

    return in_settings(look, f"by the skip paths alone, gradient at the input over that at the top, seed {seed}")
