"""Figures of single runs, as numbers: losses by step, the signal by layer, the time of a step."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import records as made
from charts import chart, line, source_of

from normexp.errors import UserError
from normexp.record import Outcome
from normexp.views.figures import curves
from normexp.views.figures.chart import LINEAR, NAMES, TRAINING
from normexp.views.figures.choice import Source


def test_a_line_of_losses_is_over_its_seeds_and_marks_each_death(source: Source) -> None:
    found = chart("curves", source)
    assert {one.label for one in found.lines} == {
        f"norm {norm}, lr {lr}" for norm in ("ln", "none") for lr in (0.001, 0.01)
    }
    dead = line(found, "norm none, lr 0.01")
    assert [(mark.x, mark.outcome, mark.text) for mark in dead.marks] == [
        (3, Outcome.NONFINITE, "nan @3"),
        (4, Outcome.NONFINITE, "nan @4"),
    ]
    assert all(math.isfinite(mark.y) for mark in dead.marks)
    training = {
        spot.x: spot
        for spot in next(one for one in found.lines if one.series == TRAINING and one.label == dead.label).spots
    }
    assert (training[2].runs, training[2].dead) == (3, 0)
    assert (training[3].runs, training[3].dead) == (3, 1), "the step of the death counts it"
    assert math.isfinite(training[3].middle), "the median is that of the living"
    assert training[5].runs == 1
    restless = line(found, "norm none, lr 0.001")
    assert {mark.outcome for mark in restless.marks} <= {Outcome.DIVERGED, Outcome.UNSETTLED}
    assert len(restless.marks) == 3
    data = found.data
    row = data[(data["line"] == "norm none, lr 0.01") & (data["series"] == TRAINING) & (data["step"] == 3)].iloc[0]
    assert (int(row["runs"]), int(row["nonfinite"])) == (3, 1)


def test_a_long_curve_is_thinned_but_keeps_its_end() -> None:
    plan = made.plan({"seed": [0]}, steps=3000)
    (config,) = plan.configs.values()
    record = made.dead(config, 2999)
    training, validation = chart("curves", source_of(plan, {record.run_id: record})).lines
    assert len(training.spots) <= curves.POINTS + 1
    assert training.spots[-1].x == 2999
    assert [spot.x for spot in validation.spots] == list(range(0, 2999, 25))


def test_signal_shows_the_end_of_the_living_and_the_last_step_of_the_dead() -> None:
    plan = made.plan({"norm": ["ln", "none"], "seed": [0, 1]}, depth=3)
    ends = {
        run_id: made.done(config, 1.9) if config.norm == "ln" else made.dead(config, 33)
        for run_id, config in plan.configs.items()
    }
    found = chart("signal", source_of(plan, ends))
    assert list(found.axes) == ["activation before training", "activation at the end"]
    before, after = (line(found, "norm ln", panel) for panel in found.axes)
    assert [spot.x for spot in before.spots] == [0, 1, 2, 3, 4]
    assert before.spots[2].middle == pytest.approx(1.05**2)
    assert after.spots[2].middle == pytest.approx(1.05 ** (2 * 3))
    dead = line(found, "norm none", "activation at the end")
    assert dead.spots[2].middle == pytest.approx(1.5 ** (2 * (1 + 33 / 50)))
    assert (dead.spots[-1].middle, dead.spots[-1].dead) == (math.inf, 2)
    assert found.notes == ("at the end: at the last evaluation; of a run that died, at its last step",)
    with pytest.raises(UserError, match="no layer of these runs was measured"):
        chart("signal", source_of(plan, {}))


def test_speed_is_milliseconds_a_step_over_what_does_not_change_them() -> None:
    plan = made.plan({"norm": ["ln", "rms"], "depth": [2, 4], "lr": [1e-3, 1e-2]}, width=16)
    ends = {
        run_id: made.done(config, 1.9, seconds={"steps": 0.1 * config.depth * (1 if config.lr < 5e-3 else 3)})
        for run_id, config in plan.configs.items()
    }
    found = chart("speed", source_of(plan, ends))
    assert (found.x.key, found.x.scale) == ("depth", LINEAR)
    spot = line(found, "norm rms").spots[1]
    assert (spot.x, spot.runs) == (4, 2)
    assert (spot.low, spot.middle, spot.high) == (pytest.approx(4), pytest.approx(8), pytest.approx(12))
    assert found.notes == (
        "Times depend on the machine and on what ran beside: Linux-6.1-x86_64; AVX2; torch 2.13.0; threads a run: 1",
    )
    assert chart("speed", source_of(plan, ends), x="norm").x.scale == NAMES
    with pytest.raises(UserError, match="no run has a time"):
        chart("speed", source_of(plan, {}))


def test_a_run_that_answers_two_points_is_drawn_once() -> None:
    plan = made.plan({"norm": ["none"], "position": ["post", "pre"], "lr": [1e-3, 1e-2]}, depth=2)
    found = source_of(plan, {run_id: made.done(config, 1.9) for run_id, config in plan.configs.items()})
    assert len([one for one in chart("curves", found).lines if one.series != TRAINING]) == 2
    assert len(chart("sensitivity", found).lines) == 1


def test_a_run_under_two_labels_is_drawn_under_both() -> None:
    one = made.plan({"lr": [1e-3, 1e-2]}, depth=2)
    plan = replace(one, points=tuple(replace(point, label=label) for label in ("a", "b") for point in one.points))
    found = source_of(plan, {run_id: made.done(config, 1.9) for run_id, config in plan.configs.items()})
    assert list(dict.fromkeys(one.panel for one in chart("curves", found).lines)) == ["a", "b"]
    assert [one.panel for one in chart("sensitivity", found).lines] == ["a", "b"]
