"""Gradients by layer at initialization, of Post-LN and Pre-LN (section 2.2)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.texts.article.printed import Make, in_settings, setting
from normexp.texts.figures import Observed
from normexp.training.inspection import matrix_gradient_sizes
from normexp.training.layer_signal import hooked
from normexp.training.trainer import Trainer

DEPTH = 20
SERIES = (10, 20, 40)


def by_layer(config: RunConfig) -> list[float]:
    """Return the gradient magnitude of each layer's last FFN matrix on one batch, from the first layer on."""
    trainer = Trainer(config, autograd=True)
    trainer.backward(trainer.signal_batch)
    sizes = matrix_gradient_sizes(trainer.network)
    return [sizes[layer, "fc2"] for layer in range(1, config.depth + 1)]


def rise(make: Make, position: str, seeds: Iterable[int], depth: int = DEPTH) -> float:
    """Return the gradient of the last three layers over that of the first three, as a geometric mean over seeds."""
    sizes = [by_layer(make(depth=depth, seed=seed, position=position)) for seed in seeds]
    return statistics.geometric_mean(sum(size[-3:]) / sum(size[:3]) for size in sizes)


def of_networks(seed: int, count: int = 3) -> range:
    """Return the seeds of the networks of one calculation."""
    return range(seed * count, (seed + 1) * count)


def of_stream(config: RunConfig, *, skip_alone: bool = False) -> list[float]:
    """Return the magnitude of the loss gradient by the residual stream, before the first layer and after each.

    With `skip_alone`, the gradient flows only through the skip paths: branches are detached.
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
    """Check that gradients of the last three of 20 layers exceed 1.5 times the first three's only in Post-LN.

    The settings use GELU. ReLU is checked as another condition, since the theorem of the paper is about it.
    """

    def look(make: Make) -> Observed:
        rises = [rise(make, position, of_networks(seed)) for position in (post, pre)]
        return rises[0] > 1.5 > rises[1], f"Post {rises[0]:.2f}, Pre {rises[1]:.2f}"

    transformer = setting("as a Transformer")
    relu = {"as a Transformer with ReLU": look(lambda **keys: transformer(activation="relu", **keys))}
    return in_settings(
        look, "gradient of fc2 in the last three layers over that in the first three, three networks", relu
    )


def larger_at_the_top(seed: int, post: str = "post", pre: str = "pre") -> Finding:
    """Check that the last of 20 layers has a gradient 1.5 times larger in Post-LN than in Pre-LN."""

    def look(make: Make) -> Observed:
        post_gradient, pre_gradient = (
            statistics.fmean(by_layer(make(depth=DEPTH, seed=s, position=position))[-1] for s in of_networks(seed))
            for position in (post, pre)
        )
        return post_gradient > 1.5 * pre_gradient, f"Post {post_gradient:.3f}, Pre {pre_gradient:.3f}"

    return in_settings(look, "gradient of fc2 in the last layer, mean of three networks")


def exponential(seed: int, post: str = "post", pre: str = "pre") -> Finding:
    """Check that the ratio of Post-LN's rise to Pre-LN's grows exponentially with depth, from 10 to 40 layers."""

    def look(make: Make) -> Observed:
        networks = of_networks(seed, 2)
        gaps = [rise(make, post, networks, depth) / rise(make, pre, networks, depth) for depth in SERIES]
        return exponential_in_depth([math.log(gap) for gap in gaps]), " ".join(f"{gap:.2f}" for gap in gaps)

    return in_settings(look, "rise over the layers, Post over Pre, at 10, 20 and 40 layers, two networks")


def exponential_by_skip(seed: int, position: str = "post") -> Finding:
    """Check that the gradient through skip paths alone grows exponentially with depth, top over input.

    In Pre-LN, this ratio is 1: the skip path contains neither branches nor norms.
    """

    def look(make: Make) -> Observed:
        sizes = [of_stream(make(depth=d, seed=seed, position=position), skip_alone=True) for d in SERIES]
        gaps = [size[-1] / size[0] for size in sizes]
        return exponential_in_depth([math.log(gap) for gap in gaps]), " ".join(f"{gap:.3g}" for gap in gaps)

    sentence = "gradient of the stream through skip paths alone, top over input, at 10, 20 and 40 layers"
    return in_settings(look, f"{sentence}, seed {seed}")


def exponential_in_depth(logarithms: Sequence[float]) -> bool:
    """Return whether logarithms at 10, 20 and 40 layers rise, and fit an exponential better than a power law."""
    ten, twenty, forty = logarithms
    exponential, power = twenty + 2 * (twenty - ten), twenty + (twenty - ten)
    return ten < twenty < forty and abs(forty - exponential) < abs(forty - power)


def norm_amplifies(seed: int, residual: bool = True) -> Finding:
    """Check that the Jacobian of the last layer's norm amplifies at initialization: by itself, or against the first.

    Its spectral norm must be above 1.1, or above 1.1 times that of the first layer's norm.
    """

    def look(make: Make) -> Observed:
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
        return sizes[DEPTH] > 1.1 * min(1.0, sizes[1]), f"{sizes[DEPTH]:.2f} (first layer {sizes[1]:.2f})"

    return in_settings(look, f"spectral norm of the norm's Jacobian in the last layer of Post-LN, seed {seed}")


def _spectral_norm(norm: torch.nn.Module, x_bd: Tensor) -> float:
    """Return the mean spectral norm of the Jacobian over tokens."""
    jacobians = [torch.autograd.functional.jacobian(norm, x_d) for x_d in x_bd]  # type: ignore[no-untyped-call]
    return statistics.fmean(float(torch.linalg.matrix_norm(jacobian, ord=2)) for jacobian in jacobians)


def does_not_vanish(seed: int, position: str = "pre") -> Finding:
    """Check that in Pre-LN of 20 layers, the stream's gradient at the input is at least that at the top."""

    def look(make: Make) -> Observed:
        sizes = of_stream(make(depth=DEPTH, seed=seed, position=position))
        return sizes[0] >= sizes[-1], f"{sizes[0] / sizes[-1]:.3g}"

    return in_settings(look, f"gradient of the stream at the input over that after the last layer, seed {seed}")


def post_has_no_floor(seed: int, position: str = "post") -> Finding:
    """Check that in Post-LN, less than half of the stream's gradient reaches the input by skip paths.

    In Pre-LN all of it does: this is the identity term.
    """

    def look(make: Make) -> Observed:
        sizes = of_stream(make(depth=DEPTH, seed=seed, position=position), skip_alone=True)
        return sizes[0] < 0.5 * sizes[-1], f"{sizes[0] / sizes[-1]:.3g}"

    return in_settings(look, f"gradient through skip paths alone, input over top, seed {seed}")
