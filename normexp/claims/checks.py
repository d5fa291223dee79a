"""The checks of sweep claims: pure functions from a frame of stored runs (of one setting) to a finding.

A check is called as `function(frame, needed, **parameters)`, where `needed` is the number of seeds that every cell must
have. It raises Thin if runs are missing, and Mismatch if a selection is wrong. Thresholds are parameters of the claims,
never of the functions. The first line of each docstring is shown by `normexp claims --checks`.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
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
from normexp.claims.claim import NOTHING, Finding, Selection
from normexp.config.labels import listed, plural, range_text
from normexp.records.record import Outcome
from normexp.schemes.network_config import Value

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
    """One side is lower than the other: the 95 % CI of the paired difference is above 0, and its mean at least `by`.

    With `over`, each side is at its best value of that key. If a difference is infinite, all differences must be above
    0, and their median at least `by`. The evidence says so if neither side learns.
    """
    low, high, gap = stats.paired(frame, better, worse, needed, over, measure)
    holds = gap.above_zero and gap.middle >= by
    least = f", with a mean of at least {by:g}" if by else ""
    name = measure_text(measure)
    none_learned = measure == LOSS and not stats.learned(low) and not stats.learned(high)
    return stats.finding(
        [low, high],
        holds,
        f"{stats.sides_text(frame, measure, [(better, low), (worse, high)], 'against', over)}, difference {gap.text}"
        + (", but no run learned" if none_learned else ""),
        f"{name} of {low.name}: {low.text(measure)}; of {high.name}: {high.text(measure)}; paired difference "
        f"{gap.text}; required: above 0{least}",
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
    """Two sides differ by at most `within` in the mean paired difference.

    Losses count as close only if every run learned: two sides that learn nothing are always close.
    """
    left, right, gap = stats.paired(frame, one, other, needed, over, measure)
    finite = all(math.isfinite(n) for cell in (left, right) for n in cell.numbers(measure).values())
    unsure = finite and not math.isnan(gap.half) and abs(gap.middle) <= within < abs(gap.middle) + gap.half
    name = measure_text(measure)
    vacuous = measure == LOSS and not stats.all_learned([left, right])
    return stats.finding(
        [left, right],
        finite and not vacuous and abs(gap.middle) <= within,
        f"{stats.sides_text(frame, measure, [(one, left), (other, right)], 'and', over)}, difference {gap.text}"
        + (", but not every run learned" if vacuous else ""),
        f"{name} of {left.name}: {left.text(measure)}; of {right.name}: {right.text(measure)}; paired difference "
        f"{gap.text}; required: at most {within:g} in absolute value"
        + ("; the CI extends beyond that" if unsure else "")
        + (f", and every run learned; observed: {stats.all_outcomes([left, right])}" if vacuous else ""),
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
    """One side is lower than the other, or higher by at most `within`, in the mean paired difference.

    For losses, every run of the first side must have learned.
    """
    left, right, gap = stats.paired(frame, one, other, needed, over, measure)
    name = measure_text(measure)
    vacuous = measure == LOSS and not stats.all_learned([left])
    return stats.finding(
        [left, right],
        not vacuous and gap.middle >= -within,
        f"{stats.sides_text(frame, measure, [(one, left), (other, right)], 'and', over)}, difference {gap.text}"
        + (f", but not every run of {left.name} learned" if vacuous else ""),
        f"{name} of {left.name}: {left.text(measure)}; of {right.name}: {right.text(measure)}; paired difference "
        f"(second minus first) {gap.text}; required: at least -{within:g}"
        + (f", and every run of the first learned; observed: {stats.all_outcomes([left])}" if vacuous else ""),
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
    """The median over seeds differs from the stated value by at most `within`."""
    cell = stats.one_cell(frame, of_runs, needed, over)
    stats.measured(cell, measure, needed)
    holds = abs(cell.median(measure) - value) <= within
    measured = f"{lead(measure)}{cell.text(measure)} against {value:g}"
    sentence = f"{measure_text(measure)} of {cell.name}: {cell.text(measure)}; stated {value:g} ± {within:g}"
    return stats.finding([cell], holds, measured, sentence)


def above(
    frame: pd.DataFrame, needed: int, *, value: float, of_runs: Selection = NOTHING, measure: str = LOSS
) -> Finding:
    """A measure is above `value` in every run."""
    return _every(frame, needed, lambda numbers: min(numbers) > value, value, of_runs, measure)


def below(
    frame: pd.DataFrame, needed: int, *, value: float, of_runs: Selection = NOTHING, measure: str = LOSS
) -> Finding:
    """A measure is below `value` in every run."""
    return _every(frame, needed, lambda numbers: max(numbers) < value, value, of_runs, measure)


def _every(
    frame: pd.DataFrame,
    needed: int,
    holds: Callable[[Collection[float]], bool],
    value: float,
    of_runs: Selection,
    measure: str,
) -> Finding:
    cell = stats.one_cell(frame, of_runs, needed)
    numbers = stats.measured(cell, measure, needed).values()
    measured = f"{ends_text(numbers)} against {value:g}"
    sentence = f"{measure_text(measure)} of {cell.name} by seed: {measured}"
    return stats.finding([cell], holds(numbers), f"{lead(measure)}{measured}", sentence)


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

    With `through`, this number must lie between the two. With `outcomes`, every run must end in one of them.
    """
    cell = stats.one_cell(frame, of_runs, needed)
    first, last = stats.measured(cell, before, needed), stats.measured(cell, after, needed)
    pairs = [(first[seed], last[seed]) for seed in first if seed in last]
    if len(pairs) < needed:
        raise stats.Thin(
            f"{cell.name}: {before} and {after} were measured in {len(pairs)} of {plural(needed, 'needed run')}"
        )
    rises = pairs if towards == "rising" else [(late, early) for early, late in pairs]
    holds = all(high - low > (times - 1) * abs(low) for low, high in rises)  # no ratio: low may be 0
    holds = holds and (through is None or all(low < through < high for low, high in rises))
    holds = holds and (not outcomes or all(run["outcome"] in outcomes for run in cell.runs.values()))
    measured = f"{measure_text(before)} {cell.text(before)}, {measure_text(after)} {cell.text(after)}"
    between = "" if through is None else f"; required: {through:g} lies between them"
    ends = f"; required: all runs end {' or '.join(outcomes)}" if outcomes else ""
    sentence = f"{cell.name}: {measured}{between}{ends}; observed: {stats.all_outcomes([cell])}"
    return stats.finding([cell], holds, measured + (f"; {stats.counts_text([cell])}" if outcomes else ""), sentence)


def ends(frame: pd.DataFrame, needed: int, *, outcomes: Sequence[str], of_runs: Selection = NOTHING) -> Finding:
    """Every selected run ends in one of these outcomes."""
    cells = stats.cells(frame, of_runs, needed)
    runs = stats.runs_of(cells)
    share = f"{sum(run['outcome'] in outcomes for run in runs)}/{len(runs)}"
    return stats.finding(
        cells,
        all(run["outcome"] in outcomes for run in runs),
        f"{share}: {stats.counts_text(cells)}",
        f"{share} runs ended {' or '.join(outcomes)}: {stats.all_outcomes(cells)}",
    )


def rescues(frame: pd.DataFrame, needed: int, *, better: Selection, worse: Selection) -> Finding:
    """Every run of one side learns, and no run of the other."""
    better_cells, worse_cells = (stats.cells(frame, side, needed) for side in (better, worse))
    names = side_names((better, worse), stats.labels_of(frame))
    measured = f"{names[0]}: {stats.counts_text(better_cells)}; {names[1]}: {stats.counts_text(worse_cells)}"
    holds = stats.all_learned(better_cells) and not any(map(stats.learned, worse_cells))
    cells = [*better_cells, *worse_cells]
    sentence = f"required: all learn with {names[0]} and none with {names[1]}; observed: {stats.all_outcomes(cells)}"
    return stats.finding(cells, holds, measured, sentence)


def dies(frame: pd.DataFrame, needed: int, *, step: int, factor: float, of_runs: Selection = NOTHING) -> Finding:
    """Every run becomes non-finite, at a median step within a factor of `factor` of the stated `step`."""
    cells = stats.cells(frame, of_runs, needed)
    runs = stats.runs_of(cells)
    steps = [int(run["step"]) for run in runs if run["outcome"] == Outcome.NONFINITE]
    near = bool(steps) and step / factor <= statistics.median(steps) <= step * factor
    measured = f"{len(steps)}/{len(runs)} non-finite" + (f" @{range_text(steps)}" if steps else "")
    required = f"all runs non-finite, at a median step in {step / factor:g}–{step * factor:g}"
    sentence = f"required: {required}; observed: {measured} ({stats.all_outcomes(cells)})"
    return stats.finding(cells, near and len(steps) == len(runs), measured, sentence)


def dies_by(frame: pd.DataFrame, needed: int, *, step: int, of_runs: Selection = NOTHING) -> Finding:
    """Every run becomes non-finite at this step or earlier."""
    cells = stats.cells(frame, of_runs, needed)
    runs = stats.runs_of(cells)
    steps = [int(run["step"]) for run in runs if run["outcome"] == Outcome.NONFINITE]
    count = sum(at <= step for at in steps)
    later = [at for at in steps if at > step]
    measured = f"{count}/{len(runs)} non-finite by step {step}"
    measured += f" ({len(later)} @{range_text(later)})" if later else ""
    return stats.finding(cells, count == len(runs), measured, f"{measured}: {stats.all_outcomes(cells)}")


def dies_later(frame: pd.DataFrame, needed: int, *, early: Selection, late: Selection) -> Finding:
    """Every run of both sides becomes non-finite, and the late side at a later step for every seed."""
    first, second = cells = stats.pair(frame, early, late, needed)
    all_nonfinite = all(run["outcome"] == Outcome.NONFINITE for cell in cells for run in cell.runs.values())
    seeds = set(first.runs) & set(second.runs)
    holds = all_nonfinite and all(second.runs[seed]["step"] > first.runs[seed]["step"] for seed in seeds)
    measured = stats.all_outcomes(cells)
    return stats.finding(cells, holds, measured, measured)


def learns_at(
    frame: pd.DataFrame, needed: int, *, axis: str, values: Sequence[Value], of_runs: Selection = NOTHING
) -> Finding:
    """Along a key, every run learns at exactly these values: at any other, at least one seed does not learn."""
    cells, labels = stats.cells(frame, of_runs, needed, axis), stats.labels_of(frame)
    learning = [cell.values[axis] for cell in cells if stats.learned(cell) == len(cell.runs)]
    names = listed([labels.text(axis, value) for value in learning]) if learning else "none"
    shares = ", ".join(
        f"{stats.learned(cell)}/{len(cell.runs)} at {labels.text(axis, cell.values[axis])}" for cell in cells
    )
    sentence = f"runs that learned by {axis}: {shares}"
    return stats.finding(cells, set(learning) == set(values), f"learns at {axis} {names}", sentence)


def trend(
    frame: pd.DataFrame, needed: int, *, axis: str, towards: str, of_runs: Selection = NOTHING, measure: str = LOSS
) -> Finding:
    """A measure rises or falls at every step along a key, and the 95 % CI of the change from end to end excludes 0."""
    cells = sorted(stats.cells(frame, of_runs, needed, axis), key=lambda cell: cell.values[axis])
    for cell in cells:
        stats.measured(cell, measure, needed)
    medians = [cell.median(measure) for cell in cells]
    low, high = (cells[0], cells[-1]) if towards == "rising" else (cells[-1], cells[0])
    gap = stats.difference(stats.measured(low, measure, needed), stats.measured(high, measure, needed), needed)
    steps = [b - a for a, b in itertools.pairwise(medians)]
    holds = all(step > 0 if towards == "rising" else step < 0 for step in steps) and gap.above_zero
    labels = stats.labels_of(frame)
    measured = ", ".join(f"{labels.text(axis, cell.values[axis])}: {cell.text(measure)}" for cell in cells)
    sentence = f"{measure_text(measure)} by {axis}: {measured}; difference of the ends {gap.text}"
    return stats.finding(cells, holds, f"{lead(measure)}{measured}", sentence)


def best_at(
    frame: pd.DataFrame,
    needed: int,
    *,
    axis: str,
    values: Sequence[Value],
    within: float = 0.0,
    of_runs: Selection = NOTHING,
) -> Finding:
    """Along a key, the median loss at one of these values is the lowest or at most `within` above it, and all learn.

    `within` allows for noise between values that do equally well.
    """
    cells = stats.cells(frame, of_runs, needed, axis)
    top = min(cells, key=lambda cell: cell.median(LOSS))
    labels = stats.labels_of(frame)
    as_good = [
        cell
        for cell in cells
        if stats.all_learned([cell]) and cell.median(LOSS) <= top.median(LOSS) + within and cell.values[axis] in values
    ]
    learns = stats.all_learned([top])
    measured = (
        f"best at {axis} {labels.text(axis, top.values[axis])}: {top.text(LOSS)}"
        if learns
        else f"not every seed learns at the best {axis}"
    )
    measured += "".join(
        f", {labels.text(axis, cell.values[axis])}: {cell.text(LOSS)}" for cell in as_good if cell is not top
    )
    return stats.finding(cells, learns and bool(as_good), measured, f"{measured}; {stats.all_outcomes(cells)}")


def best_higher(
    frame: pd.DataFrame, needed: int, *, axis: str, higher: Selection, lower: Selection, times: float = 1.0
) -> Finding:
    """Along a key of numbers, the best value of one side is higher than that of the other, and both learn there.

    With `times`, it must be at least that many times as high. The best value has the lowest median loss.
    """
    sides = [stats.cells(frame, side, needed, axis) for side in (higher, lower)]
    tops = [min(side, key=lambda cell: cell.median(LOSS)) for side in sides]
    labels = stats.labels_of(frame)
    names = side_names((higher, lower), labels)
    measured = f"best at {axis} " + " against ".join(
        f"{labels.text(axis, top.values[axis])} with {name}" for top, name in zip(tops, names, strict=True)
    )
    first, second = (float(top.values[axis]) for top in tops)
    holds = first > second and (first >= times * second or math.isclose(first, times * second))
    return stats.finding(
        [*sides[0], *sides[1]],
        stats.all_learned(tops) and holds,
        measured,
        f"{measured}: {tops[0].name} {tops[0].text(LOSS)}, {tops[1].name} {tops[1].text(LOSS)}",
    )


def sensitivity(
    frame: pd.DataFrame, needed: int, *, axis: str, better: Selection, worse: Selection, by: float = 0.0
) -> Finding:
    """One side is less sensitive to a key: the mean over its values of min(loss, initial loss) minus the lowest.

    It is computed over the values that both sides have (2309.14322, section 2). The 95 % CI of the paired difference
    must be above 0, and its mean at least `by`. The check does not hold if a seed of a side learns at no value.
    """
    return _sensitivities(
        frame, needed, axis, (better, worse), lambda gap: gap.above_zero and gap.middle >= by, "above 0"
    )


def equally_sensitive(
    frame: pd.DataFrame, needed: int, *, axis: str, one: Selection, other: Selection, within: float
) -> Finding:
    """Two sides are equally sensitive to a key: the mean paired difference is at most `within` (see sensitivity)."""
    required = f"at most {within:g} in absolute value"
    return _sensitivities(frame, needed, axis, (one, other), lambda gap: abs(gap.middle) <= within, required)


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

    Losses are capped at the loss before training. The 95 % CI of the paired growth of the gap must be above 0. Unlike
    a sensitivity, this is meaningful for a side that learns nowhere.
    """
    conditions = [
        [stats.cells(frame, {**side, **condition}, needed, axis) for side in (better, worse)]
        for condition in (narrow, wide)
    ]
    scans = [_scan_of(axis, side) for sides in conditions for side in sides]
    values = _shared(axis, scans)
    low, high, wide_low, wide_high = (_mean_losses(scan, values) for scan in scans)
    gaps = [_by_seed_difference(low, high), _by_seed_difference(wide_low, wide_high)]
    growth = stats.difference(gaps[0], gaps[1], needed)
    labels = stats.labels_of(frame)
    gap_texts = [
        f"{spread_text(list(gap.values()))} with {name}"
        for name, gap in zip(side_names((narrow, wide), labels), gaps, strict=True)
    ]
    measured = f"gap {' against '.join(gap_texts)}, difference {growth.text}, over {_count(values, axis)}"
    names = " minus ".join(side_names((worse, better), labels))
    sentence = f"mean loss along {axis} of {names}: {measured}; required: difference above 0"
    cells = [cell for sides in conditions for side in sides for cell in side if cell.values[axis] in values]
    return stats.finding(cells, growth.above_zero, measured, sentence)


def _sensitivities(
    frame: pd.DataFrame,
    needed: int,
    axis: str,
    selections: tuple[Selection, Selection],
    holds: Callable[[stats.Difference], bool],
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
        return stats.finding(cells, False, " against ".join(named), sentence)
    gap = stats.difference(low.by_seed, high.by_seed, needed)
    return stats.finding(
        cells,
        holds(gap),
        f"{' against '.join(named)}, difference {gap.text}, over {_count(values, axis)}",
        f"{sentence}; paired difference {gap.text}; required: {required}",
    )


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
_SIDES = {**_RANKED, "by": Takes.NUMBER}
_PAIRED = {"one": Takes.SELECTION, "other": Takes.SELECTION, "within": Takes.NUMBER}
_MEASURED = {"over": Takes.KEY, "measure": Takes.MEASURE}
_OF = {"of_runs": Takes.SELECTION}
_ON = {"axis": Takes.KEY}

CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "ends": Check(ends, {"outcomes": Takes.OUTCOMES, **_OF}, _SELECTED),
        "rescues": Check(rescues, _RANKED),
        "dies": Check(dies, {"step": Takes.STEPS, "factor": Takes.NUMBER, **_OF}, _SELECTED),
        "dies_by": Check(dies_by, {"step": Takes.STEPS, **_OF}, _SELECTED),
        "dies_later": Check(dies_later, {"early": Takes.SELECTION, "late": Takes.SELECTION}),
        "lower": Check(lower, {**_SIDES, **_MEASURED}, frozenset({"by", "over", "measure"})),
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
        "sensitivity": Check(sensitivity, {**_ON, **_SIDES}, frozenset({"by"})),
        "widens": Check(
            widens,
            {**_ON, **_RANKED, "narrow": Takes.SELECTION, "wide": Takes.SELECTION},
        ),
        "equally_sensitive": Check(equally_sensitive, {**_ON, **_PAIRED}),
    }
)
"""Checks by name."""
