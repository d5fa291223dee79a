"""Conversion of networks: measurements, the choice of the method, calibration, and networks without a conversion."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from foldable import shuffled, small
from torch import nn

from normexp.errors import UserError
from normexp.training import conversion
from normexp.training.conversion import Conversion, convert, dropped, folded, widened
from normexp.training.weights import network_from, weights_bytes


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("position", ["lns", "post"])
def test_measurements(dtype: str, position: str) -> None:
    config = small(position=position, dtype=dtype, depth=3)
    network = shuffled(config, torch.float32)
    converted = convert(network, "rms")
    before, fold, drop = converted.measured
    wide = widened(network)
    inputs = torch.from_numpy(conversion._trainer(network).validation.inputs_nt)
    with torch.no_grad():
        gaps = {row: made_by(wide).network(inputs) - wide(inputs) for row, made_by in ((fold, folded), (drop, dropped))}
        assert converted.std == pytest.approx(float(wide(inputs).std()))
    for row, gap in gaps.items():
        assert row.max_error == pytest.approx(float(gap.abs().max()), abs=1e-13)
        assert row.rms_error == pytest.approx(float(gap.square().mean().sqrt()), abs=1e-13)
    assert (converted.reasons == ()) == (position == "lns")
    assert converted.method == "fold"
    assert fold.rms_error < drop.rms_error
    assert before.max_error is None
    if position == "lns":
        assert fold.loss == pytest.approx(before.loss, abs=1e-5 if dtype == "float32" else 0.02)
        assert 0 < fold.run_error < (1e-4 if dtype == "float32" else 0.5)
    again = network_from(weights_bytes(converted.network, converted.config), origin="x")
    assert again[0] == replace(config, norm="rms", final_norm=converted.config.final_norm)
    assert converted.config.final_norm == ("ln" if position == "lns" else "none")


def test_the_method_with_the_smaller_error_is_used() -> None:
    network = shuffled(small(position="sandwich", mixer="linear"))
    converted = convert(network.float(), "rms", final_norm="rms")
    errors = {row.name: row.rms_error for row in converted.measured if row.rms_error is not None}
    assert converted.method == min(errors, key=errors.__getitem__)
    assert len(errors) == 2


def test_calibration_trains_the_converted_weights_reproducibly() -> None:
    network = shuffled(small(position="post", depth=2, lr=1e-3), torch.float32)
    short, long, again = (convert(network, "rms", calibrate=steps) for steps in (1, 30, 30))
    _, fold, _, calibrated = long.measured
    assert calibrated.name == "calibrated, 30 steps"
    assert calibrated.loss < fold.loss - 0.1
    assert calibrated.loss < short.measured[-1].loss < fold.loss + 0.1
    assert weights_bytes(long.network, long.config) == weights_bytes(again.network, again.config)
    assert long.config.steps == 20
    assert long.network.config == long.config


@pytest.mark.parametrize(
    ("keys", "to", "facts"),
    [
        ({"norm": "rms"}, "rms", ("LayerNorm", "rms")),
        ({}, "ln", ("RMSNorm", "ln")),
        ({"norm": "none"}, "rms", ("LayerNorm", "no norm")),
        ({"position": "rezero"}, "rms", ("LayerNorm", "no norm")),
        ({"norm": "bn"}, "rms", ("LayerNorm", "bn")),
        ({"norm": "none", "final_norm": "ln"}, "rms", ("nothing to replace", "--final-norm rms")),
    ],
)
def test_nothing_to_convert(keys: dict[str, Any], to: str, facts: tuple[str, ...]) -> None:
    with pytest.raises(UserError) as fault:
        convert(shuffled(small(**keys), torch.float32), to)
    assert all(fact in str(fault.value) for fact in facts)


def test_a_calibration_that_becomes_non_finite_is_an_error() -> None:
    with pytest.raises(UserError, match=r"--calibrate 9: .* step \d"):
        convert(shuffled(small(optimizer="sgd", lr=1e30), torch.float32), "rms", calibrate=9)


def test_non_finite_weights_can_be_converted() -> None:
    network = shuffled(small(), torch.float32)
    nn.init.constant_(network.head.weight, float("nan"))
    converted: Conversion = convert(network, "rms")
    assert converted.method == "fold"
    assert converted.measured[1].rms_error != converted.measured[1].rms_error
    assert converted.reasons, "a conversion that cannot be compared must not be called exact"


@pytest.mark.parametrize(("qk_norm", "remarked"), [("ln", True), ("rms", False), ("none", False)])
def test_norms_of_queries_and_keys_are_kept(qk_norm: str, remarked: bool) -> None:
    converted = convert(shuffled(small(qk_norm=qk_norm, final_norm="none"), torch.float32), "rms")
    assert converted.config.qk_norm == qk_norm
    assert ("queries and keys" in converted.remark) == remarked
