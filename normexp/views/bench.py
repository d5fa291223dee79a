"""A benchmark of norms as tables, CSV and a figure."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from normexp.timing import BOTH, FORWARD, STEP, Timing
from normexp.views.labels import plural, value_text
from normexp.views.pivot import TextTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TICKS = (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SPREAD = "In brackets: 10th to 90th percentile over rounds. Ratios are taken within a round."
NO_SHARE = "The share of norms is what a step takes more than one with norm none in the same round."


def tables(rows: Sequence[Timing]) -> list[TextTable]:
    """A table for each part and number of threads: microseconds of a norm, milliseconds of a step."""
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
        header=("shape", "norm", "time (µs)", "ratio to LN", "params"),
        rows=tuple((row.where, row.norm, _time(row, 1.0), _ratio(row), str(row.parameters)) for row in rows),
    )


def _step_table(where: str, threads: int, rows: Sequence[Timing]) -> TextTable:
    return TextTable(
        title=f"{STEP.capitalize()}: {where}, {plural(threads, 'thread')}",
        header=("norm", "time (ms)", "ratio to ln", "share of norms", "params"),
        rows=tuple((row.norm, _time(row, 1e-3), _ratio(row), _share(row), str(row.parameters)) for row in rows),
        note=f"{NO_SHARE} {SPREAD}",
    )


def _time(row: Timing, factor: float) -> str:
    return "{} ({}–{})".format(*(_three(time * factor) for time in (row.median_us, row.p10_us, row.p90_us)))


def _three(number: float) -> str:
    """Three significant digits, never as a power."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _ratio(row: Timing) -> str:
    return f"{row.ratio:.2f} ({row.ratio_p10:.2f}–{row.ratio_p90:.2f})"


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


def from_csv(text: str) -> list[Timing]:
    """The rows back. Raises ValueError for anything else."""
    kinds = get_type_hints(Timing)
    reader = csv.DictReader(io.StringIO(text), restval="")
    if list(reader.fieldnames or []) != list(kinds):
        raise ValueError(f"its columns are not {', '.join(kinds)}")
    return [Timing(**{name: _cell(kinds[name], text) for name, text in line.items()}) for line in reader]


def _cell(kind: type, text: str) -> Any:
    return math.nan if kind is float and text == "" else kind(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One norm's ratios in a panel, at places on the axis of shapes."""

    panel: str
    label: str
    points: tuple[tuple[int, Timing], ...]


def series(rows: Sequence[Timing]) -> tuple[list[str], list[Series]]:
    """The shapes, and what is drawn: every norm but the reference, apart by threads where there are several."""
    rows = [row for row in rows if row.part in (FORWARD, BOTH)]
    shapes = list(dict.fromkeys(row.where for row in rows))
    several = len({row.threads for row in rows}) > 1
    found: dict[tuple[str, str], list[tuple[int, Timing]]] = {}
    for row in rows:
        if not row.ratio == row.ratio_p10 == row.ratio_p90 == 1:
            label = f"{row.norm}, {plural(row.threads, 'thread')}" if several else row.norm
            found.setdefault((row.part, label), []).append((shapes.index(row.where), row))
    drawn = [Series(panel=part, label=label, points=tuple(points)) for (part, label), points in found.items()]
    return shapes, sorted(drawn, key=lambda line: line.panel != FORWARD)


def render(rows: Sequence[Timing]) -> dict[str, bytes]:
    """The figure as SVG and PNG."""
    from normexp.views.canvas import render

    return render(draw(rows))


def draw(rows: Sequence[Timing]) -> Figure:
    """Ratio to LayerNorm by shape, forward in one panel and with backward in another; bars: 10th to 90th percentile."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import NullLocator

    from normexp.views.canvas import BESIDE, GREY, line_styles, panel_figure

    shapes, lines = series(rows)
    labels = list(dict.fromkeys(line.label for line in lines))
    styles = {label: style | {"linestyle": "none"} for label, style in line_styles(labels).items()}
    ends = [end for line in lines for _, row in line.points for end in (row.ratio_p10, row.ratio_p90)]
    low, high = min([1.0, *ends]) / 1.1, max([1.0, *ends]) * 1.1

    def panel(ax: Axes, drawn: Sequence[Series]) -> None:
        for line in drawn:
            shift = (labels.index(line.label) - (len(labels) - 1) / 2) * 0.7 / max(1, len(labels))
            places = [place + shift for place, _ in line.points]
            middle = [row.ratio for _, row in line.points]
            below = [max(0.0, row.ratio - row.ratio_p10) for _, row in line.points]
            above = [max(0.0, row.ratio_p90 - row.ratio) for _, row in line.points]
            look: dict[str, Any] = {**styles[line.label], "elinewidth": 1.2}
            ax.errorbar(places, middle, yerr=[below, above], **look)
        ax.axhline(1, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
        ax.annotate("LayerNorm", (1.0, 1), xycoords=("axes fraction", "data"), **BESIDE)
        ax.set(xlabel="shape", ylabel="time / LayerNorm's", yscale="log", ylim=(low, high))
        ax.set(xlim=(-0.5, len(shapes) - 0.5))
        ax.set_xticks(range(len(shapes)), shapes)
        ticks = [tick for tick in TICKS if low <= tick <= high]
        ax.set_yticks(ticks, [value_text("ratio", float(tick)) for tick in ticks])
        ax.yaxis.set_minor_locator(NullLocator())

    handles = {label: Line2D([], [], **style) for label, style in styles.items()}
    title = "Time of RMSNorm relative to LayerNorm"
    return panel_figure(title, lines, panel, handles, width_inches=max(3.9, 1.0 * len(shapes)))
