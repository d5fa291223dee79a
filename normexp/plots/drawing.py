"""Figures, drawn from their data; the data is computed apart."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
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

__all__ = ["draw", "draw_layer_signal", "images", "render"]

LAYER_HEIGHT = 0.3
"""Of a panel over its width: they stand one above the other, each with its legend beside it."""


def draw(made: Chart | Map, look: Look | None = None) -> Figure:
    """A figure of any kind; without a look, as in a report: light, a page wide."""
    look = look or Look()
    return draw_map(made, look) if isinstance(made, Map) else draw_chart(made, look)


def images(charts: Sequence[Chart | Map]) -> list[dict[str, bytes]]:
    """Draw the figures of a report: a mapping of format to file for each chart, in order.

    Every second chart is drawn in another process, if there is a processor for it and this process has no other thread,
    which a fork might leave with a lock held.
    """
    alone = sys.platform != "linux" or (os.cpu_count() or 1) < 2 or threading.active_count() > 1
    if alone or len(charts) < 2:
        return [render(draw(chart)) for chart in charts]
    receiver, sender = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_send, args=(sender, charts[1::2]), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 on, which counts the threads of BLAS
        process.start()
    sender.close()
    try:
        first = [render(draw(chart)) for chart in charts[::2]]
        try:
            second = receiver.recv()
        except EOFError:  # the other process is gone
            second = [render(draw(chart)) for chart in charts[1::2]]
    finally:
        receiver.close()
        process.kill()
        process.join()
    return [(second if index % 2 else first)[index // 2] for index in range(len(charts))]


def _send(sender: Connection, charts: Sequence[Chart | Map]) -> None:
    """Draw charts in a process of their own. Ctrl-C is for the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sender.send([render(draw(chart)) for chart in charts])


def draw_layer_signal(signal: LayerSignal, look: Look | None = None) -> Figure:
    """Stream RMS by layer, one panel a network: before training, later in blue, on the way down in orange, dashed."""
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
        ax.set(xlabel=f"layer (0: embedding; {head}: what enters the head)", ylabel="RMS", yscale="log")
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)

    cross = Line2D([], [], color=look.theme.grey, **look.cross)
    handles = {"first non-finite layer": cross} if signal.deaths else {}
    rim = look.cross_points if signal.deaths else 0.0
    return panel_grid(
        look,
        signal.title,
        list(panels),
        draw_panel,
        handles=handles,
        columns=1,
        rim=lambda name: rim,
        height=LAYER_HEIGHT,
    )


def _mark_death(ax: Axes, death: Death, color: Any, look: Look) -> None:
    """A cross above the first non-finite layer, with what became non-finite there, and when."""
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
