"""From runs to cells: counts that add up, and medians in which the dead count.

A cell is a combination of label and axes without the seed. A run that answers several points stands in each cell that
asks for it, and `shared_runs` of the cell counts it; whatever is counted over several cells counts each run once.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from normexp.analysis import frames
from normexp.analysis.sensitivity import half_interval
from normexp.config.plan import Plan, Point
from normexp.records.record import FAILED, REFERENCES, SURVIVED, Losses, Outcome, Status
from normexp.schemes.network_config import Value

if TYPE_CHECKING:
    import pandas as pd

Run = dict[str, Any]
"""A row of runs.csv; a missing number is None, and NaN is a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Label and values of one combination, and the distinct runs that answer it, one a seed."""

    values: dict[str, Value]
    point: Point
    runs: tuple[Run, ...]

    @property
    def done(self) -> list[Run]:
        """The runs whose training came to a result."""
        return [run for run in self.runs if run["status"] == Status.DONE]

    @property
    def survivors(self) -> list[Run]:
        """The runs whose final losses are averaged."""
        return [run for run in self.done if run["outcome"] in SURVIVED]

    @property
    def median(self) -> float:
        """Of the final losses of the done runs, in nats, the dead as infinity; NaN where none is done."""
        losses = [final_loss(run) for run in self.done]
        return statistics.median(losses) if losses else math.nan


def final_loss(run: Run) -> float:
    """Final validation loss of a done run in nats, infinite where it has none."""
    loss = run["final_val_loss"]
    died = run["outcome"] == Outcome.NONFINITE or loss is None or not math.isfinite(loss)
    return math.inf if died else float(loss)


def result_word(run: Run) -> str:
    """The outcome of a done run, the status of any other, or pending."""
    return str(run["outcome"] if run["status"] == Status.DONE else run["status"])


def losses_of(run: Mapping[str, Any]) -> Losses:
    """The reference losses of a done run's task, in nats."""
    return Losses(**{name: run[name] for name in REFERENCES})


def cells(plan: Plan, runs: pd.DataFrame) -> list[Cell]:
    """The cells in the order in which the points come."""
    by_id = {row["run_id"]: row for row in frames.rows(runs)}
    first: dict[tuple[Any, ...], Point] = {}
    members: dict[tuple[Any, ...], dict[str, Run]] = {}
    axes = plan.cell_axes
    for point in plan.points:
        place = (point.label, *(point.values[axis] for axis in axes))
        first.setdefault(place, point)
        run_id = point.config.run_id
        members.setdefault(place, {})[run_id] = by_id[run_id]
    return [
        Cell(
            values=dict(zip(["label", *axes], place, strict=True)),
            point=first[place],
            runs=tuple(found.values()),
        )
        for place, found in members.items()
    ]


def twins(found: Sequence[Cell]) -> list[list[Cell]]:
    """The cells, those together that the same runs answer, in the order of the first of each."""
    alike: dict[frozenset[str], list[Cell]] = {}
    for cell in found:
        alike.setdefault(frozenset(run["run_id"] for run in cell.runs), []).append(cell)
    return list(alike.values())


def shared(found: Sequence[Cell]) -> set[str]:
    """Ids of the runs that stand in several of the cells."""
    counts = Counter(run["run_id"] for cell in found for run in cell.runs)
    return {run_id for run_id, count in counts.items() if count > 1}


def summarize(plan: Plan, runs: pd.DataFrame) -> pd.DataFrame:
    """One row a cell. planned = done + failed + pending, and done is the sum of the five outcomes."""
    numbers = ("survivors", "median_val_loss", "mean_val_loss", "std_val_loss", "low95_val_loss", "high95_val_loss")
    references = ("learned_fraction", *REFERENCES)
    columns = ["label", *plan.cell_axes, *frames.COUNTS, *numbers, *references, *frames.LATER_COUNTS]
    found = cells(plan, runs)
    several = shared(found)
    rows = (
        cell.values
        | _counts(cell)
        | _losses(cell)
        | {"shared_runs": sum(run["run_id"] in several for run in cell.runs)}
        for cell in found
    )
    return frames.frame(rows, columns)


def best_first(summary: pd.DataFrame) -> pd.DataFrame:
    """The cells by the learned fraction at their median loss; infinite losses, then cells without a result, last.

    Within one task that is by median loss; between tasks, losses do not compare.
    """
    fractions = [
        math.nan if row["median_val_loss"] is None else losses_of(row).learned_fraction(row["median_val_loss"])
        for row in frames.rows(summary)
    ]
    places = sorted(range(len(fractions)), key=lambda place: (math.isnan(fractions[place]), -fractions[place]))
    return summary.iloc[places]


def best(found: Sequence[Cell]) -> Cell | None:
    """The cell with the highest learned fraction at its median, None where no cell has a finite one.

    Within one task that is the lowest median loss; between tasks, losses do not compare.
    """
    finite = [cell for cell in found if math.isfinite(cell.median)]
    return max(finite, key=fraction) if finite else None


def fraction(cell: Cell) -> float:
    """Learned fraction at the median of a cell that has a result."""
    return losses_of(cell.done[0]).learned_fraction(cell.median)


def _counts(cell: Cell) -> dict[str, Any]:
    outcomes = [run["outcome"] for run in cell.done]
    failed = sum(run["status"] in FAILED for run in cell.runs)
    deaths = [run["step"] for run in cell.done if run["outcome"] == Outcome.NONFINITE]
    return {
        "planned": len(cell.runs),
        "done": len(cell.done),
        **{outcome.value: outcomes.count(outcome) for outcome in Outcome},
        "failed": failed,
        "pending": len(cell.runs) - len(cell.done) - failed,
        "first_dead_step": min(deaths, default=None),
        "last_dead_step": max(deaths, default=None),
        "stale_runs": sum(run["stale"] is True for run in cell.runs),
    }


def _losses(cell: Cell) -> dict[str, Any]:
    survivors = cell.survivors
    losses = [final_loss(run) for run in survivors]
    row: dict[str, Any] = {"survivors": f"{len(survivors)}/{len(cell.done)}"}
    if cell.done:
        row |= {"median_val_loss": cell.median}
        row |= {name: cell.done[0][name] for name in REFERENCES}
    if survivors:
        row["mean_val_loss"] = statistics.fmean(losses)
        row["learned_fraction"] = statistics.fmean(run["learned_fraction"] for run in survivors)
    if len(survivors) > 1:
        half = half_interval(losses)
        row |= {"std_val_loss": statistics.stdev(losses)}
        row |= {"low95_val_loss": row["mean_val_loss"] - half, "high95_val_loss": row["mean_val_loss"] + half}
    return row
