"""The data of figures of single runs: losses by step, activations and gradients by layer, the time of a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import records as made
from charts import chart, line, source_of
from drawn import crosses, cut_off, legend
from hypothesis import given
from hypothesis import strategies as st

from normexp.analysis.differences import thinned
from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.plots import runs
from normexp.plots.chart import LINEAR, NAMES, TRAINING
from normexp.plots.choice import Source
from normexp.plots.drawing import draw, draw_layer_signal
from normexp.records.record import CurveRow, Death, Outcome, RunRecord, SignalRow, Traces


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
    assert (training[2].runs, training[2].nonfinite) == (3, 0)
    assert (training[3].runs, training[3].nonfinite) == (3, 1), "the last step counts"
    assert math.isfinite(training[3].middle), "the median is over finite runs"
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
    assert len(training.spots) <= runs.POINTS + 1
    assert training.spots[-1].x == 2999
    assert [spot.x for spot in validation.spots] == list(range(0, 2999, 25))


def with_losses(config: RunConfig, losses: Sequence[float]) -> RunRecord:
    """A done run with these training losses, from step 1 on."""
    rows = [
        CurveRow(step=step, lr=1e-3, train_loss=loss, grad_norm=1.0, val_loss=None)
        for step, loss in enumerate(losses, 1)
    ]
    return replace(made.done(config, 2.0), traces=Traces(curve=rows))


@pytest.mark.parametrize("spike", [2, 3, 500, 1501, 2999])
def test_a_long_curve_keeps_a_spike_of_one_step(spike: int) -> None:
    plan = made.plan({"seed": [0]}, steps=3000)
    (config,) = plan.configs.values()
    losses = [2.0 + 0.1 * math.sin(step) for step in range(3000)]
    losses[spike - 1] = 50.0
    losses[1233 - 1] = 0.5
    source = source_of(plan, {config.run_id: with_losses(config, losses)})
    training = next(one for one in chart("curves", source).lines if one.series == TRAINING)
    kept = {spot.x: spot.middle for spot in training.spots}
    assert len(kept) <= runs.POINTS + 1
    assert (kept[spike], kept[1233], kept[1], kept[3000]) == (50.0, 0.5, losses[0], losses[-1])
    assert "50.0" in list(chart("curves", source).data["median"])


def test_a_spike_of_one_seed_and_one_of_the_median_both_stay() -> None:
    plan = made.plan({"seed": [0, 1, 2]}, steps=3000)
    flat = [[2.0] * 3000 for _ in range(3)]
    flat[0][1500] = 100.0  # of one seed: the highest of the band
    flat[1][1502] = flat[2][1502] = 20.0  # of two: the median
    records = {c.run_id: with_losses(c, losses) for c, losses in zip(plan.configs.values(), flat, strict=True)}
    training = next(one for one in chart("curves", source_of(plan, records)).lines if one.series == TRAINING)
    at = {spot.x: spot for spot in training.spots}
    assert at[1501].high == 100.0
    assert at[1503].middle == 20.0


@given(st.lists(st.tuples(st.floats(), st.floats()), min_size=1, max_size=400), st.integers(1, 50))
def test_thinned_rows_have_all_extremes(rows: list[tuple[float, float]], stretches: int) -> None:
    kept = thinned(rows, stretches)
    assert kept == sorted(set(kept))
    assert {0, len(rows) - 1} <= set(kept)
    finite = [row for row in rows if all(map(math.isfinite, row))]
    assert {place for place, row in enumerate(rows) if row not in finite} <= set(kept)
    for column in (0, 1) if finite else ():
        kept_values = [rows[place][column] for place in kept if all(map(math.isfinite, rows[place]))]
        assert min(kept_values) == min(row[column] for row in finite)
        assert max(kept_values) == max(row[column] for row in finite)
    assert len(kept) <= 2 + 4 * stretches + len(rows) - len(finite)


def dying(config: RunConfig, *, step: int, where: str, layer: int, backward: bool) -> RunRecord:
    """Return a run of 16 layers that became non-finite at this layer, and in all layers after it in its direction.

    Gradients and activations are measured before training and at the last step.
    """
    record = made.dead(config, max(step, 1))
    assert record.result is not None
    death = Death(step=step, kind="inf", where=where, tensor="", layer=layer)

    def rows(at: int, *, broken: bool) -> list[SignalRow]:
        lost = range(1, layer + 1) if backward else range(layer, 18)
        part = ("ffn", "grad_norm") if backward else ("stream", "rms")
        return [
            SignalRow(step=at, layer=one, part=p, quantity=q, value=v)
            for p, q in (("ffn", "grad_norm"), ("stream", "rms"))
            for one in range(18)
            for v in [math.nan if broken and (p, q) == part and one in lost else 2.0**one]
        ]

    layers = rows(0, broken=step == 0)
    traces = Traces(curve=(), layers=layers, death_layers=rows(step, broken=True) if step else ())
    return replace(record, result=replace(record.result, death=death), traces=traces)


@pytest.mark.parametrize(
    ("step", "where", "layer", "panel"),
    [
        (16, "grad", 16, "gradient at the end"),
        (16, "activation", 5, "activation at the end"),
        (16, "loss", 17, "activation at the end"),
        (16, "param", 3, "activation at the end"),
        (0, "validation", 13, "activation before training"),
    ],
)
def test_the_first_non_finite_layer_is_the_recorded_one(step: int, where: str, layer: int, panel: str) -> None:
    plan = made.plan({"norm": ["ln", "none"], "seed": [0, 1]}, depth=16)
    ends = {
        run_id: dying(config, step=step, where=where, layer=layer, backward=where == "grad")
        if config.norm == "none" and config.seed == 0
        else made.done(config, 1.9)
        for run_id, config in plan.configs.items()
    }
    found = chart("signal", source_of(plan, ends))
    marks = {(one.panel, mark.x, mark.text) for one in found.lines for mark in one.marks}
    assert marks == {(panel, layer, "1/2")}
    figure = draw(found)
    assert crosses(figure) == [(layer, 1.0)]
    assert any(name.startswith("first non-finite layer (k/n") for name in legend(figure))

    record = next(one for one in ends.values() if one.config.norm == "none" and one.config.seed == 0)
    collapse = runs.layer_signal({"no norm": record}, title="signal")
    drawn = draw_layer_signal(collapse)
    assert crosses(drawn) == [(layer, 1.0)]
    assert f"inf in {where}, layer {layer}, step {step}" in [text.get_text() for text in drawn.axes[0].texts]
    assert not cut_off(drawn)


def test_where_no_record_tells_gradients_break_from_the_top_down() -> None:
    plan = made.plan({"norm": ["none"], "seed": [0]}, depth=16)
    (config,) = plan.configs.values()
    record = dying(config, step=1, where="grad", layer=12, backward=True)
    assert record.traces is not None
    before = tuple(replace(row, step=0) for row in record.traces.death_layers)
    record = replace(record, traces=replace(record.traces, layers=before))
    found = chart("signal", source_of(plan, {config.run_id: record}))
    marks = {(one.panel, mark.x) for one in found.lines for mark in one.marks}
    assert marks == {("gradient before training", 12), ("gradient at the end", 12)}


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
    assert (dead.spots[-1].middle, dead.spots[-1].nonfinite) == (math.inf, 2)
    assert ["last step" in note for note in found.notes] == [True]
    with pytest.raises(UserError, match="no layer"):
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
    (note,) = found.notes
    assert note.endswith(": Linux-6.1-x86_64; AVX2; torch 2.13.0; threads per run: 1")
    assert chart("speed", source_of(plan, ends), x="norm").x.scale == NAMES
    with pytest.raises(UserError, match="step time"):
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
