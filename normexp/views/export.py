"""The table of exporters: a sweep's results in the forms of other programs."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from normexp.errors import UserError
from normexp.plan import Pivot
from normexp.results.codec import CURVE as CURVE_COLUMNS
from normexp.results.store import CURVE, Store
from normexp.views import eventfile, latex, markdown, tables
from normexp.views.celltable import cell_table, reference_losses
from normexp.views.pivot import TextTable, pivot
from normexp.views.report import Report

if TYPE_CHECKING:
    import pandas as pd

LATEX, MARKDOWN = "tables.tex", "tables.md"
Files = Iterable[tuple[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """A row. `files` gives names, relative to a folder, and contents; `single` is the name where it is one file."""

    help: str
    files: Callable[[Report, Store], Files]
    single: str = ""


def _tables(report: Report) -> Sequence[TextTable]:
    """The pivot; without one, the first axis by the others; without an axis, the one cell."""
    plan = report.plan
    axes = plan.cell_axes
    if plan.pivot is None and axes:
        beside = axes[1:] or ("norm" if axes[0] == "position" else "position",)
        return pivot(replace(plan, pivot=Pivot(rows=(axes[0],), columns=beside)), report.runs)
    return report.pivots or [cell_table(plan, report.summary)]


def _markdown(report: Report, store: Store) -> Files:
    blocks = [f"# {markdown.escape(report.plan.title or report.plan.name)}"]
    for table in _tables(report):
        blocks += [f"## {markdown.escape(table.title)}"] if table.title else []
        blocks += [markdown.table_text(table)] + ([markdown.escape(table.note)] if table.note else [])
    blocks += [markdown.escape(text) for text in [reference_losses(report.summary)] if text]
    yield MARKDOWN, ("\n\n".join(blocks) + "\n").encode()


def _latex(report: Report, store: Store) -> Files:
    plan, references = report.plan, reference_losses(report.summary)
    yield LATEX, latex.document(plan.title or plan.name, plan.name, _tables(report), references).encode()


def _frames(report: Report, store: Store) -> Iterator[tuple[str, pd.DataFrame]]:
    """Raises UserError for every curve that is damaged, before the first frame."""
    curves: list[dict[str, Any]] = []
    complaints: list[str] = []
    for run_id, record in report.records.items():
        try:
            curve = store.traces(run_id, record.result, only=(CURVE,)).curve
        except UserError as fault:
            complaints += fault.complaints
            continue
        curves += ({"run_id": run_id} | {name: getattr(row, name) for name in CURVE_COLUMNS} for row in curve)
    if complaints:
        raise UserError(*complaints)
    yield "points", tables.points(report.plan)
    yield "runs", report.runs
    yield "summary", report.summary
    yield "curves", tables.frame(curves, ["run_id", *CURVE_COLUMNS])


def _csv(report: Report, store: Store) -> Files:
    for name, frame in _frames(report, store):
        yield f"{name}.csv", tables.to_csv(frame).encode()


def _parquet(report: Report, store: Store) -> Files:
    for name, frame in _frames(report, store):
        buffer = io.BytesIO()
        try:
            frame.to_parquet(buffer, engine="pyarrow", index=False)
        except ImportError as fault:
            raise UserError("--to parquet needs pyarrow: pip install 'normexp[parquet]'") from fault
        yield f"{name}.parquet", buffer.getvalue()


EXPORTERS: Mapping[str, Exporter] = MappingProxyType(
    {
        "tensorboard": Exporter(help="event files, a folder a run, for tensorboard --logdir", files=eventfile.files),
        "latex": Exporter(help="the printed tables for a paper, with booktabs", files=_latex, single=LATEX),
        "markdown": Exporter(help="the printed tables", files=_markdown, single=MARKDOWN),
        "csv": Exporter(help="points, runs, summary and curves", files=_csv),
        "parquet": Exporter(help="points, runs, summary and curves, with their types", files=_parquet),
    }
)
"""By name."""


def exporter(name: str) -> Exporter:
    """A row. Raises UserError."""
    if name not in EXPORTERS:
        raise UserError(f"--to {name}: there are {', '.join(EXPORTERS)}")
    return EXPORTERS[name]
