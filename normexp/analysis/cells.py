"""Group runs into cells, and summarize each cell.

A cell is one combination of label and axis values; its runs differ only in the seed. Medians count non-finite runs as
infinite. A run that answers several points appears in each of their cells and is counted in `shared_runs`; totals over
several cells count each run once.
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
"""A row of runs.csv. A missing number is None; NaN is a measured value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The label and axis values of one combination, and its distinct runs, one per seed."""

    values: dict[str, Value]
    point: Point
    runs: tuple[Run, ...]

    @property
    def done(self) -> list[Run]:
        """The runs whose status is done."""
        return [run for run in self.runs if run["status"] == Status.DONE]

    @property
    def survivors(self) -> list[Run]:
        """The runs that learned or ended on a plateau: means are taken over these."""
        return [run for run in self.done if run["outcome"] in SURVIVED]

    @property
    def median(self) -> float:
        """Median final loss of the done runs in nats, counting non-finite runs as infinite. NaN if no run is done."""
        losses = [final_loss(run) for run in self.done]
        return statistics.median(losses) if losses else math.nan


def final_loss(run: Run) -> float:
    """Return the final validation loss of a done run in nats, infinite for a non-finite run."""
    loss = run["final_val_loss"]
    nonfinite = run["outcome"] == Outcome.NONFINITE or loss is None or not math.isfinite(loss)
    return math.inf if nonfinite else float(loss)


def result_word(run: Run) -> str:
    """Return the outcome of a done run, or the status of any other run (`pending` without a record)."""
    return str(run["outcome"] if run["status"] == Status.DONE else run["status"])


def losses_of(run: Mapping[str, Any]) -> Losses:
    """Return the reference losses of a done run's task, in nats."""
    return Losses(**{name: run[name] for name in REFERENCES})


def cells(plan: Plan, runs: pd.DataFrame) -> list[Cell]:
    """Return the cells of a plan, in the order of its points."""
    by_id = {row["run_id"]: row for row in frames.rows(runs)}
    first_points: dict[tuple[Any, ...], Point] = {}
    runs_by_key: dict[tuple[Any, ...], dict[str, Run]] = {}
    axes = plan.cell_axes
    for point in plan.points:
        key = (point.label, *(point.values[axis] for axis in axes))
        first_points.setdefault(key, point)
        run_id = point.config.run_id
        runs_by_key.setdefault(key, {})[run_id] = by_id[run_id]
    return [
        Cell(
            values=dict(zip(["label", *axes], key, strict=True)),
            point=first_points[key],
            runs=tuple(cell_runs.values()),
        )
        for key, cell_runs in runs_by_key.items()
    ]


def twins(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Group cells that consist of the same runs, in the order of the first cell of each group."""
    groups: dict[frozenset[str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(frozenset(run["run_id"] for run in cell.runs), []).append(cell)
    return list(groups.values())


def shared(cells: Sequence[Cell]) -> set[str]:
    """Return the ids of the runs that belong to more than one of the cells."""
    counts = Counter(run["run_id"] for cell in cells for run in cell.runs)
    return {run_id for run_id, count in counts.items() if count > 1}


def summarize(plan: Plan, runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell: planned = done + failed + pending, and done is the sum of the five outcomes."""
    numbers = ("survivors", "median_val_loss", "mean_val_loss", "std_val_loss", "low95_val_loss", "high95_val_loss")
    references = ("learned_fraction", *REFERENCES)
    columns = ["label", *plan.cell_axes, *frames.COUNTS, *numbers, *references, *frames.LATER_COUNTS]
    all_cells = cells(plan, runs)
    shared_ids = shared(all_cells)
    rows = (
        cell.values
        | _counts(cell)
        | _losses(cell)
        | {"shared_runs": sum(run["run_id"] in shared_ids for run in cell.runs)}
        for cell in all_cells
    )
    return frames.frame(rows, columns)


def best_first(summary: pd.DataFrame) -> pd.DataFrame:
    """Sort the cells by the learned fraction at their median loss, highest first.

    Cells with an infinite median follow, and cells without a done run come last. Within one task this is the order of
    the median losses; losses of different tasks are not comparable.
    """
    fractions = [
        math.nan if row["median_val_loss"] is None else losses_of(row).learned_fraction(row["median_val_loss"])
        for row in frames.rows(summary)
    ]
    order = sorted(range(len(fractions)), key=lambda index: (math.isnan(fractions[index]), -fractions[index]))
    return summary.iloc[order]


def best(cells: Sequence[Cell]) -> Cell | None:
    """Return the cell with the highest learned fraction at its median, or None if no median is finite.

    Within one task this is the cell with the lowest median loss; losses of different tasks are not comparable.
    """
    finite = [cell for cell in cells if math.isfinite(cell.median)]
    return max(finite, key=fraction) if finite else None


def fraction(cell: Cell) -> float:
    """Return the learned fraction at the median loss of a cell with at least one done run."""
    return losses_of(cell.done[0]).learned_fraction(cell.median)


def _counts(cell: Cell) -> dict[str, Any]:
    outcomes = [run["outcome"] for run in cell.done]
    failed = sum(run["status"] in FAILED for run in cell.runs)
    nonfinite_steps = [run["step"] for run in cell.done if run["outcome"] == Outcome.NONFINITE]
    return {
        "planned": len(cell.runs),
        "done": len(cell.done),
        **{outcome.value: outcomes.count(outcome) for outcome in Outcome},
        "failed": failed,
        "pending": len(cell.runs) - len(cell.done) - failed,
        "first_dead_step": min(nonfinite_steps, default=None),
        "last_dead_step": max(nonfinite_steps, default=None),
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
