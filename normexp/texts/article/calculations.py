"""The calculations of the article's compute claims: when each holds, and how many figures it takes.

A name consists of a module of this folder and a function in it. The modules import torch; this table does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from normexp.claims.claim import Calculation

CALCULATIONS: Mapping[str, Calculation] = MappingProxyType(
    {
        # 1.1
        "drift.printed": Calculation("the random stack has these magnitudes, starting with the input", None),
        "drift.shrinks": Calculation("20 layers of random matrices shrink the magnitude a thousandfold"),
        "drift.gone_in": Calculation(
            "the list (from the third figure on) reaches a level (second) by a layer (first)", None
        ),
        "drift.underflows": Calculation("the magnitude at this layer is 0 in float32", 1),
        "drift.explodes": Calculation(
            "weights of a scale (first) reach a magnitude (third) within a number of layers", 3
        ),
        "drift.untrainable": Calculation("20 layers of random matrices at these scales do not learn a permutation"),
        "drift.pinned": Calculation("LayerNorm after each of 20 layers keeps the magnitude at sqrt(d)"),
        # 1.2
        "batches.printed_batch": Calculation("mean and variance of 4, 2 and 1 sequences are these figures", 6),
        "batches.printed_sequences": Calculation("mean and variance of each of two sequences are these figures", 4),
        "batches.one_alone": Calculation("a batch of one sequence has the statistics of that sequence", 4),
        "batches.per_token": Calculation("what is printed as LayerNorm's statistics is computed per token"),
        "batches.alone": Calculation("LayerNorm's output for a token depends on this token only"),
        "batches.padding": Calculation("including padding changes BatchNorm's outputs for the tokens"),
        "batches.noise": Calculation("logits of a network with BatchNorm are noisier in batches of 8 than of 32"),
        # 1.3, 2.1, 3, 6.4
        "norms.by_hand": Calculation("the formula with biased variance is LayerNorm, to rounding"),
        "norms.error_printed": Calculation("the largest error in a comment agrees with the computed one", 2),
        "norms.standardized": Calculation("LayerNorm's output has mean 0 and standard deviation 1"),
        "norms.keeps_information": Calculation("the output determines the token, wholly or but for its mean and size"),
        "norms.gain_printed": Calculation("two printed times (first figures) give a gain in this range of percent", 4),
        "norms.parameters": Calculation("features (first figure) need these parameters with LayerNorm and RMSNorm", 3),
        "norms.model_parameters": Calculation(
            "features, norms per layer and layers need these parameters with LayerNorm and with RMSNorm", 5
        ),
        "norms.small_share": Calculation("the second figure is less than 0.1 % of the parameters (first figure)", 2),
        "norms.exits": Calculation("the magnitudes at the exit of a Post-LN and a Pre-LN block are these figures", 2),
        "norms.output_statistics": Calculation(
            "row means and deviations of LayerNorm and RMSNorm are these figures", 6
        ),
        "norms.mean_kept": Calculation("the mean of RMSNorm's outputs grows with the inputs', and LayerNorm's is 0"),
        "norms.mean_takes_share": Calculation("RMSNorm's mean takes a share of the mean square of 1"),
        "norms.mean_square": Calculation("the mean square of RMSNorm's output is this figure", 1),
        # 2.2
        "gradients.top_heavy": Calculation("gradients rise with the layer in Post-LN at initialization, not in Pre-LN"),
        "gradients.larger_at_the_top": Calculation("the last layer's gradient is larger in Post-LN than in Pre-LN"),
        "gradients.exponential": Calculation(
            "the rise of Post-LN's gradients over Pre-LN's grows exponentially with depth"
        ),
        "gradients.exponential_by_skip": Calculation(
            "Post-LN's gradient through skip paths alone decays exponentially"
        ),
        "gradients.norm_amplifies": Calculation("the Jacobian of Post-LN's last norm amplifies"),
        "gradients.does_not_vanish": Calculation("the gradient of Pre-LN's stream reaches the input undiminished"),
        "gradients.post_has_no_floor": Calculation(
            "Post-LN's gradient through skip paths alone loses half on its way down"
        ),
        # 2.4
        "models.timeline": Calculation("the models of the article's diagram are as it says"),
        "models.post_to_pre": Calculation("the share of Pre-LN models exceeds half in 2019 and 2020"),
        "models.rms_replaces": Calculation("the share of models with RMSNorm rises after 2020"),
        "models.mainstream": Calculation("Pre-RMSNorm with a final norm is the most common since 2023"),
        "models.pre_has_final_norm": Calculation("models of position pre have a final norm"),
        # 3.3, 7.1
        "precision.rms_range_is_wider": Calculation("RMSNorm's range in float16 is wider than LayerNorm's"),
        "precision.variance_underflows": Calculation("a small variance is 0 in 16 bits"),
        "precision.eps_must_fit": Calculation("in 16 bits, RMSNorm is wrong with eps 1e-8 and right with 1e-5"),
        # 4.2
        "residual.printed": Calculation(
            "gradient, identity term, its share and the gradient without are these figures", 4
        ),
        "residual.identity_is_independent": Calculation("the identity term stays the same with other weights in F"),
        "residual.share": Calculation("identity term over total gradient is this figure", 1),
        "residual.is_a_share": Calculation("the magnitudes of both parts of the gradient add up to its magnitude"),
        "residual.adds_up": Calculation("the gradient is the upstream gradient plus that through F"),
        "residual.mostly_identity": Calculation("less gradient comes through F than through the skip path"),
        "residual.halves": Calculation("cutting the skip path more than halves the gradient at the same point"),
        "residual.shrinks_without": Calculation("without residual, 20 layers shrink the gradient exponentially"),
        "residual.floor_with": Calculation("with residual, 20 layers do not shrink the gradient, whatever F is"),
        "residual.less_sensitive": Calculation("with residual, the gradient depends less on the size of the weights"),
        # 2.1, 4.3, 4.4
        "stream.printed": Calculation("magnitudes by layer, then after the final norm, are these figures", 14),
        "stream.growth": Calculation("first and last magnitude, ratio and percent per layer are these figures", 4),
        "stream.writes_shrink": Calculation("later blocks write less, relative to the stream, at initialization"),
        "stream.starts_near_zero": Calculation("blocks write less than 5 % of the stream at initialization"),
        "stream.post_pins": Calculation("Post-LN's stream has magnitude sqrt(d) after every layer"),
        "stream.pre_grows": Calculation("Pre-LN's stream grows in every layer"),
        "stream.growth_at_start": Calculation("12 layers of Pre-LN increase the stream by this ratio", 1),
        "stream.sandwich_bounds_writes": Calculation("Sandwich bounds what a branch adds, Pre-LN does not"),
        "stream.early_is_readable": Calculation("a linear probe reads the input token from every layer's stream"),
        "stream.plain_overwrites": Calculation("without residual, the probe does not after 20 layers"),
        # 5
        "attention.parameters": Calculation(
            "for features and heads (figures), QK-Norm adds this number of parameters", 3
        ),
        "attention.unit_variance": Calculation("logits have variance 1 if queries and keys have"),
        "attention.bounded": Calculation("QK-Norm bounds the logits"),
        "attention.differs_by_norms_alone": Calculation("the printed attention has a causal mask and a projection"),
        "attention.saturates": Calculation("large queries and keys make attention one-hot and its gradient small"),
        "deepnorm.tames": Calculation("DeepNorm's update at initialization does not grow with depth"),
        # 6, 7.2
        "skeleton.sees_context": Calculation("the network's prediction depends on earlier tokens"),
        "skeleton.norm_free": Calculation("the network without a norm contains no norm"),
        "skeleton.rms_alone": Calculation("the network with RMSNorm contains no LayerNorm"),
        "skeleton.position_means_nothing": Calculation("without a norm, pre and post are the same network"),
        "skeleton.same_start": Calculation("all configurations start from the same matrices"),
        "skeleton.gelu_saturates": Calculation("GELU is flat at inputs of this size with either sign", 1),
        "skeleton.check_finds_the_fault": Calculation("the check detects a final norm missing, empty or not called"),
        # 7.3
        "conversion.load_fails": Calculation("RMSNorm does not load LayerNorm's weights"),
        "conversion.keys_kept": Calculation("the printed mapping keeps only the weight"),
        "conversion.gains_alone_are_wrong": Calculation("gains without biases move the logits"),
        "conversion.no_exact_map": Calculation("mean and bias cannot be folded into the matrices exactly"),
        "conversion.rms_to_layer_norm_is_wrong": Calculation("RMSNorm's gains in LayerNorm move the logits"),
        "conversion.loss_rises": Calculation("dropping biases raises the loss of a trained network"),
        # 3.4, 6.4: on this machine
        "speed.times_printed": Calculation("LayerNorm and handwritten RMSNorm take these microseconds", 2),
        "speed.by_hand_is_faster": Calculation("handwritten RMSNorm is faster than LayerNorm"),
        "speed.by_hand_is_slower": Calculation("handwritten RMSNorm is slower than LayerNorm"),
        "speed.benchmark_fits": Calculation("the outputs that the benchmark keeps fit into memory"),
        "speed.same_gain_everywhere": Calculation("handwritten RMSNorm saves these percentages at every shape", 2),
        "speed.share_in_model": Calculation("the operator's gain times the share of norms is the model's gain", 3),
    }
)
"""Calculations by module and function."""
