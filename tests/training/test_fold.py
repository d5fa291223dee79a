"""LayerNorm folded into RMSNorm: exact if reported as exact, with reasons otherwise."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from foldable import ROUNDING, error, even, no_final_bias, scheme, shuffled, small, tokens
from torch import nn

from normexp.config.run import MIXERS, QK_NORMS
from normexp.schemes.schemes import SCHEMES
from normexp.training.conversion import BIAS, dropped, folded, to_layer_norm

EXACT = {"pre", "lns", "residual_scaled"}
"""Schemes with norms only before branches and the LM head. rezero has no norm sites and thus nothing to fold."""


def norms(network: nn.Module) -> list[str]:
    return [type(module).__name__ for module in network.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)]


ALL_MIXERS = [(mixer, qk) for mixer in MIXERS for qk in (QK_NORMS if mixer == "attention" else ["none"])]


@pytest.mark.parametrize("position", sorted(EXACT))
@pytest.mark.parametrize(("mixer", "qk_norm"), ALL_MIXERS)
@pytest.mark.parametrize("residual", [True, False])
def test_the_fold_is_exact(position: str, mixer: str, qk_norm: str, residual: bool) -> None:
    config = small(position=position, mixer=mixer, qk_norm=qk_norm, residual=residual)
    network = no_final_bias(shuffled(config))
    converted = folded(network)
    assert converted.reasons == ()
    assert converted.config == replace(config, norm="rms", final_norm="rms")
    assert norms(converted.network).count("LayerNorm") == 2 * 6 * (qk_norm == "ln")
    assert error(network, converted.network) < ROUNDING
    assert error(network, dropped(network).network) > 0.1


@pytest.mark.parametrize("position", sorted(EXACT))
def test_a_final_bias_keeps_the_final_norm_by_default(position: str) -> None:
    network = shuffled(small(position=position))
    converted = folded(network)
    assert (converted.config.norm, converted.config.final_norm, converted.reasons) == ("rms", "ln", ())
    assert converted.remark
    assert error(network, converted.network) < ROUNDING
    lossy = folded(network, final_rms=True)
    assert lossy.config.final_norm == "rms"
    assert len(lossy.reasons) == 1
    with torch.no_grad():
        missing = network.head.weight @ network.final_norm.bias
        gap = network(tokens()) - lossy.network(tokens())
    assert torch.allclose(gap, missing.expand_as(gap), atol=ROUNDING)


@pytest.mark.parametrize("position", sorted({*SCHEMES} - EXACT - {"rezero"}))
@pytest.mark.parametrize("mixer", MIXERS)
def test_other_schemes_are_approximate_and_give_reasons(position: str, mixer: str) -> None:
    network = shuffled(small(position=position, mixer=mixer))
    converted = folded(network)
    assert converted.reasons
    assert error(network, converted.network) > 1e-3
    assert "LayerNorm" not in norms(converted.network)[:-1]


@pytest.mark.parametrize("position", sorted({*SCHEMES} - {"rezero", "subln", "hybrid"}))
@pytest.mark.parametrize("mixer", MIXERS)
def test_equal_gains_without_biases_fold_exactly(position: str, mixer: str) -> None:
    network = even(shuffled(small(position=position, mixer=mixer)), 1.7, biases=False)
    converted = folded(network)
    assert error(network, converted.network) < ROUNDING
    # The other schemes read the embedding in their first branch.
    assert (converted.reasons == ()) == (position in EXACT | {"sandwich"})


def test_biases_of_keys_and_values_fold_but_not_those_of_queries() -> None:
    with scheme(frozenset({"before", "qkv"}), frozenset({"before"})) as name:
        network = no_final_bias(shuffled(small(position=name, depth=2)))
        assert folded(network).reasons == (BIAS.format("qkv"),)
        for block in network.blocks.values():
            nn.init.zeros_(block.mixer.f.qkv_norms[0].bias)
        converted = folded(network)
        assert converted.reasons == ()
        assert error(network, converted.network) < ROUNDING
        normed = no_final_bias(shuffled(small(position=name, depth=2, qk_norm="rms")))
        for block in normed.blocks.values():
            nn.init.zeros_(block.mixer.f.qkv_norms[0].bias)
        assert folded(normed).reasons  # keys are normed again, so their bias matters


@pytest.mark.parametrize(
    ("keys", "exact"),
    [
        ({"depth": 0}, True),
        ({"norm": "none", "final_norm": "ln"}, False),
        ({"norm": "rms", "final_norm": "ln"}, False),
        ({"final_norm": "rms"}, False),
        ({"final_norm": "none"}, False),
        ({"final_norm": "ln", "position": "rezero"}, False),
    ],
)
def test_exactness_depends_on_what_reads_the_stream(keys: dict[str, Any], exact: bool) -> None:
    network = shuffled(small(**keys))
    if isinstance(network.final_norm, nn.LayerNorm):
        no_final_bias(network)
    converted = folded(network)
    assert (converted.reasons == ()) == exact
    assert (error(network, converted.network) < ROUNDING) == exact


def test_back_to_layer_norm_is_exact_if_no_mean_is_read() -> None:
    network = no_final_bias(shuffled(small()))
    rms = folded(network).network
    assert error(network, to_layer_norm(rms).network) < ROUNDING
    other = shuffled(small(norm="rms"))
    assert error(other, to_layer_norm(other).network) > 0.1
