"""Claims about a single norm: its formula, parameters and output (sections 1.3, 2.1, 3 and 6.4)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from normexp.claims.claim import Finding
from normexp.texts.article.printed import PostLNBlock, PreLNBlock, norm
from normexp.texts.figures import Figures, by_condition, compare_printed, contradiction, one_seed
from normexp.training.trainer import parameter_count

TOLERANCE = 5e-6


def _by_hand(x: Tensor, divisor: int) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(centred.square().sum(dim=-1, keepdim=True) / divisor + 1e-5)


def _input(seed: int) -> Tensor:
    torch.manual_seed(seed)
    return torch.randn(4, 32, 256) * 3.0 + 2.0


def by_hand(seed: int, name: str = "ln") -> Finding:
    """Check that the formula with biased variance equals torch's and this program's LayerNorm, up to rounding."""
    x_btd = _input(seed)
    modules = {"torch": nn.LayerNorm(256), "normexp": norm(name, 256)}
    errors = {
        label: float((_by_hand(x_btd, divisor) - modules[module](x_btd)).detach().abs().max())
        for label, module, divisor in (
            ("torch", "torch", 256),
            ("normexp", "normexp", 256),
            ("unbiased", "torch", 255),
        )
    }
    holds = max(errors["torch"], errors["normexp"]) < TOLERANCE < errors["unbiased"]
    measured = f"largest error {errors['torch']:.1e}, with unbiased variance {errors['unbiased']:.1e}"
    return one_seed(holds, measured, f"{measured}, of this program's norm {errors['normexp']:.1e}, seed {seed}")


def error_printed(seed: int, figures: Figures) -> Finding:
    """Check that the largest error in a comment agrees with the computed one.

    The figures are the error in the comment, which must be of the right size, and the error in the text.
    """
    x_btd = _input(seed)
    error = float((_by_hand(x_btd, 256) - nn.LayerNorm(256)(x_btd)).detach().abs().max())
    comment, text = map(float, figures)
    measured = f"{error:.1e}"
    holds = error == comment or (comment > 0 and 0.3 < error / comment < 3)
    return contradiction(holds, measured, f"the largest error is {measured}; its text has {text:g}, seed {seed}")


def keeps_information(seed: int, name: str = "ln") -> Finding:
    """Check that the output for a token determines the token, and the token except for its mean and size.

    A token is determined if x and 2 x + 1 have different outputs, by more than 0.01 in the mean. It is determined
    except for mean and size if a line through the output fits x, to a relative error of 1e-4.
    """
    x_btd = _input(seed)
    module = norm(name, 256)
    y_btd = module(x_btd).detach()
    moved = float((module(2 * x_btd + 1) - y_btd).detach().abs().mean())
    x_centred, y_centred = (z - z.mean(dim=-1, keepdim=True) for z in (x_btd, y_btd))
    slope = (x_centred * y_centred).sum(-1, keepdim=True) / y_centred.square().sum(-1, keepdim=True)
    error = float((x_centred - slope * y_centred).norm() / x_centred.norm())
    seen = {
        "for the whole token": (moved > 0.01, f"outputs for x and 2 x + 1 differ by {moved:.1e}"),
        "for all but its mean and size": (error < 1e-4, f"a line through the output fits x to {error:.0e}"),
    }
    return by_condition(seen, {}, f"what the output keeps, seed {seed}")


def standardized(seed: int, name: str = "ln") -> Finding:
    """Check that the output has mean 0 and standard deviation 1 over all elements, within 0.001."""
    y_btd = norm(name, 256)(_input(seed)).detach()
    mean, std = y_btd.mean().item(), y_btd.std().item()
    measured = f"mean {mean:.0e}, std {std:.5f}"
    return one_seed(abs(mean) < 1e-3 and abs(std - 1) < 1e-3, measured, f"{measured}, seed {seed}")


def gain_printed(seed: int, figures: Figures) -> Finding:
    """Check that two printed times give a gain within a printed range, in time saved or in speed.

    The figures are the time of LayerNorm, that of RMSNorm, and the lowest and highest percentage.
    """
    before, after, low, high = map(float, figures)
    saved, faster = 100 * (1 - after / before), 100 * (before / after - 1)
    holds = any(low - 0.5 <= gain <= high + 0.5 for gain in (saved, faster))
    measured = f"{after:g} instead of {before:g} is {saved:.1f} % less time, or {faster:.1f} % more speed"
    return contradiction(holds, measured, f"{measured}; stated {low:g} to {high:g} %")


def parameters(seed: int, figures: Figures) -> Finding:
    """Compare the number of parameters of LayerNorm and RMSNorm with the figures: features, then parameters."""
    width = int(figures[0])
    counts = [float(width), *(float(parameter_count(norm(name, width))) for name in ("ln", "rms"))]
    return compare_printed(counts, figures, "features, parameters of LayerNorm and of RMSNorm")


def model_parameters(seed: int, figures: Figures) -> Finding:
    """Compare the parameters of all norms of a model with the figures.

    The figures are features, norms per layer, layers, and the parameters with LayerNorm and with RMSNorm.
    """
    width, norms, layers = map(int, figures[:3])
    counts = [float(norms * layers * parameter_count(norm(name, width))) for name in ("ln", "rms")]
    procedure = "features, norms per layer, layers, parameters of each norm"
    return compare_printed([*map(float, figures[:3]), *counts], figures, procedure)


def small_share(seed: int, figures: Figures) -> Finding:
    """Check that a number of parameters (second figure) is below 0.1 % of the model's (first figure)."""
    share = float(figures[1]) / float(figures[0])
    return one_seed(share < 1e-3, f"{share:.4%} of it", f"its share is {share:.4%}")


def exits(seed: int, figures: Figures) -> Finding:
    """Compare the mean magnitude at the exit of a Post-LN and of a Pre-LN block with the figures."""
    torch.manual_seed(seed)
    x_btd = torch.randn(2, 8, 64)
    post_btd = PostLNBlock(64, 128)(x_btd)
    magnitudes = [y_btd.norm(dim=-1).mean().item() for y_btd in (post_btd, PreLNBlock(64, 128)(x_btd))]
    return compare_printed(
        magnitudes,
        figures,
        f"magnitudes at the exit of Post-LN and Pre-LN ({x_btd.norm(dim=-1).mean():.4f} at the entry)",
    )


def output_statistics(seed: int, figures: Figures) -> Finding:
    """Compare the output statistics of LayerNorm and RMSNorm with the figures.

    The figures are the mean and spread of row means of each norm, then the mean spread within rows of each.
    """
    torch.manual_seed(7 + seed)
    x_bd = torch.randn(1024, 512) * 3.0 + 1.5
    ln_bd, rms_bd = (norm(name, 512)(x_bd).detach() for name in ("ln", "rms"))
    means = [value for y_bd in (ln_bd, rms_bd) for value in (y_bd.mean(dim=-1).mean(), y_bd.mean(dim=-1).std())]
    spreads = [y_bd.std(dim=-1).mean() for y_bd in (ln_bd, rms_bd)]
    values = [value.item() for value in (*means, *spreads)]
    return compare_printed(
        values, figures, "row means (mean, std) of LayerNorm and RMSNorm, and standard deviations of rows"
    )


def mean_kept(seed: int, name: str = "rms", other: str = "ln") -> Finding:
    """Check that the mean of RMSNorm's outputs grows with that of the inputs, and that LayerNorm's is 0."""
    torch.manual_seed(seed)
    noise_bd = torch.randn(256, 512) * 3
    kept, gone = (
        [norm(module, 512)(noise_bd + offset).mean().item() for offset in (0.5, 1.5, 4.5)] for module in (name, other)
    )
    holds = 0.05 < kept[0] < kept[1] < kept[2] and max(map(abs, gone)) < 1e-5
    measured = f"means {', '.join(f'{value:.3f}' for value in kept)}; of LayerNorm {max(map(abs, gone)):.0e}"
    return one_seed(holds, measured, f"input means 0.5, 1.5, 4.5 at std 3 give {measured}, seed {seed}")


def mean_takes_share(seed: int, name: str = "rms") -> Finding:
    """Check that the mean and the variance of RMSNorm's rows add up to 1, so the std is below 1."""
    torch.manual_seed(seed)
    y_bd = norm(name, 512)(torch.randn(256, 512) * 3 + 1.5).detach()
    mean, variance = y_bd.mean(dim=-1), y_bd.var(dim=-1, unbiased=False)
    total, std = float((mean.square() + variance).mean()), float(variance.sqrt().mean())
    measured = f"mean^2 + std^2 = {total:.4f}, std {std:.4f} (closed form {2 / math.sqrt(5):.4f})"
    return one_seed(abs(total - 1) < 1e-3 and std < 0.99, measured, f"{measured}, seed {seed}")


def mean_square(seed: int, figures: Figures) -> Finding:
    """Compare the mean square of RMSNorm's output with the figure."""
    torch.manual_seed(seed)
    y_btd = norm("rms", 1024)(torch.randn(64, 128, 1024)).detach()
    return compare_printed([y_btd.square().mean(dim=-1).mean().item()], figures, "mean square of the output")
