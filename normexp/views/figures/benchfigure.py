"""A benchmark of norms, drawn: ratios to LayerNorm by shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from normexp.labels import plural
from normexp.timing import Timing
from normexp.views.bench import Series, series
from normexp.views.figures.canvas import MARKERS, PLAIN_NUMBERS
from normexp.views.figures.chartaxes import name_ticks
from normexp.views.figures.look import Look
from normexp.views.figures.panelgrid import columns_of, panel_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Time of RMSNorm relative to LayerNorm"
FINE = 10
"""Below this ratio of its ends the axis of ratios has ticks between powers of two."""


def draw(rows: Sequence[Timing], look: Look | None = None) -> Figure:
    """Ratio to LayerNorm by shape, forward in one panel and with backward in another; bars: 10th to 90th percentile.

    A norm has its colour, a number of threads its marker.
    """
    look = look or Look()
    shapes, lines = series(rows)
    threads = list(dict.fromkeys(line.threads for line in lines))
    styles = _styles(list(dict.fromkeys(line.norm for line in lines)), threads, look)
    places = {key: (index - (len(styles) - 1) / 2) * 0.7 / len(styles) for index, key in enumerate(styles)}
    ends = [1.0, *(end for line in lines for _, row in line.points for end in (row.ratio_p10, row.ratio_p90))]
    panels = list(dict.fromkeys(line.panel for line in lines))
    panel_points = look.width.inches / columns_of(len(panels), look, None) * 72 * 0.8

    def panel(ax: Axes, name: str) -> None:
        for line in lines:
            if line.panel == name:
                _draw_series(ax, line, places[line.norm, line.threads], styles[line.norm, line.threads])
        ax.axhline(1, color=look.theme.grey, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
        ax.set(xlabel="shape", ylabel="time / LayerNorm's", xlim=(-0.5, len(shapes) - 0.5))
        name_ticks(ax, range(len(shapes)), shapes, look, panel_points)
        _ratio_axis(ax, min(ends) / 1.1, max(ends) * 1.1)

    handles = {
        f"{norm}, {plural(count, 'thread')}" if len(threads) > 1 else norm: Line2D([], [], **style)
        for (norm, count), style in styles.items()
    }
    handles["LayerNorm"] = Line2D([], [], color=look.theme.grey, linewidth=0.8, linestyle=(0, (1, 2)))
    return panel_grid(look, TITLE, panels, panel, handles=handles)


def _styles(norms: Sequence[str], threads: Sequence[int], look: Look) -> dict[tuple[str, int], dict[str, Any]]:
    colors = look.theme.colors
    return {
        (norm, count): {
            "color": colors[norms.index(norm) % len(colors)],
            "marker": MARKERS[threads.index(count) % len(MARKERS)],
            "markersize": 4,
            "linestyle": "none",
        }
        for count in threads
        for norm in norms
    }


def _draw_series(ax: Axes, line: Series, shift: float, style: dict[str, Any]) -> None:
    places = [place + shift for place, _ in line.points]
    middle = [row.ratio for _, row in line.points]
    below = [row.ratio - row.ratio_p10 for _, row in line.points]
    above = [row.ratio_p90 - row.ratio for _, row in line.points]
    ax.errorbar(places, middle, yerr=[below, above], elinewidth=1.1, **style)


def _ratio_axis(ax: Axes, low: float, high: float) -> None:
    fine = (0.6, 0.8, 1.2, 1.5, 3) if high / low < FINE else ()
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    ax.set_yticks([tick for tick in (*(2.0**power for power in range(-10, 11)), *fine) if low <= tick <= high])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
