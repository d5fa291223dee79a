"""Bisection for the borders between yes and no along an axis: where to look next, and what was found.

Nothing here knows what is looked at. What has been seen maps values to verdicts: True, False, or None where looking
gave none. Borders lie between neighbours among the seen that differ, so both ends of each were really looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

Number = int | float
Seen = Mapping[Number, bool | None]

OFF_CENTRE = 0.05
"""A middle may lie off by this share of the gap, so that it has few digits: 0.003 rather than 0.00316228."""
LOG_PARTS, WHOLE_PARTS = 6, 8
"""Where all agree, gaps above this part of the span are halved: three times on a log scale, in 8 on a whole one."""
SEARCHED = 7
"""Values between the ends that are looked at before all of them count as agreeing."""
ROUNDING = 1 + 1e-9


class Finding(StrEnum):
    """What the verdicts along an axis come to."""

    EVERYWHERE = "everywhere"
    NOWHERE = "nowhere"
    BORDER = "border"
    SEVERAL = "several borders"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Where a border is looked for: from `low` to `high`, until its ends are apart by `resolution` or less.

    Whole numbers are halved as such, and the resolution is a difference; other numbers, above 0, are halved on a
    log scale, and it is a ratio above 1.
    """

    low: Number
    high: Number
    resolution: Number
    whole: bool

    def gap(self, low: Number, high: Number) -> float:
        """How far two values are apart on the axis."""
        return high - low if self.whole else math.log(high) - math.log(low)

    def is_fine(self, low: Number, high: Number) -> bool:
        """Whether two values are as close as was asked for."""
        return self.gap(low, high) <= self._finest * ROUNDING

    def middle(self, low: Number, high: Number) -> Number:
        """A value about half-way between two that are not close, with as few digits as that allows."""
        if self.whole:
            return (int(low) + int(high)) // 2
        centre, room = (math.log(low) + math.log(high)) / 2, OFF_CENTRE * self.gap(low, high)
        rounded = (float(f"{math.exp(centre):.{digits}g}") for digits in range(1, 17))
        return next((value for value in rounded if abs(math.log(value) - centre) <= room), math.exp(centre))

    @property
    def coarse(self) -> float:
        """Gaps up to this stay, where all that was seen agrees."""
        total = self.gap(self.low, self.high)
        return math.ceil(total / WHOLE_PARTS) if self.whole else total / LOG_PARTS

    @property
    def grid_values(self) -> int:
        """Values of the evenly spaced grid that has this resolution."""
        return math.ceil(self.gap(self.low, self.high) / self._finest / ROUNDING) + 1

    @property
    def most_values(self) -> int:
        """Values that are looked at in the worst case, when nothing is known before."""
        gap = self.gap(self.low, self.high)
        counts = [self._halvings(gap), SEARCHED]
        for level in range(1, 4):  # found by the search in the middle, at a quarter, at an eighth: two borders
            gap = self._halved(gap)
            counts.append(2**level - 1 + 2 * self._halvings(gap))
        return min(2 + max(counts), int(self.high - self.low) + 1) if self.whole else 2 + max(counts)

    def _halvings(self, gap: float) -> int:
        """How often a gap is halved, at most, until it is fine."""
        count = 0
        while gap > self._finest * ROUNDING:
            gap, count = self._halved(gap), count + 1
        return count

    def _halved(self, gap: float) -> float:
        """The larger part of a gap, at most."""
        return math.ceil(gap / 2) if self.whole else gap * (0.5 + OFF_CENTRE)

    @property
    def _finest(self) -> float:
        return self.resolution if self.whole else math.log(self.resolution)


def wanted(span: Span, seen: Seen) -> list[Number]:
    """The values to look at next, all at once; none where everything is found, or cannot be.

    First the ends. Where verdicts differ, the middle of the first and of the last border, until they are fine; where
    all agree, the middle of each coarse gap, so that a window between two equal ends is not passed over.
    """
    ends = [value for value in (span.low, span.high) if value not in seen]
    if ends:
        return ends
    if seen[span.low] is None or seen[span.high] is None:
        return []
    changes = borders(seen)
    if changes:
        gaps = list(dict.fromkeys((changes[0], changes[-1])))
    else:
        gaps = [pair for pair in pairwise(_decided(seen)) if span.gap(*pair) > span.coarse * ROUNDING]
    middles = [span.middle(*gap) for gap in gaps if not span.is_fine(*gap)]
    return [value for value in middles if value not in seen]


def borders(seen: Seen) -> list[tuple[Number, Number]]:
    """The neighbours (lower, higher) among the decided values whose verdicts differ, in order."""
    return [(low, high) for low, high in pairwise(_decided(seen)) if seen[low] is not seen[high]]


def finding(span: Span, seen: Seen) -> Finding:
    """What there is to say. It is open while an end has no verdict, or all agree and gaps are still to be looked at."""
    changes = borders(seen)
    if seen.get(span.low) is None or seen.get(span.high) is None or (not changes and wanted(span, seen)):
        return Finding.OPEN
    if changes:
        return Finding.BORDER if len(changes) == 1 else Finding.SEVERAL
    return Finding.EVERYWHERE if seen[span.low] else Finding.NOWHERE


def _decided(seen: Seen) -> list[Number]:
    return sorted(value for value, verdict in seen.items() if verdict is not None)
