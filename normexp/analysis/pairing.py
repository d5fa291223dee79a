"""Pair the points of two sweeps for a comparison.

Two points form a pair if they have the same seed and agree on every axis of either sweep. An axis on which the sweeps
have no value in common, such as norm ln in one and rms in the other, is `replaced`: its values need not agree.
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
    """One of two sweeps: its points, the row of runs.csv of each run, and the record of each run that has ended."""

    name: str
    folder: str
    axes: tuple[str, ...]
    points: tuple[Point, ...]
    rows: Mapping[str, Run]
    records: Mapping[str, RunRecord]

    def values(self, key: str) -> list[Value]:
        """Return the configured values of a key, in order of appearance."""
        return list(dict.fromkeys(point.value_of(key) for point in self.points))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A pair of points, one of each side.

    `where` holds the values on which both agree, including the seed; `before` and `after` hold the replaced values of
    side a and side b. `twins` are the other pairs of points that have the same two runs.
    """

    where: Values
    before: Values
    after: Values
    a: Point
    b: Point
    twins: tuple[Pair, ...] = ()

    @property
    def run_ids(self) -> tuple[str, str]:
        """The ids of both runs."""
        return self.a.config.run_id, self.b.config.run_id

    @property
    def of_points(self) -> tuple[Pair, ...]:
        """Every pair of points with the same two runs, this one first."""
        return self, *self.twins


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """All distinct pairs of runs. `only_a` and `only_b` are the points without a partner."""

    matched: tuple[str, ...]
    replaced: tuple[str, ...]
    pairs: tuple[Pair, ...]
    only_a: tuple[Point, ...]
    only_b: tuple[Point, ...]

    @property
    def of_points(self) -> list[Pair]:
        """All pairs of points, including those with the same runs."""
        return [pair for runs in self.pairs for pair in runs.of_points]


def side(name: str, folder: str, plan: Plan, records: Mapping[str, RunRecord]) -> Side:
    """Return a sweep as one side of a comparison."""
    by_id = {row["run_id"]: row for row in rows(runs(plan, records))}
    return Side(name=name, folder=folder, axes=plan.axes, points=plan.points, rows=by_id, records=records)


def halves(whole: Side, along: str) -> tuple[Side, Side]:
    """Split a sweep by two values of a key, given as in `position=pre,post`. Raises UserError for anything else."""
    key, equals, text = along.partition("=")
    words = text.split(",")
    if meant := "" if key in (LABEL, *KEYS) else near_to(key.lower(), KEYS):
        raise UserError(f"--along {along}: unknown key {key}: did you mean {meant}?")
    if not equals or len(words) != 2 or (key not in KEYS and key != LABEL):
        raise UserError(f"--along {along}: write a key with two of its values, such as position=pre,post")
    try:
        values: list[Value] = [word if key == LABEL else KEYS[key].parse(word.strip()) for word in words]
    except ValueError as fault:
        raise UserError(f"--along {along}: {fault}") from fault
    if values[0] == values[1]:
        raise UserError(f"--along {along}: the two values are the same: write two different ones")
    sides, labels = [], Labels(whole.values)
    for wanted in values:
        value = next(iter(labels.matching(key, wanted)), wanted)
        points = tuple(point for point in whole.points if point.value_of(key) == value)
        if not points:
            known = ", ".join(map(str, whole.values(key)))
            raise UserError(f"--along {along}: {whole.name} has no point with {key} {value}: it has {known}")
        sides.append(replace(whole, name=values_text({key: value}, labels), points=points, axes=_with(whole.axes, key)))
    return sides[0], sides[1]


def _with(axes: tuple[str, ...], key: str) -> tuple[str, ...]:
    return axes if key in axes or key == LABEL else (*axes, key)


def pairing(a: Side, b: Side) -> Pairing:
    """Pair the points of two sides. Several values of a replaced axis are paired in all combinations."""
    axes = [key for key in dict.fromkeys([LABEL, *a.axes, *b.axes]) if key != SEED]
    replaced = tuple(key for key in axes if not set(a.values(key)) & set(b.values(key)))
    matched = (*(key for key in axes if key not in replaced), SEED)
    a_points, b_points = _grouped(a.points, matched), _grouped(b.points, matched)
    pairs = [
        Pair(
            where=dict(zip(matched, where, strict=True)),
            before={key: a_point.value_of(key) for key in replaced},
            after={key: b_point.value_of(key) for key in replaced},
            a=a_point,
            b=b_point,
        )
        for where, points in a_points.items()
        for a_point, b_point in product(points, b_points.get(where, ()))
    ]
    return Pairing(
        matched=matched,
        replaced=replaced,
        pairs=_distinct(pairs),
        only_a=tuple(point for where, points in a_points.items() if where not in b_points for point in points),
        only_b=tuple(point for where, points in b_points.items() if where not in a_points for point in points),
    )


def _distinct(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Return each pair of runs once; further pairs of points with the same runs become its `twins`."""
    by_runs: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        by_runs.setdefault(pair.run_ids, []).append(pair)
    return tuple(replace(first, twins=tuple(twins)) for first, *twins in by_runs.values())


def _grouped(points: Iterable[Point], keys: Iterable[str]) -> dict[tuple[Value, ...], list[Point]]:
    names, groups = list(keys), dict[tuple[Value, ...], list[Point]]()
    for point in points:
        groups.setdefault(tuple(point.value_of(key) for key in names), []).append(point)
    return groups
