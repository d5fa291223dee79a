"""Figures: the numbers that they show, the places of lines, and the same bytes each time."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import records as made
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text
from PIL import Image

from normexp.plan import Plan
from normexp.record import RunRecord, Traces
from normexp.results.store import Store
from normexp.views import figuredata, report, tables
from normexp.views.canvas import PNG_COLORS, LossAxis, line_styles
from normexp.views.figures import draw_curves, draw_layer_signal, draw_lr_sensitivity, render
from normexp.views.labels import CONTROL
from normexp.views.panels import LABELS, PANELS, place


def curves_of(plan: Plan, records: Mapping[str, RunRecord]) -> figuredata.Curves:
    def traces(run_id: str) -> Traces:
        found = records[run_id].traces
        assert found is not None
        return found

    return figuredata.curves(plan, records, traces)


@pytest.fixture
def plan() -> Plan:
    return made.plan({"norm": ["ln", "none"], "lr": [1e-3, 1e-2], "seed": [0, 1, 2]}, depth=4, title="$dépth$ & <x>")


@pytest.fixture
def records(plan: Plan) -> dict[str, RunRecord]:
    """With a norm: learned. Without: at 1e-3 one loss of 1e9 in three, at 1e-2 two dead of three."""
    found = {}
    for run_id, config in plan.configs.items():
        if config.norm == "ln":
            found[run_id] = made.done(config, 1.8 + 0.1 * config.seed)
        elif config.lr < 5e-3:
            found[run_id] = made.done(config, 1e9 if config.seed == 1 else 100.0 + config.seed, initial=50.0)
        else:
            found[run_id] = made.dead(config, 3 + config.seed) if config.seed < 2 else made.done(config, 3.0)
    return found


def crosses(figure: Figure) -> list[tuple[float, float]]:
    """Places of the crosses in all panels."""
    lines = [line for ax in figure.axes for line in ax.lines if line.get_marker() == "X"]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in lines]


def test_curves_hold_each_death_and_every_evaluation(plan: Plan, records: dict[str, RunRecord]) -> None:
    curves = curves_of(plan, records)
    assert len(curves.curves) == 12
    assert {curve.panel for curve in curves.curves} == {""}
    assert len({curve.label for curve in curves.curves}) == 4, "seeds share a label"
    dead = next(curve for curve in curves.curves if curve.death is not None)
    assert [step for step, _ in dead.train] == [1, 2, 3]
    assert math.isnan(dead.train[-1][1])
    data = curves.data
    assert list(data[(data["run_id"] == dead.run_id) & (data["loss_of"] == "train")]["loss"])[-1] == "nan"
    assert set(data["death_step"].dropna()) == {3, 4}


def test_a_cross_stands_at_the_step_of_each_death(plan: Plan, records: dict[str, RunRecord]) -> None:
    figure = draw_curves(curves_of(plan, records))
    found = crosses(figure)
    assert sorted(step for step, _ in found) == [3, 4]
    assert all(math.isfinite(loss) for _, loss in found)
    low, high = figure.axes[0].get_ylim()
    assert high > 1e9, "a loss of 1e9 is in the frame"
    floor = figure.axes[0].transData.transform((0, 1.5))[1]
    guess = figure.axes[0].transData.transform((0, 4.07))[1]
    bottom, top = figure.axes[0].bbox.y0, figure.axes[0].bbox.y1
    assert (guess - floor) / (top - bottom) > 0.25, "and what lies between floor and guess is readable all the same"
    assert low < 1.5


def test_a_long_curve_is_thinned_but_keeps_its_end() -> None:
    plan = made.plan({"seed": [0]}, steps=3000)
    (config,) = plan.configs.values()
    record = made.dead(config, 2999)
    (curve,) = curves_of(plan, {record.run_id: record}).curves
    assert len(curve.train) <= figuredata.POINTS + 1
    assert curve.train[-1][0] == 2999
    assert [step for step, _ in curve.validation] == list(range(0, 2999, 25))


@pytest.mark.parametrize("content", [None, "step,lr,train_loss,grad_norm,val_loss\n"])
@pytest.mark.parametrize(("initial", "final"), [(4.0, 1e9), (50.0, 20.0), (4.0, 1.9)])
def test_a_run_that_lost_its_curve_is_drawn_without(
    tmp_path: Path, content: str | None, initial: float, final: float
) -> None:
    plan = made.plan({"lr": [1e-3]}, depth=2)
    store, config = Store(tmp_path / "x"), plan.points[0].config
    store.begin(plan, [], force=False)
    store.write(made.done(config, final, initial=initial))
    path = store.folder / "runs" / config.run_id / "curve.csv"
    path.unlink() if content is None else path.write_text(content, "utf-8")
    report.rebuild(store, figures=True)
    assert (store.folder / "figures" / "curves.png").is_file()


def test_control_characters_are_not_drawn() -> None:
    plan = made.plan({"norm": ["ln", "none"]}, depth=2, title="a\x1b[31m\tb \ud800")
    records = {
        run_id: made.dead(config, 3) if config.norm == "none" else made.done(config, 1.9)
        for run_id, config in plan.configs.items()
    }
    curves = curves_of(plan, records)
    strange = [
        replace(curve, panel="p\x1b", label="l\x07", death=curve.death and replace(curve.death, kind="\x1b"))
        for curve in curves.curves
    ]
    figure = draw_curves(replace(curves, curves=strange))
    render(figure)
    assert figure.get_suptitle() == "a\ufffd[31m b \ufffd"
    assert not any(CONTROL.search(text.get_text()) for text in figure.findobj(Text))


def test_a_figure_is_the_same_each_time(plan: Plan, records: dict[str, RunRecord]) -> None:
    one, two = (render(draw_curves(curves_of(plan, records))) for _ in range(2))
    assert one == two
    assert b"<dc:date>" not in one["svg"]
    assert imread(io.BytesIO(one["png"]), format="png").shape[1] > 600


def test_a_picture_by_a_palette_keeps_its_lines(plan: Plan, records: dict[str, RunRecord]) -> None:
    picture = Image.open(io.BytesIO(render(draw_curves(curves_of(plan, records)))["png"]))
    assert picture.mode == "P"
    found = {color for _, color in picture.convert("RGB").getcolors(PNG_COLORS) or []}
    for wanted in ((255, 255, 255), (0, 0x72, 0xB2), (0xD5, 0x5E, 0)):
        assert min(max(abs(a - b) for a, b in zip(wanted, color, strict=True)) for color in found) < 24


def test_lr_sensitivity_counts_the_dead_as_infinite(plan: Plan, records: dict[str, RunRecord]) -> None:
    found = figuredata.lr_sensitivity(plan, tables.runs(plan, records))
    assert found is not None
    data = found.data.set_index(["line", "lr"])
    row = data.loc[("norm none", 1e-2)]
    assert (row["nonfinite"], row["planned"], row["median_val_loss"]) == (2, 3, math.inf)
    assert (row["lowest_val_loss"], row["highest_val_loss"]) == (3.0, 3.0)
    row = data.loc[("norm ln", 1e-3)]
    assert (row["nonfinite"], row["median_val_loss"]) == (0, pytest.approx(1.9))
    assert (row["lowest_val_loss"], row["highest_val_loss"]) == (1.8, 2.0)
    figure = draw_lr_sensitivity(found)
    assert crosses(figure) == [(1e-2, 1.0)]
    assert "2/3" in [text.get_text() for text in figure.axes[0].texts]
    render(figure)


@pytest.mark.parametrize("seeds", [[0], [0, 1]])
def test_lines_that_die_at_one_rate_have_a_cross_each(seeds: list[int]) -> None:
    axes = {"norm": ["ln", "rms", "none"], "lr": [1e-4, 1e-3, 1e-2], "seed": seeds}
    plan = made.plan(axes, depth=2)
    ends = {
        run_id: made.dead(config, 3) if config.lr > 5e-3 else made.done(config, 1.9)
        for run_id, config in plan.configs.items()
    }
    found = figuredata.lr_sensitivity(plan, tables.runs(plan, ends))
    assert found is not None
    figure = draw_lr_sensitivity(found)
    figure.draw_without_rendering()
    drawn = [line for line in figure.axes[0].lines if line.get_marker() == "X"]
    assert len({line.get_color() for line in drawn}) == 3
    places = sorted(float(line.get_transform().transform(line.get_xydata()[0])[0]) * 72 / figure.dpi for line in drawn)
    low, high = figure.axes[0].get_xlim()
    assert low < 1e-4 < 1e-2 < high, "the rate at which all died is in the frame"
    middle = float(figure.axes[0].transData.transform((1e-2, 2.0))[0]) * 72 / figure.dpi
    assert places[1] == pytest.approx(middle)
    assert min(places[1] - places[0], places[2] - places[1]) >= 8, "a cross is 8 points wide"
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("non-finite" if len(seeds) == 1 else "non-finite (k/n: k of n runs)") in names
    assert [text.get_text() for text in figure.axes[0].texts].count("2/2") == (0 if len(seeds) == 1 else 3)


def test_lr_sensitivity_needs_two_rates() -> None:
    plan = made.plan({"norm": ["ln", "rms"]})
    assert figuredata.lr_sensitivity(plan, tables.runs(plan, {})) is None


def test_a_run_that_answers_two_points_is_drawn_once() -> None:
    plan = made.plan({"norm": ["none"], "position": ["post", "pre"], "lr": [1e-3, 1e-2]}, depth=2)
    records = {run_id: made.done(config, 1.9) for run_id, config in plan.configs.items()}
    assert len(curves_of(plan, records).curves) == 2
    found = figuredata.lr_sensitivity(plan, tables.runs(plan, records))
    assert found is not None
    assert len(found.lines) == 1


def test_layer_signal_shows_the_way_down(plan: Plan) -> None:
    configs = list(plan.configs.values())
    alive, dead = made.done(configs[0], 1.9), made.dead(configs[-1], 33)
    signal = figuredata.layer_signal({"alive": alive, "dead": dead}, title="signal")
    steps = {
        name: [(line.step, line.dying) for line in signal.lines if line.panel == name] for name in ("alive", "dead")
    }
    assert steps["alive"] == [(0, False), (25, False), (50, False), (100, False)]
    assert steps["dead"] == [(0, False), (2, True), (10, True), (18, True), (25, True), (33, True)]
    last = [line for line in signal.lines if line.panel == "dead"][-1]
    assert [layer for layer, _ in last.rms_by_layer] == [0, 1, 2, 3, 4, 5]
    assert last.rms_by_layer[-1][1] == math.inf
    assert "inf" in list(signal.data["rms"])
    figure = draw_layer_signal(signal)
    assert crosses(figure) == [(5, 1.0)]
    render(figure)


def test_many_lines_are_spread_over_panels() -> None:
    axes = {"depth": ["4", "8", "12"], "norm": ["ln", "rms"], "lr": [str(lr) for lr in range(6)], "seed": ["0", "1"]}
    items = [
        ({"label": "", "depth": depth, "norm": norm, "lr": lr, "seed": seed}, None)
        for depth in axes["depth"]
        for norm in axes["norm"]
        for lr in axes["lr"]
        for seed in axes["seed"]
    ]
    placed = place(items)
    assert len(placed) == len(items) == 72
    assert {panel for panel, _, _ in placed} == {"depth 4", "depth 8", "depth 12"}
    assert {label for _, label, _ in placed} == {f"norm {norm}, lr {lr}" for norm in axes["norm"] for lr in axes["lr"]}


def test_labels_stand_in_panels_of_their_own_with_the_keys_that_vary_there() -> None:
    norms = [({"label": "norms", "norm": norm, "position": "pre"}, norm) for norm in ("ln", "rms")]
    positions = [({"label": "positions", "norm": "ln", "position": name}, name) for name in ("pre", "post")]
    assert place(norms + positions) == [
        ("norms", "norm ln", "ln"),
        ("norms", "norm rms", "rms"),
        ("positions", "position pre", "pre"),
        ("positions", "position post", "post"),
    ]


def test_a_run_under_two_labels_is_drawn_under_both() -> None:
    one = made.plan({"lr": [1e-3, 1e-2]}, depth=2)
    points = [replace(point, label=label) for label in ("a", "b") for point in one.points]
    plan = replace(one, points=tuple(points))
    records = {run_id: made.done(config, 1.9) for run_id, config in plan.configs.items()}
    assert [curve.panel for curve in curves_of(plan, records).curves] == ["a", "a", "b", "b"]
    found = figuredata.lr_sensitivity(plan, tables.runs(plan, records))
    assert found is not None
    assert [line.panel for line in found.lines] == ["a", "b"]


def test_too_many_lines_are_left_out_and_counted() -> None:
    plan = made.plan({"lr": [index * 1e-5 for index in range(1, 201)]})
    records = {run_id: made.done(config, 1.9) for run_id, config in plan.configs.items()}
    curves = curves_of(plan, records)
    panels = {curve.panel for curve in curves.curves}
    assert len(panels) <= PANELS
    assert len(curves.curves) <= LABELS * PANELS
    assert curves.omitted == 200 - len(curves.curves) > 0
    title = draw_curves(curves).get_suptitle()
    assert title == f"A made-up sweep ({curves.omitted} runs not drawn)"


def test_lines_differ_in_grey() -> None:
    styles = line_styles(map(str, range(LABELS)))
    assert len({(style["linestyle"], style["marker"]) for style in styles.values()}) == LABELS


def test_loss_axis_is_linear_where_nothing_blows_up() -> None:
    calm = LossAxis.of([1.6, 4.3, math.nan, math.inf], [made.LOSSES])
    assert calm.bend == math.inf
    assert 4.3 < calm.rim < 4.6
    wild = LossAxis.of([1.6, 4e26], [made.LOSSES])
    assert math.isfinite(wild.bend)
    assert 4e26 < wild.rim < math.inf
    assert LossAxis.of([], []).rim > LossAxis.of([], []).low


def test_a_folder_gets_figures_with_their_data(plan: Plan, records: dict[str, RunRecord], tmp_path: Path) -> None:
    store = Store(tmp_path / "x")
    store.begin(plan, [], force=False)
    report.rebuild(store, figures=True)
    for record in list(records.values())[:7]:
        store.write(record)
    report.rebuild(store, figures=True)
    names = {path.name for path in (store.folder / "figures").iterdir()}
    assert names == {f"{name}.{suffix}" for name in ("curves", "lr_sensitivity") for suffix in ("svg", "png", "csv")}
    assert len(set(tables.read_csv(store.folder / "figures" / "curves.csv")["run_id"])) == 7
