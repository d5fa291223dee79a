"""Magnitudes along a stack of random matrices, with and without norms in between (section 1.1)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch.nn import functional

from normexp.claims.claim import Finding
from normexp.texts.article.printed import norm
from normexp.texts.figures import Figures, by_condition, compare_printed, contradiction

WIDTH, LAYERS, STD = 64, 20, 0.3
STEPS = 100
SCALED_STD = STD / math.sqrt(WIDTH)
PRINTED, SCALED = "weights of std 0.3", "weights of std 0.3 / sqrt(d)"


def stack(seed: int, std: float, name: str = "none") -> list[float]:
    """Return the mean magnitude of tokens before the first layer and after each, with a norm after every layer."""
    torch.manual_seed(seed)
    x_btd = torch.randn(4, 16, WIDTH)
    between, norms = norm(name, WIDTH), [x_btd.norm(dim=-1).mean().item()]
    for _ in range(LAYERS):
        x_btd = between(x_btd @ (torch.randn(WIDTH, WIDTH) * std)).detach()
        norms.append(x_btd.norm(dim=-1).mean().item())
    return norms


def printed(seed: int, figures: Figures, std: float = STD) -> Finding:
    """Compare the magnitudes with those that the article's code prints."""
    return compare_printed(
        stack(seed, std)[: len(figures)], figures, f"magnitudes from the input on, weights of std {std:g}"
    )


def shrinks(seed: int, scaled: float = SCALED_STD) -> Finding:
    """Check that less than a thousandth of the magnitude is left after 20 layers."""
    magnitudes = {name: stack(seed, std) for name, std in ((PRINTED, STD), (SCALED, scaled))}
    seen = {
        name: (norms[-1] < norms[0] / 1000, f"{norms[0]:.2f} to {norms[-1]:.2g}") for name, norms in magnitudes.items()
    }
    return by_condition({PRINTED: seen[PRINTED]}, {SCALED: seen[SCALED]}, "magnitudes before and after 20 layers")


def gone_in(seed: int, figures: Figures) -> Finding:
    """Check that a printed list reaches the stated level by the stated layer.

    The figures are the layer, the level, and the list, starting with the input.
    """
    layer, level, norms = int(figures[0]), float(figures[1]), [float(figure) for figure in figures[2:]]
    reached = next((at for at, value in enumerate(norms) if value <= level), len(norms))
    measured = f"the list has {norms[layer]:g} at layer {layer}, and {level:g} from layer {reached} on"
    return contradiction(reached <= layer, measured, measured)


def underflows(seed: int, figures: Figures, scaled: float = SCALED_STD) -> Finding:
    """Check that the magnitude at the stated layer is 0 in float32."""
    layer = int(figures[0])
    magnitudes = {name: stack(seed, std)[layer] for name, std in ((PRINTED, STD), (SCALED, scaled))}
    seen = {name: (value == 0, f"{value:.2g}") for name, value in magnitudes.items()}
    return by_condition({PRINTED: seen[PRINTED]}, {SCALED: seen[SCALED]}, f"magnitude at layer {layer}")


def explodes(seed: int, figures: Figures) -> Finding:
    """Check that weights scaled up reach a magnitude within a number of layers.

    The figures are the scale, the number of layers, and the magnitude. The scale is read as a factor on the weights of
    std 0.3, and as their std.
    """
    factor, layers, norm_stated = float(figures[0]), int(figures[1]), float(figures[2])
    names = {f"weights of std 0.3 x {factor:g}": STD * factor, f"weights of std {factor:g}": factor}
    reached = {name: stack(seed, std)[layers] for name, std in names.items()}
    own = {name: (value >= norm_stated, f"{value:.3g}") for name, value in reached.items()}
    return by_condition(own, {}, f"magnitude at layer {layers}")


def untrainable(seed: int, stds: Sequence[float] = (STD, SCALED_STD, 1.2)) -> Finding:
    """Check that a stack of 20 matrices at these scales learns nothing of a permutation of the tokens.

    It is trained by 100 steps of Adam at 1e-3 on all tokens. It learns nothing if the loss stays within 3 % of that of
    a uniform guess, or above it. A linear network can express any permutation.
    """
    seen = {}
    for std in stds:
        loss = _trained(seed, std)
        seen[f"weights of std {std:.3g}"] = (not loss < 0.97 * math.log(WIDTH), f"{loss:.3g}")
    return by_condition(seen, {}, f"loss after {STEPS} steps, a uniform guess being {math.log(WIDTH):.3f}, seed {seed}")


def _trained(seed: int, std: float) -> float:
    """Return the last loss in nats of the stack between an embedding and a head, all matrices trained."""
    torch.manual_seed(seed)
    targets = torch.randperm(WIDTH)
    matrices = [torch.randn(WIDTH, WIDTH), *(torch.randn(WIDTH, WIDTH) * std for _ in range(LAYERS))]
    matrices.append(torch.randn(WIDTH, WIDTH) / math.sqrt(WIDTH))
    optimizer = torch.optim.Adam([matrix.requires_grad_() for matrix in matrices], lr=1e-3)
    loss = torch.tensor(math.inf)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = functional.cross_entropy(functools.reduce(torch.matmul, matrices), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return loss.item()


def pinned(seed: int, name: str = "ln") -> Finding:
    """Check that a norm after each of 20 layers keeps the magnitude within 0.1 % of sqrt(d).

    It is checked at three scales of the weights.
    """
    stds = {PRINTED: STD, SCALED: SCALED_STD, "weights of std 1.2": 1.2}
    worst = {
        label: max((abs(value / math.sqrt(WIDTH) - 1), value) for value in stack(seed, std, name)[1:])
        for label, std in stds.items()
    }
    own = {label: (off < 1e-3, f"{value:.4f}") for label, (off, value) in worst.items()}
    return by_condition(own, {}, "the magnitude farthest from 8 in 20 layers")
