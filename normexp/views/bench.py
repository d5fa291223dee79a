"""A benchmark of norms as tables, CSV and a figure."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from normexp.timing import BOTH, FORWARD, STEP, Timing
from normexp.views.labels import plural
from normexp.views.pivot import TextTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Time of RMSNorm relative to LayerNorm"
MANY_US = 1e4
FINE = 10
"""Below this ratio of its ends the axis of ratios has ticks between powers of two."""
SPREAD = "In brackets: 10th to 90th percentile over rounds. Ratios are taken within a round."
SHARE = "The share of norms is what a step takes more than one with norm none in the same round."


def tables(rows: Sequence[Timing]) -> list[TextTable]:
    """A table for each part and number of threads."""
    found: dict[tuple[str, int, str], list[Timing]] = {}
    for row in rows:
        found.setdefault((row.part, row.threads, row.where if row.part == STEP else ""), []).append(row)
    made = [
        _step_table(where, threads, part_rows) if part == STEP else _table(part, threads, part_rows)
        for (part, threads, where), part_rows in found.items()
    ]
    last = max((index for index, table in enumerate(made) if not table.note), default=None)
    return [dataclasses.replace(table, note=SPREAD) if index == last else table for index, table in enumerate(made)]


def _table(part: str, threads: int, rows: Sequence[Timing]) -> TextTable:
    return TextTable(
        title=f"{part.capitalize()}, {plural(threads, 'thread')}",
        header=("shape", "norm", "time", "ratio to LN", "params"),
        rows=tuple((row.where, row.norm, _time(row), _ratio(row), str(row.parameters)) for row in rows),
    )


def _step_table(where: str, threads: int, rows: Sequence[Timing]) -> TextTable:
    return TextTable(
        title=f"{STEP.capitalize()}: {where}, {plural(threads, 'thread')}",
        header=("norm", "time", "ratio to ln", "share of norms", "params"),
        rows=tuple((row.norm, _time(row), _ratio(row), _share(row), str(row.parameters)) for row in rows),
        note=f"{SHARE} {SPREAD}",
    )


def _time(row: Timing) -> str:
    """In microseconds, from ten thousand on in milliseconds."""
    unit, factor = ("µs", 1.0) if row.median_us < MANY_US else ("ms", 1e-3)
    median, low, high = (_three(time * factor) for time in (row.median_us, row.p10_us, row.p90_us))
    return f"{median} {unit} ({low}–{high})"


def _three(number: float) -> str:
    """Three significant digits, never as a power."""
    return f"{number:.0f}" if number >= 100 else f"{number:#.3g}".rstrip(".")


def _ratio(row: Timing) -> str:
    found = (row.ratio, row.ratio_p10, row.ratio_p90)
    median, low, high = (f"{ratio:.2f}" if ratio < 10 else _three(ratio) for ratio in found)
    return f"{median} ({low}–{high})"


def _share(row: Timing) -> str:
    if math.isnan(row.share) or row.share == row.share_p10 == row.share_p90 == 0:
        return ""
    return f"{row.share:z.1%} ({row.share_p10:z.1%} to {row.share_p90:z.1%})"


def to_csv(rows: Sequence[Timing]) -> str:
    """One line a row; nan is an empty cell."""
    text = io.StringIO()
    names = [field.name for field in dataclasses.fields(Timing)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: "" if value != value else value for name, value in dataclasses.asdict(row).items()})
    return text.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One norm's ratios with one number of threads, in a panel, at places on the axis of shapes."""

    panel: str
    norm: str
    threads: int
    points: tuple[tuple[int, Timing], ...]


def series(rows: Sequence[Timing]) -> tuple[list[str], list[Series]]:
    """The shapes, and what is drawn: every norm but the reference, whose ratio is 1, forward first."""
    rows = [row for row in rows if row.part in (FORWARD, BOTH)]
    shapes = list(dict.fromkeys(row.where for row in rows))
    found: dict[tuple[str, str, int], list[tuple[int, Timing]]] = {}
    for row in rows:
        if not row.ratio_p10 == row.ratio == row.ratio_p90 == 1:
            found.setdefault((row.part, row.norm, row.threads), []).append((shapes.index(row.where), row))
    lines = [
        Series(panel=part, norm=norm, threads=threads, points=tuple(points))
        for (part, norm, threads), points in found.items()
    ]
    return shapes, sorted(lines, key=lambda line: (line.panel != FORWARD, line.threads))


def render(rows: Sequence[Timing]) -> dict[str, bytes]:
    """The figure as SVG and PNG."""
    from normexp.views.figures.canvas import render

    return render(draw(rows))


def draw(rows: Sequence[Timing]) -> Figure:
    """Ratio to LayerNorm by shape, forward in one panel and with backward in another; bars: 10th to 90th percentile.

    A norm has its colour, a number of threads its marker.
    """
    from matplotlib.lines import Line2D

    from normexp.views.figures.canvas import BESIDE, COLORS, GREY, MARKERS, panel_figure

    shapes, lines = series(rows)
    norms = list(dict.fromkeys(line.norm for line in lines))
    threads = list(dict.fromkeys(line.threads for line in lines))
    looks: dict[tuple[str, int], dict[str, Any]] = {
        (norm, count): {
            "color": COLORS[norms.index(norm) % len(COLORS)],
            "marker": MARKERS[threads.index(count) % len(MARKERS)],
            "markersize": 4.5,
            "linestyle": "none",
        }
        for count in threads
        for norm in norms
    }
    places = {key: (index - (len(looks) - 1) / 2) * 0.7 / len(looks) for index, key in enumerate(looks)}
    ends = [1.0, *(end for line in lines for _, row in line.points for end in (row.ratio_p10, row.ratio_p90))]

    def panel(ax: Axes, drawn: Sequence[Series]) -> None:
        for line in drawn:
            key = (line.norm, line.threads)
            _draw_series(ax, line, places[key], looks[key])
        ax.axhline(1, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
        ax.annotate("LayerNorm", (1.0, 1), xycoords=("axes fraction", "data"), **BESIDE)
        ax.set(xlabel="shape", ylabel="time / LayerNorm's", xlim=(-0.5, len(shapes) - 0.5))
        ax.set_xticks(range(len(shapes)), shapes)
        _ratio_axis(ax, min(ends) / 1.1, max(ends) * 1.1)

    def name(norm: str, count: int) -> str:
        return f"{norm}, {plural(count, 'thread')}" if len(threads) > 1 else norm

    handles = {name(*key): Line2D([], [], **look) for key, look in looks.items()}
    return panel_figure(TITLE, lines, panel, handles, width_inches=max(3.9, 1.2 * len(shapes)))


def _draw_series(ax: Axes, line: Series, shift: float, look: dict[str, Any]) -> None:
    places = [place + shift for place, _ in line.points]
    middle = [row.ratio for _, row in line.points]
    below = [row.ratio - row.ratio_p10 for _, row in line.points]
    above = [row.ratio_p90 - row.ratio for _, row in line.points]
    ax.errorbar(places, middle, yerr=[below, above], elinewidth=1.1, **look)


def _ratio_axis(ax: Axes, low: float, high: float) -> None:
    from matplotlib.ticker import NullLocator

    from normexp.views.figures.canvas import PLAIN_NUMBERS

    fine = (0.6, 0.8, 1.2, 1.5, 3) if high / low < FINE else ()
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    ax.set_yticks([tick for tick in (*(2.0**power for power in range(-10, 11)), *fine) if low <= tick <= high])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
