"""Checks that compare losses and other measures of runs: side by side, or with a stated value."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from normexp.claims import findings as of
from normexp.claims.claim import NOTHING, Finding, Selection
from normexp.claims.wording import LOSS, ends_text, lead, measure_text
from normexp.labels import plural

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

    Seeds are paired. With `over`, each side is at its best along that key. Infinite is higher than any number: where
    a difference is infinite, all must be above 0, and their median at least `by`. Where no side learns, that is told.
    """
    low, high, gap = of.paired(frame, better, worse, needed, over, measure)
    holds = gap.above_zero and gap.middle >= by
    least = f" and at least {by:g}" if by else ""
    name = measure_text(measure)
    barren = measure == LOSS and not of.learned(low) and not of.learned(high)
    return of.finding(
        [low, high],
        holds,
        f"{of.sides_text(frame, measure, [(better, low), (worse, high)], 'against', over)}, difference {gap.text}"
        + (", where no run learned" if barren else ""),
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
    left, right, gap = of.paired(frame, one, other, needed, over, measure)
    finite = all(math.isfinite(n) for cell in (left, right) for n in cell.numbers(measure).values())
    unsure = finite and not math.isnan(gap.half) and abs(gap.middle) <= within < abs(gap.middle) + gap.half
    name = measure_text(measure)
    vacuous = measure == LOSS and not of.all_learned([left, right])
    return of.finding(
        [left, right],
        finite and not vacuous and abs(gap.middle) <= within,
        f"{of.sides_text(frame, measure, [(one, left), (other, right)], 'and', over)}, difference {gap.text}"
        + (", but not every run learned" if vacuous else ""),
        f"{name} of {left.name}: {left.text(measure)}; of {right.name}: {right.text(measure)}; paired difference "
        f"{gap.text}, which must be at most {within:g} in size"
        + ("; its interval reaches beyond that" if unsure else "")
        + (f", with every run learning: {of.all_outcomes([left, right])}" if vacuous else ""),
    )


def no_worse(
    frame: pd.DataFrame,
    needed: int,
    *,
    one: Selection,
    other: Selection,
    within: float,
    over: str = "",
    measure: str = LOSS,
) -> Finding:
    """One side is lower than the other, or higher by at most `within`: the mean paired difference, with its interval.

    Of losses it holds only where every run of the one side learned.
    """
    left, right, gap = of.paired(frame, one, other, needed, over, measure)
    name = measure_text(measure)
    vacuous = measure == LOSS and not of.all_learned([left])
    return of.finding(
        [left, right],
        not vacuous and gap.middle >= -within,
        f"{of.sides_text(frame, measure, [(one, left), (other, right)], 'and', over)}, difference {gap.text}"
        + (f", but not every run of {left.name} learned" if vacuous else ""),
        f"{name} of {left.name}: {left.text(measure)}; of {right.name}: {right.text(measure)}; the second less the "
        f"first, paired, {gap.text}, which must be -{within:g} or more"
        + (f", with every run of the first learning: {of.all_outcomes([left])}" if vacuous else ""),
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
    told = f"{ends_text(numbers)} against {value:g}"
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
    through: float | None = None,
    outcomes: Sequence[str] = (),
) -> Finding:
    """One measure of a run becomes another, larger or smaller by more than this factor, in every run.

    With `through` this number lies between the two; with `outcomes` every run ends in one of them.
    """
    cell = of.one_cell(frame, of_runs, needed)
    first, last = of.measured(cell, before, needed), of.measured(cell, after, needed)
    pairs = [(first[seed], last[seed]) for seed in first if seed in last]
    if len(pairs) < needed:
        raise of.Thin(f"{cell.name}: {before} and {after} are known of {len(pairs)} of {plural(needed, 'needed run')}")
    rises = pairs if towards == "rising" else [(late, early) for early, late in pairs]
    holds = all(high - low > (times - 1) * abs(low) for low, high in rises)  # undivided: a measure may be 0 at first
    holds = holds and (through is None or all(low < through < high for low, high in rises))
    holds = holds and (not outcomes or all(run["outcome"] in outcomes for run in cell.runs.values()))
    names = measure_text(before), measure_text(after)
    told = f"{names[0]} {cell.text(before)}, {names[1]} {cell.text(after)}"
    beyond = "" if through is None else f"; {through:g} must lie between them"
    fate = f"; {of.counts_text([cell])}" if outcomes else ""
    wanted = f"; all must end {' or '.join(outcomes)}" if outcomes else ""
    sentence = f"{cell.name}: {told}{beyond}{wanted}; {of.all_outcomes([cell])}"
    return of.finding([cell], holds, told + fate, sentence)
