"""What differs between two sweeps: keys, outcomes, final losses pair by pair, environments; as data.

Differences are b - a in nats, over the seeds that survived on both sides; how many did not is always beside them.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from normexp.analysis.cells import Cell, Run, final_loss, losses_of, result_word
from normexp.analysis.pairing import Pair, Pairing, Side, Values, pairing
from normexp.analysis.sensitivity import half_interval
from normexp.config.labels import Labels
from normexp.config.plan import SEED
from normexp.config.run import KEYS
from normexp.records.record import SURVIVED, Status
from normexp.schemes.network_config import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """A key, or a part of the environment, with the values of each side."""

    name: str
    a: tuple[Value, ...]
    b: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The pairs of runs whose result (an outcome, or the status of a run that is not done) went from `a` to `b`."""

    a: str
    b: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDifference:
    """The pairs of one cell, one a seed: both cells, and the paired difference over the `compared` pairs.

    Cells that the same pairs of runs answer are one, and stand in `places`: each with where its sides agree, and their
    values `before` and `after`.
    `mean` is None where no pair survived on both sides or the two have different tasks; `low` and `high` bound the
    95 % t-interval, None below two pairs. `same_runs`: each pair is one run, with the same result on both sides.
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

    @property
    def where(self) -> Values:
        """Where both sides of its first place agree, seeds apart."""
        return _without_seed(self.places[0].where)

    @property
    def before(self) -> Values:
        """What its first place has on side a instead."""
        return self.places[0].before

    @property
    def after(self) -> Values:
        """What its first place has on side b instead."""
        return self.places[0].after

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sweeps compared. `keys` and `environment` have what differs alone.

    `same` counts the pairs that are one run, with the same result on both sides: no change is among them.
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
        """Labels that tell the values of both sides apart."""
        return Labels(lambda key: [*self.a.values(key), *self.b.values(key)])


def compare(a: Side, b: Side) -> Comparison:
    """Compare two sides; without a pair, `cells` and `changes` are empty."""
    found = pairing(a, b)
    apart = [pair for pair in found.pairs if not _same(*_rows(a, b, pair))]
    return Comparison(
        a=a,
        b=b,
        pairing=found,
        keys=_keys(a, b),
        changes=_changes(a, b, apart),
        cells=_cells(a, b, found.of_points),
        environment=_environment(a, b),
        same=len(found.pairs) - len(apart),
    )


def _keys(a: Side, b: Side) -> tuple[Differing, ...]:
    sides = {key: (a.values(key), b.values(key)) for key in ("label", *KEYS)}
    return tuple(
        Differing(name=key, a=tuple(ours), b=tuple(theirs))
        for key, (ours, theirs) in sides.items()
        if set(ours) != set(theirs)
    )


def _environment(a: Side, b: Side) -> tuple[Differing, ...]:
    found = []
    names = dict.fromkeys(name for side in (a, b) for record in side.records.values() for name in record.made_with)
    for name in names:
        ours, theirs = _made_with(a, name), _made_with(b, name)
        if ours and theirs and set(ours) != set(theirs):
            found.append(Differing(name=name, a=ours, b=theirs))
    return tuple(found)


def _made_with(side: Side, name: str) -> tuple[Value, ...]:
    ended = [side.records[point.config.run_id] for point in side.points if point.config.run_id in side.records]
    return tuple(dict.fromkeys(record.made_with[name] for record in ended if name in record.made_with))


def _changes(a: Side, b: Side, pairs: Sequence[Pair]) -> tuple[Change, ...]:
    found: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        before, after = map(result_word, _rows(a, b, pair))
        found.setdefault((before, after), []).append(pair)
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    return tuple(Change(a=before, b=after, pairs=tuple(those)) for (before, after), those in ordered)


def _cells(a: Side, b: Side, pairs: Sequence[Pair]) -> tuple[CellDifference, ...]:
    """Each set of pairs of runs once, with the places of all cells that have these runs."""
    found: dict[tuple[Value, ...], dict[tuple[str, str], Pair]] = {}
    for pair in pairs:
        where = _without_seed(pair.where).values()
        found.setdefault((*where, *pair.before.values(), *pair.after.values()), {}).setdefault(pair.run_ids, pair)
    alike: dict[frozenset[tuple[str, str]], list[list[Pair]]] = {}
    for those in found.values():
        alike.setdefault(frozenset(those), []).append(list(those.values()))
    return tuple(_cell(a, b, cells[0], [pairs[0] for pairs in cells]) for cells in alike.values())


def _rows(a: Side, b: Side, pair: Pair) -> tuple[Run, Run]:
    """The rows of runs.csv of its two runs."""
    one, other = pair.run_ids
    return a.rows[one], b.rows[other]


def _without_seed(values: Values) -> Values:
    return {key: value for key, value in values.items() if key != SEED}


def _cell(a: Side, b: Side, pairs: Sequence[Pair], places: Sequence[Pair]) -> CellDifference:
    first = pairs[0]
    rows = [_rows(a, b, pair) for pair in pairs]
    both = [pair for pair in rows if all(row["status"] == Status.DONE and row["outcome"] in SURVIVED for row in pair)]
    same_task = all(losses_of(one).agrees(losses_of(other)) for one, other in both)
    mean, low, high = _interval([final_loss(other) - final_loss(one) for one, other in both] if same_task else [])
    return CellDifference(
        places=tuple(places),
        a=Cell(values={}, point=first.a, runs=tuple(one for one, _ in rows)),
        b=Cell(values={}, point=first.b, runs=tuple(other for _, other in rows)),
        pairs=len(pairs),
        compared=len(both) if same_task else 0,
        mean=mean,
        low=low,
        high=high,
        same_runs=all(_same(one, other) for one, other in rows),
        same_task=same_task,
    )


def _same(one: Run, other: Run) -> bool:
    """Whether two rows tell of one run the same: another version or machine may have come to other numbers."""
    told = ("run_id", "status", "outcome", "final_val_loss", "kind", "step", "numerics")
    return all(repr(one[name]) == repr(other[name]) for name in told)


def _interval(differences: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Mean and 95 % t-interval."""
    if not differences:
        return None, None, None
    mean = statistics.fmean(differences)
    if len(differences) == 1:
        return mean, None, None
    half = half_interval(differences)
    return mean, mean - half, mean + half


def as_data(found: Comparison) -> dict[str, Any]:
    """What `normexp compare --json` prints of two sweeps."""
    pairs = found.pairing
    return {
        "schema": 1,
        "kind": "sweeps",
        "a": _side_data(found.a),
        "b": _side_data(found.b),
        "keys": [{"key": item.name, "a": item.a, "b": item.b} for item in found.keys],
        "matched": pairs.matched,
        "replaced": pairs.replaced,
        "pairs": len(pairs.pairs),
        "pairs_of_points": len(pairs.of_points),
        "same_runs": found.same,
        "only_a": len(pairs.only_a),
        "only_b": len(pairs.only_b),
        "outcomes": [
            {"a": change.a, "b": change.b, "count": len(change.pairs), "pairs": [_pair_data(p) for p in change.pairs]}
            for change in found.changes
        ],
        "cells": [_cell_data(cell) for cell in found.cells],
        "environment": [{"name": item.name, "a": item.a, "b": item.b} for item in found.environment],
    }


def _side_data(side: Side) -> dict[str, Any]:
    ended = {point.config.run_id for point in side.points} & set(side.records)
    return {"name": side.name, "folder": side.folder, "points": len(side.points), "ended_runs": len(ended)}


def _pair_data(pair: Pair) -> dict[str, Any]:
    one, other = pair.run_ids
    also = {"also": [_place_data(twin, twin.where) for twin in pair.twins]}
    return _place_data(pair, pair.where) | {"a_run_id": one, "b_run_id": other} | also


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
