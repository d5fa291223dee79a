"""The measures of a run, computed from its curve and its layers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from normexp.claims.measures import MEASURES, Scale, scale_of
from normexp.config.run import RunConfig
from normexp.records.record import CurveRow, SignalRow, Traces


class TestMeasures:
    LAYERS = tuple(
        SignalRow(step=step, layer=layer, part=part, quantity=quantity, value=value * (1 + step / 100))
        for step in (0, 100)
        for layer, part, quantity, value in (
            (0, "stream", "rms", 1.0),
            (1, "stream", "rms", 1.5),
            (1, "ffn", "rms", 0.3),
            (2, "stream", "rms", 3.0),
            (2, "ffn", "rms", 0.3 if step else 0.6),
            (1, "mixer", "max_logit", 5.0),
            (2, "mixer", "max_logit", 4.0),
            (1, "mixer", "attention_entropy", 0.5),
            (2, "mixer", "attention_entropy", 0.25),
        )
    )
    CURVE = tuple(
        CurveRow(
            step=step,
            lr=1e-3,
            train_loss=4.0 - step / 100 + (0.1 if step % 2 else -0.1),
            grad_norm=1.0,
            val_loss={0: 4.3, 50: 3.0, 75: 3.2, 100: 2.9}.get(step),
        )
        for step in range(101)
    )

    def test_values(self) -> None:
        config = RunConfig(depth=2, width=16, heads=2, steps=100)
        traces = Traces(curve=self.CURVE, layers=self.LAYERS)
        values = {name: measure.of(config, traces) for name, measure in MEASURES.items()}
        assert values["early_val_loss"] == 3.0
        assert values["worst_rise"] == pytest.approx(0.2)
        assert values["roughness"] == pytest.approx(0.2021, abs=1e-3), "steps of ±0.2 about -0.01"
        assert values["stream_norm_at_init"] == pytest.approx(3.0 * 4)
        assert values["peak_stream_norm"] == pytest.approx(3.0 * 2 * 4)
        assert (values["stream_growth_at_init"], values["stream_growth_after"]) == (3.0, 3.0)
        assert (values["late_share_at_init"], values["late_share_after"]) == pytest.approx((1.0, 0.5))
        assert (values["max_logit_at_init"], values["max_logit_after"]) == (5.0, 10.0)
        assert (values["entropy_at_init"], values["entropy_after"]) == (0.25, 0.5)
        assert (values["leak"], values["mode_gap"]) == (0.0, 0.0)

    def test_missing_measures_are_nan_and_those_of_nonfinite_runs_infinite(self) -> None:
        config = RunConfig(depth=2, steps=200)
        traces = Traces(curve=self.CURVE)
        assert math.isnan(MEASURES["stream_growth_after"].of(config, traces))
        assert math.isnan(MEASURES["max_logit_after"].of(config, traces))
        assert MEASURES["roughness"].of(config, traces) == math.inf
        assert MEASURES["spikes"].of(config, traces) == math.inf
        assert MEASURES["worst_rise"].of(config, traces) == math.inf
        ended = replace(self.CURVE[-1], val_loss=math.nan)
        at_last = Traces(curve=(*self.CURVE[:-1], ended))
        assert MEASURES["worst_rise"].of(RunConfig(depth=2, steps=100), at_last) == math.inf

    def test_spikes_are_counted_in_the_last_half(self) -> None:
        losses = {10: 9.0, 60: 3.9, 61: 4.1, 80: 3.2}
        curve = tuple(
            CurveRow(step=step, lr=1e-3, train_loss=losses.get(step, 3.0), grad_norm=1.0, val_loss=None)
            for step in range(1, 101)
        )
        spikes = MEASURES["spikes"].of(RunConfig(depth=2, steps=100), Traces(curve=curve))
        assert spikes == 2, "one is early, one too small"

    @pytest.mark.parametrize(
        ("before", "recent", "loss", "spikes"),
        [(4.0, 3.0, 3.8, 0), (3.0, 3.4, 3.75, 1)],
        ids=["above the last 5 steps only", "above the last 20 steps only"],
    )
    def test_a_spike_exceeds_the_mean_of_the_20_steps_before_it(
        self, before: float, recent: float, loss: float, spikes: int
    ) -> None:
        """Losses stay at `before`, are `recent` in the five steps up to 80, and end at `loss`."""
        losses = [*[before] * 75, *[recent] * 5, loss]
        curve = tuple(
            CurveRow(step=step, lr=1e-3, train_loss=value, grad_norm=1.0, val_loss=None)
            for step, value in enumerate(losses, 1)
        )
        assert MEASURES["spikes"].of(RunConfig(depth=2, steps=81), Traces(curve=curve)) == spikes

    def test_a_rise_is_measured_from_the_best_value_so_far(self) -> None:
        """The loss climbs in three steps of at most 0.2 from its best value, 3.0, to 3.5, and never falls below it."""
        values = {0: 4.3, 20: 3.0, 40: 3.2, 60: 3.1, 80: 3.3, 100: 3.5}
        curve = tuple(
            CurveRow(step=step, lr=1e-3, train_loss=3.0, grad_norm=1.0, val_loss=values.get(step))
            for step in range(101)
        )
        rise = MEASURES["worst_rise"].of(RunConfig(depth=2, steps=100), Traces(curve=curve))
        assert rise == pytest.approx(0.5)


def test_magnitudes_and_ratios_are_compared_by_ratio() -> None:
    by_ratio = {name for name, measure in MEASURES.items() if measure.scale is Scale.LOG}
    assert {name for name in MEASURES if name.startswith(("stream", "peak", "late", "max_logit", "leak"))} == by_ratio
    assert scale_of("final_val_loss") is Scale.LINEAR


def test_a_scale_there_and_back() -> None:
    assert Scale.LOG.number(math.e) == pytest.approx(1.0)
    assert [Scale.LOG.number(value) for value in (0.0, -1.0, math.inf)] == [-math.inf, -math.inf, math.inf]
    assert [Scale.LOG.inverse(number) for number in (0.0, -math.inf, math.inf, 1e9)] == [1.0, 0.0, math.inf, math.inf]
    assert (Scale.LINEAR.number(-2.0), Scale.LINEAR.inverse(-2.0)) == (-2.0, -2.0)
    assert (Scale.LOG.text(1.5e-7), Scale.LINEAR.text(1.5e-7)) == ("1.5e-07", "0.000")
