"""Draw the figures of `normexp probe` (quantities by layer) and of `normexp bench` (time relative to LayerNorm)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from normexp.analysis.measured_tables import Profile, Series, Spread, series
from normexp.config.labels import plural
from normexp.plots.lines import name_ticks
from normexp.plots.panels import columns_of, panel_grid
from normexp.plots.style import MARKERS, ON_TOP, PLAIN_NUMBERS, Look, Style, line_styles
from normexp.records.measurements import BACKWARD, Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DECADES = 20
"""A panel's axis is logarithmic if its largest value is at least this many times its smallest."""
LINEAR = ("token_cosine", "attention_entropy")
"""Bounded quantities, whose axis is always linear."""
TITLE = "Time of RMSNorm relative to LayerNorm"
FINE = 10
"""Below this ratio of its ends, the axis of ratios has ticks between powers of two."""


def draw_probe(title: str, shown: Sequence[Profile], look: Look | None = None) -> Figure:
    """Draw medians over seeds with a min–max band, and a cross at the first non-finite layer.

    Quantities measured at a single layer are left out, unless there are no others.
    """
    shown = [profile for profile in shown if any(len(values) > 1 for values in profile.networks.values())] or shown
    look = look or Look()
    networks = dict.fromkeys(network for profile in shown for network in profile.networks)
    styles = line_styles({network: {"network": network} for network in networks}, look.theme)
    profiles = {profile.panel: profile for profile in shown}

    def panel(ax: Axes, name: str) -> None:
        for network, values in profiles[name].networks.items():
            _draw_line(ax, values, styles[network], look, backward=profiles[name].quantity in BACKWARD)
        _scale(ax, profiles[name])
        ax.set_xlabel("layer")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))

    handles = {network: Line2D([], [], **style) for network, style in styles.items()}
    spreads = [spread for profile in shown for values in profile.networks.values() for spread in values.values()]
    nonfinite = not all(math.isfinite(spread.middle) for spread in spreads)
    if nonfinite:
        handles["first non-finite layer"] = Line2D([], [], color=look.theme.grey, **look.cross)
    margin = look.cross_points if nonfinite else 0.0
    return panel_grid(
        look, title, list(profiles), panel, handles=handles, y_group=lambda name: name, top_margin=lambda name: margin
    )


def _draw_line(ax: Axes, values: Mapping[int, Spread], style: Style, look: Look, *, backward: bool) -> None:
    finite = {layer: spread for layer, spread in values.items() if math.isfinite(spread.middle)}
    ax.plot(list(finite), [spread.middle for spread in finite.values()], **style)
    banded = {layer: s for layer, s in finite.items() if math.isfinite(s.low) and math.isfinite(s.high)}
    if any(spread.low < spread.high for spread in banded.values()):
        lows, highs = [s.low for s in banded.values()], [s.high for s in banded.values()]
        ax.fill_between(list(banded), lows, highs, color=style["color"], alpha=look.theme.band, linewidth=0)
    nonfinite = [layer for layer, spread in values.items() if not math.isfinite(spread.middle)]
    if nonfinite:
        first = max(nonfinite) if backward else min(nonfinite)
        ax.plot([first], [1.0], color=style["color"], transform=ax.get_xaxis_transform(), **ON_TOP, **look.cross)


def _scale(ax: Axes, profile: Profile) -> None:
    """Use a logarithmic axis if the medians span decades, with a linear part near 0 if some medians are 0."""
    medians = [spread.middle for values in profile.networks.values() for spread in values.values()]
    finite = [value for value in medians if math.isfinite(value)]
    positive = [value for value in finite if value > 0]
    if profile.quantity in LINEAR or not positive or min(finite) < 0:
        return
    if max(positive) < DECADES * min(positive):
        return
    if len(positive) == len(finite):
        ax.set_yscale("log")
    else:
        ax.set_yscale("symlog", linthresh=min(positive), linscale=0.3)
        ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(PLAIN_NUMBERS)


def draw_bench(rows: Sequence[Timing], look: Look | None = None) -> Figure:
    """Draw the time ratio to LayerNorm by shape: one panel for forward, one for forward and backward.

    Bars span the 10th to 90th percentile. Colours distinguish norms, markers numbers of threads.
    """
    look = look or Look()
    shapes, lines = series(rows)
    threads = list(dict.fromkeys(line.threads for line in lines))
    styles = _styles(list(dict.fromkeys(line.norm for line in lines)), threads, look)
    offsets = {key: (index - (len(styles) - 1) / 2) * 0.7 / len(styles) for index, key in enumerate(styles)}
    ends = [1.0, *(end for line in lines for _, row in line.points for end in (row.ratio_p10, row.ratio_p90))]
    panels = list(dict.fromkeys(line.panel for line in lines))
    panel_points = look.width.inches / columns_of(len(panels), look, None) * 72 * 0.8

    def panel(ax: Axes, name: str) -> None:
        for line in lines:
            if line.panel == name:
                _draw_series(ax, line, offsets[line.norm, line.threads], styles[line.norm, line.threads])
        ax.axhline(1, color=look.theme.grey, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
        ax.set(xlabel="shape", ylabel="time relative to LayerNorm", xlim=(-0.5, len(shapes) - 0.5))
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
    xs = [x + shift for x, _ in line.points]
    middle = [row.ratio for _, row in line.points]
    below = [row.ratio - row.ratio_p10 for _, row in line.points]
    above = [row.ratio_p90 - row.ratio for _, row in line.points]
    ax.errorbar(xs, middle, yerr=[below, above], elinewidth=1.1, **style)


def _ratio_axis(ax: Axes, low: float, high: float) -> None:
    fine = (0.6, 0.8, 1.2, 1.5, 3) if high / low < FINE else ()
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    ax.set_yticks([tick for tick in (*(2.0**power for power in range(-10, 11)), *fine) if low <= tick <= high])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
