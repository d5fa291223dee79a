"""Collect the stored runs of sweep files, and their measures, as frames for checks."""

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
from normexp.records import outcome
from normexp.records.record import Outcome, RunRecord
from normexp.storage import index

if TYPE_CHECKING:
    import pandas as pd

QUICK_SCALE = 0.03
QUICK_OVERRIDES = ("seed=0", "eval_every=1500")
"""Overrides of quick runs. They change the run ids, so that quick runs cannot be mistaken for full ones."""


def plans(file: ClaimFile, stems: Iterable[str], *, scale: float = 1.0) -> dict[str, Plan]:
    """Return the plans of the sweeps of a claims file by stem, in its order. A scale other than 1 makes them quick.

    Raises UserError with the complaints about all sweeps.
    """
    wanted = set(stems)
    overrides = () if scale == 1.0 else QUICK_OVERRIDES
    by_stem: dict[str, Plan] = {}
    complaints: list[str] = []
    for stem, path in ((stem, path) for stem, path in file.sweeps.items() if stem in wanted):
        try:
            by_stem[stem] = grid.plan(load(path, overrides, scale=scale))
        except UserError as fault:
            complaints += fault.complaints
    if complaints:
        raise UserError(*complaints)
    return by_stem


@dataclass
class Evidence:
    """The runs under a results folder. Traces are read only for measures that need them.

    `warnings` lists damaged records and trace files. Measures from a damaged file count as not measured.
    """

    out: Path
    warnings: list[str] = field(default_factory=list)
    _runs: index.Found | None = None
    _measured: dict[tuple[str, str], float] = field(default_factory=dict)
    _frames: dict[tuple[str, ...], pd.DataFrame] = field(default_factory=dict)

    def frame(self, plans: Sequence[Plan], measures: Iterable[str] = ()) -> pd.DataFrame:
        """Return one row per distinct point: `setting`, the configured keys, the result, and these measures."""
        columns = [name for name in measures if name in MEASURES]
        cache_key = (*(plan.folder for plan in plans), "", *columns)
        if cache_key not in self._frames:
            self._frames[cache_key] = self._build_frame(plans, columns)
        return self._frames[cache_key]

    def _build_frame(self, plans: Sequence[Plan], columns: list[str]) -> pd.DataFrame:
        by_point: dict[tuple[Any, ...], dict[str, Any]] = {}
        for plan in plans:
            records = self.records(plan)
            rows: dict[str, Any] = {row["run_id"]: row for row in frames.rows(frames.runs(plan, records))}
            for point in plan.points:
                configured = point.config.to_dict() | dict(point.values)
                row: dict[str, Any] = {**rows[point.config.run_id], "setting": point.label, **configured}
                row |= {name: self._measure(name, row) for name in columns}
                by_point.setdefault((point.label, *configured.values()), _as_evidence(row))
        return _frame(list(by_point.values()), columns)

    def records(self, plan: Plan) -> Mapping[str, RunRecord]:
        """Return the stored records of a plan's runs from any sweep, usable ones first, without traces."""
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
            files = MEASURES[name].reads
            try:
                traces = store.traces(run_id, record.result, only=files)
            except UserError as fault:
                self._warn(fault.complaints)
                traces = None
            for other, measure in MEASURES.items():
                if measure.reads == files:
                    number = math.nan if traces is None else measure.of(record.config, traces)
                    self._measured[run_id, other] = number
        return self._measured[run_id, name]

    def damaged(self, plan: Plan) -> list[str]:
        """Return a line for each damaged file of a plan's runs."""
        runs = self._runs or {}
        damage = (store.damaged({run_id: record}) for run_id, (store, record) in runs.items() if run_id in plan.configs)
        return [line for lines in damage for line in lines]

    def _warn(self, lines: Iterable[str]) -> None:
        self.warnings += [line for line in dict.fromkeys(lines) if line not in self.warnings]


def at_threshold(frame: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Return a frame whose outcomes are judged with another threshold of `learned`; the frame itself is unchanged."""
    judged = [
        str(outcome.at_threshold(Outcome(word), fraction, threshold)) if word else word
        for word, fraction in zip(frame["outcome"], frame["learned_fraction"], strict=True)
    ]
    return frame.assign(outcome=judged)


def _as_evidence(row: dict[str, Any]) -> dict[str, Any]:
    """Set non-finite losses of a row to infinity, and the status of an outdated run to `STALE`."""
    if row["outcome"] == Outcome.NONFINITE:
        row["final_val_loss"] = math.inf
    if row["init_val_loss"] is not None and math.isnan(row["init_val_loss"]):
        row["init_val_loss"] = math.inf
    if row["stale"] is True:
        row["status"] = STALE
    return row


def _frame(rows: list[dict[str, Any]], measures: list[str]) -> pd.DataFrame:
    import pandas as pd

    frame = frames.frame(rows, ["setting", *frames.RUN_COLUMNS])
    for name in measures:
        frame[name] = pd.Series([row[name] for row in rows], dtype="float64")
    return frame
