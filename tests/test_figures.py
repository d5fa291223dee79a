"""Figures as drawn: crosses and words in their places, nothing cut off, and the same bytes each time."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import records as made
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from normexp.plan import Plan
from normexp.record import RunRecord, Traces
from normexp.results.store import Store
from normexp.views import report, tables
from normexp.views.figures import curves as figuredata
from normexp.views.figures.canvas import PNG_COLORS, LossAxis
from normexp.views.figures.chart import Chart, Map
from normexp.views.figures.choice import Choice, Source
from normexp.views.figures.drawing import draw, draw_layer_signal, render
from normexp.views.figures.kinds import KINDS, compute
from normexp.views.figures.linestyle import line_styles
from normexp.views.figures.look import DARK, LIGHT, THEMES, WIDTHS, Look
from normexp.views.figures.panels import LABELS
from normexp.views.labels import CONTROL

COLUMN = Look(width=WIDTHS["column"])


def figure_of(kind: str, plan: Plan, records: Mapping[str, RunRecord], **choice: object) -> Chart | Map:
    def traces(run_id: str) -> Traces:
        return records[run_id].traces or Traces(curve=())

    source = Source(plan=plan, records=records, runs=tables.runs(plan, records), traces=traces)
    return compute(kind, source, Choice(**choice))  # type: ignore[arg-type]


@pytest.fixture
def plan() -> Plan:
    axes = {"norm": ["ln", "none"], "lr": [1e-3, 1e-2], "seed": [0, 1, 2]}
    return made.plan(axes, depth=4, title=r"$dépth^_ \frac$ & <x>: a title that does not fit on one line of a column")


@pytest.fixture
def records(plan: Plan) -> dict[str, RunRecord]:
    """With a norm: learned. Without: at 1e-3 one loss of 1e9 in three, at 1e-2 two dead of three."""
    return made.torn(plan)


def crosses(figure: Figure) -> list[tuple[float, float]]:
    """Places of the crosses in all panels."""
    lines = [line for ax in figure.axes for line in ax.lines if line.get_marker() == "X"]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in lines]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def cut_off(figure: Figure) -> list[str]:
    """Words that reach beyond the figure, or that two titles write over each other."""
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    found = []
    unseen = [
        tick.label1
        for ax in figure.axes
        for axis, (low, high) in ((ax.xaxis, sorted(ax.get_xlim())), (ax.yaxis, sorted(ax.get_ylim())))
        for tick in axis.get_major_ticks()
        if not low <= tick.get_loc() <= high
    ]
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible() and text not in unseen:
            box = text.get_window_extent()
            if box.x0 < -2 or box.y0 < -2 or box.x1 > width + 2 or box.y1 > height + 2:
                found.append(text.get_text())
    boxes = [ax.title.get_window_extent() for ax in figure.axes if ax.title.get_text()]
    found += ["titles" for one in boxes for other in boxes if one is not other and one.overlaps(other)]
    return found


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
    assert {"training", "validation", "lowest to highest", "first non-finite step"} <= set(legend(figure))


def test_crosses_stand_above_a_scan_each_with_its_share(plan: Plan, records: dict[str, RunRecord]) -> None:
    figure = draw(figure_of("sensitivity", plan, records))
    assert crosses(figure) == [(1e-2, 1.0)]
    assert "2/3" in [text.get_text() for text in figure.axes[0].texts]
    hollow = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == LIGHT.ground]
    assert [list(line.get_ydata()) for line in hollow if len(line.get_ydata())] == [[3.0]]
    names = legend(figure)
    assert "norm ln (S 0.00)" in names
    assert "non-finite (k/n: k of n runs, else all)" in names


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


@pytest.mark.parametrize(
    "kind", [kind if kind in ("map", "signal") else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_every_kind_at_every_width_cuts_nothing_off(kind: str) -> None:
    axes = {
        "position": ["pre", "residual_scaled", "deepnorm"],
        "depth": [2, 40],
        "lr": [1e-4, 1e-3, 1e-2, 1e-1],
        "seed": [0, 1],
    }
    title = "Schemes with long names at two depths and four learning rates: $x_1$, 100 % & more"
    plan = made.plan(axes, width=16, title=title)
    ends = {}
    for run_id, config in plan.configs.items():
        dies = config.lr > 5e-2 and config.seed == 0
        ends[run_id] = made.dead(config, 9) if dies else made.done(config, 4.065 if config.lr > 5e-3 else 1.9)
    found = figure_of(kind, plan, ends)
    for width in WIDTHS.values():
        figure = draw(found, Look(width=width))
        assert not cut_off(figure), width
        assert figure.get_size_inches()[0] == width.inches
        assert title.split()[-2] in figure.get_suptitle()


def test_dark_is_dark_and_differs_in_nothing_else(plan: Plan, records: dict[str, RunRecord]) -> None:
    found = figure_of("sensitivity", plan, records)
    light, dark = (draw(found, Look(theme=theme)) for theme in (LIGHT, DARK))
    assert legend(light) == legend(dark)
    content = render(dark, ["png"])["png"]
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    (_, most), *_ = sorted(picture.getcolors(PNG_COLORS) or [], reverse=True)
    assert all(abs(part - wanted) < 3 for part, wanted in zip(most, (0x14, 0x16, 0x1A), strict=True)), DARK.ground


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


@pytest.mark.parametrize("content", [None, "step,lr,train_loss,grad_norm,val_loss\n"])
@pytest.mark.parametrize(("initial", "final"), [(4.0, 1e9), (50.0, 20.0), (4.0, 1.9)])
def test_a_run_that_lost_its_curve_is_drawn_without(content: str | None, initial: float, final: float) -> None:
    plan = made.plan({"lr": [1e-3]}, depth=2)
    (config,) = plan.configs.values()
    record = replace(made.done(config, final, initial=initial), traces=Traces(curve=()) if content else None)
    figure = draw(figure_of("curves", plan, {config.run_id: record}))
    figure.draw_without_rendering()
    assert len(figure.axes) == 1


def test_control_characters_are_not_drawn() -> None:
    plan = made.plan({"norm": ["ln", "none"]}, depth=2, title="a\x1b[31m\tb \ud800")
    records = {
        run_id: made.dead(config, 3) if config.norm == "none" else made.done(config, 1.9)
        for run_id, config in plan.configs.items()
    }
    found = figure_of("curves", plan, records)
    assert isinstance(found, Chart)
    strange = [
        replace(line, panel="p\x1b", label="l\x07", marks=[replace(mark, text="\x1b") for mark in line.marks])
        for line in found.lines
    ]
    figure = draw(replace(found, lines=strange, notes=("n\x1b",)))
    figure.draw_without_rendering()
    assert figure.get_suptitle() == "a\ufffd[31m b \ufffd"
    assert not any(CONTROL.search(text.get_text()) for text in figure.findobj(Text))


def test_a_figure_is_the_same_each_time(plan: Plan, records: dict[str, RunRecord]) -> None:
    one, two = (render(draw(figure_of("sensitivity", plan, records)), ["svg", "pdf"]) for _ in range(2))
    assert one == two
    assert b"<dc:date>" not in one["svg"]
    assert b"CreationDate" not in one["pdf"]


def test_a_picture_by_a_palette_keeps_its_lines(plan: Plan, records: dict[str, RunRecord]) -> None:
    found = figure_of("sensitivity", plan, records)
    one, picture_bytes = (render(draw(found), ["png"])["png"] for _ in range(2))
    assert one == picture_bytes
    picture = Image.open(io.BytesIO(picture_bytes))
    assert picture.width > 600
    assert picture.mode == "P"
    colors = {color for _, color in picture.convert("RGB").getcolors(PNG_COLORS) or []}
    for wanted in ((255, 255, 255), (0, 0x72, 0xB2), (0xD5, 0x5E, 0)):
        assert min(max(abs(a - b) for a, b in zip(wanted, color, strict=True)) for color in colors) < 24  # type: ignore[arg-type]


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
    assert crosses(draw_layer_signal(signal)) == [(5, 1.0)]


@pytest.mark.parametrize("theme", THEMES.values())
def test_lines_differ_in_grey(theme: object) -> None:
    for lines in (
        {str(index): {"norm": f"n{index}"} for index in range(LABELS)},
        {str(index): {"lr": str(index)} for index in range(LABELS)},
        {f"{lr} {norm}": {"lr": str(lr), "norm": norm} for lr in range(4) for norm in ("ln", "rms", "none")},
        {f"{lr} {norm}": {"lr": str(lr), "norm": norm, "x": norm} for lr in range(4) for norm in ("ln", "rms")},
    ):
        styles = line_styles(lines, theme)  # type: ignore[arg-type]
        assert len({(style["linestyle"], style["marker"]) for style in styles.values()}) == len(lines)


def test_what_goes_together_looks_alike() -> None:
    lines = {f"{lr} {norm}": {"lr": lr, "norm": norm} for norm in ("ln", "none") for lr in ("0.001", "0.01", "0.1")}
    styles = line_styles(lines, LIGHT)
    assert styles["0.001 ln"]["color"] == styles["0.001 none"]["color"] != styles["0.01 ln"]["color"]
    assert styles["0.001 ln"]["linestyle"] == styles["0.1 ln"]["linestyle"] != styles["0.1 none"]["linestyle"]


def test_loss_axis_is_linear_where_nothing_blows_up() -> None:
    calm = LossAxis.of([1.6, 4.3, math.nan, math.inf], [made.LOSSES])
    assert calm.bend == math.inf
    assert 4.3 < calm.rim < 4.6
    wild = LossAxis.of([1.6, 4e26], [made.LOSSES])
    assert math.isfinite(wild.bend)
    assert 4e26 < wild.rim < math.inf
    assert LossAxis.of([], []).rim > LossAxis.of([], []).low


def test_a_folder_gets_figures_with_their_data(tmp_path: Path) -> None:
    plan = made.plan({"lr": [1e-3, 1e-2], "seed": [0, 1]}, depth=2)
    store = Store(tmp_path / "x")
    store.begin(plan, [], force=False)
    for config in list(plan.configs.values())[:3]:
        store.write(made.done(config, 1.9))
    (store.folder / "runs" / next(iter(plan.configs)) / "curve.csv").write_text("broken", "utf-8")
    report.rebuild(store, figures=True)
    names = {path.name for path in (store.folder / "figures").iterdir()}
    kinds = ("curves", "lr_sensitivity", "signal")
    assert names == {f"{name}.{suffix}" for name in kinds for suffix in ("svg", "png", "csv")}
    data = tables.read_csv(store.folder / "figures" / "lr_sensitivity.csv")
    assert list(data["runs"].astype(int)) == [2, 1]


def test_notes_stand_below_a_figure_that_needs_no_legend() -> None:
    one = made.plan({}, depth=2)
    records = {
        run_id: replace(made.done(config, 1.9), seconds={"steps": 1.0}) for run_id, config in one.configs.items()
    }
    figure = draw(figure_of("speed", one, records))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_title().get_text().startswith("Times depend on the machine")


@pytest.mark.parametrize("kind", ["curves", "sensitivity", "map"])
def test_a_sweep_without_a_result_has_its_figures(kind: str, plan: Plan) -> None:
    draw(figure_of(kind, plan, {})).draw_without_rendering()
