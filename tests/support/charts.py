"""The data of figures of made-up runs, without drawing."""

from __future__ import annotations

from collections.abc import Mapping

from normexp.analysis import frames
from normexp.config.plan import Plan
from normexp.plots.chart import TRAINING, Chart, Line, Map
from normexp.plots.choice import Choice, Source
from normexp.plots.kinds import compute
from normexp.records.record import RunRecord, Traces


def source_of(plan: Plan, records: Mapping[str, RunRecord]) -> Source:
    def traces(run_id: str) -> Traces:
        return records[run_id].traces or Traces(curve=())

    return Source(plan=plan, records=records, runs=frames.runs(plan, records), traces=traces)


def figure_of(kind: str, plan: Plan, records: Mapping[str, RunRecord], **choice: object) -> Chart | Map:
    return compute(kind, source_of(plan, records), Choice(**choice))  # type: ignore[arg-type]


def chart(kind: str, source: Source, **choice: object) -> Chart:
    found = compute(kind, source, Choice(**choice))  # type: ignore[arg-type]
    assert isinstance(found, Chart)
    return found


def line(found: Chart, label: str, panel: str = "") -> Line:
    (one,) = (one for one in found.lines if (one.panel, one.label) == (panel, label) and one.series != TRAINING)
    return one
