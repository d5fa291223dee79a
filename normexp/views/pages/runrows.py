"""Every run of a sweep as a row: what broke first, with its curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from normexp.keys import Value
from normexp.labels import loss_text
from normexp.outcome import RULES
from normexp.plan import Plan
from normexp.record import RunRecord, Traces
from normexp.views.explain import facts
from normexp.views.pages.page import Grid
from normexp.views.pages.runcurves import run_curve
from normexp.views.pivot import TextTable
from normexp.views.tables import PENDING

if TYPE_CHECKING:
    from normexp.views.report import Report

MOST_CURVES = 500
"""Runs whose curves a page holds; the others are rows alone."""
ORDER = (*RULES, PENDING)
"""Of rows; what came to no result stands before all of these."""


def run_rows(report: Report, traces: Callable[[str], Traces]) -> Grid:
    """All runs, failed and dead ones first, the first of them with what `traces` gives of them by their ids."""
    plan, records = report.plan, report.records
    values, labels = _values(plan), plan.labels
    axes = [*(["label"] if any(point.label for point in plan.points) else []), *plan.axes]
    rows, marks = [], []
    curves: dict[str, dict[str, Any]] = {}
    for run_id in sorted(plan.configs, key=lambda run_id: _place(records.get(run_id))):
        record = records.get(run_id)
        word = record.result_word if record is not None else PENDING
        asked = [labels.text(axis, values[run_id][axis]) for axis in axes]
        rows.append((run_id, word, *asked, *(_ended(record) if record is not None else [""] * 4)))
        marks.append(word)
        if record is not None and record.result is not None and len(curves) < MOST_CURVES:
            curves[run_id] = run_curve(record, traces(run_id), "; ".join(facts(record)))
    header = ("run", "outcome", *axes, "final loss", "learned fraction", "trend", "what broke, and where")
    return Grid(TextTable(title="", header=header, rows=tuple(rows)), tuple(marks), sorts=True, curves=curves)


def _values(plan: Plan) -> dict[str, dict[str, Value]]:
    """Run id to label and values of the first point that it answers."""
    found: dict[str, dict[str, Value]] = {}
    for point in plan.points:
        found.setdefault(point.config.run_id, {"label": point.label, **point.values})
    return found


def _place(record: RunRecord | None) -> int:
    word = record.result_word if record is not None else PENDING
    return ORDER.index(word) if word in ORDER else -1


def _ended(record: RunRecord) -> Iterator[str]:
    """Loss, learned fraction, trend, and what went wrong."""
    result: Any = record.result
    if result is None:
        yield from ("", "", "", record.error or "")
        return
    loss, death = result.final_val_loss, result.death
    known = loss is not None and math.isfinite(loss)
    yield loss_text(loss) if known else ""
    yield f"{result.learned_fraction:z.2f}" if known else ""
    yield (record.verdict.trend if record.verdict is not None else "") or ""
    yield f"step {death.step}: {death.fault} {death.tensor}, layer {death.layer}" if death else ""
