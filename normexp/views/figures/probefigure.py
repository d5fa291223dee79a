"""Networks as they were measured, drawn: a panel a quantity, its value by layer, a line a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from normexp.views.figures.canvas import GREY, PLAIN_NUMBERS, line_styles, panel_figure
from normexp.views.probe import Profile, Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DECADES = 20
"""Ratio of largest to smallest value from which on a panel's axis is logarithmic."""
LINEAR = ("token_cosine", "attention_entropy")
"""Quantities within bounds, whose axis never is."""
LOST: dict[str, Any] = {"marker": "X", "markersize": 7, "markeredgecolor": "white", "linestyle": "none"}


def draw(title: str, shown: Sequence[Profile]) -> Figure:
    """Medians over seeds with a band from lowest to highest; a cross at the first layer that is not finite.

    What networks have at one layer alone is left out where there is anything else.
    """
    shown = [profile for profile in shown if any(len(values) > 1 for values in profile.networks.values())] or shown
    styles = line_styles(network for profile in shown for network in profile.networks)
    looks = {network: {**style, "markersize": 3} for network, style in styles.items()}

    def panel(ax: Axes, drawn: Sequence[Profile]) -> None:
        for profile in drawn:
            for network, values in profile.networks.items():
                _draw_line(ax, values, looks[network])
        _scale(ax, drawn)
        ax.set_xlabel("layer")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))

    handles = {network: Line2D([], [], **look) for network, look in looks.items()}
    spreads = [spread for profile in shown for values in profile.networks.values() for spread in values.values()]
    if not all(math.isfinite(spread.middle) for spread in spreads):
        handles["first layer that is not finite"] = Line2D([], [], color=GREY, **LOST)
    return panel_figure(title, shown, panel, handles, share_y=False)


def _draw_line(ax: Axes, values: dict[int, Spread] | Any, look: dict[str, Any]) -> None:
    finite = {layer: spread for layer, spread in values.items() if math.isfinite(spread.middle)}
    ax.plot(list(finite), [spread.middle for spread in finite.values()], **look)
    banded = {layer: s for layer, s in finite.items() if math.isfinite(s.low) and math.isfinite(s.high)}
    if any(spread.low < spread.high for spread in banded.values()):
        lows, highs = [s.low for s in banded.values()], [s.high for s in banded.values()]
        ax.fill_between(list(banded), lows, highs, color=look["color"], alpha=0.15, linewidth=0)
    lost = next((layer for layer, spread in values.items() if not math.isfinite(spread.middle)), None)
    if lost is not None:
        top: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "clip_on": False, "zorder": 5}
        ax.plot([lost], [1.0], color=look["color"], **LOST, **top)


def _scale(ax: Axes, drawn: Sequence[Profile]) -> None:
    """Logarithmic where the medians span decades; with a linear stretch below the smallest where some are 0."""
    medians = [s.middle for profile in drawn for values in profile.networks.values() for s in values.values()]
    finite = [value for value in medians if math.isfinite(value)]
    positive = [value for value in finite if value > 0]
    if any(profile.quantity in LINEAR for profile in drawn) or not positive or min(finite) < 0:
        return
    if max(positive) < DECADES * min(positive):
        return
    if len(positive) == len(finite):
        ax.set_yscale("log")
    else:
        ax.set_yscale("symlog", linthresh=min(positive), linscale=0.3)
        ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
