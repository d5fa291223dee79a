"""Checks that compare losses and other measures of runs: side by side, with a stated value, or along a key."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from normexp.claims import findings as of
from normexp.claims.claim import NOTHING, Finding, Selection
from normexp.claims.findings import Cell
from normexp.claims.wording import LOSS, lead, measure_text, selection_text, side_names, spread_text
from normexp.keys import Value
from normexp.labels import loss_text, plural, value_text
from normexp.sensitivity import sensitivity as loss_sensitivity

if TYPE_CHECKING:
    import pandas as pd


def lower(
    frame: pd.DataFrame,
    needed: int,
    *,
    better: Selection,
    worse: Selection,
    by: float = 0.0,
    over: str = "",
    measure: str = LOSS,
) -> Finding:
    """One side is lower than the other: the 95 % interval of the difference is above 0, its mean at least `by`.

    Seeds are paired. With `over`, each side is at its best along that key. Infinite is higher than any number.
    """
    low, high = of.pair(frame, better, worse, needed, over)
    gap = of.difference(of.measured(low, measure, needed), of.measured(high, measure, needed), needed)
    holds = gap.above_zero and gap.mean >= by
    least = f" and at least {by:g}" if by else ""
    name = measure_text(measure)
    return of.finding(
        [low, high],
        holds,
        f"{of.sides_text(measure, [(better, low), (worse, high)], 'against', over)}, difference {gap.text}",
        f"{name} of {low.name}: {low.text(measure)}; of {high.name}: {high.text(measure)}; paired difference "
        f"{gap.text}, which must lie above 0{least}",
    )


def close(
    frame: pd.DataFrame,
    needed: int,
    *,
    one: Selection,
    other: Selection,
    within: float,
    over: str = "",
    measure: str = LOSS,
) -> Finding:
    """Two sides differ by at most `within`: the mean paired difference, told with its 95 % interval.

    Losses count as close only where every run learned: those of two sides that learn nothing always are.
    """
    left, right = of.pair(frame, one, other, needed, over)
    gap = of.difference(of.measured(left, measure, needed), of.measured(right, measure, needed), needed)
    finite = all(math.isfinite(n) for cell in (left, right) for n in cell.numbers(measure).values())
    unsure = finite and not math.isnan(gap.half) and abs(gap.mean) <= within < abs(gap.mean) + gap.half
    name = measure_text(measure)
    vacuous = measure == LOSS and not of.all_learned([left, right])
    return of.finding(
        [left, right],
        finite and not vacuous and abs(gap.mean) <= within,
        f"{of.sides_text(measure, [(one, left), (other, right)], 'and', over)}, difference {gap.text}"
        + (", but not every run learned" if vacuous else ""),
        f"{name} of {left.name}: {left.text(measure)}; of {right.name}: {right.text(measure)}; paired difference "
        f"{gap.text}, which must be at most {within:g} in size"
        + ("; its interval reaches beyond that" if unsure else "")
        + (f", with every run learning: {of.all_outcomes([left, right])}" if vacuous else ""),
    )


def near(
    frame: pd.DataFrame,
    needed: int,
    *,
    value: float,
    within: float,
    of_runs: Selection = NOTHING,
    over: str = "",
    measure: str = LOSS,
) -> Finding:
    """The median over seeds is within this distance of the stated value."""
    cell = of.one_cell(frame, of_runs, needed, over)
    of.measured(cell, measure, needed)
    holds = abs(cell.median(measure) - value) <= within
    told = f"{lead(measure)}{cell.text(measure)} against {value:g}"
    stated = f"stated {value:g} ± {within:g}"
    name = measure_text(measure)
    return of.finding([cell], holds, told, f"{name} of {cell.name}: {cell.text(measure)}; {stated}")


def above(
    frame: pd.DataFrame, needed: int, *, value: float, of_runs: Selection = NOTHING, measure: str = LOSS
) -> Finding:
    """A measure is above this value in every run."""
    return _every(frame, needed, lambda numbers: min(numbers) > value, value, of_runs, measure)


def below(
    frame: pd.DataFrame, needed: int, *, value: float, of_runs: Selection = NOTHING, measure: str = LOSS
) -> Finding:
    """A measure is below this value in every run."""
    return _every(frame, needed, lambda numbers: max(numbers) < value, value, of_runs, measure)


def _every(
    frame: pd.DataFrame,
    needed: int,
    holds: Callable[[Collection[float]], bool],
    value: float,
    of_runs: Selection,
    measure: str,
) -> Finding:
    cell = of.one_cell(frame, of_runs, needed)
    numbers = of.measured(cell, measure, needed).values()
    told = f"{_ends(numbers)} against {value:g}"
    name = measure_text(measure)
    return of.finding([cell], holds(numbers), f"{lead(measure)}{told}", f"{name} of {cell.name} by seed: {told}")


def changes(
    frame: pd.DataFrame,
    needed: int,
    *,
    before: str,
    after: str,
    towards: str,
    of_runs: Selection = NOTHING,
    times: float = 1.0,
) -> Finding:
    """One measure of a run becomes another, larger or smaller by more than this factor, in every run."""
    cell = of.one_cell(frame, of_runs, needed)
    first, last = of.measured(cell, before, needed), of.measured(cell, after, needed)
    pairs = [(first[seed], last[seed]) for seed in first if seed in last]
    if len(pairs) < needed:
        raise of.Thin(f"{cell.name}: {before} and {after} are known of {len(pairs)} of {plural(needed, 'needed run')}")
    rises = pairs if towards == "rising" else [(late, early) for early, late in pairs]
    holds = all(high - low > (times - 1) * abs(low) for low, high in rises)  # undivided: a measure may be 0 at first
    names = measure_text(before), measure_text(after)
    told = f"{names[0]} {cell.text(before)}, {names[1]} {cell.text(after)}"
    return of.finding([cell], holds, told, f"{cell.name}: {told}")


def trend(
    frame: pd.DataFrame, needed: int, *, axis: str, towards: str, of_runs: Selection = NOTHING, measure: str = LOSS
) -> Finding:
    """A measure rises or falls with every step along a key, and its ends differ: a 95 % interval clear of 0."""
    found = sorted(of.cells(frame, of_runs, needed, axis), key=lambda cell: cell.values[axis])
    medians = [cell.median(measure) for cell in found]
    low, high = (found[0], found[-1]) if towards == "rising" else (found[-1], found[0])
    gap = of.difference(of.measured(low, measure, needed), of.measured(high, measure, needed), needed)
    steps = [b - a for a, b in itertools.pairwise(medians)]
    holds = all(step > 0 if towards == "rising" else step < 0 for step in steps) and gap.above_zero
    told = ", ".join(f"{value_text(axis, cell.values[axis])}: {cell.text(measure)}" for cell in found)
    name = measure_text(measure)
    return of.finding(found, holds, f"{lead(measure)}{told}", f"{name} by {axis}: {told}; ends differ by {gap.text}")


def best_at(
    frame: pd.DataFrame, needed: int, *, axis: str, values: Sequence[Value], of_runs: Selection = NOTHING
) -> Finding:
    """Along a key, the lowest median loss is at one of these values, where every run learned."""
    found = of.cells(frame, of_runs, needed, axis)
    top = min(found, key=lambda cell: cell.median(LOSS))
    place = value_text(axis, top.values[axis])
    alive = of.all_learned([top])
    told = f"best at {axis} {place}: {top.text(LOSS)}" if alive else "none learns with every seed at its best"
    return of.finding(found, alive and top.values[axis] in values, told, f"{told}; {of.all_outcomes(found)}")


def best_higher(frame: pd.DataFrame, needed: int, *, axis: str, higher: Selection, lower: Selection) -> Finding:
    """Along a key of numbers, one side's lowest median loss is at a higher value than the other's; both learn there."""
    sides = [of.cells(frame, side, needed, axis) for side in (higher, lower)]
    tops = [min(side, key=lambda cell: cell.median(LOSS)) for side in sides]
    alive = of.all_learned(tops)
    places = [value_text(axis, top.values[axis]) for top in tops]
    names = side_names((higher, lower))
    told = f"best at {axis} " + " against ".join(
        f"{place} with {name}" for place, name in zip(places, names, strict=True)
    )
    return of.finding(
        [*sides[0], *sides[1]],
        alive and float(tops[0].values[axis]) > float(tops[1].values[axis]),
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
        frame, needed, axis, (better, worse), lambda gap: gap.above_zero and gap.mean >= by, "lie above 0"
    )


def equally_sensitive(
    frame: pd.DataFrame, needed: int, *, axis: str, one: Selection, other: Selection, within: float
) -> Finding:
    """Two sides are equally sensitive to a key: their mean paired difference is at most `within` (see sensitivity)."""
    return _sensitivities(
        frame, needed, axis, (one, other), lambda gap: abs(gap.mean) <= within, f"be at most {within:g} in size"
    )


def _sensitivities(
    frame: pd.DataFrame,
    needed: int,
    axis: str,
    selections: tuple[Selection, Selection],
    holds: Callable[[of.Difference], bool],
    must: str,
) -> Finding:
    sides = [of.cells(frame, selection, needed, axis) for selection in selections]
    low, high = (_sensitivity(side) for side in sides)
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


def _sensitivity(side: Sequence[Cell]) -> dict[int, float]:
    seeds = sorted(set.intersection(*(set(cell.runs) for cell in side)))
    by_seed = {}
    for seed in seeds:
        runs = [cell.runs[seed] for cell in side]
        by_seed[seed] = loss_sensitivity([run[LOSS] for run in runs], [run["init_val_loss"] for run in runs])
    return by_seed


def _ends(numbers: Iterable[float]) -> str:
    """`0.12 to 0.14`, or the one number."""
    found = sorted(numbers)
    return " to ".join(dict.fromkeys((loss_text(found[0]), loss_text(found[-1]))))
