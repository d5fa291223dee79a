"""The checks of sweep claims: named pure functions from a frame of stored runs (one setting) to a finding.

A check is called as `function(frame, needed, **parameters)`, `needed` the seeds that every cell must have, and raises
Thin or Mismatch through `normexp.claims.cell_stats`. A limit is a parameter of the claim, never of a function.

Checks that compare losses and other measures of runs: side by side, or with a stated value.

Checks of how runs end: outcomes, the steps at which they died, where along a key they learn.

Checks along a key that is scanned, the learning rate above all: trends, the best value, sensitivity.
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
from normexp.claims import cell_stats as of
from normexp.claims.cell_stats import LOSS, Cell, ends_text, lead, measure_text, selection_text, side_names, spread_text
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


def ends(frame: pd.DataFrame, needed: int, *, outcomes: Sequence[str], of_runs: Selection = NOTHING) -> Finding:
    """Every selected run ends in one of these outcomes."""
    found = of.cells(frame, of_runs, needed)
    runs = of.runs_of(found)
    hits = sum(run["outcome"] in outcomes for run in runs)
    return of.finding(
        found,
        hits == len(runs),
        f"{hits} of {len(runs)}: {of.counts_text(found)}",
        f"{hits} of {plural(len(runs), 'run')} ended {' or '.join(outcomes)}: {of.all_outcomes(found)}",
    )


def rescues(frame: pd.DataFrame, needed: int, *, better: Selection, worse: Selection) -> Finding:
    """Every run of one side learns, and no run of the other."""
    saved, lost = (of.cells(frame, side, needed) for side in (better, worse))
    learned = [sum(map(of.learned, side)) for side in (saved, lost)]
    names = side_names((better, worse), of.labels_of(frame))
    parts = [f"{name}: {of.counts_text(side)}" for name, side in zip(names, (saved, lost), strict=True)]
    told = "; ".join(parts)
    holds = of.all_learned(saved) and learned[1] == 0
    sentence = f"all must learn with {names[0]} and none with {names[1]}: {of.all_outcomes([*saved, *lost])}"
    return of.finding([*saved, *lost], holds, told, sentence)


def dies(frame: pd.DataFrame, needed: int, *, step: int, factor: float, of_runs: Selection = NOTHING) -> Finding:
    """Every run becomes non-finite, at a median step within this factor of the stated one."""
    found = of.cells(frame, of_runs, needed)
    runs = of.runs_of(found)
    steps = [int(run["step"]) for run in runs if run["outcome"] == Outcome.NONFINITE]
    near = bool(steps) and step / factor <= statistics.median(steps) <= step * factor
    told = f"{len(steps)} of {len(runs)} died" + (f" @{range_text(steps)}" if steps else "")
    sentence = f"{told}; needed are all, near step {step} within a factor of {factor:g}: {of.all_outcomes(found)}"
    return of.finding(found, near and len(steps) == len(runs), told, sentence)


def dies_by(frame: pd.DataFrame, needed: int, *, step: int, of_runs: Selection = NOTHING) -> Finding:
    """Every run becomes non-finite, at this step or before."""
    found = of.cells(frame, of_runs, needed)
    runs = of.runs_of(found)
    steps = [int(run["step"]) for run in runs if run["outcome"] == Outcome.NONFINITE]
    soon = sum(at <= step for at in steps)
    later = [at for at in steps if at > step]
    told = f"{soon} of {len(runs)} died by step {step}" + (f" ({len(later)} @{range_text(later)})" if later else "")
    return of.finding(found, soon == len(runs), told, f"{told}: {of.all_outcomes(found)}")


def dies_later(frame: pd.DataFrame, needed: int, *, early: Selection, late: Selection) -> Finding:
    """Both sides become non-finite in every run, the late one at a later step with every seed."""
    one, other = of.pair(frame, early, late, needed)
    dead = all(run["outcome"] == Outcome.NONFINITE for cell in (one, other) for run in cell.runs.values())
    shared = sorted(set(one.runs) & set(other.runs))
    holds = dead and all(other.runs[seed]["step"] > one.runs[seed]["step"] for seed in shared)
    told = of.all_outcomes([one, other])
    return of.finding([one, other], holds, told, told)


def learns_at(
    frame: pd.DataFrame, needed: int, *, axis: str, values: Sequence[Value], of_runs: Selection = NOTHING
) -> Finding:
    """Along a key, every run learns at exactly these values: elsewhere at least one seed does not."""
    found, labels = of.cells(frame, of_runs, needed, axis), of.labels_of(frame)
    learning = [cell.values[axis] for cell in found if of.learned(cell) == len(cell.runs)]
    told = listed([labels.text(axis, value) for value in learning]) if learning else "none"
    shares = ", ".join(f"{labels.text(axis, c.values[axis])} {of.learned(c)} of {len(c.runs)}" for c in found)
    return of.finding(found, set(learning) == set(values), f"learns at {axis} {told}", f"learned by {axis}: {shares}")


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


class Takes(StrEnum):
    """What a parameter of a check holds in a claims file."""

    SELECTION = "a mapping of run keys to a value or a list of values"
    NUMBER = "a number"
    STEPS = "a number of updates"
    KEY = "a run key"
    VALUES = "a value or a list of values of the key `axis`"
    MEASURE = "a measure"
    OUTCOMES = "an outcome or a list of outcomes"
    TREND = "rising or falling"


@dataclass(frozen=True, slots=True)
class Check:
    """A row: the function, what its parameters hold, and which of them may be left out."""

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
"""Name to check."""
