"""How lines are told apart: by colour, and by marker and dash, so that it reads in grey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.colors import to_hex

from normexp.views.figures.canvas import DASHES, MARKERS
from normexp.views.figures.look import Theme
from normexp.views.figures.panels import Texts

Style = dict[str, Any]
SEVERAL = 3
"""Values of a number from which on they are coloured from low to high."""


def line_styles(lines: Mapping[str, Texts], theme: Theme) -> dict[str, Style]:
    """Label to colour, marker and dash; `lines` has the keys that tell a label from the others.

    Where two keys do, the one has colours and markers, the other dashes: what goes together looks alike.
    """
    keys = list(dict.fromkeys(key for texts in lines.values() for key in texts))
    values = {key: list(dict.fromkeys(texts[key] for texts in lines.values() if key in texts)) for key in keys}
    varying = [key for key in keys if len(values[key]) > 1]
    by_two = len(varying) == 2 and all(key in texts for texts in lines.values() for key in varying)
    if by_two:
        hue, dash = sorted(varying, key=lambda key: -len(values[key]))
        if len(values[hue]) <= len(theme.colors) and len(values[dash]) <= len(DASHES):
            colors = _colors(values[hue], theme)
            return {
                label: _style(
                    colors[texts[hue]], values[hue].index(texts[hue]), values[dash].index(texts[dash]), many=len(lines)
                )
                for label, texts in lines.items()
            }
    if len(varying) == 1:
        (key,) = varying
        colors = _colors(values[key], theme)
        return {
            label: _style(colors[texts[key]], place, place, many=len(lines))
            for place, (label, texts) in enumerate(lines.items())
        }
    return {
        label: _style(theme.colors[place % len(theme.colors)], place, place, many=len(lines))
        for place, label in enumerate(lines)
    }


def _colors(texts: Sequence[str], theme: Theme) -> dict[str, str]:
    """Of each text: words have the palette, several numbers a ramp."""
    try:
        numbers = sorted(texts, key=float)
    except ValueError:
        numbers = []
    if len(numbers) < SEVERAL:
        return {text: theme.colors[place % len(theme.colors)] for place, text in enumerate(texts)}
    low, high = theme.ramp
    steps = len(numbers) - 1
    ramp = mpl.colormaps["viridis"]
    return {text: to_hex(ramp(low + (high - low) * place / steps)) for place, text in enumerate(numbers)}


def _style(color: str, marker: int, dash: int, *, many: int) -> Style:
    return {
        "color": color,
        "marker": MARKERS[marker % len(MARKERS)],
        "linestyle": DASHES[dash % len(DASHES)],
        "markersize": 3.2 if many <= 6 else 2.8,
        "linewidth": 1.3 if many <= 6 else 1.1,
    }
