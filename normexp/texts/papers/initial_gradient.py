"""Predictions of papers on gradients, and on the effect of the first update, at initialization."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from normexp.claims.claim import Finding
from normexp.claims.inference import mean_interval
from normexp.texts.figures import by_condition
from normexp.texts.papers import initial, initial_w2
from normexp.texts.papers.initial import NETWORK, SERIES, ends, finding, row, seeds_of

FLAT = 1.5
"""A ratio of top to bottom within this factor of 1 counts as flat."""
FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0)
LAYER = f"one layer, {NETWORK}"
STDS = (1.0, 0.1, 0.02)


def pre_last_falls(seed: int) -> Finding:
    """Check that in Pre, the last W2's gradient for one position is proportional to L^-1/2, within 0.15."""
    seeds = seeds_of(seed)
    gradients = initial_w2.last_w2_gradients("pre", seeds)
    power = initial.slope(gradients)
    measured = f"power {power:.2f}; times √L {row(initial.times_root(gradients))}"
    return finding(abs(power + 0.5) < 0.15, measured, seeds, depth=SERIES)


def post_last_stays(seed: int) -> Finding:
    """Check that in Post, the last W2's gradient for one position is constant in L: a power of 0 ± 0.2."""
    seeds = seeds_of(seed)
    gradients = initial_w2.last_w2_gradients("post", seeds)
    power = initial.slope(gradients)
    return finding(abs(power) < 0.2, f"power {power:.2f}; {row(gradients)}", seeds, depth=SERIES)


def pre_top_falls(seed: int) -> Finding:
    """Check that in Pre, the gradient at the top of the stream is proportional to L^-1/2, within 0.15."""
    seeds = seeds_of(seed)
    gradients = initial.top_stream_gradients("pre", seeds)
    power = initial.slope(gradients)
    measured = f"power {power:.2f}; times √L {row(initial.times_root(gradients))}"
    return finding(abs(power + 0.5) < 0.15, measured, seeds, depth=SERIES)


def post_rises(seed: int) -> Finding:
    """Check that in Post, W2's expected gradient is larger in the top 3 of 20 layers than in the first 3 (95 %)."""
    seeds = seeds_of(seed, 6)
    ratios = [initial_w2.top_over_bottom("post", s) for s in seeds]
    return _ratio(_rises(ratios), ratios, seeds)


def pre_flat(seed: int) -> Finding:
    """Check that in Pre, W2's expected gradient is equal in the top 3 and first 3 of 20 layers, up to 1.5-fold."""
    seeds, ratios = _pre_ratios(seed)
    return _ratio(1 / FLAT < initial.geometric(ratios) < FLAT, ratios, seeds)


def pre_falls(seed: int) -> Finding:
    """Check that in Pre, W2's expected gradient is smaller in the top 3 of 20 layers than in the first 3 (95 %)."""
    seeds, ratios = _pre_ratios(seed)
    return _ratio(_rises([1 / ratio for ratio in ratios]), ratios, seeds)


def _pre_ratios(seed: int) -> tuple[Sequence[int], list[float]]:
    seeds = seeds_of(seed)
    return seeds, [initial_w2.top_over_bottom("pre", s) for s in seeds]


def _rises(ratios: Sequence[float]) -> bool:
    return mean_interval([math.log(ratio) for ratio in ratios]).low > 0


def _ratio(holds: bool, ratios: Sequence[float], seeds: Sequence[int]) -> Finding:
    measured = f"top over bottom {initial.geometric(ratios):.2g}, seeds {ends(ratios)}"
    return finding(holds, measured, seeds, depth=f"{initial_w2.BATCHES} mini-batches, L = 20")


def queries_lose_it(seed: int) -> Finding:
    """Check that in Post, the gradient of the first queries falls to less than 1/100 from 4 to 40 layers."""
    seeds = seeds_of(seed)
    gradients = initial.first_q_gradients("post", seeds=seeds)
    return finding(_vanishes(gradients), row(gradients), seeds, depth=SERIES)


def scaled_branches_keep_it(seed: int) -> Finding:
    """Check that with branches over sqrt(2L), it falls by less than a factor of 10."""
    seeds = seeds_of(seed)
    scaled, plain = (initial.first_q_gradients(name, seeds=seeds) for name in ("residual_scaled", "pre"))
    return finding(_kept(scaled), f"{row(scaled)}; not scaled {row(plain)}", seeds, depth=SERIES)


def b2t_keeps_it(seed: int) -> Finding:
    """Check that in B2T, it falls by less than a factor of 10, and in Post to less than 1/100."""
    seeds = seeds_of(seed)
    own, post = (initial.first_q_gradients(name, seeds=seeds) for name in ("b2t", "post"))
    return finding(_kept(own) and _vanishes(post), f"B2T {row(own)}; Post {row(post)}", seeds, depth=SERIES)


def _vanishes(gradients: Sequence[float]) -> bool:
    return list(gradients) == sorted(gradients, reverse=True) and gradients[0] > 100 * gradients[-1]


def _kept(gradients: Sequence[float]) -> bool:
    return gradients[0] < 10 * gradients[-1]


def deepnorm_update_constant(seed: int) -> Finding:
    """Check that in DeepNorm, an SGD step's change of the logits is constant in L: a power of 0 ± 0.1."""
    seeds = seeds_of(seed)
    changes = initial.sgd_updates("deepnorm", seeds)
    power = initial.slope(changes)
    return finding(abs(power) < 0.1, f"power {power:.2f}; {row(changes)}", seeds, depth=SERIES)


def post_update_grows(seed: int) -> Finding:
    """Check that in Post, this change grows at every doubling of depth, by a power above 1/2."""
    seeds = seeds_of(seed)
    changes = initial.sgd_updates("post", seeds)
    power = initial.slope(changes)
    return finding(_grows(changes) and power > 0.5, f"power {power:.2f}; {row(changes)}", seeds, depth=SERIES)


def post_first_update_larger(seed: int) -> Finding:
    """Check that Adam's first step at 1e-3 changes Post's logits over twice as much as DeepNorm's."""
    seeds = seeds_of(seed)
    post, deepnorm = (initial.adam_updates(name, seeds) for name in ("post", "deepnorm"))
    holds = all(one > 2 * other for one, other in zip(post, deepnorm, strict=True))
    return finding(holds, f"Post {row(post)}; DeepNorm {row(deepnorm)}", seeds, depth=SERIES)


def _grows(values: Sequence[float]) -> bool:
    return all(one < other for one, other in itertools.pairwise(values))


def deepnorm_equal(seed: int) -> Finding:
    """Check that in DeepNorm of 40 layers, W2's largest gradient is at most 1.2 times the smallest."""
    seeds = seeds_of(seed)
    largest = max(initial.spread(initial.w2_gradients("deepnorm", 40, s)) for s in seeds)
    return finding(largest < 1.2, f"max/min at most {largest:.2f}", seeds, depth="L = 40")


def peri_bounded(seed: int) -> Finding:
    """Check that in Sandwich, W2's gradient changes by at most 20 % if h = relu(W1 x) is 2 to 32 times larger."""
    seeds = seeds_of(seed)
    gradients = initial_w2.growth_with_h("sandwich", FACTORS, seeds)
    holds = all(abs(math.log(value)) < math.log(1.2) for value in gradients)
    return finding(holds, f"times {row(gradients)}", seeds, LAYER, depth=f"h times {row(FACTORS)}")


def pre_unbounded(seed: int) -> Finding:
    """Check that in Pre, W2's gradient is proportional to h: a power of 1 ± 0.15, with or without final norm."""
    seeds = seeds_of(seed)
    conditions = {"with no norm behind the layer": "none", "before a final norm": "ln"}
    own = {}
    for condition, final_norm in conditions.items():
        gradients = initial_w2.growth_with_h("pre", FACTORS, seeds, final_norm=final_norm)
        power = initial.slope(gradients, FACTORS)
        own[condition] = abs(power - 1) < 0.15, f"power {power:.2f}, times {row(gradients)}"
    where = f"h times {row(FACTORS)}, {LAYER}, network seeds {seeds[0]} to {seeds[-1]}"
    return by_condition(own, {}, where)


def narrowed_init_larger(seed: int) -> Finding:
    """Check that in Post, smaller weights in lower layers enlarge the last layer's gradient."""
    seeds = seeds_of(seed)
    narrowed, plain = (initial_w2.top_layer_gradients(seeds, narrowed=value) for value in (True, False))
    holds = all(one > other for one, other in zip(narrowed, plain, strict=True))
    depth = f"L = {', '.join(map(str, initial_w2.TOP_DEPTHS))}"
    return finding(holds, f"{row(narrowed)}; Post-LN {row(plain)}", seeds, depth=depth)


def small_embedding_enlarges(seed: int) -> Finding:
    """Check that in Pre, the embedding's gradient is proportional to 1 / its std, within 0.1."""
    seeds = seeds_of(seed)
    gradients = initial.first_norm_gradients(STDS, seeds)
    power = initial.slope(gradients, STDS)
    stds = ", ".join(f"{std:g}" for std in STDS)
    return finding(abs(power + 1) < 0.1, f"power {power:.2f}; {row(gradients)}", seeds, depth=f"std {stds}, L = 8")
