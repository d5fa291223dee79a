"""Norms along a stack of random matrices, without and with a norm between them (section 1.1)."""

from __future__ import annotations

import math

import torch

from normexp.claims.claim import Finding
from normexp.texts.article.printed import norm
from normexp.texts.figures import Figures, beside, circumstances, contradiction

WIDTH, LAYERS, STD = 64, 20, 0.3
SCALED_STD = STD / math.sqrt(WIDTH)
PRINTED, SCALED = "weights of std 0.3", "weights of std 0.3 / sqrt(d)"


def stack(seed: int, std: float, name: str = "none") -> list[float]:
    """The mean norm of the tokens before the first layer and after each, with a norm after every layer."""
    torch.manual_seed(seed)
    x_btd = torch.randn(4, 16, WIDTH)
    between, norms = norm(name, WIDTH), [x_btd.norm(dim=-1).mean().item()]
    for _ in range(LAYERS):
        x_btd = between(x_btd @ (torch.randn(WIDTH, WIDTH) * std)).detach()
        norms.append(x_btd.norm(dim=-1).mean().item())
    return norms


def printed(seed: int, figures: Figures, std: float = STD) -> Finding:
    """The norms as its code prints them."""
    return beside(stack(seed, std)[: len(figures)], figures, f"norms from the input on, weights of std {std:g}")


def shrinks(seed: int, scaled: float = SCALED_STD) -> Finding:
    """After 20 layers less than a thousandth of the norm is left."""
    found = {name: stack(seed, std) for name, std in ((PRINTED, STD), (SCALED, scaled))}
    seen = {name: (norms[-1] < norms[0] / 1000, f"{norms[0]:.2f} to {norms[-1]:.2g}") for name, norms in found.items()}
    return circumstances({PRINTED: seen[PRINTED]}, {SCALED: seen[SCALED]}, "norms before and after 20 layers")


def gone_in(seed: int, figures: Figures) -> Finding:
    """The list that is printed (from the third figure on, the input first) is at the level by the layer stated."""
    layer, level, norms = int(figures[0]), float(figures[1]), [float(figure) for figure in figures[2:]]
    reached = next((at for at, value in enumerate(norms) if value <= level), len(norms))
    measured = f"its list has {norms[layer]:g} at layer {layer}, and {level:g} from layer {reached} on"
    return contradiction(reached <= layer, measured, measured)


def underflows(seed: int, figures: Figures, scaled: float = SCALED_STD) -> Finding:
    """At the layer stated, the norm in float32 is 0."""
    layer = int(figures[0])
    found = {name: stack(seed, std)[layer] for name, std in ((PRINTED, STD), (SCALED, scaled))}
    seen = {name: (value == 0, f"{value:.2g}") for name, value in found.items()}
    return circumstances({PRINTED: seen[PRINTED]}, {SCALED: seen[SCALED]}, f"norm at layer {layer}")


def explodes(seed: int, figures: Figures) -> Finding:
    """Weights larger by a factor reach a norm within so many layers."""
    factor, layers, norm_stated = float(figures[0]), int(figures[1]), float(figures[2])
    names = {f"weights of std 0.3 x {factor:g}": STD * factor, f"weights of std {factor:g}": factor}
    reached = {name: stack(seed, std)[layers] for name, std in names.items()}
    own, other = ({name: (value >= norm_stated, f"{value:.3g}")} for name, value in reached.items())
    return circumstances(own, other, f"norm at layer {layers}")


def pinned(seed: int, name: str = "ln") -> Finding:
    """With a norm after each of 20 layers, the norm is within 0.1 % of sqrt(d), at three scales of the weights."""
    stds = {PRINTED: STD, SCALED: SCALED_STD, "weights of std 1.2": 1.2}
    worst = {
        told: max((abs(value / math.sqrt(WIDTH) - 1), value) for value in stack(seed, std, name)[1:])
        for told, std in stds.items()
    }
    own = {told: (off < 1e-3, f"{value:.4f}") for told, (off, value) in worst.items()}
    return circumstances(own, {}, "the norm farthest from 8 in 20 layers")
