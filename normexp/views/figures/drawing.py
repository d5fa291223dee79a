"""Figures, drawn from their data; the data is computed apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.lines import Line2D

from normexp.views.figures.canvas import GREY, MARKERS, PLAIN_NUMBERS, panel_figure, render
from normexp.views.figures.chart import Chart, Map
from normexp.views.figures.chartfigure import draw_chart
from normexp.views.figures.curves import LayerLine, LayerSignal
from normexp.views.figures.look import Look
from normexp.views.figures.mapfigure import draw_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_layer_signal", "render"]

CROSS: dict[str, Any] = {"marker": "X", "markersize": 8, "markeredgecolor": "white", "linestyle": "none"}
ON_TOP: dict[str, Any] = {"clip_on": False, "zorder": 5}


def draw(made: Chart | Map, look: Look | None = None) -> Figure:
    """A figure of any kind; without a look, as in a report: light, a page wide."""
    look = look or Look()
    return draw_map(made, look) if isinstance(made, Map) else draw_chart(made, look)


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
