"""The cells of runs that checks share, their paired differences, and their texts."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from normexp.analysis import frames
from normexp.claims.claim import Finding, Selection
from normexp.claims.decisions import Difference, Ruling
from normexp.claims.measures import Scale, scale_of
from normexp.config.labels import Labels, plural, range_text
from normexp.config.run import KEYS
from normexp.records.outcome import MUCH
from normexp.records.record import SURVIVED, Outcome, Status
from normexp.schemes.network_config import Value

if TYPE_CHECKING:
    import pandas as pd

LOSS = "final_val_loss"
"""The default measure."""
STALE = "stale"
"""Status of an outdated run, which counts as missing."""
APART = 0.25
"""Runs whose learned fractions differ by more than this are of two kinds, even if all of them learned."""
Row = dict[str, Any]


def spread_text(numbers: Sequence[float], scale: Scale = Scale.LINEAR) -> str:
    """Return the mean and standard deviation: `2.334 ± 0.010 (3)`, `2.334`; the range if a number is infinite.

    On a scale by ratio, return the geometric mean and its standard deviation as a factor: `12.3 ×/÷ 1.4 (3)`.
    """
    values = [scale.number(number) for number in numbers]
    if len(numbers) == 1:
        return scale.text(numbers[0])
    if not all(map(math.isfinite, values)):
        return f"{ends_text(numbers, scale)} ({len(numbers)})"
    middle, spread = scale.inverse(statistics.fmean(values)), scale.inverse(statistics.stdev(values))
    sign = "±" if scale is Scale.LINEAR else "×/÷"
    return f"{scale.text(middle)} {sign} {scale.text(spread)} ({len(numbers)})"


def ends_text(numbers: Iterable[float], scale: Scale = Scale.LINEAR) -> str:
    """Return the range of numbers: `0.12 to 0.14`, or a single number."""
    ordered = sorted(numbers)
    return " to ".join(dict.fromkeys((scale.text(ordered[0]), scale.text(ordered[-1]))))


def measure_text(measure: str) -> str:
    """Return the name of a measure in words: `final loss`, `max logit after`."""
    return measure.replace("_val_", " ").replace("_", " ")


def lead(measure: str) -> str:
    """Return the prefix that names a measure: `roughness: `, empty for the final loss."""
    return "" if measure == LOSS else f"{measure_text(measure)}: "


def selection_text(selection: Selection, labels: Labels) -> str:
    """Return a selection in words: `norm none, lr 0.001 or 0.003`."""
    return ", ".join(
        f"{key} {' or '.join(labels.text(key, value) for value in values)}" for key, values in selection.items()
    )


def side_names(selections: Sequence[Selection], labels: Labels) -> list[str]:
    """Name selections by the keys in which they differ: `position post, warmup 1000`, `position pre`."""
    first, *others = selections
    shared = [key for key, values in first.items() if all(other.get(key) == values for other in others)]
    return [selection_text({key: side[key] for key in side if key not in shared}, labels) for side in selections]


class Thin(Exception):
    """There are too few runs for a finding; the message says what is missing."""


class Mismatch(ValueError):
    """A selection matches no point, or several cells instead of one: the claims file is wrong."""


@dataclass(frozen=True, slots=True)
class SeedRuns:
    """The done runs of one combination by seed, without the `outdated` ones, which are counted.

    If each seed has its run at its own best value of a key, `chosen` holds these values by seed.
    """

    name: str
    values: Mapping[str, Value]
    runs: Mapping[int, Row]
    outdated: int = 0
    chosen: Mapping[int, Value] = field(default_factory=dict)

    def numbers(self, measure: str) -> dict[int, float]:
        """Return a measure by seed, of the runs that have it."""
        by_seed = {seed: run[measure] for seed, run in self.runs.items()}
        return {
            seed: float(number) for seed, number in by_seed.items() if number is not None and not math.isnan(number)
        }

    def median(self, measure: str) -> float:
        """Return the median over seeds. Non-finite runs have an infinite loss."""
        return statistics.median(self.numbers(measure).values())

    @property
    def mixed(self) -> bool:
        """Whether the runs are of several kinds, so that their mean and a t-interval would describe none of them.

        They are if their outcomes differ. `learned` and `plateau` are one kind unless the learned fractions are more
        than `APART` apart, so that a threshold between similar losses makes no difference.
        """
        fractions = [run["learned_fraction"] for run in self.runs.values() if run["outcome"] in SURVIVED]
        others = {run["outcome"] for run in self.runs.values() if run["outcome"] not in SURVIVED}
        if not fractions:
            return len(others) > 1
        return bool(others) or max(fractions) - min(fractions) > APART

    def text(self, measure: str) -> str:
        """Return a measure over seeds: `2.334 ± 0.010 (3)`, or for mixed runs its range and their outcomes."""
        numbers = list(self.numbers(measure).values())
        if not self.mixed or len(numbers) < 2:
            return spread_text(numbers, scale_of(measure))
        return f"{ends_text(numbers, scale_of(measure))} ({counts_of_outcomes(self.runs.values())})"


def counts_of_outcomes(runs: Iterable[Row]) -> str:
    """Return how many runs had each outcome: `2 learned, 1 plateau`."""
    counts = Counter(run["outcome"] for run in runs)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])


def labels_of(frame: pd.DataFrame) -> Labels:
    """Return labels that distinguish the values of each key in a frame."""
    return Labels(lambda key: frame[key].dropna().unique().tolist())


def groups(frame: pd.DataFrame, selection: Selection) -> list[SeedRuns]:
    """Return the cells of a selection in the order of the frame. Raises Mismatch if it matches no point."""
    grouped: dict[tuple[Value, ...], list[Row]] = {}
    names = [name for name in KEYS if name != "seed"]
    for row in frames.rows(frame):
        if all(row[key] in values for key, values in selection.items()):
            grouped.setdefault(tuple(row[name] for name in names), []).append(row)
    labels = labels_of(frame)
    if not grouped:
        raise Mismatch(f"no point has {selection_text(selection, labels) or 'this setting'}")
    combinations = [dict(zip(names, values, strict=True)) for values in grouped]
    varied = [name for name in names if len({combination[name] for combination in combinations}) > 1]
    shown = [key for key in (*selection, *varied) if key != "seed"]
    cells = []
    for values, rows in zip(combinations, grouped.values(), strict=True):
        name = selection_text({key: (values[key],) for key in dict.fromkeys(shown)}, labels) or "all runs"
        done = {int(row["seed"]): row for row in rows if row["status"] == Status.DONE}
        cells.append(SeedRuns(name, values, done, sum(row["status"] == STALE for row in rows)))
    return cells


def cells(frame: pd.DataFrame, selection: Selection, needed: int, along: str = "") -> list[SeedRuns]:
    """Return the cells of a selection. Raises Thin if one has fewer than `needed` runs.

    Raises Mismatch if several cells have the same value of the key `along`.
    """
    matching = groups(frame, selection)
    if along and len({cell.values[along] for cell in matching}) < len(matching):
        raise Mismatch(f"several cells at one {along}: {'; '.join(cell.name for cell in matching[:4])}")
    _check_enough(matching, needed)
    return matching


def one_cell(frame: pd.DataFrame, selection: Selection, needed: int, over: str = "") -> SeedRuns:
    """Return the only cell of a selection, or each seed's run at the best value of `over`. Raises Thin, Mismatch.

    The best value for a seed has the lowest mean loss over the other seeds, so that no run is judged at a value that it
    helped to choose. A non-finite run has an infinite loss; if all means are infinite, the medians decide. A single
    seed is judged at its own best value.
    """
    matching = _differing_only_in(over, groups(frame, selection))
    _check_enough(matching, needed)
    if not over:
        return matching[0]
    losses = [cell.numbers(LOSS) for cell in matching]
    seeds = sorted(set.intersection(*map(set, losses)))
    if len(seeds) < needed:
        raise Thin(f"{len(seeds)} of {plural(needed, 'needed seed')} done at every {over}")

    def best_for(seed: int) -> SeedRuns:
        others = [other for other in seeds if other != seed] or [seed]

        def rank(index: int) -> tuple[float, float]:
            numbers = [losses[index][other] for other in others]
            return statistics.fmean(numbers), statistics.median(numbers)

        return matching[min(range(len(matching)), key=rank)]

    best = {seed: best_for(seed) for seed in seeds}
    cells = list({id(cell): cell for cell in best.values()}.values())
    name = cells[0].name if len(cells) == 1 else f"{cells[0].name} (or at another {over} for some seeds)"
    runs = {seed: cell.runs[seed] for seed, cell in best.items()}
    chosen = {seed: cell.values[over] for seed, cell in best.items()}
    return SeedRuns(name, cells[0].values, runs, chosen=chosen)


def pair(
    frame: pd.DataFrame, one: Selection, other: Selection, needed: int, over: str = ""
) -> tuple[SeedRuns, SeedRuns]:
    """Return the cells of two sides, see `one_cell`. A Mismatch of either side is raised before a Thin."""
    for side in (one, other):
        _differing_only_in(over, groups(frame, side))
    return one_cell(frame, one, needed, over), one_cell(frame, other, needed, over)


def _differing_only_in(over: str, cells: list[SeedRuns]) -> list[SeedRuns]:
    rest = [{key: value for key, value in cell.values.items() if key != over} for cell in cells]
    if any(values != rest[0] for values in rest):
        names = "; ".join(cell.name for cell in cells[:4])
        raise Mismatch(f"a side matches several cells ({names}): name one of them")
    return cells


def _check_enough(cells: Sequence[SeedRuns], needed: int) -> None:
    for cell in cells:
        if len(cell.runs) < needed:
            outdated = f", {cell.outdated} outdated: --run runs them again" if cell.outdated else ""
            raise Thin(f"{cell.name}: {len(cell.runs)} of {plural(needed, 'needed run')} done{outdated}")


def measured(cell: SeedRuns, measure: str, needed: int) -> dict[int, float]:
    """Return a measure by seed. Raises Thin if too few runs have it."""
    by_seed = cell.numbers(measure)
    if len(by_seed) < needed:
        raise Thin(f"{cell.name}: {measure} was measured in {len(by_seed)} of {plural(needed, 'needed run')}")
    return by_seed


def difference(
    left: Mapping[int, float],
    right: Mapping[int, float],
    needed: int,
    *,
    scale: Scale = Scale.LINEAR,
    mixed: bool = False,
    same_runs: bool = False,
) -> Difference:
    """Return right minus left, on a scale, over the seeds that both have. Two infinities differ by 0. Raises Thin."""
    seeds = sorted(set(left) & set(right))
    if len(seeds) < needed:
        raise Thin(f"{len(seeds)} of {plural(needed, 'needed seed')} done on both sides")
    numbers = [(scale.number(left[seed]), scale.number(right[seed])) for seed in seeds]
    values = tuple(0.0 if low == high else high - low for low, high in numbers)
    return Difference(values, scale, mixed, same_runs)


def paired(
    frame: pd.DataFrame, one: Selection, other: Selection, needed: int, over: str, measure: str
) -> tuple[SeedRuns, SeedRuns, Difference]:
    """Return the cells of two sides, and the paired difference of the second to the first. Raises Thin, Mismatch."""
    left, right = pair(frame, one, other, needed, over)
    return left, right, between(left, right, needed, measure)


def between(left: SeedRuns, right: SeedRuns, needed: int, measure: str) -> Difference:
    """Return the paired difference of the second cell to the first in a measure. Raises Thin."""
    return difference(
        measured(left, measure, needed),
        measured(right, measure, needed),
        needed,
        scale=scale_of(measure),
        mixed=left.mixed or right.mixed,
        same_runs=set(run_ids([left])) == set(run_ids([right])),
    )


def against(cell: SeedRuns, number: float, needed: int, measure: str) -> Difference:
    """Return the differences of the runs of a cell to a number, on the scale of the measure. Raises Thin."""
    by_seed = measured(cell, measure, needed)
    return difference(dict.fromkeys(by_seed, number), by_seed, needed, scale=scale_of(measure), mixed=cell.mixed)


def runs_of(cells: Sequence[SeedRuns]) -> list[Row]:
    """Return the distinct runs of the cells."""
    return list({run["run_id"]: run for cell in cells for run in cell.runs.values()}.values())


def run_ids(cells: Sequence[SeedRuns]) -> tuple[str, ...]:
    """Return the ids of the distinct runs of the cells."""
    return tuple(run["run_id"] for run in runs_of(cells))


def sides_text(
    frame: pd.DataFrame, measure: str, sides: Sequence[tuple[Selection, SeedRuns]], joined: str, over: str = ""
) -> str:
    """Return the measure of each side: `norm ln 1.9 ± 0.1 (3) against norm none 2.4 ± 0.2 (3)`.

    Sides are named by the keys in which their selections differ, and with `over` by their best value of that key. A
    measure other than the final loss is named first.
    """
    texts, labels = [], labels_of(frame)
    for name, (_, cell) in zip(side_names([selection for selection, _ in sides], labels), sides, strict=True):
        values = sorted(set(cell.chosen.values()), key=list(cell.chosen.values()).index)
        best = f" at {over} {' or '.join(labels.text(over, value) for value in values)}" if over else ""
        texts.append(f"{name}{best} {cell.text(measure)}".lstrip())
    return lead(measure) + f" {joined} ".join(texts)


def learned(cell: SeedRuns) -> int:
    """Return the number of runs that learned."""
    return sum(run["outcome"] == Outcome.LEARNED for run in cell.runs.values())


def all_learned(cells: Sequence[SeedRuns]) -> bool:
    """Return whether every run of the cells learned: otherwise equal losses mean nothing."""
    return all(learned(cell) == len(cell.runs) for cell in cells)


def counts_text(cells: Sequence[SeedRuns]) -> str:
    """Return the outcomes of all runs: `2 learned 2.325 ± 0.004, 1 nonfinite @12`.

    For several cells, losses are given as a range: `4 learned 2.325 to 2.534`.
    """
    runs = runs_of(cells)
    parts = []
    for outcome in Outcome:
        matching = [run for run in runs if run["outcome"] == outcome]
        if matching and outcome == Outcome.NONFINITE:
            parts.append(f"{len(matching)} nonfinite @{range_text(int(run['step']) for run in matching)}")
        elif matching:
            losses = [run[LOSS] for run in matching]
            spread = ends_text(losses) if len(cells) > 1 else spread_text(losses).removesuffix(f" ({len(matching)})")
            little = _little_text(matching) if outcome == Outcome.LEARNED else ""
            parts.append(f"{len(matching)} {outcome} {spread}{little}")
    return ", ".join(parts)


def _little_text(runs: Sequence[Row]) -> str:
    """Return how many runs learned less than half of the learnable gap, and the most they learned if all did."""
    fractions = [run["learned_fraction"] for run in runs]
    little = sum(fraction < MUCH for fraction in fractions)
    if little == len(fractions):
        return f" (at most {math.ceil(100 * max(fractions))} % of the learnable gap)"
    return f" ({little} of them less than half of the learnable gap)" if little else ""


def all_outcomes(cells: Sequence[SeedRuns]) -> str:
    """Return the outcomes of each cell: `lr 0.001: 2 learned 2.325 ± 0.004, 1 nonfinite @12; lr 0.003: ...`."""
    return "; ".join(f"{cell.name}: {counts_text([cell])}" for cell in cells)


def finding(cells: Sequence[SeedRuns], ruling: Ruling, measured: str, sentence: str) -> Finding:
    """Return a finding with the runs of the cells, and the seeds of the cell with the fewest.

    The sentence ends with why the claim does not hold.
    """
    return Finding(
        decision=ruling.decision,
        measured=measured,
        sentence=f"{sentence}; {ruling.decision}: {ruling.why}" if ruling.why else sentence,
        seeds=min(len(cell.runs) for cell in cells),
        run_ids=run_ids(cells),
        p_value=ruling.p_value,
    )
