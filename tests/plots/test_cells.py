"""Figures over cells, as numbers: final losses along an axis, their sensitivity, and the map of outcomes."""

from __future__ import annotations

import math

import pytest
import records as made
from charts import chart, line, source_of

from normexp.analysis.sensitivity import sensitivity
from normexp.plots.chart import Map, Spot
from normexp.plots.choice import Choice, Source
from normexp.plots.kinds import compute
from normexp.records.record import Outcome


def test_sensitivity_is_the_mean_distance_from_the_best() -> None:
    assert sensitivity([2.0, 1.0, 1.6], [4.0, 4.0, 4.0]) == pytest.approx((1.0 + 0.0 + 0.6) / 3)
    assert sensitivity([2.0, 1.0, math.inf], [4.0, 4.0, 4.0]) == pytest.approx((1.0 + 0.0 + 3.0) / 3)
    assert sensitivity([2.0, 1.0, math.nan], [4.0, 4.0, 4.0]) == pytest.approx((1.0 + 0.0 + 3.0) / 3)
    assert sensitivity([9.0, 9.0], [4.0, 4.0]) == 0, "no worse than before training"
    assert math.isnan(sensitivity([math.inf], [math.nan]))
    with pytest.raises(ValueError, match="1 final and 2 initial"):
        sensitivity([1.0], [1.0, 2.0])


def test_nonfinite_runs_count_as_infinite_in_a_scan(source: Source) -> None:
    found = chart("sensitivity", source)
    at = {spot.x: spot for spot in line(found, "norm none").spots}
    assert at[1e-2] == Spot(x=1e-2, middle=math.inf, low=3.0, high=3.0, runs=3, nonfinite=2)
    good = line(found, "norm ln")
    assert [spot.middle for spot in good.spots] == [pytest.approx(1.9)] * 2
    assert (good.spots[0].low, good.spots[0].high) == (1.8, 2.0)
    assert good.sensitivity is not None
    assert good.sensitivity.by_seed == {seed: pytest.approx(0) for seed in range(3)}
    none = line(found, "norm none").sensitivity
    assert none is not None
    assert (none.mean, none.reason) == (None, "no run learned with seed 0, 1")
    data = found.data.set_index(["line", "lr"])
    assert tuple(map(float, data.loc[("norm none", 1e-2)][["runs", "nonfinite", "median"]])) == (3, 2, math.inf)


def test_a_line_that_is_not_done_has_no_sensitivity(source: Source) -> None:
    lacking = dict(source.records)
    run_id = next(run_id for run_id, config in source.plan.configs.items() if config.norm == "ln")
    del lacking[run_id]
    found = chart("sensitivity", source_of(source.plan, lacking))
    ln, none = (line(found, f"norm {norm}").sensitivity for norm in ("ln", "none"))
    assert ln is not None
    assert none is not None
    assert (ln.mean, ln.reason) == (None, "not all runs are done")


def test_nonfinite_runs_have_learned_nothing(source: Source) -> None:
    found = chart("sensitivity", source, y="fraction")
    spot = line(found, "norm none").spots[1]
    assert (spot.middle, spot.nonfinite) == (0.0, 2)
    assert spot.high == pytest.approx((4.07 - 3.0) / (4.07 - 1.5))


def test_a_map_counts_every_run_once() -> None:
    plan = made.plan({"position": ["pre", "post"], "depth": [2, 4], "lr": [1e-3, 1e-2], "seed": [0, 1]}, width=16)
    ends = {}
    for run_id, config in plan.configs.items():
        if config.position == "post" and config.lr > 5e-3:
            ends[run_id] = made.dead(config, 3) if config.seed else made.done(config, 4.065)
        elif config.depth == 2 or config.seed == 0:
            ends[run_id] = made.done(config, 1.9)
    found = compute("map", source_of(plan, ends), Choice())
    assert isinstance(found, Map)
    assert (found.x.key, found.y.key) == ("depth", "lr")
    assert (found.x.names, found.y.names) == (("2", "4"), ("0.001", "0.01"))
    at = {(square.panel, square.x, square.y): square for square in found.squares}
    assert len(at) == 8
    mixed = at["position post", "4", "0.01"]
    assert mixed.counts == {Outcome.PLATEAU: 1, Outcome.NONFINITE: 1}
    assert (mixed.learned, mixed.runs) == (0, 2)
    assert mixed.fraction == pytest.approx((4.07 - 4.065) / 2.57 / 2)
    assert at["position pre", "4", "0.001"].counts == {Outcome.LEARNED: 1, "pending": 1}
    data = found.data.set_index(["panel", "x_depth", "y_lr"])
    assert data.loc[("position post", "2", "0.01"), "nonfinite_runs"] == "1"
    pooled = compute("map", source_of(plan, ends), Choice(x="lr", y="position", facets=()))
    assert isinstance(pooled, Map)
    assert [square.runs for square in pooled.squares] == [4] * 4
    assert ["depth" in note for note in pooled.notes] == [True]
    words = compute("map", source_of(made.plan({"position": ["pre", "post"], "lr": [1e-3, 1e-2]}), {}), Choice())
    assert (words.x.key, words.y.key) == ("lr", "position"), "words are on the y axis"
