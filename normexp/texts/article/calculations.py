"""The calculations behind the article's compute claims, each with when it holds and how many figures it takes.

A name is that of a module of this folder and of a function in it. The modules load torch; this table does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from normexp.claims.claim import Calculation

CALCULATIONS: Mapping[str, Calculation] = MappingProxyType(
    {
        # 1.1
        "drift.printed": Calculation("its random stack prints these norms, from the input on", None),
        "drift.shrinks": Calculation("20 layers of its random matrices shrink the norm a thousandfold"),
        "drift.gone_in": Calculation("by layer (first) a level (second) is reached in a list (the rest)", None),
        "drift.underflows": Calculation("the norm at this layer is 0 in float32", 1),
        "drift.explodes": Calculation("weights larger by a factor reach, within so many layers, a norm", 3),
        "drift.pinned": Calculation("LayerNorm after each of 20 layers keeps the norm at sqrt(d)"),
        # 1.2
        "batches.printed_batch": Calculation("mean and variance of 4, 2 and 1 sequences are these", 6),
        "batches.printed_sequences": Calculation("mean and variance of each of two sequences are these", 4),
        "batches.one_alone": Calculation("a batch of one sequence has the figures of that sequence", 4),
        "batches.per_token": Calculation("what is printed as LayerNorm's statistics are those of a token"),
        "batches.alone": Calculation("LayerNorm's output for a token hangs on nothing but the token"),
        "batches.padding": Calculation("padding that counts moves what BatchNorm makes of the tokens"),
        "batches.noise": Calculation("BatchNorm's outputs are noisier in batches of 8 than of 32"),
        # 1.3, 2.1, 3, 6.4
        "norms.by_hand": Calculation("the formula with biased variance is LayerNorm, to rounding"),
        "norms.error_printed": Calculation("the largest error in a comment agrees with that of the text", 2),
        "norms.standardized": Calculation("LayerNorm's output has mean 0 and standard deviation 1"),
        "norms.keeps_information": Calculation("x and 2 x + 1 come out differently"),
        "norms.parameters": Calculation("over so many features, LayerNorm and RMSNorm have so many parameters", 3),
        "norms.model_parameters": Calculation(
            "so many features, norms a layer and layers have so many parameters with LayerNorm and with RMSNorm", 5
        ),
        "norms.small_share": Calculation("of a model of so many parameters, so many are less than a thousandth", 2),
        "norms.exits": Calculation("norms at the exit of its Post-LN and Pre-LN block", 2),
        "norms.output_statistics": Calculation("row means and deviations of LayerNorm and RMSNorm are these", 6),
        "norms.mean_kept": Calculation("RMSNorm's outputs have a mean that grows with the inputs', LayerNorm's none"),
        "norms.mean_takes_share": Calculation("RMSNorm's mean takes a share of the mean square of 1"),
        "norms.mean_square": Calculation("the mean square of RMSNorm's output is this", 1),
        # 2.2
        "gradients.top_heavy": Calculation("gradients rise with the layer in Post-LN at initialization, not in Pre-LN"),
        "gradients.larger_at_the_top": Calculation("the last layer's gradient is larger in Post-LN than in Pre-LN"),
        "gradients.exponential": Calculation("the difference of matrices' gradients grows exponentially with depth"),
        "gradients.exponential_by_skip": Calculation("by the skip paths it falls behind exponentially with depth"),
        "gradients.norm_amplifies": Calculation("the Jacobian of Post-LN's last norm amplifies"),
        "gradients.does_not_vanish": Calculation("the gradient of Pre-LN's stream reaches the input undiminished"),
        "gradients.post_has_no_floor": Calculation("by the skip paths alone Post-LN's gradient loses half going down"),
        # 2.4
        "models.timeline": Calculation("the models of its diagram are as it says"),
        "models.post_to_pre": Calculation("Pre-LN models become more than half after 2018"),
        "models.rms_replaces": Calculation("the share of RMSNorm rises from 2020 on"),
        "models.mainstream": Calculation("Pre-RMSNorm with a final norm is the most common since 2023"),
        "models.pre_has_final_norm": Calculation("models of position pre have a final norm"),
        # 3.3, 7.1
        "precision.rms_range_is_wider": Calculation("RMSNorm's range in float16 is wider than LayerNorm's"),
        "precision.variance_underflows": Calculation("a small variance is 0 in 16 bits"),
        # 4.2
        "residual.printed": Calculation("gradient, identity term, its share and the gradient without are these", 4),
        "residual.share": Calculation("identity term over total gradient is this", 1),
        "residual.is_a_share": Calculation("the two parts of the gradient, over its norm, make 1 together"),
        "residual.adds_up": Calculation("the gradient is the upstream one plus that through F"),
        "residual.mostly_identity": Calculation("at one point, less comes through F than by the skip path"),
        "residual.halves": Calculation("at one point, cutting the skip path more than halves the gradient"),
        "residual.shrinks_without": Calculation("without residual, 20 layers shrink the gradient exponentially"),
        "residual.floor_with": Calculation("with residual they do not shrink it, whatever they are"),
        "residual.less_sensitive": Calculation("with residual the gradient hangs less on the size of the weights"),
        # 2.1, 4.3, 4.4
        "stream.printed": Calculation("norms by layer, then after the final norm, are these", 14),
        "stream.growth": Calculation("first and last norm, ratio, percent a layer are these", 4),
        "stream.writes_shrink": Calculation("later blocks write less of the stream at initialization"),
        "stream.starts_near_zero": Calculation("blocks write next to nothing at initialization"),
        "stream.post_pins": Calculation("Post-LN's stream is at sqrt(d) after every layer"),
        "stream.pre_grows": Calculation("Pre-LN's stream grows with every layer"),
        "stream.growth_at_start": Calculation("12 layers of Pre-LN raise the stream by this ratio", 1),
        "stream.sandwich_bounds_writes": Calculation("Sandwich bounds what a branch adds, Pre-LN does not"),
        "stream.early_is_readable": Calculation("a linear probe reads the input token from every layer's stream"),
        "stream.plain_overwrites": Calculation("without residual it does not after 20 layers"),
        # 5
        "attention.parameters": Calculation("over so many features and heads, QK-Norm adds so many parameters", 3),
        "attention.unit_variance": Calculation("logits have variance 1 where queries and keys have"),
        "attention.bounded": Calculation("QK-Norm bounds the logits"),
        "attention.saturates": Calculation("large queries and keys make attention one-hot and its gradient small"),
        "deepnorm.tames": Calculation("DeepNorm's update at initialization does not grow with depth"),
        # 6, 7.2
        "skeleton.sees_context": Calculation("the network's prediction hangs on earlier tokens"),
        "skeleton.norm_free": Calculation("the network without a norm has none"),
        "skeleton.position_means_nothing": Calculation("without a norm, pre and post are one network"),
        "skeleton.same_start": Calculation("all configurations start from the same matrices"),
        "skeleton.gelu_saturates": Calculation("GELU is flat at inputs of this size", 1),
        "skeleton.check_finds_the_fault": Calculation("its check tells of a final norm missing, empty or not called"),
        # 7.3, 7.4
        "conversion.load_fails": Calculation("RMSNorm does not load LayerNorm's weights"),
        "conversion.keys_kept": Calculation("the mapping that is printed keeps the weight alone"),
        "conversion.gains_alone_are_wrong": Calculation("gains without biases move the logits"),
        "conversion.no_exact_map": Calculation("mean and bias cannot be folded into the matrices exactly"),
        "conversion.rms_to_layer_norm_is_wrong": Calculation("RMSNorm's gains in LayerNorm move the logits"),
        "conversion.loss_rises": Calculation("dropping biases raises the loss of a trained network"),
        "conversion.pre_then_post": Calculation("Pre-LN's weights keep what they learned where Post-LN takes them"),
        # 3.4, 6.4: of this machine
        "speed.times_printed": Calculation("LayerNorm and RMSNorm by hand take so many microseconds here", 2),
        "speed.by_hand_is_faster": Calculation("RMSNorm by hand is faster than LayerNorm here"),
        "speed.by_hand_is_slower": Calculation("RMSNorm by hand is slower than LayerNorm here"),
        "speed.benchmark_fits": Calculation("what its benchmark keeps fits into memory here"),
        "speed.same_gain_everywhere": Calculation("RMSNorm by hand saves so many percent at every shape here", 2),
        "speed.share_in_model": Calculation("an operator's gain makes the model's by the share of norms here", 3),
    }
)
"""Module and function to what holds."""
