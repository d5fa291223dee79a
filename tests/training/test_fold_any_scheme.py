"""The fold in artificial schemes, with any norm sites and scales."""

from random import Random
from typing import Any

import pytest
import torch
from foldable import ROUNDING, error, even, no_final_bias, scales_of, scheme, shuffled, small, tokens
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from normexp.config.run import MIXERS, QK_NORMS
from normexp.training.conversion import folded


@pytest.mark.parametrize("learned", [True, False])
def test_scales_fold_whether_learned_or_not(learned: bool) -> None:
    before = frozenset({"before"})
    with scheme(before, before, **scales_of((0.9, 0.5, 0.7, 0.3), learned)) as name:
        network = no_final_bias(shuffled(small(position=name)))
        converted = folded(network)
        assert converted.reasons == ()
        assert error(network, converted.network) < ROUNDING


@pytest.mark.parametrize("numbers", [(1.0, 1.0, 1.0, 0.0), (0.9, 0.5, 0.7, 0.3)])
def test_a_bias_after_the_sum_moves_through_matrices_and_skips(numbers: tuple[float, float, float, float]) -> None:
    """In Post with equal gains, all biases fold except the last, which the LM head would need."""
    after = frozenset({"after"})
    with scheme(after, after, **scales_of(numbers, learned=False)) as name:
        network = even(shuffled(small(position=name, final_norm="none")), 0.8)
        with torch.no_grad():
            missing = network.head.weight @ network.blocks["6"].ffn.after.bias
            gap = network(tokens()) - folded(network).network(tokens())
    assert torch.allclose(gap, missing.expand_as(gap), atol=ROUNDING)


def test_a_mean_that_bypasses_a_norm_is_kept() -> None:
    scales = scales_of((1.0, 1.0, 1.0, 0.3), learned=False)
    with scheme(frozenset({"before", "after"}), frozenset({"before"}), **scales) as name:
        for final_norm, exact in (("ln", True), ("none", False)):
            network = shuffled(small(position=name, final_norm=final_norm, depth=1))
            network = even(network, 0.8, biases=False)
            nn.init.normal_(network.embedding.weight)
            converted = folded(network)
            assert (converted.reasons == ()) == exact
            assert (error(network, converted.network) < ROUNDING) == exact


some_doors = st.frozensets(st.sampled_from(["before", "before", "qkv", "within", "output", "after"]))
some_scale = st.sampled_from([1.0, 0.7, 0.0])


@given(
    doors=st.tuples(some_doors, some_doors),
    numbers=st.tuples(some_scale, some_scale, some_scale, some_scale),
    keys=st.fixed_dictionaries(
        {
            "residual": st.sampled_from([True, True, False]),
            "mixer": st.sampled_from(list(MIXERS)),
            "qk_norm": st.sampled_from(list(QK_NORMS)),
            "final_norm": st.sampled_from(["ln", "ln", "rms", "none"]),
            "depth": st.integers(1, 3),
        }
    ),
    biased=st.sampled_from([0.0, 0.5, 1.0]),
    same_gains=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=100)
def test_a_fold_without_reasons_is_exact(
    doors: tuple[frozenset[str], frozenset[str]],
    numbers: tuple[float, float, float, float],
    keys: dict[str, Any],
    biased: float,
    same_gains: bool,
    seed: int,
) -> None:
    random = Random(seed)
    with scheme(*doors, **scales_of(numbers, learned=False)) as name:
        network = shuffled(small(position=name, width=8, hidden=8, **keys))
    if same_gains:
        even(network, 1.3)
    for norm in (module for module in network.modules() if isinstance(module, nn.LayerNorm)):
        if random.random() >= biased:
            nn.init.zeros_(norm.bias)
    with scheme(*doors, **scales_of(numbers, learned=False)):
        converted = folded(network)
        assert converted.reasons or error(network, converted.network) < 1e-10
