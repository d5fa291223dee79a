"""A chart, drawn: lines with bands, and every run that died."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from normexp.keys import Value
from normexp.labels import loss_text, plural, shown
from normexp.record import Outcome
from normexp.views.figures.canvas import ON_TOP, LossAxis, mark_references
from normexp.views.figures.chart import LOSS, NAMES, TRAINING, Chart, Line, Spot
from normexp.views.figures.chartaxes import place, set_x, set_y
from normexp.views.figures.linestyle import Style, line_styles
from normexp.views.figures.look import Look
from normexp.views.figures.panelgrid import columns_of, panel_grid
from normexp.views.figures.rim import Rim

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED_DEATHS = 4
"""Up to so many crosses of a panel that is alone have their step beside them."""
TOLD_PANELS = 4
"""Up to so many panels have each its sensitivity in the legend; of more, the range is told."""


def draw_chart(chart: Chart, look: Look) -> Figure:
    """Every line in its panel, the legend and the notes below."""
    return _Drawing(chart, look).figure()


class _Drawing:
    """One chart on its way to a figure."""

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
        """Drawn."""
        chart = self.chart
        rims = {panel: self.rim(panel) for panel in self.panels}
        return panel_grid(
            self.look,
            chart.title,
            self.panels,
            lambda ax, panel: self.draw(ax, panel, rims[panel]),
            handles=self.handles(rims.values()),
            notes=chart.notes,
            columns=chart.columns,
            y_group=lambda panel: chart.axes.get(panel, chart.y),
            rim=lambda panel: rims[panel].height,
        )

    def rim(self, panel: str) -> Rim:
        """The crosses above a panel: of a scan, at each value; of layers, at the recorded first non-finite one."""
        lines = self.by_panel[panel]
        if self.chart.x.key == "layer":
            found = [
                (self.place(mark.x), self.styles[line.label]["color"], mark.text)
                for line in lines
                for mark in line.marks
            ]
        elif self.chart.x.key == "step":
            found = []
        else:
            found = [
                (self.place(spot.x), self.styles[line.label]["color"], _share(spot))
                for line in lines
                for spot in line.spots
                if spot.dead
            ]
        values = {spot.x for line in self.chart.lines for spot in line.spots}
        return Rim.of(found, self.panel_points / max(1, len(values)), self.look)

    def place(self, x: Value) -> float:
        """A value on the x axis."""
        return place(self.chart.x, x)

    def draw(self, ax: Axes, panel: str, rim: Rim) -> None:
        """One panel."""
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
        if self.chart.x.key != "layer":  # whose marks stand above the panel
            deaths = [mark for line in lines for mark in line.marks if mark.text]
            named = len(self.panels) == 1 and len(deaths) <= NAMED_DEATHS
            for line in lines:
                self.draw_marks(ax, line, named=named)
        if self.losses is not None:
            references = [line.losses for line in lines if line.losses is not None]
            grey, last = self.look.theme.grey, panel in self.last_column
            mark_references(ax, references, color=grey, size=self.look.small, named=last)
            self.losses.apply(ax, color=grey, size=self.look.small, named=last)
        rim.draw(ax)

    def draw_line(self, ax: Axes, line: Line, style: Style, shift: float) -> None:
        """Medians, the band from lowest to highest, hollow where only those that survived have a value."""
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
            left = [(x, end) for x, spot in zip(xs, line.spots, strict=True) for end in _survivors(spot)]
            hollow = {**style, "linestyle": "none", "markerfacecolor": self.look.theme.ground}
            ax.plot([x for x, _ in left], [end for _, end in left], **hollow)

    def trained(self, panel: str) -> bool:
        """Whether a panel has training losses with a band of their own."""
        return any(line.series == TRAINING and line.spots for line in self.by_panel[panel])

    def draw_bars(self, ax: Axes, xs: Sequence[float], spots: Sequence[Spot], style: Style) -> None:
        """Where the places are words there is nothing between them: a bar from lowest to highest at each."""
        for x, spot in zip(xs, spots, strict=True):
            if spot.low is None or spot.high is None:
                continue
            ax.plot([x, x], [spot.low, spot.high], color=style["color"], linewidth=1.2)
            middle = spot.middle if math.isfinite(spot.middle) else spot.high
            filled = style["color"] if math.isfinite(spot.middle) else self.look.theme.ground
            ax.plot([x], [middle], **{**style, "linestyle": "none", "markerfacecolor": filled})

    def draw_marks(self, ax: Axes, line: Line, *, named: bool) -> None:
        """Crosses where runs died, triangles where others ended."""
        color = self.styles[line.label]["color"]
        for mark in line.marks:
            ax.plot([mark.x], [mark.y], color=color, **self.mark(mark.outcome), **ON_TOP)
            if named and mark.text:
                box = {"facecolor": self.look.theme.ground, "alpha": 0.7, "edgecolor": "none", "pad": 0.5}
                where: dict[str, Any] = {"textcoords": "offset points", "size": self.look.small, "color": color}
                ax.annotate(shown(mark.text), (mark.x, mark.y), (5, 5), bbox=box, **where)

    def mark(self, outcome: Outcome) -> dict[str, Any]:
        """The look of a mark."""
        if outcome == Outcome.NONFINITE:
            return self.look.cross
        size = self.look.cross["markersize"]
        return {"marker": "^", "markersize": size, "markerfacecolor": "none", "linestyle": "none"}

    def handles(self, rims: Iterable[Rim]) -> dict[str, Artist]:
        """What the legend has: the lines, then what else is drawn."""
        chart, grey = self.chart, self.look.theme.grey
        bars = chart.x.scale == NAMES
        found: dict[str, Artist] = {
            label + self.sensitivity_text(label): Line2D([], [], **(style | ({"linestyle": "none"} if bars else {})))
            for label, style in self.styles.items()
            if label or self.sensitivity_text(label)
        }
        if any(line.series for line in chart.lines):
            found["training"] = Line2D([], [], color=grey, linewidth=0.8, alpha=0.6)
            found["validation"] = Line2D([], [], color=grey, marker="o", markersize=3)
        spots = [spot for line in chart.lines for spot in line.spots]
        if any(spot.low is not None and spot.high is not None and spot.low < spot.high for spot in spots):
            band = Line2D([], [], color=grey, linewidth=1.2) if bars else Patch(color=grey, alpha=0.25, linewidth=0)
            found["lowest to highest"] = band
        if chart.x.key not in ("step", "layer") and any(_survivors(spot) for spot in spots):
            hollow: dict[str, Any] = {"markerfacecolor": self.look.theme.ground, "linestyle": "none"}
            found["survivors, where half or more died"] = Line2D([], [], color=grey, marker="o", markersize=3, **hollow)
        self.handle_marks(found, [rim for rim in rims if rim.crosses])
        return found

    def handle_marks(self, found: dict[str, Artist], rims: Sequence[Rim]) -> None:
        """Those of the marks that are drawn."""
        layers = self.chart.x.key == "layer"
        outcomes = {mark.outcome for line in self.chart.lines for mark in line.marks if not layers}
        handle = partial(Line2D, [], [], color=self.look.theme.grey)
        if Outcome.NONFINITE in outcomes:
            found["first non-finite step"] = handle(**self.mark(Outcome.NONFINITE))
        if outcomes - {Outcome.NONFINITE}:
            found["diverged or unsettled"] = handle(**self.mark(Outcome.DIVERGED))
        if rims:
            told = " (k/n: k of n runs, else all)" if any(rim.shares for rim in rims) else ""
            found[f"{'first non-finite layer' if layers else 'non-finite'}{told}"] = handle(
                **self.mark(Outcome.NONFINITE)
            )

    def sensitivity_text(self, label: str) -> str:
        """` (S 0.31)`; where there are several panels, each number with its own: ` (S 0.64 [warmup 0], — [warmup 9])`.

        Of more panels than a legend has room for, the range, and how many have a number.
        """
        found = {line.panel: line.sensitivity for line in self.chart.lines if line.label == label and line.sensitivity}
        if not found:
            return ""
        means = [one.mean for one in found.values() if one.mean is not None]
        if not means or len(self.panels) == 1:
            told = _mean_text(means[0] if means else None)
        elif len(found) <= TOLD_PANELS:
            told = ", ".join(f"{_mean_text(one.mean)} [{panel}]" for panel, one in found.items())
        else:
            ends = " to ".join(dict.fromkeys(map(_mean_text, (min(means), max(means)))))
            told = f"{ends} in {len(means)} of {plural(len(found), 'panel')}"
        return f"{' ' if label else ''}(S {told})"


def _mean_text(mean: float | None) -> str:
    return "\N{EM DASH}" if mean is None else loss_text(mean, 2)


def _loss_axis(chart: Chart) -> LossAxis:
    ends = [end for line in chart.lines for spot in line.spots for end in (spot.low, spot.high) if end is not None]
    heights = [mark.y for line in chart.lines for mark in line.marks]
    return LossAxis.of([*ends, *heights], [line.losses for line in chart.lines if line.losses is not None])


def _share(spot: Spot) -> str:
    """`2/3`; empty where all runs died."""
    return f"{spot.dead}/{spot.runs}" if spot.dead < spot.runs else ""


def _band(spot: Spot) -> tuple[float, float]:
    """Its ends; NaN where the median is not finite, beside which a band would have no middle."""
    if spot.low is None or spot.high is None or not math.isfinite(spot.middle):
        return math.nan, math.nan
    return spot.low, spot.high


def _survivors(spot: Spot) -> list[float]:
    """Ends of what the survivors have where the median is infinite."""
    if math.isfinite(spot.middle) or spot.low is None or spot.high is None:
        return []
    return list(dict.fromkeys((spot.low, spot.high)))
