"""Gradients by layer at initialization, Post-LN beside Pre-LN (section 2.2).

Where DeepNorm's alpha stands, and what it does at initialization (section 5.2).

The identity term of a residual connection (section 4.2).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.model.block import Block
from normexp.model.network import Network, build
from normexp.texts.article.printed import Make, in_settings, setting
from normexp.texts.figures import Figures, Seen, beside, circumstances, plain
from normexp.training.inspection import inspect_trainer, matrix_gradient_sizes
from normexp.training.layer_signal import hooked
from normexp.training.trainer import Trainer

DEPTHS = (8, 32)
BRANCH, SKIP = "alpha on the branch, as stated", "alpha on the skip path, as in its paper"


def swapped(config: RunConfig) -> Network:
    """The network with the factors of skip path and branch exchanged."""
    network = build(config)
    for block in network.blocks.values():
        assert isinstance(block, Block)
        for branch in (block.mixer, block.ffn):
            skip = branch.skip or nn.Identity()
            branch.skip, branch.branch_out = branch.branch_out, skip
    return network


def update(config: RunConfig, network: Network) -> float:
    """RMS change of the logits where all matrices of the blocks make a step of SGD at 0.01."""
    rows = inspect_trainer(Trainer(config, network, plain=True), number=1)
    return next(row.value for row in rows if row.part == "logits" and row.quantity == "sgd_update")


def tames(seed: int, position: str = "deepnorm") -> Finding:
    """What a step of SGD changes grows less than 1.5-fold from 8 to 32 layers, alpha on the branch or on the skip."""
    changes: dict[str, list[float]] = {BRANCH: [], SKIP: []}
    for depth in DEPTHS:
        config = setting("as a Transformer")(depth=depth, position=position, seed=seed)
        changes[BRANCH].append(update(config, swapped(config)))
        changes[SKIP].append(update(config, build(config)))
    seen = {name: (late < 1.5 * early, f"{early:.2g} and {late:.2g}") for name, (early, late) in changes.items()}
    sentence = "change of the logits by a step of SGD at 8 and at 32 layers"
    return circumstances({BRANCH: seen[BRANCH]}, {SKIP: seen[SKIP]}, sentence)


SEED, WIDTH, LAYERS = 3, 64, 20
F = Callable[[Tensor], Tensor]


def branch(gain: float = 1.0) -> nn.Sequential:
    """Its two-layer F, with all matrices times a gain."""
    made = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
    with torch.no_grad():
        for layer in made:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(gain)
    return made


def _sizes(seed: int) -> list[float]:
    """Its procedure: norms of the gradient, of 2y, their ratio, and the gradient without residual at another x."""
    torch.manual_seed(seed)
    f = branch()
    x = torch.randn(1, WIDTH, requires_grad=True)
    y = f(x) + x
    (total,) = torch.autograd.grad(y.square().sum(), x)
    other = torch.randn(1, WIDTH, requires_grad=True)
    (without,) = torch.autograd.grad(f(other).square().sum(), other)
    identity = (2 * y).detach()
    norms = [float(value.norm()) for value in (total, identity, without)]
    return [norms[0], norms[1], norms[1] / norms[0], norms[2]]


def printed(seed: int, figures: Figures) -> Finding:
    """Total gradient, identity term, its share, gradient without residual."""
    return beside(_sizes(SEED + seed), figures, f"total, identity term, share, without residual, seed {SEED + seed}")


def share(seed: int, figures: Figures) -> Finding:
    """The identity term's norm over the total gradient's."""
    return beside(_sizes(SEED + seed)[2:3], figures, f"identity term over total gradient, seed {SEED + seed}")


def same_point(seed: int, gain: float = 1.0, skip: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """At one x and with one upstream gradient: it, the gradient with the skip path, and with the skip path cut."""
    torch.manual_seed(SEED + seed)
    f = branch(gain)
    x = torch.randn(1, WIDTH, requires_grad=True)
    through = f(x)
    upstream = (2 * (through + x)).detach()
    (cut,) = torch.autograd.grad(through, x, upstream, retain_graph=True)
    (total,) = torch.autograd.grad(through + skip * x, x, upstream)
    return upstream, total, cut


def adds_up(seed: int, skip: float = 1.0) -> Finding:
    """The gradient is the upstream gradient plus what comes through F."""
    upstream, total, cut = same_point(seed, skip=skip)
    error = float((total - upstream - cut).norm() / total.norm())
    return plain(error < 1e-6, f"error {error:.0e}", f"relative error of the sum {error:.0e}, seed {SEED + seed}")


def is_a_share(seed: int, gain: float = 1.0) -> Finding:
    """The two parts of the gradient, their norms over its norm, make 1 together, to a hundredth."""
    upstream, total, cut = (float(value.norm()) for value in same_point(seed, gain))
    skip, through = upstream / total, cut / total
    measured = f"{skip:.3f} by the skip path and {through:.3f} through F, {skip + through:.2f} in all"
    return plain(abs(skip + through - 1) < 0.01, measured, f"ratios of norms: {measured}, seed {SEED + seed}")


def mostly_identity(seed: int, gain: float = 1.0) -> Finding:
    """At the same point and upstream gradient, what comes through F is less than half of the upstream gradient."""
    upstream, total, cut = (float(value.norm()) for value in same_point(seed, gain))
    measured = f"{upstream:.2f} by the skip path, {cut:.2f} through F, {total:.2f} in all"
    return plain(cut < 0.5 * upstream, measured, f"norms: {measured}, seed {SEED + seed}")


def halves(seed: int, gain: float = 1.0) -> Finding:
    """At the same point and upstream gradient, cutting the skip path more than halves the gradient."""
    _, total, cut = (float(value.norm()) for value in same_point(seed, gain))
    measured = f"{total:.2f} to {cut:.2f}"
    return plain(cut < 0.5 * total, measured, f"gradient with the skip path, and with it cut: {measured}")


def through_stack(seed: int, residual: bool, gain: float = 1.0, f: F | None = None) -> list[float]:
    """The gradient's norm over the upstream one's, behind 1, 2, ... of 20 F, from the top down."""
    torch.manual_seed(seed)
    fs: list[F] = [branch(gain).double() if f is None else f for _ in range(LAYERS)]
    xs = [torch.randn(32, WIDTH, dtype=torch.float64, requires_grad=True)]
    for through in fs:
        xs.append(through(xs[-1]) + xs[-1] if residual else through(xs[-1]))
    upstream = torch.randn(32, WIDTH, dtype=torch.float64)
    grads = torch.autograd.grad(xs[-1], xs[:-1], upstream)
    return [float(grad.norm() / upstream.norm()) for grad in reversed(grads)]


def shrinks_without(seed: int, residual: bool = False) -> Finding:
    """Without residual, 20 layers shrink the gradient by a like factor each, to less than a millionth."""
    sizes = through_stack(seed, residual)
    factors = [after / before for before, after in itertools.pairwise(sizes)]
    holds = sizes[-1] < 1e-6 and max(factors) < 1
    measured = f"{sizes[-1]:.1e} of it, factors {min(factors):.2f} to {max(factors):.2f} a layer"
    return plain(holds, measured, f"of the upstream gradient 20 F without residual leave {measured}, seed {seed}")


def floor_with(seed: int, residual: bool = True) -> Finding:
    """With residual, the gradient behind 20 layers is no smaller than the upstream one, whatever F is.

    The gradient goes by I + dF/dx, so that F = -x/2 halves it in each layer.
    """
    cases: dict[str, F | None] = {"with random weights in F": None, "with F = -x/2": lambda x: -x / 2}
    ends = {name: through_stack(seed, residual, f=f)[-1] for name, f in cases.items()}
    seen = {name: (end >= 1, f"{end:.2g} of it") for name, end in ends.items()}
    return circumstances(seen, {}, f"of the upstream gradient 20 F with residual leave, seed {seed}")


def less_sensitive(seed: int, one: bool = True, other: bool = False) -> Finding:
    """From half to twice the initial weights, the gradient behind 20 layers varies less with residual than without."""
    orders = {}
    for residual in (one, other):
        ends = [through_stack(seed, residual, gain)[-1] for gain in (0.5, 1.0, 2.0)]
        orders[residual] = math.log10(max(ends) / min(ends))
    measured = f"{orders[one]:.1f} orders of magnitude with residual, {orders[other]:.1f} without"
    return plain(orders[one] < orders[other], measured, f"weights times 0.5, 1 and 2: {measured}, seed {seed}")


DEPTH = 20
SERIES = (10, 20, 40)


def by_layer(config: RunConfig) -> list[float]:
    """Norm of the gradient of each layer's last FFN matrix, from the first layer on, on one batch."""
    trainer = Trainer(config, plain=True)
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
    trainer = Trainer(config, plain=True)
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
        trainer = Trainer(make(depth=DEPTH, seed=seed, position="post", residual=residual), plain=True)
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
