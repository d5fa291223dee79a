"""Predictions on the outputs of a single norm, and on a network whose norms are replaced."""

from __future__ import annotations

import math

from normexp.claims.claim import Finding
from normexp.texts.figures import one_seed
from normexp.texts.papers import outputs

ROUNDING = 1e-12
"""Tolerance for float64 rounding errors."""


def rms_statistics(seed: int) -> Finding:
    """Check that RMSNorm of N(0.5, 1) has mean 0.4472 and standard deviation 0.8944, within 0.003."""
    mean, std = outputs.rms_statistics(0.5, 1.0, seed)
    root = math.hypot(0.5, 1.0)
    holds = abs(mean - 0.5 / root) < 0.003 and abs(std - 1 / root) < 0.003
    measured = f"{mean:.4f}, {std:.4f}"
    return one_seed(holds, measured, f"{measured}; 200 rows of 4096 features, seed {seed}")


def bounded(seed: int) -> Finding:
    """Check that no output of 64 features exceeds the largest one, 8 for RMSNorm and sqrt(63) for LayerNorm."""
    bounds = {"rms": math.sqrt(64), "ln": math.sqrt(63)}
    largest = {norm: outputs.largest_output(norm) for norm in bounds}
    heavy = {norm: float(outputs.normalized(norm, outputs.heavy_rows(seed)).abs().max()) for norm in bounds}
    limit = 1 + ROUNDING
    holds = all(abs(largest[n] / bound - 1) < ROUNDING and heavy[n] <= bound * limit for n, bound in bounds.items())
    measured = f"{largest['rms']:.4g}, {largest['ln']:.4g}"
    tails = f"heavy-tailed rows reach {heavy['rms']:.4g}, {heavy['ln']:.4g}"
    return one_seed(holds, measured, f"{measured}; one feature of 64 is 1; {tails}, seed {seed}")


def invariance(seed: int) -> Finding:
    """Check that RMSNorm is invariant to scaling but not to a shift, and LayerNorm to both."""
    x_nd = outputs.rows(seed)
    moved = {
        (norm, change): float((outputs.normalized(norm, y_nd) - outputs.normalized(norm, x_nd)).abs().max())
        for norm in ("rms", "ln")
        for change, y_nd in (("scaled", 3 * x_nd), ("shifted", x_nd + 1))
    }
    blind = [moved["rms", "scaled"], moved["ln", "scaled"], moved["ln", "shifted"]]
    holds = max(blind) < ROUNDING and moved["rms", "shifted"] > 0.1
    measured = f"RMSNorm {moved['rms', 'scaled']:.0e} and {moved['rms', 'shifted']:.2g}, "
    measured += f"LayerNorm {blind[1]:.0e} and {blind[2]:.0e}"
    return one_seed(
        holds,
        measured,
        f"{measured}; largest change when multiplied by 3 and when adding 1, 4096 features, seed {seed}",
    )


def layer_norm_is_centred_rms(seed: int) -> Finding:
    """Check that LayerNorm equals RMSNorm of the centred input, up to rounding in float64."""
    x_nd = outputs.rows(seed, mean=0.5)
    layer_nd = outputs.normalized("ln", x_nd)
    error, other = (
        float((outputs.normalized("rms", y_nd) - layer_nd).abs().max()) for y_nd in (x_nd - x_nd.mean(-1, True), x_nd)
    )
    measured = f"largest difference {error:.0e}; without subtracting the mean, {other:.2g}"
    return one_seed(error < ROUNDING < 0.1 < other, measured, f"{measured}; 4096 features, seed {seed}")


def pre_layer_norm_folds(seed: int) -> Finding:
    """Check that a Pre-LN network of 6 layers with any gains and biases has an equal one with RMSNorm."""
    error, kept, std = outputs.fold_errors(seed)
    dropped = f"with gains kept and biases dropped, {kept / std:.2g}"
    measured = f"largest logit error {error / std:.0e} of the logits' std; {dropped}"
    where = f"float64, 6 layers of attention and FFN, a biased final LayerNorm kept, seed {seed}"
    return one_seed(error / std < 1e-9 < 1e-2 < kept / std, measured, f"{measured}; {where}")
