"""The three figures, drawn from the numbers of figuredata: curves, learning-rate sensitivity, layer signal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator
from matplotlib.transforms import ScaledTranslation

from normexp.record import Outcome
from normexp.views.canvas import (
    GREY,
    MARKERS,
    PLAIN_NUMBERS,
    LossAxis,
    line_styles,
    mark_references,
    panel_figure,
    render,
)
from normexp.views.figuredata import (
    Curve,
    Curves,
    LayerLine,
    LayerSignal,
    Sensitivities,
    Sensitivity,
    deaths,
    finite_range,
)
from normexp.views.labels import plural, shown, value_text
from normexp.views.summary import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_curves", "draw_layer_signal", "draw_lr_sensitivity", "render"]

CROSS: dict[str, Any] = {"marker": "X", "markersize": 8, "markeredgecolor": "white", "linestyle": "none"}
BLOWN: dict[str, Any] = {"marker": "^", "markersize": 8, "markerfacecolor": "none", "linestyle": "none"}
ON_TOP: dict[str, Any] = {"clip_on": False, "zorder": 5}
TRAINING: dict[str, Any] = {"linewidth": 0.8, "alpha": 0.4}
NAMED_DEATHS = 4
"""Up to so many crosses of a panel have their step beside them."""
CROSS_POINTS = 13
"""Between the crosses of lines that die at one learning rate: less than a cross apart they would be one."""
RATES_POINTS = 200
"""About the width of a panel: crosses of one rate keep away from those of the next."""
NAMED_RATES = 7
"""Up to so many learning rates are the ticks of their axis."""


def draw_curves(curves: Curves) -> Figure:
    """Training loss (thin) and validation loss (marked) against step, with a cross where a run died."""
    losses = (loss for curve in curves.curves for _, loss in (*curve.train, *curve.validation))
    y = LossAxis.of(losses, [curve.losses for curve in curves.curves])
    styles = line_styles(curve.label for curve in curves.curves)
    last = max((step for curve in curves.curves for step, _ in (*curve.train, *curve.validation)), default=0) or 1

    def draw(ax: Axes, panel: Sequence[Curve]) -> None:
        dead = [curve for curve in panel if curve.death is not None]
        for curve in panel:
            _draw_curve(ax, curve, styles[curve.label], named=len(dead) <= NAMED_DEATHS)
        mark_references(ax, [curve.losses for curve in panel])
        y.apply(ax)
        ax.set(xlabel="step", ylabel="loss (nats)", xlim=(0, last * 1.02))

    handles = {label: Line2D([], [], **style) for label, style in styles.items() if label}
    handles["training"] = Line2D([], [], color=GREY, **TRAINING)
    handles["validation"] = Line2D([], [], color=GREY, marker="o", markersize=3)
    outcomes = {curve.outcome for curve in curves.curves}
    if Outcome.NONFINITE in outcomes:
        handles["first non-finite step"] = Line2D([], [], color=GREY, **CROSS)
    if outcomes & {Outcome.DIVERGED, Outcome.UNSETTLED}:
        handles["diverged or unsettled"] = Line2D([], [], color=GREY, **BLOWN)
    return panel_figure(curves.title + _omitted(curves.omitted, "run"), curves.curves, draw, handles)


def _draw_curve(ax: Axes, curve: Curve, style: dict[str, Any], *, named: bool) -> None:
    color = style["color"]
    for pairs, look in ((curve.train, {"color": color, **TRAINING}), (curve.validation, style)):
        ax.plot([step for step, _ in pairs], [loss if math.isfinite(loss) else math.nan for _, loss in pairs], **look)
    finite = [pair for pair in (*curve.validation[:1], *curve.train) if math.isfinite(pair[1])]
    if curve.death is not None:
        step, loss = curve.death.step, finite[-1][1] if finite else curve.losses.guess
        ax.plot([step], [loss], color=color, **CROSS, **ON_TOP)
        if named:
            box = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5}
            where: dict[str, Any] = {"textcoords": "offset points", "size": 7.5, "color": color, "bbox": box}
            ax.annotate(shown(f"{curve.death.kind} @{step}"), (step, loss), (5, 5), **where)
    elif curve.outcome in (Outcome.DIVERGED, Outcome.UNSETTLED) and curve.validation:
        ax.plot(*[[end] for end in curve.validation[-1]], color=color, **BLOWN, **ON_TOP)


def draw_lr_sensitivity(sensitivities: Sensitivities) -> Figure:
    """Final loss against learning rate: median over seeds, band from lowest to highest, crosses for the dead."""
    lines = sensitivities.lines
    references = [line.losses for line in lines if line.losses is not None]
    ends = [end for line in lines for _, cell in line.cells for end in finite_range(cell) if end is not None]
    y = LossAxis.of(ends, references)
    styles = line_styles(line.label for line in lines)
    rates = sorted({lr for line in lines for lr, _ in line.cells})

    def draw(ax: Axes, panel: Sequence[Sensitivity]) -> None:
        ax.set(xlabel="learning rate", ylabel="final validation loss (nats)", xscale="log", xlim=_rate_limits(rates))
        ax.xaxis.set_major_formatter(PLAIN_NUMBERS)
        if len(rates) <= NAMED_RATES:
            ax.set_xticks(rates, [value_text("lr", lr) for lr in rates])
            ax.xaxis.set_minor_locator(NullLocator())
        for line in panel:
            _draw_sensitivity(ax, line, styles[line.label])
        for rate in rates:
            dead = [(line.label, cell) for line in panel for lr, cell in line.cells if lr == rate and deaths(cell)]
            apart = min(CROSS_POINTS, RATES_POINTS / len(rates) / max(1, len(dead)))
            for index, (label, cell) in enumerate(dead):
                _mark_deaths(ax, rate, cell, styles[label]["color"], (index - (len(dead) - 1) / 2) * apart)
        mark_references(ax, [line.losses for line in panel if line.losses is not None])
        y.apply(ax)

    handles = {label: Line2D([], [], **style) for label, style in styles.items() if label}
    dead = [cell for line in lines for _, cell in line.cells if deaths(cell)]
    if dead:
        shares = " (k/n: k of n runs)" if any(len(cell.runs) > 1 for cell in dead) else ""
        handles[f"non-finite{shares}"] = Line2D([], [], color=GREY, **CROSS)
    return panel_figure(sensitivities.title + _omitted(sensitivities.omitted, "line"), lines, draw, handles)


def _draw_sensitivity(ax: Axes, line: Sensitivity, style: dict[str, Any]) -> None:
    medians = [cell.median if math.isfinite(cell.median) else math.nan for _, cell in line.cells]
    ax.plot([lr for lr, _ in line.cells], medians, **style)
    band = [(lr, *finite_range(cell)) for lr, cell in line.cells]
    lows = [math.nan if low is None else low for _, low, _ in band]
    highs = [math.nan if high is None else high for _, _, high in band]
    if any(low < high for low, high in zip(lows, highs, strict=True)):
        ax.fill_between([lr for lr, *_ in band], lows, highs, color=style["color"], alpha=0.15, linewidth=0)


def _rate_limits(rates: Sequence[float]) -> tuple[float, float]:
    """All rates with room beside them; matplotlib would not count those at which every line died."""
    room = max(1.1, (rates[-1] / rates[0]) ** 0.05)
    return rates[0] / room, rates[-1] * room


def _mark_deaths(ax: Axes, lr: float, cell: Cell, color: str, shift_points: float) -> None:
    """A cross at the top, where no loss is drawn, shifted so that those of several lines stand side by side."""
    to_inches = ax.figure.dpi_scale_trans
    beside = ax.get_xaxis_transform() + ScaledTranslation(shift_points / 72, 0, to_inches)
    ax.plot([lr], [1.0], transform=beside, color=color, **CROSS, **ON_TOP)
    if len(cell.runs) > 1:
        share = f"{deaths(cell)}/{len(cell.runs)}"
        where: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "size": 7, "color": color}
        ax.annotate(share, (lr, 1.0), (shift_points, 5), xycoords=("data", "axes fraction"), **where)


def draw_layer_signal(signal: LayerSignal) -> Figure:
    """Stream RMS by layer, one panel a network: before training black, later blue, on the way down orange, dashed."""

    def draw(ax: Axes, panel: Sequence[LayerLine]) -> None:
        for line, look in zip(panel, _layer_styles(panel), strict=True):
            finite = [(layer, rms) for layer, rms in line.rms_by_layer if math.isfinite(rms) and rms > 0]
            ax.plot([layer for layer, _ in finite], [rms for _, rms in finite], **look)
            lost = next((layer for layer, rms in line.rms_by_layer if not math.isfinite(rms)), None)
            if lost is not None:
                ax.plot([lost], [1.0], transform=ax.get_xaxis_transform(), color=look["color"], **CROSS, **ON_TOP)
        ax.set(xlabel="layer", ylabel="activation RMS", yscale="log")
        ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=7.5)

    lost = any(not math.isfinite(rms) for line in signal.lines for _, rms in line.rms_by_layer)
    handles = {"first non-finite layer": Line2D([], [], color=GREY, **CROSS)} if lost else {}
    return panel_figure(signal.title, signal.lines, draw, handles, width_inches=4.4)


def _layer_styles(panel: Sequence[LayerLine]) -> list[dict[str, Any]]:
    looks: list[dict[str, Any]] = []
    for dying, colormap, dash in ((False, "Blues", "-"), (True, "Oranges", "--")):
        lines = [line for line in panel if line.dying is dying]
        for index, line in enumerate(lines):
            first = line.step == 0
            looks.append(
                {
                    "color": "black" if first else mpl.colormaps[colormap](0.45 + 0.5 * index / max(1, len(lines) - 1)),
                    "label": "before training" if first else f"step {line.step}",
                    "linestyle": dash,
                    "linewidth": 1.4,
                    "marker": MARKERS[index % len(MARKERS)],
                    "markersize": 3,
                }
            )
    return looks


def _omitted(count: int, noun: str) -> str:
    return f" ({plural(count, noun)} not drawn)" if count else ""
