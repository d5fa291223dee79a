"""Drawn figures: nothing is cut off, output is reproducible, and lines differ in grey and in the dark theme."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
import records as made
from charts import figure_of
from drawn import cut_off, legend, torn_plan
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from normexp.analysis import frames
from normexp.config.labels import CONTROL
from normexp.config.plan import Plan
from normexp.plots.chart import LABELS, Chart
from normexp.plots.drawing import draw, render
from normexp.plots.kinds import KINDS
from normexp.plots.style import DARK, LIGHT, PNG_COLORS, THEMES, WIDTHS, Look, line_styles
from normexp.records.record import RunRecord, Traces
from normexp.report import report
from normexp.storage.store import Store


@pytest.fixture
def plan() -> Plan:
    return torn_plan()


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


@pytest.mark.parametrize("traces", [None, Traces(curve=())])
@pytest.mark.parametrize(("initial", "final"), [(4.0, 1e9), (50.0, 20.0), (4.0, 1.9)])
def test_a_run_that_lost_its_curve_is_drawn_without(traces: Traces | None, initial: float, final: float) -> None:
    plan = made.plan({"lr": [1e-3]}, depth=2)
    (config,) = plan.configs.values()
    record = replace(made.done(config, final, initial=initial), traces=traces)
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
        assert min(max(abs(a - b) for a, b in zip(wanted, color, strict=True)) for color in colors) < 8  # type: ignore[arg-type]


def test_by_a_palette_bands_keep_the_colours_of_their_lines() -> None:
    figure = Figure(figsize=(12, 4), dpi=150)
    xs = [step / 50 for step in range(51)]
    for ax in figure.subplots(1, 3):
        for number, color in enumerate(LIGHT.colors[:6]):
            ys = [math.sin(3 * x + number) for x in xs]
            ax.fill_between(xs, [y - 0.05 for y in ys], [y + 0.05 for y in ys], color=color, alpha=LIGHT.band, lw=0)
            ax.plot(xs, ys, color=color)
    picture = Image.open(io.BytesIO(render(figure, ["png"])["png"])).convert("RGB")
    colors_of_picture = [color for _, color in picture.getcolors(PNG_COLORS) or []]
    for color in LIGHT.colors[:6]:
        band = [255 * (1 - LIGHT.band * (1 - part)) for part in to_rgb(color)]
        assert min(max(abs(a - b) for a, b in zip(band, found, strict=True)) for found in colors_of_picture) < 4  # type: ignore[arg-type]


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
    data = frames.read_csv(store.folder / "figures" / "lr_sensitivity.csv")
    assert list(data["runs"].astype(int)) == [2, 1]


def test_notes_stand_below_a_figure_that_needs_no_legend() -> None:
    one = made.plan({}, depth=2)
    records = {
        run_id: replace(made.done(config, 1.9), seconds={"steps": 1.0}) for run_id, config in one.configs.items()
    }
    figure = draw(figure_of("speed", one, records))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert "machine" in legend.get_title().get_text()


@pytest.mark.parametrize("kind", ["curves", "sensitivity", "map"])
def test_a_sweep_without_results_has_figures(kind: str, plan: Plan) -> None:
    draw(figure_of(kind, plan, {})).draw_without_rendering()
