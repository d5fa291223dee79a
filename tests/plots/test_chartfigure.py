"""Drawn lines and squares: every non-finite run has a cross in its position, and a loss of 1e9 hides nothing."""

from __future__ import annotations

import math

import pytest
import records as made
from charts import figure_of
from drawn import crosses, cut_off, legend, torn_plan

from normexp.config.plan import Plan
from normexp.plots import runs
from normexp.plots.drawing import draw, draw_layer_signal
from normexp.plots.style import LIGHT, WIDTHS, Look, LossAxis
from normexp.records.record import RunRecord

COLUMN = Look(width=WIDTHS["column"])


@pytest.fixture
def plan() -> Plan:
    return torn_plan()


def test_a_cross_stands_at_the_step_of_each_death(plan: Plan, records: dict[str, RunRecord]) -> None:
    figure = draw(figure_of("curves", plan, records))
    found = crosses(figure)
    assert sorted(step for step, _ in found) == [3, 4]
    assert all(math.isfinite(loss) for _, loss in found)
    assert "nan @3" in [text.get_text() for text in figure.axes[0].texts], "named where there are few"
    low, high = figure.axes[0].get_ylim()
    assert high > 1e9, "a loss of 1e9 is in the frame"
    floor = figure.axes[0].transData.transform((0, 1.5))[1]
    guess = figure.axes[0].transData.transform((0, 4.07))[1]
    bottom, top = figure.axes[0].bbox.y0, figure.axes[0].bbox.y1
    assert (guess - floor) / (top - bottom) > 0.25, "and what lies between floor and guess is readable all the same"
    assert low < 1.5
    assert {"training", "validation", "min–max", "first non-finite step"} <= set(legend(figure))


def test_crosses_stand_above_a_scan_each_with_its_share(plan: Plan, records: dict[str, RunRecord]) -> None:
    figure = draw(figure_of("sensitivity", plan, records))
    assert crosses(figure) == [(1e-2, 1.0)]
    assert "2/3" in [text.get_text() for text in figure.axes[0].texts]
    hollow = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == LIGHT.ground]
    assert [list(line.get_ydata()) for line in hollow if len(line.get_ydata())] == [[3.0]]
    names = legend(figure)
    assert "norm ln (S 0.00)" in names
    assert any(name.startswith("non-finite (k/n") for name in names)


@pytest.mark.parametrize("seeds", [[0], [0, 1]])
def test_lines_that_die_at_one_rate_have_a_cross_each(seeds: list[int]) -> None:
    axes = {"norm": ["ln", "rms", "none"], "lr": [1e-4, 1e-3, 1e-2], "seed": seeds}
    plan = made.plan(axes, depth=2)
    ends = {
        run_id: made.dead(config, 3) if config.lr > 5e-3 else made.done(config, 1.9)
        for run_id, config in plan.configs.items()
    }
    figure = draw(figure_of("sensitivity", plan, ends))
    figure.draw_without_rendering()
    drawn = [line for line in figure.axes[0].lines if line.get_marker() == "X"]
    assert len({line.get_color() for line in drawn}) == 3
    places = sorted(float(line.get_transform().transform(line.get_xydata()[0])[0]) * 72 / figure.dpi for line in drawn)
    low, high = figure.axes[0].get_xlim()
    assert low < 1e-4 < 1e-2 < high, "the rate at which all died is in the frame"
    middle = float(figure.axes[0].transData.transform((1e-2, 2.0))[0]) * 72 / figure.dpi
    assert places[1] == pytest.approx(middle)
    size = drawn[0].get_markersize()
    assert min(places[1] - places[0], places[2] - places[1]) >= size, "beside each other"
    assert "non-finite" in legend(figure), "no shares where all died"


def test_crosses_without_room_beside_each_other_stand_in_rows() -> None:
    plan = made.plan({"eps": [index * 1e-5 for index in range(1, 13)], "lr": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2]})
    ends = {run_id: made.dead(config, 3) for run_id, config in plan.configs.items()}
    figure = draw(figure_of("sensitivity", plan, ends, facets=()), COLUMN)
    figure.draw_without_rendering()
    drawn = [line for line in figure.axes[0].lines if line.get_marker() == "X"]
    assert len(drawn) == 72
    points = [line.get_transform().transform(line.get_xydata()[0]) * 72 / figure.dpi for line in drawn]
    size = drawn[0].get_markersize()
    near = [(a, b) for i, a in enumerate(points) for b in points[:i] if max(abs(a - b)) < size * 0.8]
    assert not near
    assert not cut_off(figure)


def test_squares_are_split_by_outcome_and_count_the_learned() -> None:
    plan = made.plan({"depth": [2, 4], "lr": [1e-3, 1e-2], "seed": [0, 1]}, width=16)
    ends = {
        run_id: made.dead(config, 3) if config.depth == 4 and config.seed else made.done(config, 1.9)
        for run_id, config in plan.configs.items()
    }
    figure = draw(figure_of("map", plan, ends))
    (ax,) = figure.axes
    assert sorted(text.get_text() for text in ax.texts) == ["1/2", "1/2", "2/2", "2/2"]
    assert sorted(crosses(figure)) == [(1.75, 0.24), (1.75, 1.24)]
    widths = [patch.get_width() for patch in ax.patches if patch.get_facecolor()[3] > 0]  # type: ignore[attr-defined]
    assert sorted(widths) == [0.5, 0.5, 0.5, 0.5, 1, 1]
    assert legend(figure) == ["learned", "non-finite"]
    shaded = draw(figure_of("map", plan, ends, by_fraction=True))
    assert len(shaded.axes) == 2, "with a bar of colours"
    assert sorted(crosses(shaded)) == sorted(crosses(figure))


def test_layer_signal_shows_the_way_down(plan: Plan) -> None:
    configs = list(plan.configs.values())
    alive, dead = made.done(configs[0], 1.9), made.dead(configs[-1], 33)
    signal = runs.layer_signal({"alive": alive, "dead": dead}, title="signal")
    steps = {
        name: [(line.step, line.dying) for line in signal.lines if line.panel == name] for name in ("alive", "dead")
    }
    assert steps["alive"] == [(0, False), (25, False), (50, False), (100, False)]
    assert steps["dead"] == [(0, False), (2, True), (10, True), (18, True), (25, True), (33, True)]
    last = [line for line in signal.lines if line.panel == "dead"][-1]
    assert [layer for layer, _ in last.rms_by_layer] == [0, 1, 2, 3, 4, 5]
    assert last.rms_by_layer[-1][1] == math.inf
    assert "inf" in list(signal.data["rms"])
    assert crosses(draw_layer_signal(signal)) == [(4, 1.0)], "the recorded layer"


def test_loss_axis_is_linear_where_nothing_blows_up() -> None:
    calm = LossAxis.of([1.6, 4.3, math.nan, math.inf], [made.LOSSES])
    assert calm.bend == math.inf
    assert 4.3 < calm.top < 4.6
    wild = LossAxis.of([1.6, 4e26], [made.LOSSES])
    assert math.isfinite(wild.bend)
    assert 4e26 < wild.top < math.inf
    assert LossAxis.of([], []).top > LossAxis.of([], []).low
