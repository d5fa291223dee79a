"""What papers predict of gradients, and of what the first update does, at initialization."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from normexp.claims.cell_stats import Difference
from normexp.claims.claim import Finding
from normexp.texts.figures import circumstances
from normexp.texts.papers import initial, initial_w2
from normexp.texts.papers.initial import NETWORK, SERIES, ends, row, seeds_of, told

FLAT = 1.5
"""Top over bottom within this factor of 1 counts as flat."""


def pre_last_falls(seed: int) -> Finding:
    """Pre: for one position, the last W2's gradient falls with depth by a power of -1/2, within 0.15."""
    seeds = seeds_of(seed)
    found = initial_w2.last_w2_gradients("pre", seeds)
    power = initial.slope(found)
    measured = f"power {power:.2f}; times √L {row(initial.times_root(found))}"
    return told(abs(power + 0.5) < 0.15, measured, seeds, depth=SERIES)


def post_last_stays(seed: int) -> Finding:
    """Post: for one position, the last W2's gradient does not change with depth: a power of 0, within 0.2."""
    seeds = seeds_of(seed)
    found = initial_w2.last_w2_gradients("post", seeds)
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
    """Post: W2's expected gradient is larger in the top 3 of 20 layers than in the first 3: a 95 % interval."""
    seeds = seeds_of(seed, 6)
    ratios = [initial_w2.top_over_bottom("post", s) for s in seeds]
    return _ratio(_rises(ratios), ratios, seeds)


def pre_flat(seed: int) -> Finding:
    """Pre: W2's expected gradient in the top 3 of 20 layers is that in the first 3, within a factor of 1.5."""
    seeds, ratios = _pre_ratios(seed)
    return _ratio(1 / FLAT < initial.geometric(ratios) < FLAT, ratios, seeds)


def pre_falls(seed: int) -> Finding:
    """Pre: W2's expected gradient is smaller in the top 3 of 20 layers than in the first 3: a 95 % interval."""
    seeds, ratios = _pre_ratios(seed)
    return _ratio(_rises([1 / ratio for ratio in ratios]), ratios, seeds)


def _pre_ratios(seed: int) -> tuple[Sequence[int], list[float]]:
    seeds = seeds_of(seed)
    return seeds, [initial_w2.top_over_bottom("pre", s) for s in seeds]


def _rises(ratios: Sequence[float]) -> bool:
    return Difference(tuple(map(math.log, ratios))).above_zero


def _ratio(holds: bool, ratios: Sequence[float], seeds: Sequence[int]) -> Finding:
    measured = f"top over bottom {initial.geometric(ratios):.2g}, seeds {ends(ratios)}"
    return told(holds, measured, seeds, depth=f"{initial_w2.BATCHES} mini-batches, L = 20")


def queries_lose_it(seed: int) -> Finding:
    """Post: the gradient of layer 1's queries falls with depth, to less than 1/100 from 4 to 40 layers."""
    seeds = seeds_of(seed)
    found = initial.first_q_gradients("post", seeds=seeds)
    return told(_lost(found), row(found), seeds, depth=SERIES)


def scaled_branches_keep_it(seed: int) -> Finding:
    """Pre, branches over sqrt(2L): that gradient falls by less than a factor of 10 from 4 to 40 layers."""
    seeds = seeds_of(seed)
    scaled, plain = (initial.first_q_gradients(name, seeds=seeds) for name in ("residual_scaled", "pre"))
    return told(_kept(scaled), f"{row(scaled)}; not scaled {row(plain)}", seeds, depth=SERIES)


def b2t_keeps_it(seed: int) -> Finding:
    """B2T: it falls by less than a factor of 10, where in Post it falls to less than 1/100."""
    seeds = seeds_of(seed)
    own, post = (initial.first_q_gradients(name, seeds=seeds) for name in ("b2t", "post"))
    return told(_kept(own) and _lost(post), f"B2T {row(own)}; Post {row(post)}", seeds, depth=SERIES)


def _lost(found: Sequence[float]) -> bool:
    return list(found) == sorted(found, reverse=True) and found[0] > 100 * found[-1]


def _kept(found: Sequence[float]) -> bool:
    return found[0] < 10 * found[-1]


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


FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0)
LAYER = f"one layer, {NETWORK}"


def peri_bounded(seed: int) -> Finding:
    """Sandwich: W2's gradient changes by at most 20 % where h = relu(W1 x) is 2 to 32 times as large."""
    seeds = seeds_of(seed)
    found = initial_w2.growth_with_h("sandwich", FACTORS, seeds)
    holds = all(abs(math.log(value)) < math.log(1.2) for value in found)
    return told(holds, f"times {row(found)}", seeds, LAYER, depth=f"h times {row(FACTORS)}")


def pre_unbounded(seed: int) -> Finding:
    """Pre: W2's gradient grows with h by a power of 1, within 0.15, with and without a final norm."""
    seeds = seeds_of(seed)
    places = {"with no norm behind the layer": "none", "before a final norm": "ln"}
    own = {}
    for place, final_norm in places.items():
        found = initial_w2.growth_with_h("pre", FACTORS, seeds, final_norm=final_norm)
        power = initial.slope(found, FACTORS)
        own[place] = abs(power - 1) < 0.15, f"power {power:.2f}, times {row(found)}"
    where = f"h times {row(FACTORS)}, {LAYER}, network seeds {seeds[0]} to {seeds[-1]}"
    return circumstances(own, {}, where)


def narrowed_init_larger(seed: int) -> Finding:
    """Post with lower layers' weights made smaller: the last layer's gradient is larger at every depth."""
    seeds = seeds_of(seed)
    narrowed, plain = (initial_w2.top_layer_gradients(seeds, narrowed=value) for value in (True, False))
    holds = all(one > other for one, other in zip(narrowed, plain, strict=True))
    depth = f"L = {', '.join(map(str, initial_w2.TOP_DEPTHS))}"
    return told(holds, f"{row(narrowed)}; Post-LN {row(plain)}", seeds, depth=depth)


STDS = (1.0, 0.1, 0.02)


def small_embedding_enlarges(seed: int) -> Finding:
    """Pre: the gradient that reaches the embedding goes by its standard deviation to the power -1, within 0.1."""
    seeds = seeds_of(seed)
    found = initial.first_norm_gradients(STDS, seeds)
    power = initial.slope(found, STDS)
    stds = ", ".join(f"{std:g}" for std in STDS)
    return told(abs(power + 1) < 0.1, f"power {power:.2f}; {row(found)}", seeds, depth=f"std {stds}, L = 8")
