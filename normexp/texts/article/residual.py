"""The identity term of a residual connection (section 4.2)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from normexp.claims.claim import Finding
from normexp.texts.figures import Figures, by_condition, compare_printed, contradiction, one_seed

SEED, WIDTH, LAYERS = 3, 64, 20
F = Callable[[Tensor], Tensor]


def branch(gain: float = 1.0) -> nn.Sequential:
    """Return the article's two-layer F, with all matrices multiplied by a gain."""
    made = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
    with torch.no_grad():
        for layer in made:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(gain)
    return made


def _sizes(seed: int) -> list[float]:
    """Follow the article's procedure.

    Returns the magnitudes of the gradient and of the identity term 2y, their ratio, and the magnitude of the gradient
    without residual at another x.
    """
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
    """Compare the total gradient, the identity term, its share, and the gradient without residual with the figures."""
    return compare_printed(
        _sizes(SEED + seed), figures, f"total, identity term, share, without residual, seed {SEED + seed}"
    )


def share(seed: int, figures: Figures) -> Finding:
    """Compare the magnitude of the identity term over that of the total gradient with the figure."""
    return compare_printed(_sizes(SEED + seed)[2:3], figures, f"identity term over total gradient, seed {SEED + seed}")


def same_point(seed: int, gain: float = 1.0, skip: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Return the upstream gradient, the gradient with the skip path, and the gradient without it, at one x."""
    torch.manual_seed(SEED + seed)
    f = branch(gain)
    x = torch.randn(1, WIDTH, requires_grad=True)
    through = f(x)
    upstream = (2 * (through + x)).detach()
    (cut,) = torch.autograd.grad(through, x, upstream, retain_graph=True)
    (total,) = torch.autograd.grad(through + skip * x, x, upstream)
    return upstream, total, cut


def adds_up(seed: int, skip: float = 1.0) -> Finding:
    """Check that the gradient is the upstream gradient plus the gradient through F."""
    upstream, total, cut = same_point(seed, skip=skip)
    error = float((total - upstream - cut).norm() / total.norm())
    return one_seed(error < 1e-6, f"error {error:.0e}", f"relative error of the sum {error:.0e}, seed {SEED + seed}")


def identity_is_independent(seed: int, other: int = 1) -> Finding:
    """Check that the identity term 2 (F(x) + x) of the article's code stays the same with other weights in F."""
    terms = []
    for draw in (0, other):
        torch.manual_seed(SEED + seed)
        x = torch.randn(1, WIDTH)
        torch.manual_seed(SEED + seed + 1000 * draw)
        with torch.no_grad():
            terms.append(2 * (branch()(x) + x))
    moved = float((terms[1] - terms[0]).norm() / terms[0].norm())
    measured = f"the identity term moves by {moved:.1%}"
    return contradiction(moved == 0, measured, f"with other weights in F {measured}, at one x, seed {SEED + seed}")


def is_a_share(seed: int, gain: float = 1.0) -> Finding:
    """Check that the magnitudes of both parts of the gradient, over its magnitude, add up to 1 within 0.01."""
    upstream, total, cut = (float(value.norm()) for value in same_point(seed, gain))
    skip, through = upstream / total, cut / total
    measured = f"{skip:.3f} through the skip path and {through:.3f} through F, {skip + through:.2f} in total"
    return one_seed(abs(skip + through - 1) < 0.01, measured, f"ratios of magnitudes: {measured}, seed {SEED + seed}")


def mostly_identity(seed: int, gain: float = 1.0) -> Finding:
    """Check that the gradient through F is less than half of the upstream gradient at the same point."""
    upstream, total, cut = (float(value.norm()) for value in same_point(seed, gain))
    measured = f"{upstream:.2f} through the skip path, {cut:.2f} through F, {total:.2f} in total"
    return one_seed(cut < 0.5 * upstream, measured, f"magnitudes: {measured}, seed {SEED + seed}")


def halves(seed: int, gain: float = 1.0) -> Finding:
    """Check that cutting the skip path more than halves the gradient at the same point."""
    _, total, cut = (float(value.norm()) for value in same_point(seed, gain))
    measured = f"{total:.2f} to {cut:.2f}"
    return one_seed(cut < 0.5 * total, measured, f"gradient with the skip path, and with it cut: {measured}")


def through_stack(seed: int, residual: bool, gain: float = 1.0, f: F | None = None) -> list[float]:
    """Return the gradient's magnitude after 1, 2, ... of 20 F over the upstream one's, from the top down."""
    torch.manual_seed(seed)
    fs: list[F] = [branch(gain).double() if f is None else f for _ in range(LAYERS)]
    xs = [torch.randn(32, WIDTH, dtype=torch.float64, requires_grad=True)]
    for through in fs:
        xs.append(through(xs[-1]) + xs[-1] if residual else through(xs[-1]))
    upstream = torch.randn(32, WIDTH, dtype=torch.float64)
    grads = torch.autograd.grad(xs[-1], xs[:-1], upstream)
    return [float(grad.norm() / upstream.norm()) for grad in reversed(grads)]


def shrinks_without(seed: int, residual: bool = False) -> Finding:
    """Check that 20 layers without residual shrink the gradient in every layer, to less than 1e-6."""
    sizes = through_stack(seed, residual)
    factors = [after / before for before, after in itertools.pairwise(sizes)]
    holds = sizes[-1] < 1e-6 and max(factors) < 1
    measured = f"{sizes[-1]:.1e}, factors {min(factors):.2f} to {max(factors):.2f} per layer"
    return one_seed(
        holds, measured, f"gradient behind 20 F without residual, relative to upstream: {measured}, seed {seed}"
    )


def floor_with(seed: int, residual: bool = True) -> Finding:
    """Check that with residual, the gradient behind 20 layers is not smaller than upstream, whatever F is.

    The gradient is multiplied by I + dF/dx, so F = -x/2 halves it in each layer.
    """
    cases: dict[str, F | None] = {"with random weights in F": None, "with F = -x/2": lambda x: -x / 2}
    ends = {name: through_stack(seed, residual, f=f)[-1] for name, f in cases.items()}
    seen = {name: (end >= 1, f"{end:.2g}") for name, end in ends.items()}
    return by_condition(seen, {}, f"gradient behind 20 F with residual, relative to upstream, seed {seed}")


def less_sensitive(seed: int, one: bool = True, other: bool = False) -> Finding:
    """Check that the gradient behind 20 layers varies less with the size of weights with residual than without."""
    orders = {}
    for residual in (one, other):
        ends = [through_stack(seed, residual, gain)[-1] for gain in (0.5, 1.0, 2.0)]
        orders[residual] = math.log10(max(ends) / min(ends))
    measured = f"{orders[one]:.1f} orders of magnitude with residual, {orders[other]:.1f} without"
    return one_seed(orders[one] < orders[other], measured, f"weights times 0.5, 1 and 2: {measured}, seed {seed}")
