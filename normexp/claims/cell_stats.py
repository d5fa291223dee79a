"""Cells of a frame, and the arithmetic that checks share: seeds counted, sides paired seed by seed, intervals.

How checks word what they found: selections, measures, numbers over seeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from normexp.analysis import frames
from normexp.analysis.sensitivity import half_interval
from normexp.claims.claim import Finding, Selection
from normexp.config.labels import Labels, loss_text, plural, range_text
from normexp.config.run import KEYS
from normexp.records.outcome import MUCH
from normexp.records.record import Outcome, Status
from normexp.schemes.network_config import Value

if TYPE_CHECKING:
    import pandas as pd


LOSS = "final_val_loss"
"""The measure that is meant where none is named."""


def spread_text(numbers: Sequence[float]) -> str:
    """`2.334 ± 0.010 (3)`, `2.334`, `inf (3)`."""
    if len(numbers) == 1:
        return loss_text(numbers[0])
    if not all(map(math.isfinite, numbers)):
        return f"median {loss_text(statistics.median(numbers))} ({len(numbers)})"
    return f"{loss_text(statistics.fmean(numbers))} ± {loss_text(statistics.stdev(numbers))} ({len(numbers)})"


def ends_text(numbers: Iterable[float]) -> str:
    """`0.12 to 0.14`, or the one number."""
    found = sorted(numbers)
    return " to ".join(dict.fromkeys((loss_text(found[0]), loss_text(found[-1]))))


def measure_text(measure: str) -> str:
    """`final loss`, `max logit after`."""
    return measure.replace("_val_", " ").replace("_", " ")


def lead(measure: str) -> str:
    """Nothing for the loss, which is meant where nothing is said; `roughness: `."""
    return "" if measure == LOSS else f"{measure_text(measure)}: "


def selection_text(selection: Selection, labels: Labels) -> str:
    """`norm none, lr 0.001 or 0.003`."""
    return ", ".join(
        f"{key} {' or '.join(labels.text(key, value) for value in values)}" for key, values in selection.items()
    )


def side_names(selections: Sequence[Selection], labels: Labels) -> list[str]:
    """What tells selections apart: `position post, warmup 1000`, `position pre`."""
    first, *others = selections
    shared = [key for key, values in first.items() if all(other.get(key) == values for other in others)]
    return [selection_text({key: side[key] for key in side if key not in shared}, labels) for side in selections]


STALE = "stale"
"""Status of a run that a program with other numerics made: it counts as missing."""
Row = dict[str, Any]


class Thin(Exception):
    """Too few runs for a finding; says what is missing."""


class Mismatch(ValueError):
    """A selection that fits no point, or more than one cell where one is meant: the claims file is wrong."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The done runs of one combination, by seed; `outdated` ones, made by a program with other numerics, are not."""

    name: str
    values: Mapping[str, Value]
    runs: Mapping[int, Row]
    outdated: int = 0

    def numbers(self, measure: str) -> dict[int, float]:
        """A measure by seed, of the runs that have it."""
        found = {seed: run[measure] for seed, run in self.runs.items()}
        return {seed: float(number) for seed, number in found.items() if number is not None and not math.isnan(number)}

    def median(self, measure: str) -> float:
        """Over seeds; the dead have an infinite loss."""
        return statistics.median(self.numbers(measure).values())

    def text(self, measure: str) -> str:
        """`2.334 ± 0.010 (3)`."""
        return spread_text(list(self.numbers(measure).values()))


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one side from another, seed by seed: its middle and 95 % t-interval, which one seed does not have."""

    values: tuple[float, ...]
    same_runs: bool = False
    """Whether each seed has one run on both sides, so that they cannot differ."""

    @property
    def middle(self) -> float:
        """Their mean, or where some are infinite, as of dead runs, their median. NaN with infinities of both signs."""
        if {math.inf, -math.inf} <= set(self.values):
            return math.nan
        return statistics.fmean(self.values) if all(map(math.isfinite, self.values)) else statistics.median(self.values)

    @property
    def half(self) -> float:
        """Half the width of the interval, NaN with one seed or where a difference is not finite."""
        if len(self.values) < 2 or not all(map(math.isfinite, self.values)):
            return math.nan
        return half_interval(self.values)

    @property
    def above_zero(self) -> bool:
        """The interval lies above 0; without one, every difference does."""
        if math.isnan(self.half):
            return all(value > 0 for value in self.values)
        return self.middle - self.half > 0

    @property
    def text(self) -> str:
        if self.same_runs:
            return f"{loss_text(self.middle)}, since the same runs answer both sides"
        told = loss_text(self.middle) or "undefined"
        if math.isnan(self.half):
            return told
        return f"{told} ({loss_text(self.middle - self.half)} to {loss_text(self.middle + self.half)})"


def labels_of(frame: pd.DataFrame) -> Labels:
    """Labels that tell the values of each key in a frame apart."""
    return Labels(lambda key: frame[key].dropna().unique().tolist())


def groups(frame: pd.DataFrame, selection: Selection) -> list[Cell]:
    """The cells of a selection in the frame's order, however few runs they have. Raises Mismatch where it has none."""
    grouped: dict[tuple[Value, ...], list[Row]] = {}
    names = [name for name in KEYS if name != "seed"]
    for row in frames.rows(frame):
        if all(row[key] in values for key, values in selection.items()):
            grouped.setdefault(tuple(row[name] for name in names), []).append(row)
    labels = labels_of(frame)
    if not grouped:
        raise Mismatch(f"no point has {selection_text(selection, labels) or 'that setting'}")
    combinations = [dict(zip(names, values, strict=True)) for values in grouped]
    varied = [name for name in names if len({combination[name] for combination in combinations}) > 1]
    shown = [key for key in (*selection, *varied) if key != "seed"]
    found = []
    for values, rows in zip(combinations, grouped.values(), strict=True):
        name = selection_text({key: (values[key],) for key in dict.fromkeys(shown)}, labels) or "its runs"
        done = {int(row["seed"]): row for row in rows if row["status"] == Status.DONE}
        found.append(Cell(name, values, done, sum(row["status"] == STALE for row in rows)))
    return found


def cells(frame: pd.DataFrame, selection: Selection, needed: int, along: str = "") -> list[Cell]:
    """The cells of a selection, each with the needed runs; one a value of the key `along`. Raises Thin, Mismatch."""
    found = groups(frame, selection)
    if along and len({cell.values[along] for cell in found}) < len(found):
        raise Mismatch(f"several cells at one {along}: {'; '.join(cell.name for cell in found[:4])}")
    _check_enough(found, needed)
    return found


def one_cell(frame: pd.DataFrame, selection: Selection, needed: int, over: str = "") -> Cell:
    """The one cell of a selection, or of those along the key `over` the best by median loss. Raises Thin, Mismatch."""
    found = _alike_but_for(over, groups(frame, selection))
    _check_enough(found, needed)
    return min(found, key=lambda cell: cell.median(LOSS)) if over else found[0]


def pair(frame: pd.DataFrame, one: Selection, other: Selection, needed: int, over: str = "") -> tuple[Cell, Cell]:
    """The cells of two sides, as `one_cell` finds them; what is wrong with either comes before what either lacks."""
    for side in (one, other):
        _alike_but_for(over, groups(frame, side))
    return one_cell(frame, one, needed, over), one_cell(frame, other, needed, over)


def _alike_but_for(over: str, found: list[Cell]) -> list[Cell]:
    other = [{key: value for key, value in cell.values.items() if key != over} for cell in found]
    if any(values != other[0] for values in other):
        names = "; ".join(cell.name for cell in found[:4])
        raise Mismatch(f"a side fits several cells ({names}): name one of them")
    return found


def _check_enough(found: Sequence[Cell], needed: int) -> None:
    for cell in found:
        if len(cell.runs) < needed:
            outdated = f", {cell.outdated} outdated: --run runs them again" if cell.outdated else ""
            raise Thin(f"{cell.name}: {len(cell.runs)} of {plural(needed, 'needed run')} done{outdated}")


def measured(cell: Cell, measure: str, needed: int) -> dict[int, float]:
    """A measure by seed. Raises Thin where too few runs have it."""
    found = cell.numbers(measure)
    if len(found) < needed:
        raise Thin(f"{cell.name}: {measure} is known of {len(found)} of {plural(needed, 'needed run')}")
    return found


def difference(left: Mapping[int, float], right: Mapping[int, float], needed: int) -> Difference:
    """right minus left over the seeds that both have; two infinities differ by 0. Raises Thin."""
    seeds = sorted(set(left) & set(right))
    if len(seeds) < needed:
        raise Thin(f"{len(seeds)} of {plural(needed, 'needed seed')} on both sides")
    return Difference(tuple(0.0 if left[s] == right[s] else right[s] - left[s] for s in seeds))


def paired(
    frame: pd.DataFrame, one: Selection, other: Selection, needed: int, over: str, measure: str
) -> tuple[Cell, Cell, Difference]:
    """The cells of two sides, and how far the second's measure lies above the first's. Raises Thin, Mismatch."""
    left, right = pair(frame, one, other, needed, over)
    gap = difference(measured(left, measure, needed), measured(right, measure, needed), needed)
    return left, right, replace(gap, same_runs=set(run_ids([left])) == set(run_ids([right])))


def runs_of(found: Sequence[Cell]) -> list[Row]:
    """All runs of the cells, each once: the same run may answer several."""
    return list({run["run_id"]: run for cell in found for run in cell.runs.values()}.values())


def run_ids(found: Sequence[Cell]) -> tuple[str, ...]:
    """Of all runs of the cells, each once."""
    return tuple(run["run_id"] for run in runs_of(found))


def fewest(found: Sequence[Cell]) -> int:
    """Runs of the cell that has the fewest."""
    return min(len(cell.runs) for cell in found)


def sides_text(
    frame: pd.DataFrame, measure: str, sides: Sequence[tuple[Selection, Cell]], joined: str, over: str = ""
) -> str:
    """Each side by the keys in which the selections differ: `norm ln 1.9 ± 0.1 (3) against norm none 2.4 ± 0.2 (3)`.

    A measure other than the loss comes first; with `over`, each side has its best value of that key.
    """
    texts, labels = [], labels_of(frame)
    for name, (_, cell) in zip(side_names([selection for selection, _ in sides], labels), sides, strict=True):
        best = f" at {over} {labels.text(over, cell.values[over])}" if over else ""
        texts.append(f"{name}{best} {cell.text(measure)}".lstrip())
    return lead(measure) + f" {joined} ".join(texts)


def learned(cell: Cell) -> int:
    """How many of its runs learned."""
    return sum(run["outcome"] == Outcome.LEARNED for run in cell.runs.values())


def all_learned(found: Sequence[Cell]) -> bool:
    """Every run of the cells learned: losses that are alike because nothing was learned say nothing."""
    return all(learned(cell) == len(cell.runs) for cell in found)


def outcomes_text(cell: Cell) -> str:
    """`lr 0.001: 2 learned 2.325 ± 0.004, 1 nonfinite @12`."""
    return f"{cell.name}: {counts_text([cell])}"


def counts_text(found: Sequence[Cell]) -> str:
    """`2 learned 2.325 ± 0.004, 1 nonfinite @12`; of several cells, `4 learned 2.325 to 2.534`."""
    runs = runs_of(found)
    parts = []
    for outcome in Outcome:
        those = [run for run in runs if run["outcome"] == outcome]
        if those and outcome == Outcome.NONFINITE:
            parts.append(f"{len(those)} nonfinite @{range_text(int(run['step']) for run in those)}")
        elif those:
            losses = [run[LOSS] for run in those]
            spread = ends_text(losses) if len(found) > 1 else spread_text(losses).removesuffix(f" ({len(those)})")
            parts.append(f"{len(those)} {outcome} {spread}{_little(those) if outcome == Outcome.LEARNED else ''}")
    return ", ".join(parts)


def _little(runs: Sequence[Row]) -> str:
    """How many of the runs learned less than half of what there is; how much it is, where all did."""
    shares = [run["learned_fraction"] for run in runs]
    little = sum(share < MUCH for share in shares)
    if little == len(shares):
        return f" (no more than {math.ceil(100 * max(shares))} % of what there is)"
    return f" ({little} of them less than half of what there is)" if little else ""


def all_outcomes(found: Sequence[Cell]) -> str:
    """The outcomes of each cell."""
    return "; ".join(map(outcomes_text, found))


def finding(found: Sequence[Cell], holds: bool, measured: str, sentence: str) -> Finding:
    """What the cells show, with their runs."""
    return Finding(holds=bool(holds), measured=measured, sentence=sentence, seeds=fewest(found), run_ids=run_ids(found))
