"""What is said of a single norm: its formula, its parameters, its output (sections 1.3, 2.1, 3 and 6.4)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from normexp.claims.claim import Finding
from normexp.texts.article.printed import PostLNBlock, PreLNBlock, norm
from normexp.texts.figures import Figures, beside, contradiction, plain
from normexp.training.trainer import parameter_count

TOLERANCE = 5e-6


def _by_hand(x: Tensor, divisor: int) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(centred.square().sum(dim=-1, keepdim=True) / divisor + 1e-5)


def _input(seed: int) -> Tensor:
    torch.manual_seed(seed)
    return torch.randn(4, 32, 256) * 3.0 + 2.0


def by_hand(seed: int, name: str = "ln") -> Finding:
    """The formula with biased variance over the last axis is torch's LayerNorm and this program's, to rounding."""
    x_btd = _input(seed)
    modules = {"torch": nn.LayerNorm(256), "normexp": norm(name, 256)}
    errors = {
        told: float((_by_hand(x_btd, divisor) - modules[module](x_btd)).detach().abs().max())
        for told, module, divisor in (
            ("torch", "torch", 256),
            ("normexp", "normexp", 256),
            ("unbiased", "torch", 255),
        )
    }
    holds = max(errors["torch"], errors["normexp"]) < TOLERANCE < errors["unbiased"]
    measured = f"largest error {errors['torch']:.1e}, with unbiased variance {errors['unbiased']:.1e}"
    return plain(holds, measured, f"{measured}, of this program's norm {errors['normexp']:.1e}, seed {seed}")


def error_printed(seed: int, figures: Figures) -> Finding:
    """The largest error, which a comment (first figure) and the text (second) give, is not 0 but of the text's size."""
    x_btd = _input(seed)
    error = float((_by_hand(x_btd, 256) - nn.LayerNorm(256)(x_btd)).detach().abs().max())
    comment, text = map(float, figures)
    measured = f"{error:.1e}"
    holds = error == comment or (comment > 0 and 0.3 < error / comment < 3)
    return contradiction(holds, measured, f"the largest error is {measured}; its text has {text:g}, seed {seed}")


def keeps_information(seed: int, name: str = "ln") -> Finding:
    """Two inputs that differ in size and mean come out differently: x and 2 x + 1, by more than 0.01 in the mean."""
    x_btd = _input(seed)
    module = norm(name, 256)
    moved = float((module(2 * x_btd + 1) - module(x_btd)).detach().abs().mean())
    measured = f"mean difference {moved:.1e}"
    return plain(moved > 0.01, measured, f"of what x and 2 x + 1 become: {measured}, seed {seed}")


def standardized(seed: int, name: str = "ln") -> Finding:
    """Over all elements, the output has mean 0 and standard deviation 1, to 0.001."""
    y_btd = norm(name, 256)(_input(seed)).detach()
    mean, std = y_btd.mean().item(), y_btd.std().item()
    measured = f"mean {mean:.0e}, std {std:.5f}"
    return plain(abs(mean) < 1e-3 and abs(std - 1) < 1e-3, measured, f"{measured}, seed {seed}")


def parameters(seed: int, figures: Figures) -> Finding:
    """Parameters of LayerNorm (second figure) and of RMSNorm (third) over so many features (first)."""
    width = int(figures[0])
    found = [float(width), *(float(parameter_count(norm(name, width))) for name in ("ln", "rms"))]
    return beside(found, figures, "features, parameters of LayerNorm and of RMSNorm")


def model_parameters(seed: int, figures: Figures) -> Finding:
    """Figures: features, norms a layer, layers; then the parameters of so many LayerNorms, and of RMSNorms."""
    width, norms, layers = map(int, figures[:3])
    found = [float(norms * layers * parameter_count(norm(name, width))) for name in ("ln", "rms")]
    procedure = "features, norms a layer, layers, parameters of each norm"
    return beside([*map(float, figures[:3]), *found], figures, procedure)


def small_share(seed: int, figures: Figures) -> Finding:
    """Of a model of so many parameters (first figure), that many (second) are less than a thousandth."""
    share = float(figures[1]) / float(figures[0])
    return plain(share < 1e-3, f"{share:.4%} of it", f"its share is {share:.4%}")


def exits(seed: int, figures: Figures) -> Finding:
    """The mean norm at the exit of a Post-LN block and of a Pre-LN block."""
    torch.manual_seed(seed)
    x_btd = torch.randn(2, 8, 64)
    post_btd = PostLNBlock(64, 128)(x_btd)
    found = [y_btd.norm(dim=-1).mean().item() for y_btd in (post_btd, PreLNBlock(64, 128)(x_btd))]
    return beside(found, figures, f"norms at the exit of Post-LN and Pre-LN, {x_btd.norm(dim=-1).mean():.4f} before")


def output_statistics(seed: int, figures: Figures) -> Finding:
    """Mean and spread of row means of LayerNorm, then of RMSNorm; then the mean spread within rows of each."""
    torch.manual_seed(7 + seed)
    x_bd = torch.randn(1024, 512) * 3.0 + 1.5
    ln_bd, rms_bd = (norm(name, 512)(x_bd).detach() for name in ("ln", "rms"))
    means = [value for y_bd in (ln_bd, rms_bd) for value in (y_bd.mean(dim=-1).mean(), y_bd.mean(dim=-1).std())]
    spreads = [y_bd.std(dim=-1).mean() for y_bd in (ln_bd, rms_bd)]
    found = [value.item() for value in (*means, *spreads)]
    return beside(found, figures, "row means (mean, std) of LayerNorm and RMSNorm, and standard deviations of rows")


def mean_kept(seed: int, name: str = "rms", other: str = "ln") -> Finding:
    """RMSNorm's outputs have a mean, which grows with that of the inputs; LayerNorm's have none."""
    torch.manual_seed(seed)
    noise_bd = torch.randn(256, 512) * 3
    kept, gone = (
        [norm(module, 512)(noise_bd + offset).mean().item() for offset in (0.5, 1.5, 4.5)] for module in (name, other)
    )
    holds = 0.05 < kept[0] < kept[1] < kept[2] and max(map(abs, gone)) < 1e-5
    measured = f"means {', '.join(f'{value:.3f}' for value in kept)}; of LayerNorm {max(map(abs, gone)):.0e}"
    return plain(holds, measured, f"input means 0.5, 1.5, 4.5 at std 3 give {measured}, seed {seed}")


def mean_takes_share(seed: int, name: str = "rms") -> Finding:
    """Mean and standard deviation of a row share a mean square of 1, so that the latter is below 1."""
    torch.manual_seed(seed)
    y_bd = norm(name, 512)(torch.randn(256, 512) * 3 + 1.5).detach()
    mean, variance = y_bd.mean(dim=-1), y_bd.var(dim=-1, unbiased=False)
    total, std = float((mean.square() + variance).mean()), float(variance.sqrt().mean())
    measured = f"mean^2 + std^2 = {total:.4f}, std {std:.4f} (closed form {2 / math.sqrt(5):.4f})"
    return plain(abs(total - 1) < 1e-3 and std < 0.99, measured, f"{measured}, seed {seed}")


def mean_square(seed: int, figures: Figures) -> Finding:
    """The mean square of RMSNorm's output."""
    torch.manual_seed(seed)
    y_btd = norm("rms", 1024)(torch.randn(64, 128, 1024)).detach()
    return beside([y_btd.square().mean(dim=-1).mean().item()], figures, "mean square of the output")
