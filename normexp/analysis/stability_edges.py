"""Where along one axis does training cease to learn? What is asked of the cells of a sweep, and what is found.

Bisection for the borders between yes and no along an axis: where to look next, and what was found.

Nothing here knows what is looked at. What has been seen maps values to verdicts: True, False, or None where looking
gave none. Borders lie between neighbours among the seen that differ, so both ends of each were really looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from normexp.config.groups import Group
from normexp.config.keys import Key
from normexp.config.labels import exact_text
from normexp.config.run import KEYS
from normexp.config.sweep_file import Sweep
from normexp.errors import UserError
from normexp.schemes.network_config import Value

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


SEEDS = 3
FINEST_RATIO = 1.001
MOST = 10_000
"""Seeds, or values of another key whose every value is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeAxis:
    """A row of the table of axes: where a border is looked for unless told otherwise, see `Span`.

    `high` None: the steps of the shortest run. `least` is the lowest value that makes sense.
    """

    low: Number
    high: Number | None
    resolution: Number
    whole: bool = False
    least: Number = 0

    def __str__(self) -> str:
        high = "the steps" if self.high is None else f"{self.high:g}"
        close = f"{self.resolution:g} apart" if self.whole else f"a ratio of {self.resolution:g}"
        return f"from {self.low:g} to {high}, {close}"


AXES: Mapping[str, EdgeAxis] = {
    "lr": EdgeAxis(low=1e-5, high=1.0, resolution=1.5),
    "init_gain": EdgeAxis(low=0.1, high=10.0, resolution=1.25),
    "depth": EdgeAxis(low=1, high=64, resolution=2, whole=True, least=1),
    "warmup": EdgeAxis(low=0, high=None, resolution=20, whole=True),
}
"""The axes that can be bisected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A border asked for: along which axis and span, over which seeds, `needed` of which must learn."""

    sweep: Sweep
    axis: str
    span: Span
    seeds: tuple[int, ...]
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """k of n: at `value`, `learned` of `seeds`; `failed` of them came to no result."""

    value: Number
    learned: int
    seeds: int
    failed: int
    needed: int

    @property
    def verdict(self) -> bool | None:
        """Whether it learns here; unknown while those that failed could tip the scales."""
        if self.learned >= self.needed:
            return True
        return False if self.learned + self.failed < self.needed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What was found in one cell: `shares` by value, of those in the span that have ended; borders as (lower, higher).

    It is `finished` where nothing is left to look at. `run_ids` are those of the runs that the shares count: cells with
    the same are answered by the same runs.
    """

    values: Mapping[str, Value]
    shares: tuple[Share, ...]
    finding: Finding
    borders: tuple[tuple[Share, Share], ...]
    finished: bool
    run_ids: frozenset[str] = frozenset()


def ask(
    sweep: Sweep,
    axis: str,
    *,
    low: str | None = None,
    high: str | None = None,
    resolution: str | None = None,
    seeds: int | None = None,
    at_least: int | None = None,
) -> Question:
    """The question, its numbers as typed. Raises UserError, all complaints at once."""
    if axis not in AXES:
        raise UserError(f"--axis {axis}: there are {', '.join(AXES)}")
    if too_many := [*_too_many(sweep, seeds)]:
        raise UserError(*too_many)
    complaints = [*_clashes(sweep, axis)]
    row, most = AXES[axis], AXES[axis].high
    if most is None:
        most = min(int(value) for group in sweep.groups for value in _values(group, "steps"))
    given: dict[str, Number] = {"low": row.low, "high": most, "resolution": row.resolution}
    for name, text in (("low", low), ("high", high), ("resolution", resolution)):
        if text is not None:
            try:
                given[name] = _resolution(row, text) if name == "resolution" else _end(axis, text)
            except ValueError as fault:
                complaints.append(f"--{name}: {fault}")
    if not complaints and given["low"] >= given["high"]:
        complaints.append(f"--low {exact_text(given['low'])} is not below --high {exact_text(given['high'])}")
    chosen = _seeds(sweep, seeds)
    needed = len(chosen) // 2 + 1 if at_least is None else at_least
    if needed > len(chosen):
        complaints.append(f"--at-least {needed}: there are only {len(chosen)} seeds: raise --seeds")
    if complaints:
        raise UserError(*complaints)
    return Question(sweep=sweep, axis=axis, span=Span(whole=row.whole, **given), seeds=chosen, needed=needed)


def _clashes(sweep: Sweep, axis: str) -> Iterator[str]:
    for group in sweep.groups:
        where = f"{sweep.origin}{f', {group.label}' if group.label else ''}"
        if axis in group.grid and group.grid[axis].count > 1:
            yield (
                f"{where}: {axis} is an axis of the grid, and edge finds its values itself: take it out, or put one"
                f" value in its place by {axis}={group.grid[axis].value(0)} after the config"
            )
        for name in (axis, "seed"):
            if any(name in zipped for zipped in group.zips):
                yield f"{where}: {name} stands in a zip group, but edge gives it its values: take it out"
            if any(name in part for part in group.exclude):
                yield f"{where}: exclude names {name}, but edge gives it its values: take it out"


def _too_many(sweep: Sweep, seeds: int | None) -> Iterator[str]:
    """What must not even be counted out."""
    if seeds is not None and seeds > MOST:
        yield f"--seeds {seeds}: at most {MOST}"
    for group in sweep.groups:
        for axes in group.dimensions:
            for name in {"seed", "steps"} & set(axes):
                if axes[name].count > MOST:
                    yield f"{sweep.origin}: {name} has {axes[name].count} values: at most {MOST}"


def _values(group: Group, name: str) -> list[Value]:
    """All values that a key takes in a group."""
    axes = [axes[name] for axes in group.dimensions if name in axes]
    return [value for axis in axes for value in axis] or [group.asked(name)]


def _end(axis: str, text: str) -> Number:
    value, row = KEYS[axis].parse(text), AXES[axis]
    assert isinstance(value, int | float)
    if value < row.least:
        raise ValueError(f"{text} is out of range: at least {row.least:g}")
    if not row.whole and value <= 0:
        raise ValueError(f"{text} has no logarithm, and {axis} is halved on a log scale: it must be above 0")
    return value


def _resolution(row: EdgeAxis, text: str) -> Number:
    value = Key(kind=int if row.whole else float, default=1, neutral=1, help="").parse(text)
    assert isinstance(value, int | float)
    if row.whole and not value >= 1:
        raise ValueError(f"{text} is a difference of whole numbers: it must be at least 1")
    if not row.whole and not FINEST_RATIO <= value < float("inf"):
        raise ValueError(f"{text} is the ratio of the bracket's ends: it must be at least {FINEST_RATIO}, such as 1.5")
    return value


def _seeds(sweep: Sweep, count: int | None) -> tuple[int, ...]:
    """As many from the first on; without a count those of the grid, or `SEEDS` of them."""
    given = [int(seed) for group in sweep.groups for seed in _values(group, "seed")]
    varied = any("seed" in group.varied for group in sweep.groups)
    if count is None and varied:
        return tuple(dict.fromkeys(given))
    return tuple(range(given[0], given[0] + (count or SEEDS)))
