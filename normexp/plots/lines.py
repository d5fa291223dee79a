"""Draw a chart: lines with bands over seeds, axes with readable ticks, and crosses for non-finite runs.

The crosses are above the panel, since these runs have no value to draw.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from normexp.config.labels import exact_text, loss_text, plural, shown
from normexp.plots.chart import LOG, LOSS, NAMES, SHARE, TRAINING, Axis, Chart, Line, Spot
from normexp.plots.panels import columns_of, panel_grid
from normexp.plots.style import ON_TOP, PLAIN_NUMBERS, Look, LossAxis, Style, line_styles, mark_references
from normexp.records.record import Outcome
from normexp.schemes.network_config import Value

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED_TICKS = 7
"""An axis with at most this many values has a tick at each of them."""
SLANT = 35
"""Rotation in degrees of tick labels that do not fit horizontally."""
COUNTED = ("step", "layer")
"""Axes with so many values that ticks are at round numbers."""
NAMED_DEATHS = 4
"""The crosses of a single panel are labelled with their step if there are at most this many."""
SHOWN_PANELS = 4
"""The legend shows the sensitivity of each panel for at most this many panels, and otherwise its range."""


def place(axis: Axis, x: Value) -> float:
    """Return the coordinate of a value on an x axis."""
    return float(axis.values.index(x)) if axis.scale == NAMES else float(x)


def set_x(ax: Axes, chart: Chart, look: Look, panel_points: float) -> None:
    """Set the scale, the limits and the ticks of the x axis; few values are ticks themselves."""
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
    name_by_value = dict(zip(map(float, axis.values), axis.names, strict=True))
    texts = [name_by_value.get(value, exact_text(value)) for value in values]
    all_fit = len(values) <= NAMED_TICKS and _fit(texts, look, panel_points)
    within_decade = axis.scale == LOG and values[-1] < 10 * values[0]  # may contain no power of ten
    if axis.key not in COUNTED and (all_fit or within_decade):
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
    """Set names as ticks on the x axis, slanted if they do not fit horizontally."""
    ax.set_xticks(places, [shown(name) for name in names])
    if len(names) * max(map(len, names), default=0) * look.small * 0.6 > panel_points:
        ax.tick_params(axis="x", labelrotation=SLANT)
        for text in ax.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")


def _fit(texts: Sequence[str], look: Look, panel_points: float) -> bool:
    """Return whether evenly spaced tick labels fit."""
    return len(texts) * (max(map(len, texts)) + 1) * look.small * 0.55 < panel_points


def _with_room(
    ax: Axes, values: Sequence[float], texts: Sequence[str], look: Look, panel_points: float
) -> Sequence[str]:
    """Return the tick labels, replacing those that would overlap the last or a previous one by empty texts."""
    low, high, *positions = ax.transScale.transform([(value, 1.0) for value in (*ax.get_xlim(), *values)])[:, 0]
    centers = [float((position - low) / (high - low)) * panel_points for position in positions]
    halves = [(len(text) + 1) * look.small * 0.275 for text in texts]
    kept: list[int] = []
    last = len(texts) - 1
    for index in range(len(texts)):
        beside = [*kept[-1:], *([last] if index != last else [])]
        if all(abs(centers[index] - centers[other]) >= halves[index] + halves[other] for other in beside):
            kept.append(index)
    return [text if index in kept else "" for index, text in enumerate(texts)]


def set_y(ax: Axes, axis: Axis, chart: Chart) -> None:
    """Set the scale and tick format of the y axis, except for losses: see `LossAxis`."""
    if axis.scale == SHARE:
        ax.set_ylim(-0.04, 1.04)
    elif axis.scale == LOG:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
        ax.yaxis.set_minor_formatter(NullFormatter())
    elif axis.scale != LOSS:
        highest = [spot.high for line in chart.lines for spot in line.spots if spot.high is not None]
        ax.set_ylim(0, max(highest, default=1.0) * 1.08)


Cross = tuple[float, str, str]
"""The x coordinate, the colour, and the share of runs that became non-finite, empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceMarkers:
    """Crosses above a panel, side by side at each value, in several rows if they do not fit into one."""

    crosses: Sequence[Cross]
    step_points: float
    per_row: int
    look: Look

    @classmethod
    def of(cls, crosses: Sequence[Cross], room_points: float, look: Look) -> DivergenceMarkers:
        """Arrange crosses. `room_points` is the width available for each value."""
        size = look.width.points * 0.8
        wide = size + 1 if not any(share for *_, share in crosses) else max(size + 1, look.small * 1.7)
        per_row = max(1, int(room_points / wide))
        return cls(crosses=crosses, step_points=wide, per_row=per_row, look=look)

    @property
    def shares(self) -> bool:
        """Whether any cross is labelled with a share."""
        return any(share for *_, share in self.crosses)

    @property
    def row_points(self) -> float:
        """Height of a row in points, including labels."""
        return self.look.width.points * 0.95 + (self.look.small * 1.05 if self.shares else 0)

    @property
    def height(self) -> float:
        """Height of all rows in points."""
        most = max(Counter(x for x, *_ in self.crosses).values(), default=0)
        return -(-most // self.per_row) * self.row_points

    def draw(self, ax: Axes) -> None:
        """Draw each cross above its value."""
        by_x: dict[float, list[Cross]] = {}
        for cross in self.crosses:
            by_x.setdefault(cross[0], []).append(cross)
        for crosses in by_x.values():
            for start in range(0, len(crosses), self.per_row):
                row = crosses[start : start + self.per_row]
                for index, cross in enumerate(row):
                    right = (index - (len(row) - 1) / 2) * self.step_points
                    self._draw_cross(ax, cross, right, start // self.per_row * self.row_points)

    def _draw_cross(self, ax: Axes, cross: Cross, right: float, up: float) -> None:
        x, color, share = cross
        size = self.look.width.points * 0.8
        figure: Any = ax.figure
        up += size * 0.6
        moved = ax.get_xaxis_transform() + ScaledTranslation(right / 72, up / 72, figure.dpi_scale_trans)
        ax.plot([x], [1.0], transform=moved, color=color, **ON_TOP, **self.look.cross)
        if share:
            where: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom"}
            above = (right, up + size * 0.5)
            ax.annotate(
                share, (x, 1.0), above, xycoords=("data", "axes fraction"), size=self.look.small, color=color, **where
            )


def draw_chart(chart: Chart, look: Look) -> Figure:
    """Draw every line in its panel, and the legend and the notes below."""
    return _Drawing(chart, look).figure()


class _Drawing:
    """Draws one chart."""

    def __init__(self, chart: Chart, look: Look) -> None:
        self.chart, self.look = chart, look
        self.panels = list(dict.fromkeys(line.panel for line in chart.lines)) or [""]
        self.by_panel = {panel: [line for line in chart.lines if line.panel == panel] for panel in self.panels}
        self.styles = line_styles({line.label: line.keys for line in chart.lines}, look.theme)
        self.losses = _loss_axis(chart) if chart.y.scale == LOSS else None
        across = columns_of(len(self.panels), look, chart.columns)
        self.panel_points = look.width.inches / across * 72 * 0.8
        self.last_column = {panel for index, panel in enumerate(self.panels) if index % across == across - 1}
        self.last_column |= set(self.panels) if across == 1 else set()

    def figure(self) -> Figure:
        """Return the figure."""
        chart = self.chart
        markers = {panel: self.markers(panel) for panel in self.panels}
        return panel_grid(
            self.look,
            chart.title,
            self.panels,
            lambda ax, panel: self.draw(ax, panel, markers[panel]),
            handles=self.handles(markers.values()),
            notes=chart.notes,
            columns=chart.columns,
            y_group=lambda panel: chart.axes.get(panel, chart.y),
            top_margin=lambda panel: markers[panel].height,
        )

    def markers(self, panel: str) -> DivergenceMarkers:
        """Return the crosses above a panel: at each x with non-finite runs, or at the first non-finite layers."""
        lines = self.by_panel[panel]
        if self.chart.x.key == "layer":
            crosses = [
                (self.place(mark.x), self.styles[line.label]["color"], mark.text)
                for line in lines
                for mark in line.marks
            ]
        elif self.chart.x.key == "step":
            crosses = []
        else:
            crosses = [
                (self.place(spot.x), self.styles[line.label]["color"], _share(spot))
                for line in lines
                for spot in line.spots
                if spot.nonfinite
            ]
        values = {spot.x for line in self.chart.lines for spot in line.spots}
        return DivergenceMarkers.of(crosses, self.panel_points / max(1, len(values)), self.look)

    def place(self, x: Value) -> float:
        """Return the coordinate of a value on the x axis."""
        return place(self.chart.x, x)

    def draw(self, ax: Axes, panel: str, markers: DivergenceMarkers) -> None:
        """Draw one panel."""
        lines, axis = self.by_panel.get(panel, []), self.chart.axes.get(panel, self.chart.y)
        ax.set(xlabel=self.chart.x.label, ylabel=axis.label)
        ax.grid(axis="y", color=self.look.theme.grey, alpha=0.18, linewidth=0.5)
        ax.set_axisbelow(True)
        set_x(ax, self.chart, self.look, self.panel_points)
        set_y(ax, axis, self.chart)
        labels = list(dict.fromkeys(line.label for line in lines))
        for line in lines:
            shift = (labels.index(line.label) - (len(labels) - 1) / 2) * 0.7 / max(1, len(labels))
            self.draw_line(ax, line, self.styles[line.label], shift)
        if self.chart.x.key != "layer":  # marks of layers are above the panel
            deaths = [mark for line in lines for mark in line.marks if mark.text]
            named = len(self.panels) == 1 and len(deaths) <= NAMED_DEATHS
            for line in lines:
                self.draw_marks(ax, line, named=named)
        if self.losses is not None:
            references = [line.losses for line in lines if line.losses is not None]
            grey, last = self.look.theme.grey, panel in self.last_column
            mark_references(ax, references, color=grey, size=self.look.small, named=last)
            self.losses.apply(ax, color=grey, size=self.look.small, named=last)
        markers.draw(ax)

    def draw_line(self, ax: Axes, line: Line, style: Style, shift: float) -> None:
        """Draw medians and a min–max band, and hollow marks where the median is infinite but some runs are finite."""
        xs = [self.place(spot.x) for spot in line.spots]
        middle = [spot.middle if math.isfinite(spot.middle) else math.nan for spot in line.spots]
        bands = [_band(spot) for spot in line.spots]
        low, high = [band[0] for band in bands], [band[1] for band in bands]
        if self.chart.x.scale == NAMES:
            self.draw_bars(ax, [x + shift for x in xs], line.spots, style)
            return
        banded = any(a < b for a, b in zip(low, high, strict=True))
        if line.series == TRAINING:
            look = {"color": style["color"], "linewidth": 0.7, "alpha": 0.45, "zorder": 1.8}
        else:
            every = max(1, math.ceil(len(xs) / 24))
            look = {**style, "markevery": every}
        ax.plot(xs, middle, **look)
        if banded and (line.series == TRAINING or not self.trained(line.panel)):
            ax.fill_between(xs, low, high, color=style["color"], alpha=self.look.theme.band, linewidth=0)
        if line.series != TRAINING and self.chart.x.key not in ("step", "layer"):
            finite = [(x, loss) for x, spot in zip(xs, line.spots, strict=True) for loss in _finite_ends(spot)]
            hollow = {**style, "linestyle": "none", "markerfacecolor": self.look.theme.ground}
            ax.plot([x for x, _ in finite], [loss for _, loss in finite], **hollow)

    def trained(self, panel: str) -> bool:
        """Return whether a panel has training losses, which have their own band."""
        return any(line.series == TRAINING and line.spots for line in self.by_panel[panel])

    def draw_bars(self, ax: Axes, xs: Sequence[float], spots: Sequence[Spot], style: Style) -> None:
        """Draw a min–max bar at each name: there is nothing between names to connect."""
        for x, spot in zip(xs, spots, strict=True):
            if spot.low is None or spot.high is None:
                continue
            ax.plot([x, x], [spot.low, spot.high], color=style["color"], linewidth=1.2)
            middle = spot.middle if math.isfinite(spot.middle) else spot.high
            filled = style["color"] if math.isfinite(spot.middle) else self.look.theme.ground
            ax.plot([x], [middle], **{**style, "linestyle": "none", "markerfacecolor": filled})

    def draw_marks(self, ax: Axes, line: Line, *, named: bool) -> None:
        """Draw crosses where runs became non-finite, and triangles where diverged and unsettled runs ended."""
        color = self.styles[line.label]["color"]
        for mark in line.marks:
            ax.plot([mark.x], [mark.y], color=color, **self.mark(mark.outcome), **ON_TOP)
            if named and mark.text:
                box = {"facecolor": self.look.theme.ground, "alpha": 0.7, "edgecolor": "none", "pad": 0.5}
                where: dict[str, Any] = {"textcoords": "offset points", "size": self.look.small, "color": color}
                ax.annotate(shown(mark.text), (mark.x, mark.y), (5, 5), bbox=box, **where)

    def mark(self, outcome: Outcome) -> dict[str, Any]:
        """Return the style of a mark."""
        if outcome == Outcome.NONFINITE:
            return self.look.cross
        size = self.look.cross["markersize"]
        return {"marker": "^", "markersize": size, "markerfacecolor": "none", "linestyle": "none"}

    def handles(self, markers: Iterable[DivergenceMarkers]) -> dict[str, Artist]:
        """Return the legend entries: the lines, then the bands and marks that are drawn."""
        chart, grey = self.chart, self.look.theme.grey
        bars = chart.x.scale == NAMES
        entries: dict[str, Artist] = {
            label + self.sensitivity_text(label): Line2D([], [], **(style | ({"linestyle": "none"} if bars else {})))
            for label, style in self.styles.items()
            if label or self.sensitivity_text(label)
        }
        if any(line.series for line in chart.lines):
            entries["training"] = Line2D([], [], color=grey, linewidth=0.8, alpha=0.6)
            entries["validation"] = Line2D([], [], color=grey, marker="o", markersize=3)
        spots = [spot for line in chart.lines for spot in line.spots]
        if any(spot.low is not None and spot.high is not None and spot.low < spot.high for spot in spots):
            band = Line2D([], [], color=grey, linewidth=1.2) if bars else Patch(color=grey, alpha=0.25, linewidth=0)
            entries["min–max"] = band
        if chart.x.key not in ("step", "layer") and any(_finite_ends(spot) for spot in spots):
            hollow: dict[str, Any] = {"markerfacecolor": self.look.theme.ground, "linestyle": "none"}
            entries["finite runs, where half or more are not"] = Line2D(
                [], [], color=grey, marker="o", markersize=3, **hollow
            )
        self.add_mark_handles(entries, [panel_markers for panel_markers in markers if panel_markers.crosses])
        return entries

    def add_mark_handles(self, entries: dict[str, Artist], markers: Sequence[DivergenceMarkers]) -> None:
        """Add the legend entries of the marks that are drawn."""
        layers = self.chart.x.key == "layer"
        outcomes = {mark.outcome for line in self.chart.lines for mark in line.marks if not layers}
        handle = partial(Line2D, [], [], color=self.look.theme.grey)
        if Outcome.NONFINITE in outcomes:
            entries["first non-finite step"] = handle(**self.mark(Outcome.NONFINITE))
        if outcomes - {Outcome.NONFINITE}:
            entries["diverged or unsettled"] = handle(**self.mark(Outcome.DIVERGED))
        if markers:
            name = "first non-finite layer" if layers else "non-finite"
            name += " (k/n: k of n runs, otherwise all)" if any(marker.shares for marker in markers) else ""
            entries[name] = handle(**self.mark(Outcome.NONFINITE))

    def sensitivity_text(self, label: str) -> str:
        """Return S for the legend: ` (S 0.31)`, or by panel ` (S 0.64 [warmup 0], — [warmup 9])`.

        For many panels, it is the range of S and the number of panels that have it.
        """
        by_panel = {line.panel: line.sensitivity for line in self.chart.lines if line.label == label}
        known = {panel: sensitivity for panel, sensitivity in by_panel.items() if sensitivity}
        if not known:
            return ""
        means = [sensitivity.mean for sensitivity in known.values() if sensitivity.mean is not None]
        if not means or len(self.panels) == 1:
            text = _mean_text(means[0] if means else None)
        elif len(known) <= SHOWN_PANELS:
            text = ", ".join(f"{_mean_text(sensitivity.mean)} [{panel}]" for panel, sensitivity in known.items())
        else:
            ends = " to ".join(dict.fromkeys(map(_mean_text, (min(means), max(means)))))
            text = f"{ends} in {len(means)} of {plural(len(known), 'panel')}"
        return f"{' ' if label else ''}(S {text})"


def _mean_text(mean: float | None) -> str:
    return "\N{EM DASH}" if mean is None else loss_text(mean, 2)


def _loss_axis(chart: Chart) -> LossAxis:
    ends = [end for line in chart.lines for spot in line.spots for end in (spot.low, spot.high) if end is not None]
    heights = [mark.y for line in chart.lines for mark in line.marks]
    return LossAxis.of([*ends, *heights], [line.losses for line in chart.lines if line.losses is not None])


def _share(spot: Spot) -> str:
    """Return the share of non-finite runs, `2/3`; empty for all."""
    return f"{spot.nonfinite}/{spot.runs}" if spot.nonfinite < spot.runs else ""


def _band(spot: Spot) -> tuple[float, float]:
    """Return the ends of the band, NaN if the median is not finite."""
    if spot.low is None or spot.high is None or not math.isfinite(spot.middle):
        return math.nan, math.nan
    return spot.low, spot.high


def _finite_ends(spot: Spot) -> list[float]:
    """Return the lowest and the highest finite value if the median is not finite."""
    if math.isfinite(spot.middle) or spot.low is None or spot.high is None:
        return []
    return list(dict.fromkeys((spot.low, spot.high)))
