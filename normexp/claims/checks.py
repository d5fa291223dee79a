"""The checks of sweep claims: pure functions from a frame of stored runs (of one setting) to a finding.

A check is called as `function(frame, needed, **parameters)`, where `needed` is the number of seeds that every cell must
have. It raises Thin if runs are missing, and Mismatch if a selection is wrong. Each docstring says when the check holds
and when it is refuted; otherwise it is undecided. Thresholds are parameters of the claims, never of the functions. The
first line of each docstring is shown by `normexp claims --checks`.

Measures that span decades are compared by ratio (`Measure.scale`): `by`, `at_least` and `within` are then factors, and
a difference is the logarithm of a ratio.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from normexp.analysis.sensitivity import Scan, ScannedRun, distinct_runs, mean_loss, sensitivities, shared_values
from normexp.claims import cell_stats as stats
from normexp.claims.cell_stats import (
    LOSS,
    SeedRuns,
    ends_text,
    lead,
    measure_text,
    selection_text,
    side_names,
    spread_text,
)
from normexp.claims.claim import NOTHING, Decision, Finding, Selection
from normexp.claims.decisions import Difference, Ruling, in_every_run, is_above, is_within
from normexp.claims.inference import (
    LEVEL,
    fisher_test,
    holm,
    share_interval,
    sign_test,
    survival_median,
    survival_median_interval,
)
from normexp.claims.measures import Scale, scale_of
from normexp.config.labels import listed, plural, range_text
from normexp.records.record import Outcome
from normexp.schemes.network_config import Value

if TYPE_CHECKING:
    import pandas as pd

SEEDS_FOR_DEATHS = 12
"""A claim about the step at which runs become non-finite is undecided with fewer seeds: such steps are chaotic."""


def lower(
    frame: pd.DataFrame,
    needed: int,
    *,
    better: Selection,
    worse: Selection,
    by: float = 0.0,
    at_least: float = 0.0,
    over: str = "",
    measure: str = LOSS,
) -> Finding:
    """One side is lower than the other: the 95 % CI of the paired difference is above 0, and its mean at least `by`.

    `by` is a threshold of ours: a smaller difference is undecided. `at_least` is one that the text states: an interval
    below it refutes the claim, as one below 0 always does. With `over`, each seed is judged at the value of that key
    that is best for the other seeds. Losses are undecided if no run of either side learned.
    """
    low, high, gap = stats.paired(frame, better, worse, needed, over, measure)
    required = _required(measure, by, at_least)
    ruling = is_above(gap, by, at_least)
    if measure == LOSS and not stats.learned(low) and not stats.learned(high):
        ruling = Ruling(Decision.UNDECIDED, 1.0, "no run of either side learned, so that their losses say nothing")
    return stats.finding(
        [low, high],
        ruling,
        f"{stats.sides_text(frame, measure, [(better, low), (worse, high)], 'against', over)}, {_gap_text(gap)}"
        + _nothing_learned([low, high], measure),
        f"{measure_text(measure)} of {low.name}: {low.text(measure)}; of {high.name}: {high.text(measure)}; paired "
        f"{_gap_text(gap)}; required: {required}",
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
    """Two sides are equivalent: the 90 % CI of the paired difference is inside ± `within`.

    This is the result of two one-sided tests at 5 % each. It is refuted if the 95 % CI is outside ± `within`. Losses
    are equivalent only if every run learned: two sides that learn nothing are always close. `over` is as in `lower`.
    """
    left, right, gap = stats.paired(frame, one, other, needed, over, measure)
    return _equivalence(frame, (one, left), (other, right), gap, over, measure, within=within, both=True)


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
    """One side is not higher than the other by more than `within`: the 90 % CI of the difference is above - `within`.

    This is a one-sided test at 5 % (of non-inferiority). It is refuted if the 95 % CI is below - `within`. For losses,
    it holds only if every run of the first side learned, and some run of the other: to be no worse than a network that
    learns nothing says little. `over` is as in `lower`.
    """
    left, right, gap = stats.paired(frame, one, other, needed, over, measure)
    return _equivalence(frame, (one, left), (other, right), gap, over, measure, within=within, both=False)


def _equivalence(
    frame: pd.DataFrame,
    one: tuple[Selection, SeedRuns],
    other: tuple[Selection, SeedRuns],
    gap: Difference,
    over: str,
    measure: str,
    *,
    within: float,
    both: bool,
) -> Finding:
    """Return whether `other` minus `one` is inside ± `within`, or with `both` False, above its lower limit."""
    limit = _limit(measure, "within", within)
    ruling = is_within(gap, -limit, limit if both else math.inf)
    left, right = one[1], other[1]
    needing = [left, right] if both else [left]
    vacuous = measure == LOSS and not stats.all_learned(needing)
    nothing = measure == LOSS and not stats.learned(right)
    if vacuous and ruling.decision is Decision.HOLDS:
        ruling = Ruling(Decision.UNDECIDED, 1.0, "not every run learned, so that similar losses say nothing")
    elif nothing and ruling.decision is Decision.HOLDS:
        ruling = Ruling(Decision.UNDECIDED, 1.0, f"no run of {right.name} learned, so that this says little")
    least = f"{-within:g}" if scale_of(measure) is Scale.LINEAR else f"{1 / within:g}"
    required = f"between {least} and {within:g}" if both else f"at least {least}"
    whose = "" if both else f" of {left.name}"
    return stats.finding(
        [left, right],
        ruling,
        f"{stats.sides_text(frame, measure, [one, other], 'and', over)}, {_gap_text(gap)}"
        + (f", but not every run{whose} learned" if vacuous else ""),
        f"{measure_text(measure)} of {left.name}: {left.text(measure)}; of {right.name}: {right.text(measure)}; paired "
        f"{_gap_text(gap)}; required: a 90 % interval {required}"
        + (f", and every run{whose} learned; observed: {stats.all_outcomes(needing)}" if vacuous else ""),
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
    """The mean over seeds is equivalent to the stated value: its 90 % CI is inside `value` ± `within`.

    This is the result of two one-sided tests at 5 % each. It is refuted if the 95 % CI is outside, or if there is no
    interval and every run is on one side of `value` ± `within`. `over` is as in `lower`.
    """
    cell = stats.one_cell(frame, of_runs, needed, over)
    gap, limit = stats.against(cell, value, needed, measure), _limit(measure, "within", within)
    ruling = is_within(gap, -limit, limit)
    outside = all(number > limit for number in gap.values) or all(number < -limit for number in gap.values)
    if gap.interval() is None and outside:
        ruling = Ruling(Decision.REFUTED, 1.0, "every run is outside")
    measured = f"{lead(measure)}{cell.text(measure)} against {value:g}"
    around = f"{value:g} ± {within:g}" if scale_of(measure) is Scale.LINEAR else f"{value:g} ×/÷ {within:g}"
    sentence = (
        f"{measure_text(measure)} of {cell.name}: {cell.text(measure)}, which differs from the stated {value:g} by "
        f"{gap.text}; required: a 90 % interval within {around}"
    )
    return stats.finding([cell], ruling, measured, sentence)


def above(
    frame: pd.DataFrame, needed: int, *, value: float, of_runs: Selection = NOTHING, measure: str = LOSS
) -> Finding:
    """A measure is above `value` in every run, and so is the 95 % CI of its mean, if it has one.

    It is refuted if the measure is above `value` in no run, and the CI is below it.
    """
    return _every(frame, needed, 1, value, of_runs, measure)


def below(
    frame: pd.DataFrame, needed: int, *, value: float, of_runs: Selection = NOTHING, measure: str = LOSS
) -> Finding:
    """A measure is below `value` in every run, and so is the 95 % CI of its mean, if it has one.

    It is refuted if the measure is below `value` in no run, and the CI is above it.
    """
    return _every(frame, needed, -1, value, of_runs, measure)


def _every(frame: pd.DataFrame, needed: int, sign: int, value: float, of_runs: Selection, measure: str) -> Finding:
    cell = stats.one_cell(frame, of_runs, needed)
    gap = stats.against(cell, value, needed, measure)
    ruling = in_every_run(Difference(tuple(sign * number for number in gap.values), gap.scale, gap.mixed))
    numbers = cell.numbers(measure).values()
    measured = f"{ends_text(numbers, gap.scale)} against {value:g}"
    sentence = (
        f"{measure_text(measure)} of {cell.name} by seed: {measured}; mean {cell.text(measure)}; "
        f"required: {'above' if sign > 0 else 'below'} {value:g} in every run"
    )
    return stats.finding([cell], ruling, f"{lead(measure)}{measured}", sentence)


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
    """A second measure is larger or smaller than a first by more than a factor of `times`, in every run.

    The 95 % CI of the change, if it has one, must agree. With `through`, this number must lie between the two. With
    `outcomes`, every run must end in one of them. It is refuted if no run changes in this direction and the CI agrees,
    if no run reaches `through`, or if no run ends in one of the `outcomes`.
    """
    cell = stats.one_cell(frame, of_runs, needed)
    first, last = stats.measured(cell, before, needed), stats.measured(cell, after, needed)
    pairs = [(first[seed], last[seed]) for seed in first if seed in last]
    if len(pairs) < needed:
        raise stats.Thin(
            f"{cell.name}: {before} and {after} were measured in {len(pairs)} of {plural(needed, 'needed run')}"
        )
    rises = pairs if towards == "rising" else [(late, early) for early, late in pairs]
    ruling = _changed(rises, scale_of(before), times, cell.mixed)
    if through is not None:
        ruling = _passed(ruling, pairs, towards == "rising", through)
    if outcomes:
        ruling = _ended(ruling, [run["outcome"] in outcomes for run in cell.runs.values()], outcomes)
    measured = f"{measure_text(before)} {cell.text(before)}, {measure_text(after)} {cell.text(after)}"
    between = "" if through is None else f"; required: {through:g} lies between them"
    ends = f"; required: all runs end {' or '.join(outcomes)}" if outcomes else ""
    sentence = f"{cell.name}: {measured}{between}{ends}; observed: {stats.all_outcomes([cell])}"
    return stats.finding([cell], ruling, measured + (f"; {stats.counts_text([cell])}" if outcomes else ""), sentence)


def _changed(rises: Sequence[tuple[float, float]], scale: Scale, times: float, mixed: bool) -> Ruling:
    """Decide whether the second number of each pair is larger, by more than a factor of `times`."""
    numbers = [(scale.number(low), scale.number(high)) for low, high in rises]
    changes = [0.0 if low == high else high - low for low, high in numbers]
    least = [math.log(times) if scale is Scale.LOG else (times - 1) * abs(low) for low, _ in rises]
    ruling = in_every_run(Difference(tuple(changes), scale, mixed))
    enough = in_every_run(
        Difference(tuple(change - part for change, part in zip(changes, least, strict=True)), scale, mixed)
    )
    if ruling.decision is Decision.HOLDS and enough.decision is not Decision.HOLDS:
        return Ruling(Decision.UNDECIDED, enough.p_value, f"by less than a factor of {times:g}")
    return enough if ruling.decision is Decision.HOLDS else ruling


def _passed(ruling: Ruling, pairs: Sequence[tuple[float, float]], rising: bool, through: float) -> Ruling:
    """Add the condition that a number lies between the two measures of every run, and that the first starts before."""
    sign = 1 if rising else -1
    if all(sign * (late - through) <= 0 for _, late in pairs):
        return Ruling(Decision.REFUTED, 1.0, f"no run reaches {through:g}")
    if ruling.decision is not Decision.HOLDS:
        return ruling
    beyond = sum(sign * (early - through) >= 0 for early, _ in pairs)
    if beyond:
        return Ruling(Decision.UNDECIDED, 1.0, f"{beyond} of {plural(len(pairs), 'run')} start beyond {through:g}")
    reached = sum(sign * (late - through) > 0 for _, late in pairs)
    if reached < len(pairs):
        return Ruling(Decision.UNDECIDED, 1.0, f"{reached} of {plural(len(pairs), 'run')} reach {through:g}")
    return ruling


def _ended(ruling: Ruling, ended: Sequence[bool], outcomes: Sequence[str]) -> Ruling:
    """Add the condition that every run ends in one of these outcomes."""
    if not any(ended):
        return Ruling(Decision.REFUTED, 1.0, f"no run ends {' or '.join(outcomes)}")
    if ruling.decision is Decision.HOLDS and not all(ended):
        why = f"{sum(ended)} of {plural(len(ended), 'run')} end {' or '.join(outcomes)}"
        return Ruling(Decision.UNDECIDED, 1.0, why)
    return ruling


def ends(
    frame: pd.DataFrame, needed: int, *, outcomes: Sequence[str], share: str = "every", of_runs: Selection = NOTHING
) -> Finding:
    """Every selected run ends in one of these outcomes; with `share: most`, more than half of the runs of each cell.

    It is refuted if there is a cell of which no run does, or of which the exact 95 % CI of the share (Clopper-Pearson)
    is below a half. With `share: most`, this interval must be above a half.
    """
    cells = stats.cells(frame, of_runs, needed)
    runs = stats.runs_of(cells)
    hits = [sum(run["outcome"] in outcomes for run in cell.runs.values()) for cell in cells]
    worst = min(range(len(cells)), key=lambda index: hits[index] / len(cells[index].runs))
    fewest, count = hits[worst], len(cells[worst].runs)
    interval = share_interval(fewest, count)
    total = f"{sum(run['outcome'] in outcomes for run in runs)}/{len(runs)}"
    ends = f"{fewest}/{count} (95 % interval {100 * interval.low:.0f} to {100 * interval.high:.0f} %)"
    of_cell = f" of {cells[worst].name}" if len(cells) > 1 else ""
    coins = [float(k < fewest) for k in range(count)]
    p_value = None if share == "every" else min(1.0, 2 * sign_test(coins, 0.5))
    if (fewest == count) if share == "every" else (interval.low > 0.5):
        ruling = Ruling(Decision.HOLDS, p_value)
    elif interval.high < 0.5 or (fewest == 0 and share == "every"):
        ruling = Ruling(Decision.REFUTED, p_value, f"only {ends}{of_cell} end so")
    else:
        ruling = Ruling(Decision.UNDECIDED, p_value, f"{ends}{of_cell} end so")
    return stats.finding(
        cells,
        ruling,
        f"{total}: {stats.counts_text(cells)}",
        f"{total} runs ended {' or '.join(outcomes)}, at the fewest {ends}{of_cell}: {stats.all_outcomes(cells)}",
    )


def rescues(frame: pd.DataFrame, needed: int, *, better: Selection, worse: Selection) -> Finding:
    """Every run of one side learns, and no run of the other.

    The p-value is that of Fisher's exact test. It is refuted if there is a cell of the first side of which no run
    learns, or one of the other of which every run learns.
    """
    better_cells, worse_cells = (stats.cells(frame, side, needed) for side in (better, worse))
    names = side_names((better, worse), stats.labels_of(frame))
    measured = f"{names[0]}: {stats.counts_text(better_cells)}; {names[1]}: {stats.counts_text(worse_cells)}"
    learn, stay = (stats.runs_of(cells) for cells in (better_cells, worse_cells))
    counts = [sum(run["outcome"] == Outcome.LEARNED for run in runs) for runs in (learn, stay)]
    p_value = fisher_test(counts[0], len(learn), counts[1], len(stay))
    if counts == [len(learn), 0]:
        ruling = Ruling(Decision.HOLDS, p_value)
    elif any(not stats.learned(cell) for cell in better_cells):
        ruling = Ruling(Decision.REFUTED, p_value, f"no run learns with {names[0]}")
    elif any(stats.all_learned([cell]) for cell in worse_cells):
        ruling = Ruling(Decision.REFUTED, p_value, f"every run learns with {names[1]}")
    else:
        ruling = Ruling(Decision.UNDECIDED, p_value, "some runs of a side learn, and others do not")
    cells = [*better_cells, *worse_cells]
    sentence = f"required: all learn with {names[0]} and none with {names[1]}; observed: {stats.all_outcomes(cells)}"
    return stats.finding(cells, ruling, measured, sentence)


def dies(frame: pd.DataFrame, needed: int, *, step: int, factor: float, of_runs: Selection = NOTHING) -> Finding:
    """Runs become non-finite at a median step within a factor of `factor` of the stated `step`: its 95 % CI is inside.

    The median is the Kaplan-Meier estimate, with survivors censored at the end, and its CI is from order statistics. It
    is refuted if the CI is outside. With fewer than 12 seeds it is undecided.
    """
    cells = stats.cells(frame, of_runs, needed)
    steps = _death_steps(stats.runs_of(cells))
    low, high = step / factor, step * factor
    interval = survival_median_interval(steps)
    p_value = min(1.0, 2 * max(sign_test(steps, low), sign_test([-at for at in steps], -high)))
    if low <= interval.low and interval.high <= high:
        ruling = Ruling(Decision.HOLDS, p_value)
    elif interval.low > high or interval.high < low:
        ruling = Ruling(Decision.REFUTED, p_value, "the interval of the median is outside")
    else:
        ruling = Ruling(Decision.UNDECIDED, p_value, "the interval of the median is not inside")
    measured = _deaths_text(steps)
    required = f"a median step in {low:g}–{high:g}"
    sentence = f"required: {required}; observed: {measured} ({stats.all_outcomes(cells)})"
    return stats.finding(cells, _of_enough_seeds(ruling, cells), measured, sentence)


def dies_by(frame: pd.DataFrame, needed: int, *, step: int, of_runs: Selection = NOTHING) -> Finding:
    """Runs become non-finite at this step or earlier: the 95 % CI of the median step ends there or before.

    The median and its CI are those of `dies`. It is refuted if the CI is later. With fewer than 12 seeds it is
    undecided.
    """
    cells = stats.cells(frame, of_runs, needed)
    steps = _death_steps(stats.runs_of(cells))
    interval = survival_median_interval(steps)
    p_value = min(1.0, 2 * sign_test([-float(at > step) for at in steps], -0.5))
    if interval.high <= step:
        ruling = Ruling(Decision.HOLDS, p_value)
    elif interval.low > step:
        ruling = Ruling(Decision.REFUTED, p_value, "the interval of the median is later")
    else:
        ruling = Ruling(Decision.UNDECIDED, p_value, "the interval of the median is not wholly on one side")
    measured = f"{sum(at <= step for at in steps)}/{len(steps)} non-finite by step {step}; {_deaths_text(steps)}"
    sentence = f"{measured}: {stats.all_outcomes(cells)}"
    return stats.finding(cells, _of_enough_seeds(ruling, cells), measured, sentence)


def dies_later(frame: pd.DataFrame, needed: int, *, early: Selection, late: Selection) -> Finding:
    """Most runs of both sides become non-finite, and the late side at a later step, by the sign test over seeds.

    A run that survives counts as later than one that does not; if both survive, it counts against. The 95 % CI of the
    late side's median must be finite. It is refuted if the late side is earlier, or if the CI of a median begins after
    the end of the runs. With fewer than 12 seeds it is undecided.
    """
    first, second = cells = stats.pair(frame, early, late, needed)
    deaths = [dict(zip(cell.runs, _death_steps(cell.runs.values()), strict=True)) for cell in cells]
    gap = stats.difference(deaths[0], deaths[1], needed, scale=Scale.LOG, mixed=True)
    medians = [survival_median_interval(list(steps.values())) for steps in deaths]
    ruling = is_above(gap)
    for cell, interval in zip(cells, medians, strict=True):
        if math.isinf(interval.low):
            ruling = Ruling(Decision.REFUTED, ruling.p_value, f"most runs of {cell.name} survive")
    if ruling.decision is Decision.HOLDS and math.isinf(medians[1].high):
        why = f"whether most runs of {second.name} die is open"
        ruling = Ruling(Decision.UNDECIDED, ruling.p_value, why)
    names = side_names((early, late), stats.labels_of(frame))
    sides = "; ".join(
        f"{name}: {_deaths_text(list(steps.values()))}" for name, steps in zip(names, deaths, strict=True)
    )
    measured = f"{sides}; later with {sum(value > 0 for value in gap.values)} of {len(gap.values)} seeds"
    sentence = f"{measured} ({stats.all_outcomes([first, second])})"
    return stats.finding(cells, _of_enough_seeds(ruling, cells), measured, sentence)


def _death_steps(runs: Iterable[stats.Row]) -> list[float]:
    """Return the step at which each run became non-finite, infinite for survivors."""
    return [float(run["step"]) if run["outcome"] == Outcome.NONFINITE else math.inf for run in runs]


def _deaths_text(steps: Sequence[float]) -> str:
    """Return how many runs died and when: `10/12 non-finite @380–700, median step 520 (410 to 650)`."""
    dead = [int(step) for step in steps if math.isfinite(step)]
    text = f"{len(dead)}/{len(steps)} non-finite" + (f" @{range_text(dead)}" if dead else "")
    median, interval = survival_median(steps), survival_median_interval(steps)
    if not dead or interval.low == 0:
        return text
    ends = " to ".join(f"{step:g}" if math.isfinite(step) else "never" for step in interval)
    return f"{text}, median step {f'{median:g}' if math.isfinite(median) else 'never'} (95 % interval {ends})"


def _of_enough_seeds(ruling: Ruling, cells: Sequence[SeedRuns]) -> Ruling:
    """Leave a claim about the step of death undecided if a cell has too few seeds."""
    seeds = min(len(cell.runs) for cell in cells)
    if seeds >= SEEDS_FOR_DEATHS:
        return ruling
    why = f"{plural(seeds, 'seed')}, but the step at which runs become non-finite needs at least {SEEDS_FOR_DEATHS}"
    return Ruling(Decision.UNDECIDED, 1.0, why)


def learns_at(
    frame: pd.DataFrame, needed: int, *, axis: str, values: Sequence[Value], of_runs: Selection = NOTHING
) -> Finding:
    """Along a key, every run learns at exactly these values: at any other, at least one seed does not learn.

    It is refuted if no run learns at one of these values, or if every run learns at another. If some runs of one of
    these values do not learn, it is undecided.
    """
    cells, labels = stats.cells(frame, of_runs, needed, axis), stats.labels_of(frame)
    learning = [cell.values[axis] for cell in cells if stats.all_learned([cell])]
    barren = [cell.values[axis] for cell in cells if not stats.learned(cell)]
    named, absent = ([labels.text(axis, value) for value in found] for found in (learning, barren))
    shares = ", ".join(
        f"{stats.learned(cell)}/{len(cell.runs)} at {labels.text(axis, cell.values[axis])}" for cell in cells
    )
    stated = set(values)
    if set(learning) == stated:
        ruling = Ruling(Decision.HOLDS)
    elif extra := [labels.text(axis, value) for value in learning if value not in stated]:
        ruling = Ruling(Decision.REFUTED, None, f"every run learns at {listed(extra)}, too")
    elif lacking := [labels.text(axis, value) for value in barren if value in stated]:
        ruling = Ruling(Decision.REFUTED, None, f"no run learns at {listed(lacking)}")
    else:
        ruling = Ruling(Decision.UNDECIDED, None, "some seeds learn at one of these values, and others do not")
    sentence = f"runs that learned by {axis}: {shares}" + (f"; none at {listed(absent)}" if absent else "")
    return stats.finding(cells, ruling, f"learns at {axis} {listed(named) if named else 'none'}", sentence)


def trend(
    frame: pd.DataFrame, needed: int, *, axis: str, towards: str, of_runs: Selection = NOTHING, measure: str = LOSS
) -> Finding:
    """A measure rises or falls at every step along a key, and the 95 % CI of the change from end to end excludes 0.

    Steps are those of the medians. It is refuted if the CI from end to end is on the other side of 0, or that of a
    step, after Holm's correction over the steps.
    """
    cells = sorted(stats.cells(frame, of_runs, needed, axis), key=lambda cell: cell.values[axis])
    for cell in cells:
        stats.measured(cell, measure, needed)
    labels = stats.labels_of(frame)
    steps = list(itertools.pairwise(cells))
    names = [" to ".join(labels.text(axis, cell.values[axis]) for cell in step) for step in steps]

    def rise(first: SeedRuns, second: SeedRuns) -> Difference:
        low, high = (first, second) if towards == "rising" else (second, first)
        return stats.between(low, high, needed, measure)

    gaps, whole = [rise(first, second) for first, second in steps], rise(cells[0], cells[-1])
    ruling = is_above(whole)
    medians = [cell.median(measure) for cell in cells]
    opposite = [b <= a if towards == "rising" else b >= a for a, b in itertools.pairwise(medians)]
    clearly = [p_value <= LEVEL for p_value in holm([min(1.0, 2 * gap.p_below(0.0)) for gap in gaps])]
    if any(clearly):
        ruling = Ruling(Decision.REFUTED, 1.0, f"the other way from {axis} {listed(_chosen(names, clearly))}")
    elif ruling.decision is Decision.HOLDS and any(opposite):
        why = (
            f"so from end to end, but not from {axis} {listed(_chosen(names, opposite))}, where noise may be the cause"
        )
        ruling = Ruling(Decision.UNDECIDED, 1.0, why)
    measured = ", ".join(f"{labels.text(axis, cell.values[axis])}: {cell.text(measure)}" for cell in cells)
    sentence = f"{measure_text(measure)} by {axis}: {measured}; from end to end, {_gap_text(whole)}"
    return stats.finding(cells, ruling, f"{lead(measure)}{measured}", sentence)


def _chosen(names: Sequence[str], chosen: Sequence[bool]) -> list[str]:
    return list(itertools.compress(names, chosen))


def best_at(
    frame: pd.DataFrame,
    needed: int,
    *,
    axis: str,
    values: Sequence[Value],
    within: float = 0.0,
    of_runs: Selection = NOTHING,
) -> Finding:
    """Along a key, every run learns at one of these values, and no other value is lower by more than `within`.

    `within` allows for noise between values that do equally well. For each other value at which runs learn, the 90 % CI
    of the paired difference must be above - `within`. It is refuted if, for each of these values, the 95 % CI of some
    other is below - `within` (after Holm's correction over the others). If no other value is worse by more than
    `within`, every value is the best, and the check is undecided.
    """
    cells, labels = stats.cells(frame, of_runs, needed, axis), stats.labels_of(frame)
    top = min(cells, key=lambda cell: cell.median(LOSS))
    stated = [cell for cell in cells if cell.values[axis] in values]
    ruling = _best_of(cells, stated, within, needed)
    learns = stats.all_learned([top])
    measured = (
        f"best at {axis} {labels.text(axis, top.values[axis])}: {top.text(LOSS)}"
        if learns
        else f"not every seed learns at the best {axis}"
    )
    measured += "".join(
        f", {labels.text(axis, cell.values[axis])}: {cell.text(LOSS)}" for cell in stated if cell is not top
    )
    return stats.finding(cells, ruling, measured, f"{measured}; {stats.all_outcomes(cells)}")


def _best_of(cells: Sequence[SeedRuns], stated: Sequence[SeedRuns], within: float, needed: int) -> Ruling:
    others = [cell for cell in cells if cell not in stated]
    rivals = [cell for cell in others if stats.learned(cell)]
    candidates = [cell for cell in stated if stats.learned(cell)]
    if not candidates:
        none = "no run learns at any value" if not rivals else "runs learn at other values only"
        return Ruling(Decision.REFUTED if rivals else Decision.UNDECIDED, None, none)
    gaps = {id(cell): [stats.between(cell, rival, needed, LOSS) for rival in rivals] for cell in candidates}
    beaten = [
        any(p <= LEVEL for p in holm([min(1.0, 2 * gap.p_below(-within)) for gap in gaps[id(cell)]]))
        for cell in candidates
    ]
    if all(beaten):
        return Ruling(Decision.REFUTED, 1.0, "another value is lower")
    best = min(candidates, key=lambda cell: cell.median(LOSS))
    if not stats.all_learned([best]):
        return Ruling(Decision.UNDECIDED, 1.0, "not every run learns there")
    worse = [gap for gap in gaps[id(best)] if 2 * gap.p_above(within) <= LEVEL]
    if len(others) == len(rivals) and not worse:
        return Ruling(Decision.UNDECIDED, 1.0, f"no value is worse by more than {within:g}")
    rulings = [is_within(gap, -within, math.inf) for gap in gaps[id(best)]]
    p_value = max((ruling.p_value or 0.0 for ruling in rulings), default=None)
    if all(ruling.decision is Decision.HOLDS for ruling in rulings):
        return Ruling(Decision.HOLDS, p_value)
    return Ruling(Decision.UNDECIDED, p_value, "another value may be lower")


def best_higher(
    frame: pd.DataFrame, needed: int, *, axis: str, higher: Selection, lower: Selection, times: float = 1.0
) -> Finding:
    """Along a key of numbers, the best value of one side is higher than that of the other, with every seed.

    With `times`, it must be at least that many times as high. The best value of a seed has its lowest loss, and its run
    must learn. It is refuted if this is so with no seed, and undecided if the seeds disagree or do not learn.
    """
    sides = [stats.cells(frame, side, needed, axis) for side in (higher, lower)]
    labels = stats.labels_of(frame)
    names = side_names((higher, lower), labels)
    places = [_best_places(side, axis, needed) for side in sides]
    measured = f"best at {axis} " + " against ".join(
        f"{' or '.join(labels.text(axis, value) for value in dict.fromkeys(sorted(place.values())))} with {name}"
        for place, name in zip(places, names, strict=True)
    )
    seeds = sorted(set(places[0]) & set(places[1]))
    if len(seeds) < needed:
        why = "a side learns at no value with some seeds"
        ruling = Ruling(Decision.UNDECIDED, None, why)
    else:
        ratios = [(float(places[0][seed]), float(places[1][seed])) for seed in seeds]
        held = [
            first > second and (first >= times * second or math.isclose(first, times * second))
            for first, second in ratios
        ]
        if all(held):
            ruling = Ruling(Decision.HOLDS)
        elif not any(held):
            ruling = Ruling(Decision.REFUTED, None, "so with no seed")
        else:
            ruling = Ruling(Decision.UNDECIDED, None, f"so with {sum(held)} of {len(seeds)} seeds")
    cells = [*sides[0], *sides[1]]
    return stats.finding(cells, ruling, measured, f"{measured}, by seed: {stats.all_outcomes(cells)}")


def _best_places(cells: Sequence[SeedRuns], axis: str, needed: int) -> dict[int, Value]:
    """Return the value with the lowest loss of each seed, for the seeds whose run there learned."""
    seeds = sorted(set.intersection(*(set(cell.runs) for cell in cells)))
    if len(seeds) < needed:
        raise stats.Thin(f"{len(seeds)} of {plural(needed, 'needed seed')} done at every {axis}")
    best = {seed: min(cells, key=lambda cell: float(cell.runs[seed][LOSS])) for seed in seeds}
    return {seed: cell.values[axis] for seed, cell in best.items() if cell.runs[seed]["outcome"] == Outcome.LEARNED}


def sensitivity(
    frame: pd.DataFrame,
    needed: int,
    *,
    axis: str,
    better: Selection,
    worse: Selection,
    by: float = 0.0,
    at_least: float = 0.0,
) -> Finding:
    """One side is less sensitive to a key: the mean over its values of min(loss, initial loss) minus the lowest.

    It is computed over the values that both sides have (2309.14322, section 2), and decided like `lower`. It is
    undecided if a seed of a side learns at no value.
    """
    required = _required(LOSS, by, at_least)
    return _sensitivities(frame, needed, axis, (better, worse), lambda gap: is_above(gap, by, at_least), required)


def equally_sensitive(
    frame: pd.DataFrame, needed: int, *, axis: str, one: Selection, other: Selection, within: float
) -> Finding:
    """Two sides are equally sensitive to a key: the 90 % CI of the paired difference is inside ± `within`.

    See `sensitivity` and `close`.
    """
    required = f"a 90 % interval between {-within:g} and {within:g}"
    return _sensitivities(frame, needed, axis, (one, other), lambda gap: is_within(gap, -within, within), required)


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
    """The gap between two sides, in losses averaged along a key, is larger under one condition than under another.

    Losses are capped at the loss before training. The 95 % CI of the paired growth of the gap must be above 0; it is
    refuted if it is below 0. Unlike a sensitivity, this is meaningful for a side that learns nowhere.
    """
    conditions = [
        [stats.cells(frame, {**side, **condition}, needed, axis) for side in (better, worse)]
        for condition in (narrow, wide)
    ]
    scans = [_scan_of(axis, side) for sides in conditions for side in sides]
    values = _shared(axis, scans)
    low, high, wide_low, wide_high = (_mean_losses(scan, values) for scan in scans)
    gaps = [_by_seed_difference(low, high), _by_seed_difference(wide_low, wide_high)]
    cells = [cell for sides in conditions for side in sides for cell in side if cell.values[axis] in values]
    growth = stats.difference(gaps[0], gaps[1], needed, mixed=any(cell.mixed for cell in cells))
    labels = stats.labels_of(frame)
    gap_texts = [
        f"{spread_text(list(gap.values()))} with {name}"
        for name, gap in zip(side_names((narrow, wide), labels), gaps, strict=True)
    ]
    measured = f"gap {' against '.join(gap_texts)}, {_gap_text(growth)}, over {_count(values, axis)}"
    names = " minus ".join(side_names((worse, better), labels))
    sentence = f"mean loss along {axis} of {names}: {measured}; required: difference above 0"
    return stats.finding(cells, is_above(growth), measured, sentence)


def _sensitivities(
    frame: pd.DataFrame,
    needed: int,
    axis: str,
    selections: tuple[Selection, Selection],
    decide: Callable[[Difference], Ruling],
    required: str,
) -> Finding:
    sides, labels = [stats.cells(frame, selection, needed, axis) for selection in selections], stats.labels_of(frame)
    scans = [_scan_of(axis, side) for side in sides]
    values = _shared(axis, scans)
    cells = [cell for side in sides for cell in side if cell.values[axis] in values]
    low, high = sensitivities([{value: scan[value] for value in values} for scan in scans])
    texts = [spread_text(list(s.by_seed.values())) if s.by_seed else f"none ({s.reason})" for s in (low, high)]
    named = [f"{name} {text}".lstrip() for name, text in zip(side_names(selections, labels), texts, strict=True)]
    names = [selection_text(selection, labels) for selection in selections]
    sentence = f"sensitivity to {axis} over {_count(values, axis)} of {names[0]}: {texts[0]}; of {names[1]}: {texts[1]}"
    if not (low.by_seed and high.by_seed):
        return stats.finding(
            cells, Ruling(Decision.UNDECIDED, 1.0, "a side has no sensitivity"), " against ".join(named), sentence
        )
    gap = stats.difference(low.by_seed, high.by_seed, needed, mixed=any(cell.mixed for cell in cells))
    return stats.finding(
        cells,
        decide(gap),
        f"{' against '.join(named)}, {_gap_text(gap)}, over {_count(values, axis)}",
        f"{sentence}; paired {_gap_text(gap)}; required: {required}",
    )


def _gap_text(gap: Difference) -> str:
    """Return a difference with the word for it: `difference 0.367 (0.080 to 0.654)`, `ratio 2.1 (1.8 to 2.4)`."""
    return f"{'difference' if gap.scale is Scale.LINEAR else 'ratio'} {gap.text}"


def _nothing_learned(cells: Sequence[SeedRuns], measure: str) -> str:
    return ", but no run learned" if measure == LOSS and not any(map(stats.learned, cells)) else ""


def _limit(measure: str, name: str, limit: float) -> float:
    """Return a threshold on the scale of a measure. Raises Mismatch for a factor below 1."""
    scale = scale_of(measure)
    if scale is Scale.LOG and limit < 1:
        raise stats.Mismatch(f"{name} {limit:g}: {measure} is compared by ratio: write a factor of 1 or more")
    return scale.number(limit)


def _required(measure: str, by: float, at_least: float) -> str:
    """Return what a difference must fulfil. Raises Mismatch if the thresholds contradict each other or the measure."""
    if by and at_least:
        raise stats.Mismatch("by and at_least: write one of them: by for a threshold of ours, at_least for the text's")
    for name, limit in (("by", by), ("at_least", at_least)):
        if limit:
            _limit(measure, name, limit)
    zero = "above 0" if scale_of(measure) is Scale.LINEAR else "above 1"
    return zero + (f", with a mean of at least {by or at_least:g}" if by or at_least else "")


def _count(values: Sequence[Value], axis: str) -> str:
    return f"{plural(len(values), 'value')} of {axis}"


def _scan_of(axis: str, side: Sequence[SeedRuns]) -> Scan:
    """Return the runs of a side by value of the key and by seed, for the seeds that all its cells have."""
    seeds = sorted(set.intersection(*(set(cell.runs) for cell in side)))
    return {cell.values[axis]: {seed: _scanned(cell.runs[seed]) for seed in seeds} for cell in side}


def _scanned(run: stats.Row) -> ScannedRun:
    learned = run["outcome"] == Outcome.LEARNED
    return ScannedRun(run_id=run["run_id"], final=run[LOSS], initial=run["init_val_loss"], learned=learned)


def _shared(axis: str, scans: Sequence[Scan]) -> list[Value]:
    """Return the values that all sides have; losses over other values are not comparable. Raises Mismatch below two."""
    values = shared_values(scans)
    if len(values) < 2:
        raise stats.Mismatch(f"the sides share {_count(values, axis)}: at least two are needed")
    return values


def _mean_losses(scan: Scan, values: Sequence[Value]) -> dict[int, float]:
    """Return the mean loss of each seed over its distinct runs."""
    by_seed = {seed: distinct_runs(scan, values, seed) for seed in scan[values[0]]}
    return {seed: mean_loss([r.final for r in runs], [r.initial for r in runs]) for seed, runs in by_seed.items()}


def _by_seed_difference(low: Mapping[int, float], high: Mapping[int, float]) -> dict[int, float]:
    return {seed: high[seed] - low[seed] for seed in low if seed in high}


class Takes(StrEnum):
    """The kinds of parameters of checks."""

    SELECTION = "a mapping of run keys to a value or a list of values"
    NUMBER = "a number"
    STEPS = "a number of steps"
    KEY = "a run key"
    VALUES = "a value or a list of values of the key `axis`"
    MEASURE = "a measure"
    OUTCOMES = "an outcome or a list of outcomes"
    TREND = "rising or falling"
    SHARE = "every or most"


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its function, the kinds of its parameters, and the optional ones."""

    function: Callable[..., Finding]
    takes: Mapping[str, Takes]
    optional: frozenset[str] = field(default_factory=frozenset)

    @property
    def help(self) -> str:
        """The first line of the function's docstring."""
        return (self.function.__doc__ or "").splitlines()[0]


_SELECTED = frozenset({"of_runs"})
_RANKED = {"better": Takes.SELECTION, "worse": Takes.SELECTION}
_SIDES = {**_RANKED, "by": Takes.NUMBER, "at_least": Takes.NUMBER}
_PAIRED = {"one": Takes.SELECTION, "other": Takes.SELECTION, "within": Takes.NUMBER}
_MEASURED = {"over": Takes.KEY, "measure": Takes.MEASURE}
_OF = {"of_runs": Takes.SELECTION}
_ON = {"axis": Takes.KEY}

CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "ends": Check(ends, {"outcomes": Takes.OUTCOMES, "share": Takes.SHARE, **_OF}, _SELECTED | {"share"}),
        "rescues": Check(rescues, _RANKED),
        "dies": Check(dies, {"step": Takes.STEPS, "factor": Takes.NUMBER, **_OF}, _SELECTED),
        "dies_by": Check(dies_by, {"step": Takes.STEPS, **_OF}, _SELECTED),
        "dies_later": Check(dies_later, {"early": Takes.SELECTION, "late": Takes.SELECTION}),
        "lower": Check(lower, {**_SIDES, **_MEASURED}, frozenset({"by", "at_least", "over", "measure"})),
        "close": Check(close, {**_PAIRED, **_MEASURED}, frozenset(_MEASURED)),
        "no_worse": Check(no_worse, {**_PAIRED, **_MEASURED}, frozenset(_MEASURED)),
        "near": Check(
            near,
            {"value": Takes.NUMBER, "within": Takes.NUMBER, **_OF, **_MEASURED},
            _SELECTED | {"over", "measure"},
        ),
        "above": Check(above, {"value": Takes.NUMBER, **_OF, "measure": Takes.MEASURE}, _SELECTED | {"measure"}),
        "below": Check(below, {"value": Takes.NUMBER, **_OF, "measure": Takes.MEASURE}, _SELECTED | {"measure"}),
        "changes": Check(
            changes,
            {
                "before": Takes.MEASURE,
                "after": Takes.MEASURE,
                "towards": Takes.TREND,
                "times": Takes.NUMBER,
                "through": Takes.NUMBER,
                "outcomes": Takes.OUTCOMES,
                **_OF,
            },
            _SELECTED | {"times", "through", "outcomes"},
        ),
        "trend": Check(
            trend, {**_ON, "towards": Takes.TREND, **_OF, "measure": Takes.MEASURE}, _SELECTED | {"measure"}
        ),
        "best_at": Check(
            best_at, {**_ON, "values": Takes.VALUES, "within": Takes.NUMBER, **_OF}, _SELECTED | {"within"}
        ),
        "best_higher": Check(
            best_higher,
            {**_ON, "higher": Takes.SELECTION, "lower": Takes.SELECTION, "times": Takes.NUMBER},
            frozenset({"times"}),
        ),
        "learns_at": Check(learns_at, {**_ON, "values": Takes.VALUES, **_OF}, _SELECTED),
        "sensitivity": Check(sensitivity, {**_ON, **_SIDES}, frozenset({"by", "at_least"})),
        "widens": Check(
            widens,
            {**_ON, **_RANKED, "narrow": Takes.SELECTION, "wide": Takes.SELECTION},
        ),
        "equally_sensitive": Check(equally_sensitive, {**_ON, **_PAIRED}),
    }
)
"""Checks by name."""
