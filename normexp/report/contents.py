"""The contents of a report: the frames, tables and sentences derived from a results folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from normexp.analysis.tables import TextTable
from normexp.config.plan import Plan
from normexp.errors import EXIT_OK, EXIT_RUNS_FAILED
from normexp.records.record import RunRecord, Status
from normexp.report.markdown import document

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report of a results folder, whether or not its sweep is finished."""

    plan: Plan
    records: Mapping[str, RunRecord]
    runs: pd.DataFrame
    summary: pd.DataFrame
    conclusion: str
    pivots: tuple[TextTable, ...]
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """The exit code of a command: EXIT_OK if every run that has ended is done, else EXIT_RUNS_FAILED."""
        done = all(record.status is Status.DONE for record in self.records.values())
        return EXIT_OK if done else EXIT_RUNS_FAILED

    @property
    def markdown(self) -> str:
        """The text of summary.md."""
        return document(self.plan, self.conclusion, self.pivots, self.summary, self.warnings)
