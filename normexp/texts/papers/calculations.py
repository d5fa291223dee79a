"""The calculations behind the predictions of papers, with the condition under which each holds.

Most build networks at their initial weights, and none takes figures. L is the number of layers, W2 the second matrix of
the FFN.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from normexp.claims.claim import Calculation

_HOLDS_WHEN = {
    "initial_stream.pre_linear": "Pre: the mean square after layer l is from 1 + l/2 to 1 + 3l/2 (h = d)",
    "initial_stream.post_constant": "Post: the mean square is 1 after each norm, 3/2 before an FFN's (h = d)",
    "initial_stream.ffn_norm_shrinks": "Post: an FFN's norm multiplies the skip path by 0.8165 (h = d), to 2 %",
    "initial_stream.skip_shrinks": "Post: a norm multiplies the skip path by 0.7071 (branches of variance 1)",
    "initial_stream.skip_with_torch_weights": "Post: with torch's weights, these factors are 0.866 and 0.972",
    "initial_stream.tokens_become_one": "Post: the cosine between tokens rises with L from 4 to 40, past 0.99",
    "initial_stream.scaled_branches_keep_tokens": "branches over sqrt(2L): the cosine is below 0.5 at L = 4 to 40",
    "initial_stream.peri_linear": "Sandwich: the mean square after layer l is 1 + 2l, to 10 %, in 40 layers",
    "initial_stream.lns_between": "LNS: the top's mean square is a power of L of 1 to 2, from 4 to 40",
    "initial_stream.lns_below_pre": "LNS: that power is less than Pre's by more than 1/2",
    "initial_stream.bare_doubles": "no norm: 1.53 doublings of the mean square a layer, to 6 %",
    "initial_gradient.pre_last_falls": "Pre: the last W2's gradient for one position is a power of L of -1/2 ± 0.15",
    "initial_gradient.post_last_stays": "Post: the last W2's gradient for one position is a power of L of 0 ± 0.2",
    "initial_gradient.pre_top_falls": "Pre: the stream's gradient at the top is a power of L of -1/2 ± 0.15",
    "initial_gradient.post_rises": "Post, L = 20: W2's expected gradient is larger at the top (95 %)",
    "initial_gradient.pre_flat": "Pre, L = 20: W2's expected gradient is equal at top and bottom, up to 1.5-fold",
    "initial_gradient.pre_falls": "Pre, L = 20: W2's expected gradient is smaller at the top (95 %)",
    "initial_gradient.queries_lose_it": "Post: the first queries' gradient falls to 1/100 from L = 4 to 40",
    "initial_gradient.scaled_branches_keep_it": "branches over sqrt(2L): the same falls by less than a factor of 10",
    "initial_gradient.b2t_keeps_it": "B2T: the same falls by less than a factor of 10, and Post's to 1/100",
    "initial_gradient.deepnorm_update_constant": "DeepNorm: the logits' change by an SGD step is constant in L",
    "initial_gradient.post_update_grows": "Post: this change grows with L, by a power above 1/2",
    "initial_gradient.post_first_update_larger": "Adam's first step changes Post's logits over twice as much",
    "initial_gradient.deepnorm_equal": "DeepNorm, L = 40: W2's largest gradient is at most 1.2 of the smallest",
    "initial_gradient.peri_bounded": "Sandwich: a larger h changes W2's gradient by at most 20 %",
    "initial_gradient.pre_unbounded": "Pre: W2's gradient is a power of h of 1 ± 0.15",
    "initial_gradient.narrowed_init_larger": "Post, lower weights smaller: the last layer's gradient is larger",
    "initial_gradient.small_embedding_enlarges": "Pre: the embedding's gradient is a power of its std of -1 ± 0.1",
    "initial_norm.rms_statistics": "RMSNorm of N(0.5, 1) has mean 0.4472 and standard deviation 0.8944",
    "initial_norm.bounded": "the largest output of 64 features is 8 for RMSNorm and sqrt(63) for LayerNorm",
    "initial_norm.invariance": "RMSNorm is invariant to scaling but not to a shift, LayerNorm to both",
    "initial_norm.layer_norm_is_centred_rms": "LayerNorm is RMSNorm of the centred input, up to rounding",
    "initial_norm.pre_layer_norm_folds": "any Pre-LN network equals one with RMSNorm, up to rounding",
}

CALCULATIONS: Mapping[str, Calculation] = MappingProxyType(
    {name: Calculation(holds_when) for name, holds_when in _HOLDS_WHEN.items()}
)
"""Calculations by module of this folder and function."""
