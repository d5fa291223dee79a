"""Two sweeps side by side: which point of one answers to which of the other.

Points pair where they agree on every axis of either, and on the seed always. An axis of which the two have no value in
common is `replaced` instead: rms there for ln here is what they are compared for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product

from normexp.analysis.cells import Run
from normexp.analysis.frames import rows, runs
from normexp.config.keys import near_to
from normexp.config.labels import Labels, values_text
from normexp.config.plan import LABEL, SEED, Plan, Point
from normexp.config.run import KEYS
from normexp.errors import UserError
from normexp.records.record import RunRecord
from normexp.schemes.network_config import Value

Values = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two sweeps: its points, and the row of runs.csv and the record (where it has ended) of each run."""

    name: str
    folder: str
    axes: tuple[str, ...]
    points: tuple[Point, ...]
    rows: Mapping[str, Run]
    records: Mapping[str, RunRecord]

    def values(self, key: str) -> list[Value]:
        """The values of a key, as asked for, in order of appearance."""
        return list(dict.fromkeys(point.value_of(key) for point in self.points))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A point of each side: `where` both agree, with the seed, and the values that are `before` and `after` instead.

    `twins` are the other pairs of points that the same two runs answer.
    """

    where: Values
    before: Values
    after: Values
    a: Point
    b: Point
    twins: tuple[Pair, ...] = ()

    @property
    def run_ids(self) -> tuple[str, str]:
        """Of its two runs."""
        return self.a.config.run_id, self.b.config.run_id

    @property
    def of_points(self) -> tuple[Pair, ...]:
        """Every pair of points that its runs answer, itself first."""
        return self, *self.twins


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Every pair of runs, once, whatever points it answers; `only_a` and `only_b` are the points that found none."""

    matched: tuple[str, ...]
    replaced: tuple[str, ...]
    pairs: tuple[Pair, ...]
    only_a: tuple[Point, ...]
    only_b: tuple[Point, ...]

    @property
    def of_points(self) -> list[Pair]:
        """The pairs of points that these runs answer."""
        return [pair for runs in self.pairs for pair in runs.of_points]


def side(name: str, folder: str, plan: Plan, records: Mapping[str, RunRecord]) -> Side:
    """A sweep as one side."""
    found = {row["run_id"]: row for row in rows(runs(plan, records))}
    return Side(name=name, folder=folder, axes=plan.axes, points=plan.points, rows=found, records=records)


def halves(whole: Side, along: str) -> tuple[Side, Side]:
    """The points with the one and with the other value of a key, from `position=pre,post`. Raises UserError."""
    key, equals, text = along.partition("=")
    words = text.split(",")
    if meant := "" if key in (LABEL, *KEYS) else near_to(key.lower(), KEYS):
        raise UserError(f"--along {along}: {key} is no key: did you mean {meant}?")
    if not equals or len(words) != 2 or (key not in KEYS and key != LABEL):
        raise UserError(f"--along {along}: write a key with two of its values, such as position=pre,post")
    try:
        values: list[Value] = [word if key == LABEL else KEYS[key].parse(word.strip()) for word in words]
    except ValueError as fault:
        raise UserError(f"--along {along}: {fault}") from fault
    if values[0] == values[1]:
        raise UserError(f"--along {along}: the two values are one: write two that differ")
    found, labels = [], Labels(whole.values)
    for wanted in values:
        value = next(iter(labels.matching(key, wanted)), wanted)
        points = tuple(point for point in whole.points if point.value_of(key) == value)
        if not points:
            known = ", ".join(map(str, whole.values(key)))
            raise UserError(f"--along {along}: {whole.name} has no point with {key} {value}: it has {known}")
        found.append(replace(whole, name=values_text({key: value}, labels), points=points, axes=_with(whole.axes, key)))
    return found[0], found[1]


def _with(axes: tuple[str, ...], key: str) -> tuple[str, ...]:
    return axes if key in axes or key == LABEL else (*axes, key)


def pairing(a: Side, b: Side) -> Pairing:
    """Pair the points of two sides; where each has several of the values replaced, each with each."""
    axes = [key for key in dict.fromkeys([LABEL, *a.axes, *b.axes]) if key != SEED]
    replaced = tuple(key for key in axes if not set(a.values(key)) & set(b.values(key)))
    matched = (*(key for key in axes if key not in replaced), SEED)
    ours, theirs = _grouped(a.points, matched), _grouped(b.points, matched)
    pairs = [
        Pair(
            where=dict(zip(matched, place, strict=True)),
            before={key: one.value_of(key) for key in replaced},
            after={key: other.value_of(key) for key in replaced},
            a=one,
            b=other,
        )
        for place, points in ours.items()
        for one, other in product(points, theirs.get(place, ()))
    ]
    return Pairing(
        matched=matched,
        replaced=replaced,
        pairs=_distinct(pairs),
        only_a=tuple(point for place, points in ours.items() if place not in theirs for point in points),
        only_b=tuple(point for place, points in theirs.items() if place not in ours for point in points),
    )


def _distinct(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Each pair of runs once, with the further pairs of points that it answers."""
    found: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.run_ids, []).append(pair)
    return tuple(replace(first, twins=tuple(twins)) for first, *twins in found.values())


def _grouped(points: Iterable[Point], keys: Iterable[str]) -> dict[tuple[Value, ...], list[Point]]:
    names, found = list(keys), dict[tuple[Value, ...], list[Point]]()
    for point in points:
        found.setdefault(tuple(point.value_of(key) for key in names), []).append(point)
    return found
