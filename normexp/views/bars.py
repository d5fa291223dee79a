"""Numbers as bars of characters: a curve in one line, and a length in eighths of a character."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

LEVELS = "▁▂▃▄▅▆▇█"
EIGHTHS = " ▏▎▍▌▋▊▉█"
ASCII_LEVELS = "_.-=+*%#"
BROKEN = "!"
"""Stands where a number is not finite."""


def drawable(encoding: str) -> bool:
    """Whether an output has the block characters."""
    return encoding.lower().startswith("utf")


def sparkline(values: Sequence[float], width: int, *, unicode: bool = True) -> str:
    """A curve in at most `width` characters, from its own lowest to its highest; each tells the mean of its part.

    Positive numbers that span more than two powers of ten are told by their logarithms.
    """
    if not values or width < 1:
        return ""
    parts = min(width, len(values))
    edges = [round(part * len(values) / parts) for part in range(parts + 1)]
    means = [_mean(values[start:end]) for start, end in itertools.pairwise(edges)]
    finite = [value for value in means if math.isfinite(value)]
    if finite and max(finite) > 100 * min(finite) > 0:
        means = [math.log(value) if math.isfinite(value) else value for value in means]
        finite = [value for value in means if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    return "".join(_level((value - low) / (high - low) if high > low else 0.0, unicode=unicode) for value in means)


def levels(values: Sequence[float], low: float, high: float) -> str:
    """One character for each, on a logarithmic scale from `low` to `high`."""
    return "".join(_level(_share(value, low, high)) for value in values)


def bar(value: float, low: float, high: float, width: int, *, unicode: bool = True) -> str:
    """A bar of up to `width` characters, on a logarithmic scale from `low` to `high`; all `!` if it is not finite."""
    share = _share(value, low, high)
    if math.isnan(share):
        return BROKEN * width
    filled = min(max(share, 0.0), 1.0) * width
    if not unicode:
        return "#" * round(filled)
    whole = int(filled)
    return EIGHTHS[-1] * whole + EIGHTHS[int((filled - whole) * 8)].strip()


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if all(map(math.isfinite, values)) else math.nan


def _share(value: float, low: float, high: float) -> float:
    """Where a number lies between `low` (0) and `high` (1) by its logarithm; NaN if it is not finite."""
    if not math.isfinite(value):
        return math.nan
    return math.log(max(value, low) / low) / math.log(high / low)


def _level(share: float, *, unicode: bool = True) -> str:
    if math.isnan(share):
        return BROKEN
    shown = LEVELS if unicode else ASCII_LEVELS
    return shown[min(len(shown) - 1, max(0, int(share * len(shown))))]
