"""Draw figures from data that was computed before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from normexp.plots.chart import Chart, Map
from normexp.plots.lines import draw_chart
from normexp.plots.maps import draw_map
from normexp.plots.panels import panel_grid
from normexp.plots.runs import LayerLine, LayerSignal
from normexp.plots.style import MARKERS, ON_TOP, PLAIN_NUMBERS, Look, render
from normexp.records.record import Death

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_layer_signal", "render"]

LAYER_HEIGHT = 0.3
"""Height of a panel over its width. The panels are stacked, with the legends beside them."""


def draw(data: Chart | Map, look: Look | None = None) -> Figure:
    """Draw a chart or a map. The default look is that of reports: light, full width."""
    look = look or Look()
    return draw_map(data, look) if isinstance(data, Map) else draw_chart(data, look)


def draw_layer_signal(signal: LayerSignal, look: Look | None = None) -> Figure:
    """Draw the RMS of the residual stream by layer, one panel per network.

    Lines of training are blue, and those of the last steps before a run became non-finite orange and dashed.
    """
    look = look or Look()
    panels: dict[str, list[LayerLine]] = {}
    for line in signal.lines:
        panels.setdefault(line.panel, []).append(line)

    head = max((layer for line in signal.lines for layer, _ in line.rms_by_layer), default=0)

    def draw_panel(ax: Axes, name: str) -> None:
        for line, style in zip(panels[name], _layer_styles(panels[name], look), strict=True):
            finite = {layer: rms for layer, rms in line.rms_by_layer if math.isfinite(rms) and rms > 0}
            ax.plot(list(finite), list(finite.values()), **style)
        if name in signal.deaths:
            _mark_death(ax, signal.deaths[name], style["color"], look)
        ax.set(xlabel=f"layer (0: embedding; {head}: LM head input)", ylabel="RMS", yscale="log")
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)

    cross = Line2D([], [], color=look.theme.grey, **look.cross)
    handles = {"first non-finite layer": cross} if signal.deaths else {}
    margin = look.cross_points if signal.deaths else 0.0
    return panel_grid(
        look,
        signal.title,
        list(panels),
        draw_panel,
        handles=handles,
        columns=1,
        top_margin=lambda name: margin,
        height=LAYER_HEIGHT,
    )


def _mark_death(ax: Axes, death: Death, color: Any, look: Look) -> None:
    """Draw a cross above the first non-finite layer, labelled with the fault, the layer and the step."""
    ax.plot([death.layer], [1.0], color=color, transform=ax.get_xaxis_transform(), **ON_TOP, **look.cross)
    beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "size": look.small, "color": color}
    on_the_left = death.layer > sum(ax.get_xlim()) / 2
    beside |= {"ha": "right" if on_the_left else "left", "annotation_clip": False}
    text = f"{death.fault}, layer {death.layer}, step {death.step}"
    shift = look.cross["markersize"] * (-1 if on_the_left else 1)
    ax.annotate(text, (death.layer, 1.0), (shift, 0), xycoords=("data", "axes fraction"), **beside)


def _layer_styles(panel: Sequence[LayerLine], look: Look) -> list[dict[str, Any]]:
    styles: list[dict[str, Any]] = []
    for dying, colormap, dash in ((False, "Blues", "-"), (True, "Oranges", "--")):
        lines = [line for line in panel if line.dying is dying]
        for index, line in enumerate(lines):
            first = line.step == 0
            shade = mpl.colormaps[colormap](0.45 + 0.5 * index / max(1, len(lines) - 1))
            styles.append(
                {
                    "color": look.theme.ink if first else shade,
                    "label": "before training" if first else f"step {line.step}",
                    "linestyle": dash,
                    "linewidth": 1.3,
                    "marker": MARKERS[index % len(MARKERS)],
                    "markersize": 3,
                }
            )
    return styles
