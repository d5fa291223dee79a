"""Predictions on the residual stream at initialization: its size, its tokens, and the skip path by layer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from normexp.claims.claim import Finding
from normexp.texts.papers import initial
from normexp.texts.papers.initial import NETWORK, SERIES, ends, finding, row, seeds_of

ENDS = "L = 4 and 40"
SQUARE = NETWORK.replace("hidden 128", "hidden 64")


def pre_linear(seed: int) -> Finding:
    """Check that in Pre, the mean square after layer l is linear, between 1 + l/2 and 1 + 3l/2 (h = d), within 3 %."""
    seeds, depth = seeds_of(seed), 20
    squares = initial.expected_squares("pre", depth, seeds, hidden=initial.WIDTH)
    within = all(0.97 * (1 + layer / 2) < value < 1.03 * (1 + 1.5 * layer) for layer, value in enumerate(squares))
    steepness, straight = initial.fit_of_line(squares)
    measured = f"1 to {squares[-1]:.1f} over {depth} layers, {steepness:.2f} per layer, R² {straight:.3f}"
    return finding(within and straight > 0.98, measured, seeds, SQUARE, depth=f"L = {depth}")


def post_constant(seed: int) -> Finding:
    """Check that in Post, the mean square is 1 after each norm, and 3/2 before an FFN's norm (h = d)."""
    seeds = seeds_of(seed)
    after = [value for s in seeds for value in initial.mean_squares("post", 20, s, hidden=initial.WIDTH)[1:]]
    before = statistics.fmean(v for s in seeds for v in initial.before_norms("ffn", s, hidden=initial.WIDTH))
    holds = all(abs(value - 1) < 0.01 for value in after) and abs(before / 1.5 - 1) < 0.03
    return finding(holds, f"{statistics.fmean(after):.3f}; {before:.3f}", seeds, SQUARE, depth="L = 20")


def ffn_norm_shrinks(seed: int) -> Finding:
    """Check that in Post, an FFN's norm multiplies the skip path by sqrt(2/3), within 2 % (h = d)."""
    seeds = seeds_of(seed)
    factor = initial.skip_factor("ffn", seeds, hidden=initial.WIDTH)
    holds = abs(factor / math.sqrt(2 / 3) - 1) < 0.02
    return finding(holds, f"{factor:.4f}", seeds, SQUARE, depth="L = 20")


def skip_shrinks(seed: int) -> Finding:
    """Check that in Post, a norm multiplies the skip path by 0.7071 for branches of mean square 1, within 2 %."""
    seeds = seeds_of(seed)
    mixer = initial.skip_factor("mixer", seeds, **initial.UNIT_MIXER)
    ffn = initial.skip_factor("ffn", seeds, **initial.UNIT_FFN)
    holds = all(abs(value * math.sqrt(2) - 1) < 0.02 for value in (mixer, ffn))
    network = "linear mixer, width 64, weights of variance 1 / inputs, the FFN's times 2^(1/4)"
    return finding(holds, f"{mixer:.4f} mixer, {ffn:.4f} FFN", seeds, network, depth="L = 20")


def skip_with_torch_weights(seed: int) -> Finding:
    """Check that in Post, with torch's default weights, these factors are 0.866 and 0.972, within 1 %.

    Weights uniform in ±1/sqrt(n) have variance 1/(3n): a matrix leaves 1/3, and an FFN 1/3 * 1/2 * 1/3.
    """
    seeds = seeds_of(seed)
    mixer, ffn = (initial.skip_factor(branch, seeds, **initial.TORCH) for branch in ("mixer", "ffn"))
    holds = all(abs(value * math.sqrt(1 + v) - 1) < 0.01 for value, v in ((mixer, 1 / 3), (ffn, 1 / 18)))
    network = "linear mixer, width 64, weights of nn.Linear"
    return finding(holds, f"{mixer:.3f} mixer, {ffn:.3f} FFN", seeds, network, depth="L = 20")


def tokens_become_one(seed: int) -> Finding:
    """Check that in Post, the mean cosine between tokens rises with depth, beyond 0.99 at 40 layers."""
    seeds = seeds_of(seed)
    cosines = initial.top_cosines("post", seeds)
    return finding(cosines == sorted(cosines) and cosines[-1] > 0.99, row(cosines, 4), seeds, depth=SERIES)


def scaled_branches_keep_tokens(seed: int) -> Finding:
    """Check that with branches over sqrt(2L), the mean cosine is below 0.5 from 4 to 40 layers."""
    seeds = seeds_of(seed)
    scaled, plain = (initial.top_cosines(name, seeds) for name in ("residual_scaled", "pre"))
    return finding(max(scaled) < 0.5, f"{row(scaled)}; not scaled {row(plain)}", seeds, depth=SERIES)


def peri_linear(seed: int) -> Finding:
    """Check that in Sandwich, the mean square after layer l of 40 is 1 + 2l, within 10 %.

    Single networks vary by an eighth at the top, so the mean of 16 detects a deviation of 10 % at three standard
    errors.
    """
    seeds, depth = seeds_of(seed, 16), 40
    squares = initial.expected_squares("sandwich", depth, seeds)
    within = all(abs(value / (1 + 2 * layer) - 1) < 0.1 for layer, value in enumerate(squares))
    tops = [initial.mean_squares("sandwich", depth, s)[-1] for s in seeds]
    return finding(within, f"{squares[-1]:.1f}, seeds {ends(tops, 3)}", seeds, depth=f"L = {depth}")


def lns_between(seed: int) -> Finding:
    """Check that in LNS, the mean square at the top grows by a power of depth of 1 to 2, from 4 to 40 layers."""
    seeds = seeds_of(seed)
    power, top = _growth("lns", seeds)
    return finding(1 <= power < 2, f"power {power:.2f}; {top:.1f} at L = 40", seeds, depth=ENDS)


def lns_below_pre(seed: int) -> Finding:
    """Check that this power is lower in LNS than in Pre by more than 1/2."""
    seeds = seeds_of(seed)
    (lns, _), (pre, _) = (_growth(name, seeds) for name in ("lns", "pre"))
    return finding(lns < pre - 0.5, f"LNS {lns:.2f}, Pre {pre:.2f}", seeds, depth=ENDS)


def _growth(position: str, seeds: Sequence[int]) -> tuple[float, float]:
    """Return the power of depth with which the top's mean square grows from 4 to 40 layers, and its value at 40."""
    tops = [initial.expected_squares(position, depth, seeds)[-1] for depth in (4, 40)]
    return initial.slope(tops, (4, 40)), tops[-1]


def bare_doubles(seed: int) -> Finding:
    """Check that without a norm, the mean square doubles 1.53 times per layer, within 6 %."""
    seeds = seeds_of(seed)
    grown = [initial.log2_growth(20, s) for s in seeds]
    holds = abs(statistics.fmean(grown) / math.log2(2 * 13 / 9) - 1) < 0.06
    return finding(holds, f"{ends(grown, 3)} doublings per layer", seeds, depth="L = 20")
