"""The axes of a chart: scales, limits, and ticks that have room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from normexp.keys import Value
from normexp.labels import exact_text, shown
from normexp.views.figures.canvas import PLAIN_NUMBERS
from normexp.views.figures.chart import LOG, LOSS, NAMES, SHARE, Axis, Chart
from normexp.views.figures.look import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED_TICKS = 7
"""Up to so many values of an axis are its ticks."""
SLANT = 35
"""Degrees of words that have not the room to stand level."""
COUNTED = ("step", "layer")
"""Axes of so many values that ticks stand at round ones."""


def place(axis: Axis, x: Value) -> float:
    """A value on an x axis."""
    return float(axis.values.index(x)) if axis.scale == NAMES else float(x)


def set_x(ax: Axes, chart: Chart, look: Look, panel_points: float) -> None:
    """Scale, limits and ticks: the values themselves where they are few."""
    axis = chart.x
    if axis.scale == NAMES:
        _set_names(ax, axis, look, panel_points)
        return
    values = sorted({place(axis, spot.x) for line in chart.lines for spot in line.spots}) or [1.0]
    if axis.scale == LOG:
        ratio = values[-1] / values[0]
        room = max(min(1.15, ratio**0.25), ratio**0.06) if ratio > 1 else 1.15
        ax.set(xscale="log", xlim=(values[0] / room, values[-1] * room))
        ax.xaxis.set_major_formatter(PLAIN_NUMBERS)
    elif axis.key == "step":
        ax.set_xlim(0, (values[-1] or 1) * 1.02)
    else:
        room = 0.05 * (values[-1] - values[0] or 1)
        ax.set_xlim(values[0] - room, values[-1] + room)
    known = dict(zip(map(float, axis.values), axis.names, strict=True))
    texts = [known.get(value, exact_text(value)) for value in values]
    few = len(values) <= NAMED_TICKS and _fit(texts, look, panel_points)
    within_decade = axis.scale == LOG and values[-1] < 10 * values[0]  # where no tick of a power of ten need stand
    if axis.key not in COUNTED and (few or within_decade):
        ax.set_xticks(values, _with_room(ax, values, texts, look, panel_points))
        ax.xaxis.set_minor_locator(NullLocator())
    elif axis.scale == LOG:
        ax.xaxis.set_major_locator(LogLocator(numticks=5))
        ax.xaxis.set_minor_locator(FixedLocator(values))
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        most = max(3, int(panel_points / (look.small * 4.5)))
        ax.xaxis.set_major_locator(MaxNLocator(min(6, most), integer=axis.key in (*COUNTED, "depth")))


def _set_names(ax: Axes, axis: Axis, look: Look, panel_points: float) -> None:
    ax.set_xlim(-0.6, len(axis.names) - 0.4)
    name_ticks(ax, range(len(axis.names)), axis.names, look, panel_points)


def name_ticks(ax: Axes, places: Sequence[float], names: Sequence[str], look: Look, panel_points: float) -> None:
    """Words along x, aslant where they have not the room."""
    ax.set_xticks(places, [shown(name) for name in names])
    if len(names) * max(map(len, names), default=0) * look.small * 0.6 > panel_points:
        ax.tick_params(axis="x", labelrotation=SLANT)
        for text in ax.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")


def _fit(texts: Sequence[str], look: Look, panel_points: float) -> bool:
    """Whether ticks, about evenly spread, leave room between them."""
    return len(texts) * (max(map(len, texts)) + 1) * look.small * 0.55 < panel_points


def _with_room(
    ax: Axes, values: Sequence[float], texts: Sequence[str], look: Look, panel_points: float
) -> Sequence[str]:
    """The texts of ticks, empty where one would overlap the last, or another before it."""
    low, high, *places = ax.transScale.transform([(value, 1.0) for value in (*ax.get_xlim(), *values)])[:, 0]
    centers = [float((place - low) / (high - low)) * panel_points for place in places]
    halves = [(len(text) + 1) * look.small * 0.275 for text in texts]
    kept: list[int] = []
    last = len(texts) - 1
    for index in range(len(texts)):
        beside = [*kept[-1:], *([last] if index != last else [])]
        if all(abs(centers[index] - centers[other]) >= halves[index] + halves[other] for other in beside):
            kept.append(index)
    return [text if index in kept else "" for index, text in enumerate(texts)]


def set_y(ax: Axes, axis: Axis, chart: Chart) -> None:
    """Scale and numbers; that of losses is set by LossAxis."""
    if axis.scale == SHARE:
        ax.set_ylim(-0.04, 1.04)
    elif axis.scale == LOG:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
        ax.yaxis.set_minor_formatter(NullFormatter())
    elif axis.scale != LOSS:
        highest = [spot.high for line in chart.lines for spot in line.spots if spot.high is not None]
        ax.set_ylim(0, max(highest, default=1.0) * 1.08)
