"""What papers predict of gradients, and of what the first update does, at initialization."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from normexp.claims.claim import Finding
from normexp.claims.findings import Difference
from normexp.claims.snippets import initial
from normexp.claims.snippets.figures import circumstances
from normexp.claims.snippets.sample import NETWORK, SERIES, ends, row, seeds_of, told

FLAT = 1.5
"""Top over bottom within this factor of 1 counts as flat."""


def pre_last_falls(seed: int) -> Finding:
    """Pre: the last W2's gradient falls with depth by a power of -1/2, within 0.15."""
    seeds = seeds_of(seed)
    found = initial.last_w2_gradients("pre", seeds)
    power = initial.slope(found)
    measured = f"power {power:.2f}; times √L {row(initial.times_root(found))}"
    return told(abs(power + 0.5) < 0.15, measured, seeds, depth=SERIES)


def post_last_stays(seed: int) -> Finding:
    """Post: the last W2's gradient does not change with depth: a power of 0, within 0.2."""
    seeds = seeds_of(seed)
    found = initial.last_w2_gradients("post", seeds)
    power = initial.slope(found)
    return told(abs(power) < 0.2, f"power {power:.2f}; {row(found)}", seeds, depth=SERIES)


def pre_top_falls(seed: int) -> Finding:
    """Pre: the gradient that enters the stream from the final norm falls by a power of -1/2, within 0.15."""
    seeds = seeds_of(seed)
    found = initial.top_stream_gradients("pre", seeds)
    power = initial.slope(found)
    measured = f"power {power:.2f}; times √L {row(initial.times_root(found))}"
    return told(abs(power + 0.5) < 0.15, measured, seeds, depth=SERIES)


def post_rises(seed: int) -> Finding:
    """Post: W2's gradient is larger in the top 3 of 20 layers than in the first 3 (95 % interval), at either width."""
    narrow = [initial.top_over_bottom("post", s) for s in seeds_of(seed, 12)]
    wide = [initial.top_over_bottom("post", s, **initial.WIDE) for s in seeds_of(seed, 6)]
    own = {
        f"at width {width}": (_rises(ratios), f"{_ratio_text(ratios)}") for width, ratios in ((64, narrow), (128, wide))
    }
    return circumstances(own, {}, f"W2's gradient, {NETWORK.partition(', 4')[0]} and twice as wide, L = 20")


def pre_flat(seed: int) -> Finding:
    """Pre: W2's gradient in the top 3 of 20 layers is that in the first 3, within a factor of 1.5."""
    seeds, ratios = _pre_ratios(seed)
    return _ratio(1 / FLAT < initial.geometric(ratios) < FLAT, ratios, seeds)


def pre_falls(seed: int) -> Finding:
    """Pre: W2's gradient is smaller in the top 3 of 20 layers than in the first 3: a 95 % interval."""
    seeds, ratios = _pre_ratios(seed)
    return _ratio(_rises([1 / ratio for ratio in ratios]), ratios, seeds)


def _pre_ratios(seed: int) -> tuple[Sequence[int], list[float]]:
    seeds = seeds_of(seed)
    return seeds, [initial.top_over_bottom("pre", s) for s in seeds]


def _rises(ratios: Sequence[float]) -> bool:
    return Difference(tuple(map(math.log, ratios))).above_zero


def _ratio_text(ratios: Sequence[float]) -> str:
    return f"top over bottom {initial.geometric(ratios):.2g}, over {len(ratios)} seeds {ends(ratios)}"


def _ratio(holds: bool, ratios: Sequence[float], seeds: Sequence[int]) -> Finding:
    return told(holds, _ratio_text(ratios), seeds, depth="L = 20")


def queries_lose_it(seed: int) -> Finding:
    """Post: the gradient of layer 1's queries falls with depth, to less than 1/100 from 4 to 40 layers."""
    seeds = seeds_of(seed)
    found = initial.first_q_gradients("post", seeds=seeds)
    holds = found == sorted(found, reverse=True) and found[0] > 100 * found[-1]
    return told(holds, row(found), seeds, depth=SERIES)


def scaled_branches_keep_it(seed: int) -> Finding:
    """Branches over sqrt(2L): that gradient falls by less than a factor of 10 from 4 to 40 layers."""
    seeds = seeds_of(seed)
    found = initial.first_q_gradients("residual_scaled", seeds=seeds)
    return told(found[0] < 10 * found[-1], row(found), seeds, depth=SERIES)


def deepnorm_update_constant(seed: int) -> Finding:
    """DeepNorm: what one SGD step changes of the logits does not hang on depth: a power of 0, within 0.1."""
    seeds = seeds_of(seed)
    found = initial.sgd_updates("deepnorm", seeds)
    power = initial.slope(found)
    return told(abs(power) < 0.1, f"power {power:.2f}; {row(found)}", seeds, depth=SERIES)


def post_update_grows(seed: int) -> Finding:
    """Post: what one SGD step changes of the logits grows at every doubling of depth, by a power above 1/2."""
    seeds = seeds_of(seed)
    found = initial.sgd_updates("post", seeds)
    power = initial.slope(found)
    return told(_grows(found) and power > 0.5, f"power {power:.2f}; {row(found)}", seeds, depth=SERIES)


def post_first_update_larger(seed: int) -> Finding:
    """Adam's first step at 1e-3 changes Post's logits more than twice as much as DeepNorm's, at every depth."""
    seeds = seeds_of(seed)
    post, deepnorm = (initial.adam_updates(name, seeds) for name in ("post", "deepnorm"))
    holds = all(one > 2 * other for one, other in zip(post, deepnorm, strict=True))
    return told(holds, f"Post {row(post)}; DeepNorm {row(deepnorm)}", seeds, depth=SERIES)


def _grows(values: Sequence[float]) -> bool:
    return all(one < other for one, other in itertools.pairwise(values))


def deepnorm_equal(seed: int) -> Finding:
    """DeepNorm: W2's largest gradient of 40 layers is at most 1.2 times the smallest."""
    seeds = seeds_of(seed)
    largest = max(initial.spread(initial.w2_gradients("deepnorm", 40, s)) for s in seeds)
    return told(largest < 1.2, f"max/min {largest:.2f} at most", seeds, depth="L = 40")


FACTORS = (2.0, 4.0, 8.0)


def peri_bounded(seed: int) -> Finding:
    """Sandwich: W2's gradient changes by at most 20 % where h = relu(W1 x) is 2, 4 and 8 times as large."""
    seeds = seeds_of(seed)
    found = initial.w2_gradient_growth("sandwich", FACTORS, seeds)
    holds = all(abs(math.log(value)) < math.log(1.2) for value in found)
    return told(holds, f"times {row(found)}", seeds, depth="layer 10 of 20")


def pre_unbounded(seed: int) -> Finding:
    """Pre: W2's gradient grows with h, by more than half of each factor of 2, 4 and 8."""
    seeds = seeds_of(seed)
    found = initial.w2_gradient_growth("pre", FACTORS, seeds)
    holds = all(value > factor / 2 for value, factor in zip(found, FACTORS, strict=True)) and _grows(found)
    return told(holds, f"times {row(found)}", seeds, depth="layer 10 of 20")


def bare_not_finite(seed: int) -> Finding:
    """Without a norm: at 40 layers the first gradient of layer 1's W2 is NaN or infinite."""
    seeds = seeds_of(seed)
    found = [initial.seen("pre", 40, s, norm="none")["fc2", "grad_norm", 1] for s in seeds]
    return told(not any(map(math.isfinite, found)), row(found), seeds, depth="L = 40")
