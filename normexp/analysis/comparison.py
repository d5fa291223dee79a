"""Compare two sweeps: pair their points, then compare keys, outcomes, final losses and environments.

Two points form a pair if they have the same seed and agree on every axis of either sweep. An axis on which the sweeps
have no value in common, such as norm ln in one and rms in the other, is `replaced`: its values need not agree.

Loss differences are b - a in nats, over the seeds in which both runs stayed finite (learned or plateau). The number of
pairs left out is always reported with them.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from normexp.analysis.cells import Cell, Run, final_loss, losses_of, result_word
from normexp.analysis.frames import rows, runs
from normexp.analysis.sensitivity import half_interval
from normexp.config.keys import near_to
from normexp.config.labels import Labels, values_text
from normexp.config.plan import LABEL, SEED, Plan, Point
from normexp.config.run import KEYS
from normexp.errors import UserError
from normexp.records.record import SURVIVED, Outcome, RunRecord, Status
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """A key or environment entry whose values differ between the sides."""

    name: str
    a: tuple[Value, ...]
    b: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The pairs of runs whose result (the outcome, or the status of a run that is not done) changed from `a` to `b`."""

    a: str
    b: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDifference:
    """The paired loss difference of one cell, over its `compared` pairs (one pair per seed).

    Cells that consist of the same pairs of runs are merged; `places` has one pair of points for each of them, with the
    values on which both sides agree and those that differ.
    `mean` is None if no pair stayed finite on both sides or if the tasks differ. `low` and `high` bound the 95 %
    t-interval and are None for fewer than two pairs. `same_runs` is True if each pair is one run with the same result
    on both sides. `nothing_learned` is True if every compared run ended on a plateau.
    """

    places: tuple[Pair, ...]
    a: Cell
    b: Cell
    pairs: int
    compared: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    same_runs: bool = False
    same_task: bool = True
    nothing_learned: bool = False

    @property
    def where(self) -> Values:
        """The values on which both sides agree, without the seed."""
        return _without_seed(self.places[0].where)

    @property
    def before(self) -> Values:
        """The values of side a that side b replaces."""
        return self.places[0].before

    @property
    def after(self) -> Values:
        """The values of side b that replace those of side a."""
        return self.places[0].after

    @property
    def clear(self) -> bool:
        """Whether the 95 % interval excludes 0 and something was learned on one of the sides."""
        excludes_0 = self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)
        return excludes_0 and not self.nothing_learned


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of two sweeps. `keys` and `environment` hold only what differs.

    `same` counts the pairs that are one run with the same result on both sides; `changes` leaves these out.
    """

    a: Side
    b: Side
    pairing: Pairing
    keys: tuple[Differing, ...]
    changes: tuple[Change, ...]
    cells: tuple[CellDifference, ...]
    environment: tuple[Differing, ...]
    same: int

    @property
    def labels(self) -> Labels:
        """Labels that distinguish the values of both sides."""
        return Labels(lambda key: [*self.a.values(key), *self.b.values(key)])


def compare(a: Side, b: Side) -> Comparison:
    """Compare two sides. If they have no pair, `cells` and `changes` are empty."""
    pairs = pairing(a, b)
    different = [pair for pair in pairs.pairs if not _same(*_rows(a, b, pair))]
    return Comparison(
        a=a,
        b=b,
        pairing=pairs,
        keys=_keys(a, b),
        changes=_changes(a, b, different),
        cells=_cells(a, b, pairs.of_points),
        environment=_environment(a, b),
        same=len(pairs.pairs) - len(different),
    )


def _keys(a: Side, b: Side) -> tuple[Differing, ...]:
    sides = {key: (a.values(key), b.values(key)) for key in ("label", *KEYS)}
    return tuple(
        Differing(name=key, a=tuple(a_values), b=tuple(b_values))
        for key, (a_values, b_values) in sides.items()
        if set(a_values) != set(b_values)
    )


def _environment(a: Side, b: Side) -> tuple[Differing, ...]:
    differing = []
    names = dict.fromkeys(name for side in (a, b) for record in side.records.values() for name in record.made_with)
    for name in names:
        a_values, b_values = _made_with(a, name), _made_with(b, name)
        if a_values and b_values and set(a_values) != set(b_values):
            differing.append(Differing(name=name, a=a_values, b=b_values))
    return tuple(differing)


def _made_with(side: Side, name: str) -> tuple[Value, ...]:
    ended = [side.records[point.config.run_id] for point in side.points if point.config.run_id in side.records]
    return tuple(dict.fromkeys(record.made_with[name] for record in ended if name in record.made_with))


def _changes(a: Side, b: Side, pairs: Sequence[Pair]) -> tuple[Change, ...]:
    by_results: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        before, after = map(result_word, _rows(a, b, pair))
        by_results.setdefault((before, after), []).append(pair)
    ordered = sorted(by_results.items(), key=lambda item: -len(item[1]))
    return tuple(Change(a=before, b=after, pairs=tuple(changed)) for (before, after), changed in ordered)


def _cells(a: Side, b: Side, pairs: Sequence[Pair]) -> tuple[CellDifference, ...]:
    """Return the difference of each cell, merging cells that consist of the same pairs of runs."""
    by_cell: dict[tuple[Value, ...], dict[tuple[str, str], Pair]] = {}
    for pair in pairs:
        where = _without_seed(pair.where).values()
        by_cell.setdefault((*where, *pair.before.values(), *pair.after.values()), {}).setdefault(pair.run_ids, pair)
    by_runs: dict[frozenset[tuple[str, str]], list[list[Pair]]] = {}
    for cell_pairs in by_cell.values():
        by_runs.setdefault(frozenset(cell_pairs), []).append(list(cell_pairs.values()))
    return tuple(_cell(a, b, cells[0], [pairs[0] for pairs in cells]) for cells in by_runs.values())


def _rows(a: Side, b: Side, pair: Pair) -> tuple[Run, Run]:
    """Return the rows of runs.csv of both runs."""
    a_id, b_id = pair.run_ids
    return a.rows[a_id], b.rows[b_id]


def _without_seed(values: Values) -> Values:
    return {key: value for key, value in values.items() if key != SEED}


def _cell(a: Side, b: Side, pairs: Sequence[Pair], places: Sequence[Pair]) -> CellDifference:
    first = pairs[0]
    rows = [_rows(a, b, pair) for pair in pairs]
    finite = [pair for pair in rows if all(row["status"] == Status.DONE and row["outcome"] in SURVIVED for row in pair)]
    same_task = all(losses_of(a_run).agrees(losses_of(b_run)) for a_run, b_run in finite)
    mean, low, high = _interval([final_loss(b_run) - final_loss(a_run) for a_run, b_run in finite] if same_task else [])
    return CellDifference(
        places=tuple(places),
        a=Cell(values={}, point=first.a, runs=tuple(a_run for a_run, _ in rows)),
        b=Cell(values={}, point=first.b, runs=tuple(b_run for _, b_run in rows)),
        pairs=len(pairs),
        compared=len(finite) if same_task else 0,
        mean=mean,
        low=low,
        high=high,
        same_runs=all(_same(a_run, b_run) for a_run, b_run in rows),
        same_task=same_task,
        nothing_learned=bool(finite) and all(row["outcome"] == Outcome.PLATEAU for pair in finite for row in pair),
    )


def _same(a_run: Run, b_run: Run) -> bool:
    """Return whether two rows are one run with the same result.

    The results of one run may differ between versions of normexp or between machines.
    """
    columns = ("run_id", "status", "outcome", "final_val_loss", "kind", "step", "numerics")
    return all(repr(a_run[name]) == repr(b_run[name]) for name in columns)


def _interval(differences: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the mean and the bounds of its 95 % t-interval."""
    if not differences:
        return None, None, None
    mean = statistics.fmean(differences)
    if len(differences) == 1:
        return mean, None, None
    half = half_interval(differences)
    return mean, mean - half, mean + half


def as_data(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as the data that `normexp compare --json` prints."""
    pairs = comparison.pairing
    return {
        "schema": 1,
        "kind": "sweeps",
        "a": _side_data(comparison.a),
        "b": _side_data(comparison.b),
        "keys": [{"key": item.name, "a": item.a, "b": item.b} for item in comparison.keys],
        "matched": pairs.matched,
        "replaced": pairs.replaced,
        "pairs": len(pairs.pairs),
        "pairs_of_points": len(pairs.of_points),
        "same_runs": comparison.same,
        "only_a": len(pairs.only_a),
        "only_b": len(pairs.only_b),
        "outcomes": [
            {"a": change.a, "b": change.b, "count": len(change.pairs), "pairs": [_pair_data(p) for p in change.pairs]}
            for change in comparison.changes
        ],
        "cells": [_cell_data(cell) for cell in comparison.cells],
        "environment": [{"name": item.name, "a": item.a, "b": item.b} for item in comparison.environment],
    }


def _side_data(side: Side) -> dict[str, Any]:
    ended = {point.config.run_id for point in side.points} & set(side.records)
    return {"name": side.name, "folder": side.folder, "points": len(side.points), "ended_runs": len(ended)}


def _pair_data(pair: Pair) -> dict[str, Any]:
    a_id, b_id = pair.run_ids
    also = {"also": [_place_data(twin, twin.where) for twin in pair.twins]}
    return _place_data(pair, pair.where) | {"a_run_id": a_id, "b_run_id": b_id} | also


def _place_data(pair: Pair, where: Values) -> dict[str, Any]:
    return {"where": where, "a_values": pair.before, "b_values": pair.after}


def _cell_data(cell: CellDifference) -> dict[str, Any]:
    first, *others = (_place_data(place, _without_seed(place.where)) for place in cell.places)
    return first | {
        "also": others,
        "a": _counts(cell.a),
        "b": _counts(cell.b),
        "pairs": cell.pairs,
        "compared": cell.compared,
        "same_runs": cell.same_runs,
        "same_task": cell.same_task,
        "nothing_learned": cell.nothing_learned,
        "difference": {"mean": cell.mean, "low95": cell.low, "high95": cell.high},
    }


def _counts(cell: Cell) -> dict[str, Any]:
    losses = [final_loss(run) for run in cell.survivors]
    words = Counter(map(result_word, cell.runs))
    return {
        "results": dict(words),
        "survivors": len(losses),
        "mean_val_loss": statistics.fmean(losses) if losses else None,
        "median_val_loss": None if math.isnan(cell.median) else cell.median,
    }
