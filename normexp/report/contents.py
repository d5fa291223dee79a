"""What is derived from a results folder, as data: the frames, tables and sentences that pages and commands show."""

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
    """A results folder as it is now, ended or not. `markdown` is the text of summary.md."""

    plan: Plan
    records: Mapping[str, RunRecord]
    runs: pd.DataFrame
    summary: pd.DataFrame
    conclusion: str
    pivots: tuple[TextTable, ...]
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """That of a command: EXIT_OK where every run that has ended is done."""
        done = all(record.status is Status.DONE for record in self.records.values())
        return EXIT_OK if done else EXIT_RUNS_FAILED

    @property
    def markdown(self) -> str:
        """The text of summary.md."""
        return document(self.plan, self.conclusion, self.pivots, self.summary, self.warnings)
