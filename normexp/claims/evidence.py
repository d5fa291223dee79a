"""The points of sweep files with what is stored of their runs: the frames that checks read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp.analysis import frames
from normexp.claims.cell_stats import STALE
from normexp.claims.claim import ClaimFile
from normexp.claims.measures import MEASURES
from normexp.config import grid
from normexp.config.plan import Plan
from normexp.config.sweep_file import load
from normexp.errors import UserError
from normexp.records.record import Outcome, RunRecord
from normexp.storage import index

if TYPE_CHECKING:
    import pandas as pd

QUICK_SCALE = 0.03
QUICK_OVERRIDES = ("seed=0", "eval_every=1500")
"""What makes quick runs other runs, with other ids: they cannot be taken for full ones."""


def plans(file: ClaimFile, stems: Iterable[str], *, scale: float = 1.0) -> dict[str, Plan]:
    """Expand the sweeps of a claims file, by stem, in its order; a scale other than 1 makes them quick.

    Raises UserError with the complaints about all of them.
    """
    wanted = set(stems)
    overrides = () if scale == 1.0 else QUICK_OVERRIDES
    found: dict[str, Plan] = {}
    complaints: list[str] = []
    for stem, path in ((stem, path) for stem, path in file.sweeps.items() if stem in wanted):
        try:
            found[stem] = grid.plan(load(path, overrides, scale=scale))
        except UserError as fault:
            complaints += fault.complaints
    if complaints:
        raise UserError(*complaints)
    return found


@dataclass
class Evidence:
    """The runs under a results folder; a file of traces is read only where a measure asks for it.

    `warnings` tells what could not be used: records, and files of traces, whose measures then count as not measured.
    """

    out: Path
    warnings: list[str] = field(default_factory=list)
    _runs: index.Found | None = None
    _measured: dict[tuple[str, str], float] = field(default_factory=dict)
    _frames: dict[tuple[str, ...], pd.DataFrame] = field(default_factory=dict)

    def frame(self, plans: Sequence[Plan], measures: Iterable[str] = ()) -> pd.DataFrame:
        """One row a point: `setting`, every key as asked for, what came of its run, and these measures.

        A point that stands in several plans stands once.
        """
        columns = [name for name in measures if name in MEASURES]
        mark = (*(plan.folder for plan in plans), "", *columns)
        if mark not in self._frames:
            self._frames[mark] = self._made(plans, columns)
        return self._frames[mark]

    def _made(self, plans: Sequence[Plan], columns: list[str]) -> pd.DataFrame:
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for plan in plans:
            records = self.records(plan)
            rows: dict[str, Any] = {row["run_id"]: row for row in frames.rows(frames.runs(plan, records))}
            for point in plan.points:
                asked = point.config.to_dict() | dict(point.values)
                row: dict[str, Any] = {**rows[point.config.run_id], "setting": point.label, **asked}
                row |= {name: self._measure(name, row) for name in columns}
                found.setdefault((point.label, *asked.values()), _told(row))
        return _frame(list(found.values()), columns)

    def records(self, plan: Plan) -> Mapping[str, RunRecord]:
        """What is stored of a plan's runs, whichever sweep holds them, a usable one first; without traces."""
        if self._runs is None:
            self._runs = {}
            for store in index.sweeps(self.out):
                index.gather(self._runs, store)
                self._warn(store.warnings)
        return {run_id: self._runs[run_id][1] for run_id in plan.configs if run_id in self._runs}

    def _measure(self, name: str, row: Mapping[str, Any]) -> float:
        run_id = row["run_id"]
        if self._runs is None or run_id not in self._runs or row["outcome"] == "":
            return math.nan
        if (run_id, name) not in self._measured:
            store, record = self._runs[run_id]
            read = MEASURES[name].reads
            try:
                traces = store.traces(run_id, record.result, only=read)
            except UserError as fault:
                self._warn(fault.complaints)
                traces = None
            for other, measure in MEASURES.items():
                if measure.reads == read:
                    number = math.nan if traces is None else measure.of(record.config, traces)
                    self._measured[run_id, other] = number
        return self._measured[run_id, name]

    def damaged(self, plan: Plan) -> list[str]:
        """A line for each damaged file of a plan's runs."""
        runs = self._runs or {}
        told = (store.damaged({run_id: record}) for run_id, (store, record) in runs.items() if run_id in plan.configs)
        return [line for lines in told for line in lines]

    def _warn(self, told: Iterable[str]) -> None:
        self.warnings += [line for line in dict.fromkeys(told) if line not in self.warnings]


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """A dead run's final loss is infinite, and so is any that is NaN; an outdated run is none."""
    if row["outcome"] == Outcome.NONFINITE:
        row["final_val_loss"] = math.inf
    if row["init_val_loss"] is not None and math.isnan(row["init_val_loss"]):
        row["init_val_loss"] = math.inf
    if row["stale"] is True:
        row["status"] = STALE
    return row


def _frame(rows: list[dict[str, Any]], measures: list[str]) -> pd.DataFrame:
    import pandas as pd

    made = frames.frame(rows, ["setting", *frames.RUN_COLUMNS])
    for name in measures:
        made[name] = pd.Series([row[name] for row in rows], dtype="float64")
    return made
