"""Checks along a key that is scanned, the learning rate above all: trends, the best value, sensitivity."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from normexp.claims import findings as of
from normexp.claims.claim import NOTHING, Finding, Selection
from normexp.claims.findings import Cell
from normexp.claims.wording import LOSS, lead, measure_text, selection_text, side_names, spread_text
from normexp.keys import Value
from normexp.labels import plural
from normexp.record import Outcome
from normexp.sensitivity import Scan, ScannedRun, distinct_runs, mean_loss, sensitivities, shared_values

if TYPE_CHECKING:
    import pandas as pd


def trend(
    frame: pd.DataFrame, needed: int, *, axis: str, towards: str, of_runs: Selection = NOTHING, measure: str = LOSS
) -> Finding:
    """A measure rises or falls with every step along a key, and its ends differ: a 95 % interval clear of 0."""
    found = sorted(of.cells(frame, of_runs, needed, axis), key=lambda cell: cell.values[axis])
    for cell in found:
        of.measured(cell, measure, needed)
    medians = [cell.median(measure) for cell in found]
    low, high = (found[0], found[-1]) if towards == "rising" else (found[-1], found[0])
    gap = of.difference(of.measured(low, measure, needed), of.measured(high, measure, needed), needed)
    steps = [b - a for a, b in itertools.pairwise(medians)]
    holds = all(step > 0 if towards == "rising" else step < 0 for step in steps) and gap.above_zero
    labels = of.labels_of(frame)
    told = ", ".join(f"{labels.text(axis, cell.values[axis])}: {cell.text(measure)}" for cell in found)
    name = measure_text(measure)
    return of.finding(found, holds, f"{lead(measure)}{told}", f"{name} by {axis}: {told}; ends differ by {gap.text}")


def best_at(
    frame: pd.DataFrame,
    needed: int,
    *,
    axis: str,
    values: Sequence[Value],
    within: float = 0.0,
    of_runs: Selection = NOTHING,
) -> Finding:
    """Along a key, the median loss at one of these values is the lowest, or at most `within` above it; all learn there.

    `within` keeps the noise of seeds from deciding between values that do equally well.
    """
    found = of.cells(frame, of_runs, needed, axis)
    top = min(found, key=lambda cell: cell.median(LOSS))
    labels = of.labels_of(frame)
    place = labels.text(axis, top.values[axis])
    level = [
        cell
        for cell in found
        if of.all_learned([cell]) and cell.median(LOSS) <= top.median(LOSS) + within and cell.values[axis] in values
    ]
    alive = of.all_learned([top])
    told = f"best at {axis} {place}: {top.text(LOSS)}" if alive else "none learns with every seed at its best"
    others = "".join(
        f", {labels.text(axis, cell.values[axis])}: {cell.text(LOSS)}" for cell in level if cell is not top
    )
    return of.finding(found, alive and bool(level), told + others, f"{told}{others}; {of.all_outcomes(found)}")


def best_higher(
    frame: pd.DataFrame, needed: int, *, axis: str, higher: Selection, lower: Selection, times: float = 1.0
) -> Finding:
    """Along a key of numbers, one side's lowest median loss is at a higher value than the other's; both learn there.

    With `times`, at one so many times as high.
    """
    sides = [of.cells(frame, side, needed, axis) for side in (higher, lower)]
    tops = [min(side, key=lambda cell: cell.median(LOSS)) for side in sides]
    alive = of.all_learned(tops)
    labels = of.labels_of(frame)
    places = [labels.text(axis, top.values[axis]) for top in tops]
    names = side_names((higher, lower), labels)
    told = f"best at {axis} " + " against ".join(
        f"{place} with {name}" for place, name in zip(places, names, strict=True)
    )
    first, second = (float(top.values[axis]) for top in tops)
    holds = first > second and (first >= times * second or math.isclose(first, times * second))
    return of.finding(
        [*sides[0], *sides[1]],
        alive and holds,
        told,
        f"{told}: {tops[0].name} {tops[0].text(LOSS)}, {tops[1].name} {tops[1].text(LOSS)}",
    )


def sensitivity(
    frame: pd.DataFrame, needed: int, *, axis: str, better: Selection, worse: Selection, by: float = 0.0
) -> Finding:
    """One side is less sensitive to a key: mean over its values of min(loss, initial loss) less the best loss.

    The values are those that both sides have. Seeds are paired; the 95 % interval of the difference is above 0, its
    mean at least `by` (2309.14322, section 2). It does not hold where a seed of a side learns at none of the values.
    """
    return _sensitivities(
        frame, needed, axis, (better, worse), lambda gap: gap.above_zero and gap.middle >= by, "lie above 0"
    )


def equally_sensitive(
    frame: pd.DataFrame, needed: int, *, axis: str, one: Selection, other: Selection, within: float
) -> Finding:
    """Two sides are equally sensitive to a key: their mean paired difference is at most `within` (see sensitivity)."""
    return _sensitivities(
        frame, needed, axis, (one, other), lambda gap: abs(gap.middle) <= within, f"be at most {within:g} in size"
    )


def widens(
    frame: pd.DataFrame,
    needed: int,
    *,
    axis: str,
    better: Selection,
    worse: Selection,
    narrow: Selection,
    wide: Selection,
) -> Finding:
    """The gap between two sides, in losses averaged along a key, is larger in one place than in another.

    A loss counts as no worse than that before training. Seeds are paired; the 95 % interval of how much the gap grows
    is above 0. Unlike a sensitivity it says something of a side that learns nowhere.
    """
    places = [
        [of.cells(frame, {**side, **place}, needed, axis) for side in (better, worse)] for place in (narrow, wide)
    ]
    sides = [_scan_of(axis, side) for place in places for side in place]
    values = _shared(axis, sides)
    low, high, wide_low, wide_high = (_mean_losses(side, values) for side in sides)
    gaps = [_by_seed_difference(low, high), _by_seed_difference(wide_low, wide_high)]
    growth = of.difference(gaps[0], gaps[1], needed)
    labels = of.labels_of(frame)
    told_places = [
        f"{spread_text(list(gap.values()))} with {name}"
        for name, gap in zip(side_names((narrow, wide), labels), gaps, strict=True)
    ]
    told = f"gap {' against '.join(told_places)}, difference {growth.text}, over {_count(values, axis)}"
    names = " less ".join(side_names((worse, better), labels))
    sentence = f"mean loss along {axis} of {names}: {told}; the difference must lie above 0"
    found = [cell for place in places for side in place for cell in side if cell.values[axis] in values]
    return of.finding(found, growth.above_zero, told, sentence)


def _sensitivities(
    frame: pd.DataFrame,
    needed: int,
    axis: str,
    selections: tuple[Selection, Selection],
    holds: Callable[[of.Difference], bool],
    must: str,
) -> Finding:
    sides, labels = [of.cells(frame, selection, needed, axis) for selection in selections], of.labels_of(frame)
    scans = [_scan_of(axis, side) for side in sides]
    values = _shared(axis, scans)
    found = [cell for side in sides for cell in side if cell.values[axis] in values]
    low, high = sensitivities([{value: scan[value] for value in values} for scan in scans])
    texts = [spread_text(list(one.by_seed.values())) if one.by_seed else f"none ({one.reason})" for one in (low, high)]
    told = [f"{name} {text}".lstrip() for name, text in zip(side_names(selections, labels), texts, strict=True)]
    names = [selection_text(selection, labels) for selection in selections]
    sentence = f"sensitivity to {axis} over {_count(values, axis)} of {names[0]}: {texts[0]}; of {names[1]}: {texts[1]}"
    if not (low.by_seed and high.by_seed):
        return of.finding(found, False, " against ".join(told), sentence)
    gap = of.difference(low.by_seed, high.by_seed, needed)
    return of.finding(
        found,
        holds(gap),
        f"{' against '.join(told)}, difference {gap.text}, over {_count(values, axis)}",
        f"{sentence}; paired difference {gap.text}, which must {must}",
    )


def _count(values: Sequence[Value], axis: str) -> str:
    """`5 values of lr`."""
    return f"{plural(len(values), 'value')} of {axis}"


def _scan_of(axis: str, side: Sequence[Cell]) -> Scan:
    """The runs of a side by value of the key and seed, of the seeds that all its cells have."""
    seeds = sorted(set.intersection(*(set(cell.runs) for cell in side)))
    return {cell.values[axis]: {seed: _scanned(cell.runs[seed]) for seed in seeds} for cell in side}


def _scanned(run: of.Row) -> ScannedRun:
    learned = run["outcome"] == Outcome.LEARNED
    return ScannedRun(run_id=run["run_id"], final=run[LOSS], initial=run["init_val_loss"], learned=learned)


def _shared(axis: str, scans: Sequence[Scan]) -> list[Value]:
    """The values that all sides have: over other values their losses do not compare. Raises Mismatch below two."""
    values = shared_values(scans)
    if len(values) < 2:
        raise of.Mismatch(f"the sides share {_count(values, axis)}: at least two are needed")
    return values


def _mean_losses(scan: Scan, values: Sequence[Value]) -> dict[int, float]:
    """By seed, over distinct runs."""
    runs = {seed: distinct_runs(scan, values, seed) for seed in scan[values[0]]}
    return {seed: mean_loss([r.final for r in found], [r.initial for r in found]) for seed, found in runs.items()}


def _by_seed_difference(low: Mapping[int, float], high: Mapping[int, float]) -> dict[int, float]:
    return {seed: high[seed] - low[seed] for seed in low if seed in high}
