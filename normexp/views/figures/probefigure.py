"""Networks as they were measured, drawn: a panel a quantity, its value by layer, a line a network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from normexp.probed import BACKWARD
from normexp.views.figures.canvas import ON_TOP, PLAIN_NUMBERS
from normexp.views.figures.linestyle import Style, line_styles
from normexp.views.figures.look import Look
from normexp.views.figures.panelgrid import panel_grid
from normexp.views.probe import Profile, Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DECADES = 20
"""Ratio of largest to smallest value from which on a panel's axis is logarithmic."""
LINEAR = ("token_cosine", "attention_entropy")
"""Quantities within bounds, whose axis never is."""


def draw(title: str, shown: Sequence[Profile], look: Look | None = None) -> Figure:
    """Medians over seeds with a band from lowest to highest; a cross at the first layer that is not finite.

    What networks have at one layer alone is left out where there is anything else.
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
    lost = not all(math.isfinite(spread.middle) for spread in spreads)
    if lost:
        handles["first layer that is not finite"] = Line2D([], [], color=look.theme.grey, **look.cross)
    rim = look.cross_points if lost else 0.0
    return panel_grid(
        look, title, list(profiles), panel, handles=handles, y_group=lambda name: name, rim=lambda name: rim
    )


def _draw_line(ax: Axes, values: Mapping[int, Spread], style: Style, look: Look, *, backward: bool) -> None:
    finite = {layer: spread for layer, spread in values.items() if math.isfinite(spread.middle)}
    ax.plot(list(finite), [spread.middle for spread in finite.values()], **style)
    banded = {layer: s for layer, s in finite.items() if math.isfinite(s.low) and math.isfinite(s.high)}
    if any(spread.low < spread.high for spread in banded.values()):
        lows, highs = [s.low for s in banded.values()], [s.high for s in banded.values()]
        ax.fill_between(list(banded), lows, highs, color=style["color"], alpha=look.theme.band, linewidth=0)
    lost = [layer for layer, spread in values.items() if not math.isfinite(spread.middle)]
    if lost:
        first = max(lost) if backward else min(lost)
        ax.plot([first], [1.0], color=style["color"], transform=ax.get_xaxis_transform(), **ON_TOP, **look.cross)


def _scale(ax: Axes, profile: Profile) -> None:
    """Logarithmic where the medians span decades; with a linear stretch below the smallest where some are 0."""
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
