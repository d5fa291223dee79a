"""What is predicted of the outputs of a single norm, and of a network whose norms are replaced."""

from __future__ import annotations

import math

from normexp.claims.claim import Finding
from normexp.texts.figures import plain
from normexp.texts.papers import outputs

ROUNDING = 1e-12
"""Of float64, with room."""


def rms_statistics(seed: int) -> Finding:
    """RMSNorm of N(0.5, 1): outputs of mean 0.4472 and standard deviation 0.8944, within 0.003."""
    mean, std = outputs.rms_statistics(0.5, 1.0, seed)
    root = math.hypot(0.5, 1.0)
    holds = abs(mean - 0.5 / root) < 0.003 and abs(std - 1 / root) < 0.003
    measured = f"{mean:.4f}, {std:.4f}"
    return plain(holds, measured, f"{measured}; 200 rows of 4096 features, seed {seed}")


def bounded(seed: int) -> Finding:
    """The largest output of 64 features is 8 for RMSNorm, the root of 63 for LayerNorm; no other row exceeds it."""
    bounds = {"rms": math.sqrt(64), "ln": math.sqrt(63)}
    largest = {norm: outputs.largest_output(norm) for norm in bounds}
    heavy = {norm: float(outputs.normalized(norm, outputs.heavy_rows(seed)).abs().max()) for norm in bounds}
    limit = 1 + ROUNDING
    holds = all(abs(largest[n] / bound - 1) < ROUNDING and heavy[n] <= bound * limit for n, bound in bounds.items())
    told = f"{largest['rms']:.4g}, {largest['ln']:.4g}"
    tails = f"rows of heavy tails reach {heavy['rms']:.4g}, {heavy['ln']:.4g}"
    return plain(holds, told, f"{told}; one feature of 64 is 1; {tails}, seed {seed}")


def invariance(seed: int) -> Finding:
    """RMSNorm does not see its input multiplied, and does see a constant added; LayerNorm sees neither."""
    x_nd = outputs.rows(seed)
    moved = {
        (norm, change): float((outputs.normalized(norm, y_nd) - outputs.normalized(norm, x_nd)).abs().max())
        for norm in ("rms", "ln")
        for change, y_nd in (("scaled", 3 * x_nd), ("shifted", x_nd + 1))
    }
    blind = [moved["rms", "scaled"], moved["ln", "scaled"], moved["ln", "shifted"]]
    holds = max(blind) < ROUNDING and moved["rms", "shifted"] > 0.1
    told = f"RMSNorm {moved['rms', 'scaled']:.0e} and {moved['rms', 'shifted']:.2g}, "
    told += f"LayerNorm {blind[1]:.0e} and {blind[2]:.0e}"
    return plain(holds, told, f"{told}; largest change by a factor of 3 and by adding 1, 4096 features, seed {seed}")


def layer_norm_is_centred_rms(seed: int) -> Finding:
    """LayerNorm is RMSNorm of the input less its mean, to rounding in float64; of the input itself it is not."""
    x_nd = outputs.rows(seed, mean=0.5)
    layer_nd = outputs.normalized("ln", x_nd)
    error, other = (
        float((outputs.normalized("rms", y_nd) - layer_nd).abs().max()) for y_nd in (x_nd - x_nd.mean(-1, True), x_nd)
    )
    told = f"largest difference {error:.0e}; without taking the mean out, {other:.2g}"
    return plain(error < ROUNDING < 0.1 < other, told, f"{told}; 4096 features, seed {seed}")


def pre_layer_norm_folds(seed: int) -> Finding:
    """A Pre network of 6 layers with any gains and biases has one with RMSNorm that computes the same, to rounding."""
    error, kept, std = outputs.fold_errors(seed)
    told = f"largest logit error {error / std:.0e} of their spread; with gains kept, biases dropped, {kept / std:.2g}"
    where = f"float64, 6 layers of attention and FFN, a biased final LayerNorm kept, seed {seed}"
    return plain(error / std < 1e-9 < 1e-2 < kept / std, told, f"{told}; {where}")
