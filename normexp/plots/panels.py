"""Lay out panels in a grid with shared axes, and the legend and notes below them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from normexp.config.labels import shown
from normexp.plots.style import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALLEST, LARGEST = 1.15, 3.4
"""Minimum and maximum height of a panel in inches."""
FLAT, SQUARE = 0.52, 0.8
"""Height of a panel over its width: for a single panel, and for one of several."""
LINE = 1.35
"""Height of a line of text relative to its font size."""


def wrapped(text: str, letters: int) -> str:
    """Wrap user text into lines of at most this many letters; existing line breaks are kept."""
    lines = shown(text).split("\n")
    return "\n".join("\n".join(textwrap.wrap(line, letters, break_long_words=True)) or line for line in lines)


def _lines(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def columns_of(count: int, look: Look, wanted: int | None) -> int:
    """Return the number of panels side by side: `wanted` if the width allows it, else a readable number."""
    most = look.width.columns
    if wanted is not None and wanted <= most:
        return wanted
    if wanted is not None and wanted % 2 == 0 and most >= 2:
        return 2
    return 2 if count == 4 else max(1, min(count, most, 3))


def panel_grid(
    look: Look,
    title: str,
    panels: Sequence[str],
    draw: Callable[[Axes, str], None],
    *,
    handles: Mapping[str, Any],
    notes: Sequence[str] = (),
    columns: int | None = None,
    y_group: Callable[[str], Hashable] = lambda panel: "",
    top_margin: Callable[[str], float] = lambda panel: 0.0,
    height: float | None = None,
) -> Figure:
    """Return a figure of these panels, in order. Panels with the same y group share their y axis.

    `top_margin` gives the room above a panel in points. `height` is the height of a panel over its width; the default
    suits line charts.
    """
    across = columns_of(max(1, len(panels)), look, columns)
    rows = max(1, math.ceil(len(panels) / across))
    panel_width, panel_height = _panel_inches(look, across, height)
    margins = [max(map(top_margin, panels[row * across : (row + 1) * across]), default=0.0) for row in range(rows)]
    points = look.width.points
    headline = wrapped(title, look.letters(look.width.inches, points * 1.2))
    names = [wrapped(panel, look.letters(panel_width * 0.78, points)) for panel in panels] or [""]
    name_lines = max(map(_lines, names))
    legend, legend_lines = _legend(look, handles, notes)
    text_points = _lines(headline) * points * 1.2 + legend_lines * look.small * 1.15
    inches = rows * (panel_height + name_lines * points * LINE / 72) + (sum(margins) + text_points * LINE) / 72 + 0.15
    with mpl.rc_context(look.style):
        layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.04, wspace=0.02, hspace=0.03)
        figure = Figure(figsize=(look.width.inches, inches), layout=layout)
        if headline:
            figure.suptitle(headline)
        axes = list(figure.subplots(rows, across, squeeze=False).flat)
        _share(axes, panels, y_group)
        for index, (ax, panel, name) in enumerate(zip(axes, panels, names, strict=False)):
            ax.set_title(name, pad=4 + margins[index // across])
            draw(ax, panel)
        _outer_only(axes, panels, across, y_group)
        if legend:
            entries = legend.pop("handles"), legend.pop("labels")  # positional: keywords must not be empty
            figure.legend(*entries, **legend).get_title().set_multialignment("center")
    return figure


def _panel_inches(look: Look, across: int, height: float | None) -> tuple[float, float]:
    width = look.width.inches / across
    ratio = height or (FLAT if across == 1 and look.width.inches > 5 else SQUARE)
    return width, min(LARGEST, max(SMALLEST, width * ratio))


def _share(axes: Sequence[Axes], panels: Sequence[str], y_group: Callable[[str], Hashable]) -> None:
    first: dict[Hashable, Axes] = {}
    for ax, panel in zip(axes, panels, strict=False):
        group = y_group(panel)
        if group in first:
            ax.sharey(first[group])
        first.setdefault(group, ax)
        if ax is not axes[0]:
            ax.sharex(axes[0])


def _outer_only(axes: Sequence[Axes], panels: Sequence[str], across: int, y_group: Callable[[str], Hashable]) -> None:
    """Remove tick labels and axis names that a neighbour repeats, and the axes of empty grid positions."""
    for index, ax in enumerate(axes):
        if index >= len(panels):
            ax.set_axis_off() if index else None
            continue
        group = y_group(panels[index])
        if index % across and y_group(panels[index - 1]) == group:
            ax.set_ylabel("")
            ax.tick_params(labelleft=False)
        if index + across < len(panels):
            ax.tick_params(labelbottom=False)
        if index // across < (len(panels) - 1) // across:
            ax.set_xlabel("")


def _legend(look: Look, handles: Mapping[str, Any], notes: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Return the arguments of `Figure.legend` (empty without handles and notes), and its height in lines."""
    if not handles and not notes:
        return {}, 0
    inches, small = look.width.inches, look.small
    names = [wrapped(name, look.letters(inches * 0.8, small)) for name in handles]
    longest = max((len(line) for name in names for line in name.split("\n")), default=1)
    across = max(1, min(len(names), int(look.letters(inches, small) / (longest + 7))))
    rows = math.ceil(len(names) / across)
    note_text = "\n".join(wrapped(note, look.letters(inches * 0.96, small)) for note in notes)
    location: Any = "outside lower center"
    lines = rows * max(map(_lines, names), default=0) + _lines(note_text)
    return {
        "handles": list(handles.values()),
        "labels": names,
        "loc": location,
        "ncols": across,
        "frameon": False,
        "title": note_text or None,
        "handlelength": 2.6,
        "columnspacing": 1.4,
        "labelspacing": 0.35,
        "borderpad": 0.2,
    }, lines
