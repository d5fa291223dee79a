"""Checks along a key that is scanned, the learning rate above all: trends, the best value, sensitivity."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from normexp.claims import findings as of
from normexp.claims.claim import NOTHING, Finding, Selection
from normexp.claims.findings import Cell
from normexp.claims.wording import LOSS, lead, measure_text, selection_text, side_names, spread_text
from normexp.keys import Value
from normexp.labels import value_text
from normexp.sensitivity import mean_loss
from normexp.sensitivity import sensitivity as loss_sensitivity

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
    told = ", ".join(f"{value_text(axis, cell.values[axis])}: {cell.text(measure)}" for cell in found)
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
    place = value_text(axis, top.values[axis])
    level = [
        cell
        for cell in found
        if of.all_learned([cell]) and cell.median(LOSS) <= top.median(LOSS) + within and cell.values[axis] in values
    ]
    alive = of.all_learned([top])
    told = f"best at {axis} {place}: {top.text(LOSS)}" if alive else "none learns with every seed at its best"
    others = "".join(f", {value_text(axis, cell.values[axis])}: {cell.text(LOSS)}" for cell in level if cell is not top)
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
    places = [value_text(axis, top.values[axis]) for top in tops]
    names = side_names((higher, lower))
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

    Seeds are paired; the 95 % interval of the difference is above 0, its mean at least `by` (2309.14322, section 2).
    It says nothing of a side that learns nowhere, which makes it 0.
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
    found: list[Cell] = []
    gaps: list[dict[int, float]] = []
    for place in (narrow, wide):
        sides = [of.cells(frame, {**side, **place}, needed, axis) for side in (better, worse)]
        low, high = (_by_seed(side, mean_loss) for side in sides)
        gaps.append({seed: high[seed] - low[seed] for seed in low if seed in high})
        found += [*sides[0], *sides[1]]
    growth = of.difference(gaps[0], gaps[1], needed)
    places = [
        f"{spread_text(list(gap.values()))} with {name}"
        for name, gap in zip(side_names((narrow, wide)), gaps, strict=True)
    ]
    told = f"gap {' against '.join(places)}, difference {growth.text}"
    names = " less ".join(side_names((worse, better)))
    sentence = f"mean over {axis} of the loss of {names}: {told}, which must lie above 0"
    return of.finding(found, growth.above_zero, told, sentence)


def _sensitivities(
    frame: pd.DataFrame,
    needed: int,
    axis: str,
    selections: tuple[Selection, Selection],
    holds: Callable[[of.Difference], bool],
    must: str,
) -> Finding:
    sides = [of.cells(frame, selection, needed, axis) for selection in selections]
    low, high = (_by_seed(side, loss_sensitivity) for side in sides)
    gap = of.difference(low, high, needed)
    texts = [spread_text(list(side.values())) for side in (low, high)]
    nowhere = any(all(of.learned(cell) == 0 for cell in side) for side in sides)
    names = [selection_text(selection) for selection in selections]
    told = [f"{name} {text}".lstrip() for name, text in zip(side_names(selections), texts, strict=True)]
    return of.finding(
        [*sides[0], *sides[1]],
        holds(gap) and not nowhere,
        f"{' against '.join(told)}, difference {gap.text}" + (", a side learns nowhere" if nowhere else ""),
        f"sensitivity to {axis} of {names[0]}: {texts[0]}; of {names[1]}: {texts[1]}; "
        f"paired difference {gap.text}, which must {must}",
    )


def _by_seed(side: Sequence[Cell], of_losses: Callable[[list[float], list[float]], float]) -> dict[int, float]:
    """A figure of the final and initial losses along the key, of the seeds that all its cells have."""
    seeds = sorted(set.intersection(*(set(cell.runs) for cell in side)))
    runs = {seed: [cell.runs[seed] for cell in side] for seed in seeds}
    return {seed: of_losses([r[LOSS] for r in rows], [r["init_val_loss"] for r in rows]) for seed, rows in runs.items()}
