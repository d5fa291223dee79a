"""Find the stability limit of training along one axis: the question, the bisection, and the result of each cell.

The bisection itself only knows verdicts by value: True (learns), False, or None (no verdict). A border lies between two
neighbouring values with different verdicts, so both ends of every border have been run.
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
from normexp.config.presets import EDGE_AXES, EdgeAxis, Number
from normexp.config.run import KEYS
from normexp.config.sweep_file import Sweep
from normexp.errors import UserError
from normexp.schemes.network_config import Value

Seen = Mapping[Number, bool | None]

OFF_CENTRE = 0.05
"""A middle may be off-centre by this share of the gap to need fewer digits: 0.003 rather than 0.00316228."""
LOG_PARTS, WHOLE_PARTS = 6, 8
"""While all verdicts agree, gaps wider than this fraction of the span are halved (three times on a log scale)."""
SEARCHED = 7
"""Values between the ends that are run before the verdicts count as equal everywhere."""
ROUNDING = 1 + 1e-9
SEEDS = 3
FINEST_RATIO = 1.001
MOST = 10_000
"""Highest number of seeds, and of values of a key that are all enumerated."""


class Finding(StrEnum):
    """The result of a search along an axis."""

    EVERYWHERE = "everywhere"
    NOWHERE = "nowhere"
    BORDER = "border"
    SEVERAL = "several borders"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The searched range, from `low` to `high`; a border is narrowed until its ends are within `resolution`.

    For whole numbers, gaps are halved on a linear scale and the resolution is a difference. For other (positive)
    numbers, gaps are halved on a log scale and the resolution is a ratio above 1.
    """

    low: Number
    high: Number
    resolution: Number
    whole: bool

    def gap(self, low: Number, high: Number) -> float:
        """Return the distance of two values on the (linear or log) axis."""
        return high - low if self.whole else math.log(high) - math.log(low)

    def is_fine(self, low: Number, high: Number) -> bool:
        """Return whether two values are within the resolution."""
        return self.gap(low, high) <= self._finest * ROUNDING

    def middle(self, low: Number, high: Number) -> Number:
        """Return a value about half-way between two values, with as few digits as `OFF_CENTRE` allows."""
        if self.whole:
            return (int(low) + int(high)) // 2
        centre, room = (math.log(low) + math.log(high)) / 2, OFF_CENTRE * self.gap(low, high)
        rounded = (float(f"{math.exp(centre):.{digits}g}") for digits in range(1, 17))
        return next((value for value in rounded if abs(math.log(value) - centre) <= room), math.exp(centre))

    @property
    def coarse(self) -> float:
        """The widest gap that is left alone while all verdicts agree."""
        total = self.gap(self.low, self.high)
        return math.ceil(total / WHOLE_PARTS) if self.whole else total / LOG_PARTS

    @property
    def grid_values(self) -> int:
        """The number of values of an evenly spaced grid with this resolution."""
        return math.ceil(self.gap(self.low, self.high) / self._finest / ROUNDING) + 1

    @property
    def most_values(self) -> int:
        """The number of values that a search runs in the worst case, if none is stored."""
        gap = self.gap(self.low, self.high)
        counts = [self._halvings(gap), SEARCHED]
        for level in range(1, 4):  # two borders, discovered at the middle, at a quarter, or at an eighth of the span
            gap = self._halved(gap)
            counts.append(2**level - 1 + 2 * self._halvings(gap))
        return min(2 + max(counts), int(self.high - self.low) + 1) if self.whole else 2 + max(counts)

    def _halvings(self, gap: float) -> int:
        """Return how often a gap is halved, at most, until it is within the resolution."""
        count = 0
        while gap > self._finest * ROUNDING:
            gap, count = self._halved(gap), count + 1
        return count

    def _halved(self, gap: float) -> float:
        """Return the largest possible part of a halved gap."""
        return math.ceil(gap / 2) if self.whole else gap * (0.5 + OFF_CENTRE)

    @property
    def _finest(self) -> float:
        return self.resolution if self.whole else math.log(self.resolution)


def wanted(span: Span, seen: Seen) -> list[Number]:
    """Return the values to run next, together; none if the search is finished or an end has no verdict.

    The ends come first. If verdicts differ, the middles of the first and the last border follow, until they are within
    the resolution. If all agree, the middle of each coarse gap follows, so that a window between equal ends is found.
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
    """Return the neighbouring values (lower, higher) with different verdicts, in order."""
    return [(low, high) for low, high in pairwise(_decided(seen)) if seen[low] is not seen[high]]


def finding(span: Span, seen: Seen) -> Finding:
    """Return the finding: open while an end has no verdict, or while all verdicts agree and coarse gaps remain."""
    changes = borders(seen)
    if seen.get(span.low) is None or seen.get(span.high) is None or (not changes and wanted(span, seen)):
        return Finding.OPEN
    if changes:
        return Finding.BORDER if len(changes) == 1 else Finding.SEVERAL
    return Finding.EVERYWHERE if seen[span.low] else Finding.NOWHERE


def _decided(seen: Seen) -> list[Number]:
    return sorted(value for value, verdict in seen.items() if verdict is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A search: its axis and span, and its seeds, `needed` of which must learn for a value to count as trainable."""

    sweep: Sweep
    axis: str
    span: Span
    seeds: tuple[int, ...]
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The number of `seeds` that `learned` at a `value`, and the number that `failed` without a result."""

    value: Number
    learned: int
    seeds: int
    failed: int
    needed: int

    @property
    def verdict(self) -> bool | None:
        """Whether enough seeds learn; None if the failed ones could change the answer."""
        if self.learned >= self.needed:
            return True
        return False if self.learned + self.failed < self.needed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The result of one cell: `shares` of the values whose runs have ended, and borders as (lower, higher).

    `finished` is True if no value is left to run. `run_ids` are the runs behind the shares: cells with equal `run_ids`
    consist of the same runs.
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
    """Return the question for these options, given as typed. Raises UserError with all complaints at once."""
    if axis not in EDGE_AXES:
        raise UserError(f"--axis {axis}: choose one of {', '.join(EDGE_AXES)}")
    if too_many := [*_too_many(sweep, seeds)]:
        raise UserError(*too_many)
    complaints = [*_clashes(sweep, axis)]
    row, most = EDGE_AXES[axis], EDGE_AXES[axis].high
    if most is None:
        most = min(int(value) for group in sweep.groups for value in _values(group, "steps"))
    numbers: dict[str, Number] = {"low": row.low, "high": most, "resolution": row.resolution}
    for name, text in (("low", low), ("high", high), ("resolution", resolution)):
        if text is not None:
            try:
                numbers[name] = _resolution(row, text) if name == "resolution" else _end(axis, text)
            except ValueError as fault:
                complaints.append(f"--{name}: {fault}")
    if not complaints and numbers["low"] >= numbers["high"]:
        complaints.append(f"--low {exact_text(numbers['low'])} is not below --high {exact_text(numbers['high'])}")
    chosen = _seeds(sweep, seeds)
    needed = len(chosen) // 2 + 1 if at_least is None else at_least
    if needed > len(chosen):
        complaints.append(f"--at-least {needed}: there are only {len(chosen)} seeds: raise --seeds")
    if complaints:
        raise UserError(*complaints)
    return Question(sweep=sweep, axis=axis, span=Span(whole=row.whole, **numbers), seeds=chosen, needed=needed)


def _clashes(sweep: Sweep, axis: str) -> Iterator[str]:
    for group in sweep.groups:
        where = f"{sweep.origin}{f', {group.label}' if group.label else ''}"
        if axis in group.grid and group.grid[axis].count > 1:
            yield (
                f"{where}: {axis} is an axis of the grid, but edge chooses its values: remove it, or fix it with"
                f" {axis}={group.grid[axis].value(0)} after the config"
            )
        for name in (axis, "seed"):
            if any(name in zipped for zipped in group.zips):
                yield f"{where}: {name} is in a zip group, but edge chooses its values: remove it"
            if any(name in part for part in group.exclude):
                yield f"{where}: {name} is in exclude, but edge chooses its values: remove it"


def _too_many(sweep: Sweep, seeds: int | None) -> Iterator[str]:
    """Yield complaints about value lists that are too long to enumerate."""
    if seeds is not None and seeds > MOST:
        yield f"--seeds {seeds}: at most {MOST}"
    for group in sweep.groups:
        for axes in group.dimensions:
            for name in {"seed", "steps"} & set(axes):
                if axes[name].count > MOST:
                    yield f"{sweep.origin}: {name} has {axes[name].count} values: at most {MOST}"


def _values(group: Group, name: str) -> list[Value]:
    """Return all values of a key in a group."""
    axes = [axes[name] for axes in group.dimensions if name in axes]
    return [value for axis in axes for value in axis] or [group.asked(name)]


def _end(axis: str, text: str) -> Number:
    value, row = KEYS[axis].parse(text), EDGE_AXES[axis]
    assert isinstance(value, int | float)
    if value < row.least:
        raise ValueError(f"{text} is out of range: at least {row.least:g}")
    if not row.whole and value <= 0:
        raise ValueError(f"{text} is out of range: {axis} is searched on a log scale, so it must be above 0")
    return value


def _resolution(row: EdgeAxis, text: str) -> Number:
    value = Key(kind=int if row.whole else float, default=1, neutral=1, help="").parse(text)
    assert isinstance(value, int | float)
    if row.whole and not value >= 1:
        raise ValueError(f"{text} is out of range: write the width of a bracket, a whole number of at least 1")
    if not row.whole and not FINEST_RATIO <= value < float("inf"):
        raise ValueError(
            f"{text} is out of range: write the ratio of a bracket's ends, at least {FINEST_RATIO}, such as 1.5"
        )
    return value


def _seeds(sweep: Sweep, count: int | None) -> tuple[int, ...]:
    """Return `count` seeds from the first one on. Without a count: the seeds of the grid, or `SEEDS` of them."""
    seeds = [int(seed) for group in sweep.groups for seed in _values(group, "seed")]
    varied = any("seed" in group.varied for group in sweep.groups)
    if count is None and varied:
        return tuple(dict.fromkeys(seeds))
    return tuple(range(seeds[0], seeds[0] + (count or SEEDS)))
