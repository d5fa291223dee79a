"""Rebuild everything that is derived from a results folder: tables, summary, figures and web page."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from normexp.analysis import collapse, frames
from normexp.analysis.cells import summarize
from normexp.analysis.collapse import asked
from normexp.analysis.conclusions import conclusion
from normexp.analysis.tables import pivot
from normexp.config.labels import listed, plural
from normexp.config.plan import Plan
from normexp.errors import at_most
from normexp.records.record import COMPARED, RunRecord, Traces
from normexp.report import shards, sweep_page
from normexp.report.contents import Report
from normexp.report.html import html
from normexp.report.markdown import worded_tables
from normexp.storage import outputs
from normexp.storage.files import WEBPAGE
from normexp.storage.store import FIGURES, Store

if TYPE_CHECKING:
    import pandas as pd

NAMED_STRAYS = 5
_drawing = threading.Lock()
"""Held while a figure is drawn: matplotlib's settings are global, and sweeps may run in threads."""
KEPT_TRACES = 256
"""Maximum number of runs whose traces are in memory: half a megabyte each at 3000 steps."""


def read(store: Store, known: tuple[Plan, Mapping[str, RunRecord]] | None = None) -> Report:
    """Return the report of a folder without writing anything. `known`: its current plan and records, if already read.

    Raises UserError if it is not a results folder.
    """
    plan, records = known or (store.read_plan(), store.records())
    messages = (*store.warnings, *store.damaged(records), *warnings(records, store.strays()))
    return of(store, plan, records, messages)


def of(store: Store, plan: Plan, records: Mapping[str, RunRecord], messages: Sequence[str] = ()) -> Report:
    """Return the report of these records, whatever the folder holds, with the warnings of the plan and `messages`."""
    runs = frames.runs(plan, records)
    words = collapse.verdict(plan, records) if asked(plan) else conclusion(plan, runs)
    return Report(
        plan=plan,
        records=records,
        runs=runs,
        summary=summarize(plan, runs),
        conclusion=f"{words} {shards.join_hint(plan, store.folder.parent)}" if plan.shard else words,
        pivots=tuple(pivot(plan, runs)),
        warnings=(*plan.warnings, *messages),
    )


def load_drawing() -> None:
    """Start to import matplotlib in the background: the import takes longer than drawing a figure."""

    def load() -> None:
        with suppress(Exception):  # drawing will raise it again
            importlib.import_module("normexp.plots.drawing")

    threading.Thread(target=load, daemon=True).start()


def rebuild(
    store: Store,
    *,
    figures: bool = False,
    redraw: bool = True,
    known: tuple[Plan, Mapping[str, RunRecord]] | None = None,
) -> Report:
    """Read a folder and write its tables and, with `figures`, its figures and web page. Raises UserError, StorageError.

    Without `redraw`, figures of unchanged tables are kept. `known`: see `read`.
    """
    report = read(store, known)
    before = len(store.warnings)
    if figures:  # figures also read the traces
        all_warnings = dict.fromkeys((*report.warnings, *store.damaged(report.records, thoroughly=True)))
        report = replace(report, warnings=tuple(all_warnings))
    texts = {
        "points.csv": frames.to_csv(frames.points(report.plan)),
        "runs.csv": frames.to_csv(report.runs),
        "summary.csv": frames.to_csv(report.summary),
        "summary.md": report.markdown,
    }
    if asked(report.plan):
        examples = collapse_examples(store, report.plan, report.records)
        shown = collapse.tables(report.plan, report.records, examples)
        texts["collapse.md"] = worded_tables(report.conclusion, shown)
    for name, text in texts.items():
        store.write_derived(name, text)
    store.write_derived("timings.csv", frames.to_csv(frames.timings(report.plan, report.records)))
    if figures and (redraw or not outputs.drawn(store.folder, texts.values())):
        write_figures(store, report)
        if len(store.warnings) == before:
            outputs.note_drawn(store.folder, texts.values())
    return replace(report, warnings=tuple(dict.fromkeys((*report.warnings, *store.warnings[before:]))))


def traces_of(store: Store, records: Mapping[str, RunRecord]) -> Callable[[str], Traces]:
    """Return a function from run id to traces. The contents of damaged files are left out, with a warning.

    Traces are cached for a limited number of runs.
    """

    @functools.lru_cache(maxsize=KEPT_TRACES)
    def traces(run_id: str) -> Traces:
        return store.sound_traces(run_id, records[run_id].result)

    return traces


def collapse_examples(store: Store, plan: Plan, records: Mapping[str, RunRecord]) -> dict[str, RunRecord]:
    """Return a run with traces for each network that collapse compares; empty for any other sweep."""
    traces = traces_of(store, records)
    chosen = collapse.exemplars(plan, records) if asked(plan) else {}
    return {name: replace(records[run_id], traces=traces(run_id)) for name, run_id in chosen.items()}


def write_figures(store: Store, report: Report) -> None:
    """Draw the sweep's figures, each as SVG and PNG with its data beside it, and its web page. Raises StorageError."""
    from normexp.plots.choice import Source
    from normexp.plots.drawing import draw, render
    from normexp.plots.kinds import fitting

    traces = traces_of(store, report.records)
    source = Source(plan=report.plan, records=report.records, runs=report.runs, traces=traces)
    for _, kind, made in fitting(source):
        with _drawing:
            images = render(draw(made))
        write_figure(store, kind.file, images, made.data)
    if examples := collapse_examples(store, report.plan, report.records):
        _write_layer_signal(store, examples)
    page = sweep_page.page(report, traces, outputs.pictures(store.folder), store.folder)
    store.write_derived(WEBPAGE, html(page))


def _write_layer_signal(store: Store, records: Mapping[str, RunRecord]) -> None:
    """Draw the residual stream of each network by layer. Raises StorageError."""
    from normexp.plots import runs as curves
    from normexp.plots.drawing import draw_layer_signal, render

    signal = curves.layer_signal(records, title="RMS of the residual stream by layer")
    with _drawing:
        images = render(draw_layer_signal(signal))
    write_figure(store, "layer_signal", images, signal.data)


def write_figure(store: Store, name: str, images: Mapping[str, bytes], data: pd.DataFrame) -> None:
    """Write a figure in each format, and its data beside it. Raises StorageError."""
    for suffix, content in images.items():
        store.write_derived(f"{FIGURES}/{name}.{suffix}", content)
    store.write_derived(f"{FIGURES}/{name}.csv", frames.to_csv(data))


def warnings(records: Mapping[str, RunRecord], strays: list[str]) -> list[str]:
    """Return warnings on outdated runs, mixed environments, and orphaned runs, which no point of the plan needs."""
    messages = []
    outdated = sum(record.outdated for record in records.values())
    if outdated:
        messages.append(
            f"{plural(outdated, 'run')} outdated: this version gives other numbers; --rerun-outdated runs them again"
        )
    for name in COMPARED:
        found = sorted({str(record.made_with[name]) for record in records.values() if name in record.made_with})
        if len(found) > 1:
            messages.append(f"runs were made with different {name}: {listed(found)}")
    if strays:
        named = at_most(strays, NAMED_STRAYS, "{} more")
        messages.append(f"{plural(len(strays), 'orphaned run')}, which no point needs any more: {listed(named)}")
    return messages
