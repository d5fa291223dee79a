"""Figures as numbers: what stands where, what is left out, and what is told of it. Nothing is drawn here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
import records as made

from normexp import only
from normexp.errors import UserError
from normexp.plan import Plan
from normexp.record import Outcome, RunRecord, Traces
from normexp.sensitivity import sensitivity
from normexp.views import tables
from normexp.views.figures import curves as figuredata
from normexp.views.figures.chart import LINEAR, LOG, NAMES, TRAINING, Chart, Line, Map, Spot, value_axis
from normexp.views.figures.choice import Choice, Source
from normexp.views.figures.kinds import KINDS, compute, fitting
from normexp.views.figures.panels import LABELS, PANELS, Layout, place


def source_of(plan: Plan, records: Mapping[str, RunRecord]) -> Source:
    def traces(run_id: str) -> Traces:
        return records[run_id].traces or Traces(curve=())

    return Source(plan=plan, records=records, runs=tables.runs(plan, records), traces=traces)


def chart(kind: str, source: Source, **choice: object) -> Chart:
    found = compute(kind, source, Choice(**choice))  # type: ignore[arg-type]
    assert isinstance(found, Chart)
    return found


def line(found: Chart, label: str, panel: str = "") -> Line:
    (one,) = (one for one in found.lines if (one.panel, one.label) == (panel, label) and one.series != TRAINING)
    return one


@pytest.fixture
def source() -> Source:
    """With a norm: learned. Without: at 1e-3 one loss of 1e9 in three, at 1e-2 two dead of three."""
    plan = made.plan({"norm": ["ln", "none"], "lr": [1e-3, 1e-2], "seed": [0, 1, 2]}, depth=4)
    return source_of(plan, made.torn(plan))


def test_sensitivity_is_the_mean_distance_from_the_best() -> None:
    assert sensitivity([2.0, 1.0, 1.6], [4.0, 4.0, 4.0]) == pytest.approx((1.0 + 0.0 + 0.6) / 3)
    assert sensitivity([2.0, 1.0, math.inf], [4.0, 4.0, 4.0]) == pytest.approx((1.0 + 0.0 + 3.0) / 3)
    assert sensitivity([2.0, 1.0, math.nan], [4.0, 4.0, 4.0]) == pytest.approx((1.0 + 0.0 + 3.0) / 3)
    assert sensitivity([9.0, 9.0], [4.0, 4.0]) == 0, "no worse than before training"
    assert math.isnan(sensitivity([math.inf], [math.nan]))
    with pytest.raises(ValueError, match="1 final losses and 2 initial ones"):
        sensitivity([1.0], [1.0, 2.0])


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
    assert len(training.spots) <= figuredata.POINTS + 1
    assert training.spots[-1].x == 2999
    assert [spot.x for spot in validation.spots] == list(range(0, 2999, 25))


def test_the_dead_are_infinite_in_a_scan(source: Source) -> None:
    found = chart("sensitivity", source)
    at = {spot.x: spot for spot in line(found, "norm none").spots}
    assert at[1e-2] == Spot(x=1e-2, middle=math.inf, low=3.0, high=3.0, runs=3, dead=2)
    good = line(found, "norm ln")
    assert [spot.middle for spot in good.spots] == [pytest.approx(1.9)] * 2
    assert (good.spots[0].low, good.spots[0].high) == (1.8, 2.0)
    assert good.sensitivity == pytest.approx(0)
    each = [
        sensitivity(
            [1e9 if seed == 1 else 100.0 + seed, 3.0 if seed == 2 else math.inf], [50.0, 50.0 if seed == 2 else 30.0]
        )
        for seed in range(3)
    ]
    initial = {
        run["seed"]: run["init_val_loss"]
        for run in source.runs.to_dict("records")
        if run["norm"] == "none" and run["lr"] > 5e-3
    }
    each[2] = sensitivity([102.0, 3.0], [50.0, initial[2]])
    assert line(found, "norm none").sensitivity == pytest.approx(sum(each) / 3)
    data = found.data.set_index(["line", "lr"])
    assert tuple(map(float, data.loc[("norm none", 1e-2)][["runs", "nonfinite", "median"]])) == (3, 2, math.inf)


def test_a_line_that_is_not_done_has_no_sensitivity(source: Source) -> None:
    lacking = dict(source.records)
    run_id = next(run_id for run_id, config in source.plan.configs.items() if config.norm == "ln")
    del lacking[run_id]
    found = chart("sensitivity", source_of(source.plan, lacking))
    assert line(found, "norm ln").sensitivity is None
    assert line(found, "norm none").sensitivity is not None


def test_the_dead_have_learned_nothing(source: Source) -> None:
    found = chart("sensitivity", source, y="fraction")
    spot = line(found, "norm none").spots[1]
    assert (spot.middle, spot.dead) == (0.0, 2)
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
    assert pooled.notes == ("each square is over depth as well",)


def test_words_stand_along_the_side_of_a_map() -> None:
    plan = made.plan({"position": ["pre", "post"], "lr": [1e-3, 1e-2, 1e-1]})
    found = compute("map", source_of(plan, {}), Choice())
    assert (found.x.key, found.y.key) == ("lr", "position")


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


@pytest.mark.parametrize(
    ("kind", "choice", "told"),
    [
        ("sensitivity", {"x": "dept"}, "--x dept: no such axis: did you mean depth?"),
        ("sensitivity", {"x": "zzz"}, "--x zzz: no such axis: known are depth, lr"),
        ("map", {"x": "norm"}, "--x norm: it is ln in every run that the figure is of: what varies is depth and lr"),
        ("map", {"y": "seed"}, "--y seed: a figure is over seeds: what varies is depth and lr"),
        ("map", {"x": "lr", "y": "lr"}, "--x and --y are both lr: choose two axes"),
        ("map", {"facets": ("lr",)}, "a map needs two axes that vary beside its facets"),
        ("map", {"x": "lr", "y": "depth", "facets": ("lr",)}, "--facet lr: it is an axis of the panels already"),
        ("curves", {"x": "lr"}, "--x lr: the x axis of curves is fixed"),
        ("depth", {"y": "lr"}, "--y lr: no y axis of depth: choose loss or fraction"),
        ("speed", {"y": "loss"}, "--y loss: no y axis of speed: leave it out"),
        ("signal", {"by_fraction": True}, "--color: signal has no colour for outcomes"),
        ("pie", {}, "--kind pie: no such figure; there are:"),
    ],
)
def test_a_figure_that_cannot_be_is_told(kind: str, choice: dict[str, object], told: str) -> None:
    plan = made.plan({"depth": [2, 4], "lr": [1e-3, 1e-2], "norm": ["ln"], "seed": [0, 1]})
    with pytest.raises(UserError) as fault:
        chart(kind, source_of(plan, {}), **choice)
    assert fault.value.complaints[0].startswith(told)


def test_only_some_runs(source: Source) -> None:
    found = chart("curves", source.only(only.parse(["norm=none", "lr=1e-3,1e-2"])))
    assert {one.label for one in found.lines} == {"lr 0.001", "lr 0.01"}
    assert len(source.only(only.parse(["depth=4"])).plan.points) == 12, "a key that is no axis"
    with pytest.raises(UserError, match=r"--only leaves no run: norm is ln, none; lr is 0.001, 0.01"):
        source.only(only.parse(["norm=ln", "lr=0.5"]))
    with pytest.raises(UserError) as fault:
        only.parse(["norm", "nrm=ln", "lr=fast"])
    assert [text.partition(": ")[2][:20] for text in fault.value.complaints] == [
        "write --only key=val",
        "nrm is no key: did y",
        "'fast' is not a numb",
    ]


def test_a_report_has_what_fits_the_axes(source: Source) -> None:
    def names(found: Source) -> list[str]:
        return [name for name, *_ in fitting(found)]

    assert names(source) == ["curves", "sensitivity", "signal"]
    plan = made.plan({"depth": [2, 4, 8], "lr": [1e-3, 1e-2]})
    assert names(source_of(plan, {})) == ["curves", "sensitivity", "map", "depth"], "no layer is measured"
    labelled = replace(plan, points=tuple(replace(point, label=str(point.values["depth"])) for point in plan.points))
    assert names(source_of(labelled, {})) == ["curves", "sensitivity", "depth"], "labels have axes of their own"
    assert [kind.file for kind in KINDS.values()] == [
        "curves",
        "lr_sensitivity",
        "outcome_map",
        "depth",
        "signal",
        "speed",
    ]


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


def told(layout: Layout[object]) -> tuple[set[str], set[str]]:
    return {one.panel for one in layout.placed}, {one.label for one in layout.placed}


def items(**axes: list[str]) -> list[tuple[dict[str, str], object]]:
    found: list[dict[str, str]] = [{}]
    for key, values in axes.items():
        found = [{**texts, key: value} for texts in found for value in values]
    return [(texts, None) for texts in found]


def test_many_lines_are_spread_over_panels() -> None:
    many = items(depth=["4", "8", "12"], norm=["ln", "rms"], lr=["1", "2", "3", "4", "5", "6"])
    layout = place(many)
    assert told(layout) == (
        {f"depth {depth}, norm {norm}" for norm in ("ln", "rms") for depth in (4, 8, 12)},
        {f"lr {lr}" for lr in range(1, 7)},
    )
    assert (layout.columns, layout.omitted) == (2, 0), "rows by depth, columns by norm"
    asked = place(many, ["norm"])
    assert told(asked)[0] == {"norm ln", "norm rms"}
    assert asked.omitted == 2 * (18 - LABELS)


def test_lines_that_would_be_alone_stand_together() -> None:
    eleven = items(position=[str(number) for number in range(11)])
    assert told(place(eleven)) == ({""}, {f"position {number}" for number in range(11)})


def test_labels_stand_in_panels_of_their_own_with_the_keys_that_vary_there() -> None:
    norms = [({"label": "norms", "norm": norm, "position": "pre"}, norm) for norm in ("ln", "rms")]
    positions = [({"label": "positions", "norm": "ln", "position": name}, name) for name in ("pre", "post")]
    assert [(one.panel, one.label, one.item) for one in place(norms + positions).placed] == [
        ("norms", "norm ln", "ln"),
        ("norms", "norm rms", "rms"),
        ("positions", "position pre", "pre"),
        ("positions", "position post", "post"),
    ]


def test_a_line_has_one_name_in_all_panels_though_one_of_them_has_more_lines() -> None:
    norms = [
        ({"label": "", "norm": norm, "depth": depth, "lr": "0.001"}, 0) for norm in ("none", "ln") for depth in "68"
    ]
    layout = place([*norms, ({"label": "", "norm": "none", "depth": "8", "lr": "0.01"}, 0)], ["norm"])
    ln, none = ({one.label for one in layout.placed if one.panel == f"norm {norm}"} for norm in ("ln", "none"))
    assert ln == {"depth 6, lr 0.001", "depth 8, lr 0.001"} == none - {"depth 8, lr 0.01"}


def test_too_many_lines_are_left_out_and_counted() -> None:
    plan = made.plan({"lr": [index * 1e-5 for index in range(1, 41)]})
    found = chart("curves", source_of(plan, {run_id: made.done(c, 1.9) for run_id, c in plan.configs.items()}))
    drawn = {(one.panel, one.label) for one in found.lines}
    assert len({panel for panel, _ in drawn}) <= PANELS
    assert found.notes == (f"{40 - len(drawn)} of 40 lines not drawn",)


def test_an_axis_is_logarithmic_over_decades_and_of_names_for_words() -> None:
    assert [value_axis("depth", values).scale for values in ([2, 4, 8], [2, 40], [0, 40], ["a", "b"])] == [
        LINEAR,
        LOG,
        LINEAR,
        NAMES,
    ]
    assert value_axis("residual", [True, False]).names == ("true", "false")
