"""The page of a sweep: configuration, outcomes, tables, figures, all runs with curves, and how to reproduce it."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp.analysis import differences
from normexp.analysis.explain import facts
from normexp.analysis.frames import COUNTS, PENDING
from normexp.analysis.tables import TextTable, cell_table, reference_losses
from normexp.config import plugins
from normexp.config.labels import loss_text, plural, values_text
from normexp.config.plan import Plan
from normexp.config.run import KEYS, RunConfig
from normexp.plots.kinds import title_of
from normexp.records.outcome import LEARNED_FRACTION, RULES
from normexp.records.record import Outcome, RunRecord, Traces
from normexp.report.page import Block, Commands, Folded, Grid, Heading, Page, Paragraph, Picture, Points, grids
from normexp.schemes.network_config import Value
from normexp.storage.store import FIGURES

if TYPE_CHECKING:
    from normexp.report.contents import Report

MOST_POINTS = 200
"""Maximum number of finite points in a curve."""
MOST_CURVES = 500
"""Maximum number of runs whose curves a page contains."""
ORDER = (*RULES, PENDING)
"""The order of the rows of runs, after those without a result."""
MOST_VALUES = 12
"""Maximum number of values of an axis that are listed one by one."""
NO_RESULT = "no result: the process failed, was killed or timed out"
CurvePoints = list[tuple[int, float | None]]
"""Points (step, loss in nats) of a curve; the loss is None if it is not finite."""


def run_curve(record: RunRecord, traces: Traces, story: str) -> dict[str, Any]:
    """Return the data of a run's curve: thinned losses, reference losses and the first non-finite step.

    `story` is the text above it. Raises ValueError for a run without a result.
    """
    result = record.result
    if result is None:
        raise ValueError(f"{record.run_id} has no result")
    train = [(row.step, row.train_loss) for row in traces.curve if row.train_loss is not None]
    return {
        "steps": record.config.steps,
        "train": thinned(train),
        "val": thinned(traces.evaluations),
        "death": result.death.step if result.death is not None else None,
        "guides": {"floor": _short(result.losses.floor), "unigram": _short(result.losses.guess)},
        "story": story,
    }


def thinned(points: Sequence[tuple[int, float]], most: int = MOST_POINTS) -> CurvePoints:
    """Thin a curve to `most` finite points, keeping the extremes of each stretch and all non-finite points."""
    kept = (
        range(len(points))
        if len(points) <= most
        else differences.thinned([(loss,) for _, loss in points], most // 2 - 1)
    )
    return [(points[index][0], _short(points[index][1])) for index in kept]


def _short(loss: float) -> float | None:
    """Round a loss to the four significant digits that a page shows; None if it is not finite."""
    return float(f"{loss:.4g}") if math.isfinite(loss) else None


def run_rows(report: Report, traces: Callable[[str], Traces]) -> Grid:
    """Return the table of all runs, failed and non-finite ones first, with curves for the first `MOST_CURVES`.

    `traces` returns the traces of a run by its id.
    """
    plan, records = report.plan, report.records
    values, labels = _row_values(plan), plan.labels
    axes = [*(["label"] if any(point.label for point in plan.points) else []), *plan.axes]
    rows, marks = [], []
    curves: dict[str, dict[str, Any]] = {}
    for run_id in sorted(plan.configs, key=lambda run_id: _rank(records.get(run_id))):
        record = records.get(run_id)
        outcome = record.result_word if record is not None else PENDING
        axis_values = [labels.text(axis, values[run_id][axis]) for axis in axes]
        rows.append((run_id, outcome, *axis_values, *(_result_cells(record) if record is not None else [""] * 4)))
        marks.append(outcome)
        if record is not None and record.result is not None and len(curves) < MOST_CURVES:
            curves[run_id] = run_curve(record, traces(run_id), "; ".join(facts(record)))
    header = ("run", "outcome", *axes, "final loss", "learned fraction", "trend", "first non-finite value, or error")
    return Grid(TextTable(title="", header=header, rows=tuple(rows)), tuple(marks), sorts=True, curves=curves)


def _row_values(plan: Plan) -> dict[str, dict[str, Value]]:
    """Return the label and the values of the first point of each run, by run id."""
    values: dict[str, dict[str, Value]] = {}
    for point in plan.points:
        values.setdefault(point.config.run_id, {"label": point.label, **point.values})
    return values


def _rank(record: RunRecord | None) -> int:
    outcome = record.result_word if record is not None else PENDING
    return ORDER.index(outcome) if outcome in ORDER else -1


def _result_cells(record: RunRecord) -> Iterator[str]:
    """Yield the loss, the learned fraction, the trend, and the first non-finite value or error."""
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


def page(report: Report, traces: Callable[[str], Traces], pictures: Mapping[str, bytes], folder: Path) -> Page:
    """Return the page of a sweep's folder. `traces` works by run id; `pictures` are PNG files by name of the figure."""
    parts = (
        _configuration(report),
        _outcomes(report),
        _tables(report),
        _figures(report, pictures),
        _runs(report, traces),
        _provenance(report, folder),
    )
    return Page(report.plan.title or report.plan.name, tuple(block for part in parts for block in part))


def _configuration(report: Report) -> Iterator[Block]:
    plan = report.plan
    points, runs = plural(len(plan.points), "point"), plural(len(plan.configs), "run")
    yield Paragraph(report.conclusion)
    for warning in report.warnings:
        yield Paragraph(warning, warning=True)
    yield Heading("Configuration")
    axes = list(plan.axes)
    if labels := list(dict.fromkeys(point.label for point in plan.points if point.label)):
        yield Points((", ".join(labels),), leads=("settings:",))
    value_labels = plan.labels
    texts = {axis: list(dict.fromkeys(value_labels.text(axis, p.values[axis]) for p in plan.points)) for axis in axes}
    if axes:
        yield Points(tuple(_values(values) for values in texts.values()), leads=tuple(f"{axis}:" for axis in axes))
    duplicates = len(plan.points) - len(plan.configs)
    of_them = f", {duplicates} of them duplicates of another," if duplicates else ""
    yield Paragraph(f"{points}{of_them} with {runs} in total.")
    if shared := _shared(plan):
        yield Paragraph(f"All runs: {values_text(shared)}; all other keys at their defaults.")


def _shared(plan: Plan) -> dict[str, Value]:
    """Return the keys that are not axes and have the same value, other than the default, in all runs."""
    default = RunConfig()
    values = {key: {getattr(config, key) for config in plan.configs.values()} for key in KEYS if key not in plan.axes}
    return {key: known.pop() for key, known in values.items() if len(known) == 1 and {getattr(default, key)} != known}


def _values(values: list[str]) -> str:
    if len(values) <= MOST_VALUES:
        return ", ".join(values)
    return f"{values[0]} to {values[-1]}, {len(values)} values"


def _outcomes(report: Report) -> Iterator[Block]:
    plan, records = report.plan, report.records
    all_records = [records.get(run_id) for run_id in plan.configs]
    counts = Counter(record.result_word if record is not None else PENDING for record in all_records)
    outcomes = [*sorted(set(counts) - {*RULES, PENDING}), *(str(word) for word in (*RULES, PENDING) if counts[word])]
    meanings = {str(outcome): _meaning(outcome, rule) for outcome, rule in RULES.items()} | {PENDING: "not run yet"}
    rows = tuple((str(counts[outcome]), outcome, meanings.get(outcome, NO_RESULT)) for outcome in outcomes)
    yield Heading("Outcomes")
    yield Grid(TextTable(title="", header=("runs", "outcome", "meaning"), rows=rows), tuple(outcomes))


def _meaning(outcome: Outcome, rule: str) -> str:
    """Return the meaning of an outcome for a table that may not show the rules before its own."""
    if outcome is Outcome.LEARNED:
        return f"closes at least {100 * LEARNED_FRACTION:g} % of the learnable gap"
    return rule.replace("otherwise", "no worse outcome", 1)


def _tables(report: Report) -> Iterator[Block]:
    yield Heading("Tables")
    yield Paragraph("Final validation losses in nats. Outcomes other than learned are named.")
    yield from grids(report.pivots, sorts=True)
    if references := reference_losses(report.summary):
        yield Paragraph(references)
    yield Heading("Cells", 3)
    yield Paragraph(
        "Sorted by median loss (non-finite runs count as infinity). Means and 95 % CIs exclude non-finite runs, and "
        "runs that diverged or ended unsettled."
    )
    yield Grid(_without_zeros(cell_table(report.plan, report.summary)), sorts=True)


def _without_zeros(table: TextTable) -> TextTable:
    """Return the table without the count columns that are 0 in every row."""
    kept = [
        column
        for column, name in enumerate(table.header)
        if name not in COUNTS or any(row[column] != "0" for row in table.rows)
    ]
    header, *rows = [tuple(line[column] for column in kept) for line in (table.header, *table.rows)]
    return replace(table, header=header, rows=tuple(rows))


def _figures(report: Report, pictures: Mapping[str, bytes]) -> Iterator[Block]:
    if pictures:
        yield Heading("Figures")
    for name, data in pictures.items():
        yield picture(report.plan, name, data)


def picture(plan: Plan, name: str, data: bytes, folder: str = "") -> Picture:
    """Return a figure of a sweep. `folder` is the sweep's folder relative to the page, with a trailing slash."""
    return Picture(f"{folder}{FIGURES}/{name}.png", f"{title_of(name)}: {plan.title or plan.name}", data)


def _runs(report: Report, traces: Callable[[str], Traces]) -> Iterator[Block]:
    grid = run_rows(report, traces)
    yield Heading("Runs")
    hint = "Failed and non-finite runs come first. Click a run to show its losses by step."
    ended = sum(record.result is not None for record in report.records.values())
    limit = f" This page contains the curves of the first {MOST_CURVES} of {ended} runs." if ended > MOST_CURVES else ""
    yield Paragraph(hint + limit)
    yield grid


def _provenance(report: Report, folder: Path) -> Iterator[Block]:
    yield Heading("Reproduce")
    if report.plan.argv:
        yield Commands((shlex.join(["normexp", *report.plan.argv[1:]]),))
    yield Paragraph("To write the tables and this page again from stored runs:")
    yield Commands((f"normexp report --figures {shlex.quote(str(folder))}{plugins.options()}",))
    if report.plan.source:
        yield Folded("Config", (Commands(tuple(report.plan.source.splitlines())),))
    values: dict[str, Counter[str]] = {}
    for record in report.records.values():
        for name, value in record.environment.items():
            values.setdefault(name, Counter())[str(value)] += 1
    rows = tuple((name, value, str(count)) for name, counts in values.items() for value, count in counts.most_common())
    if rows:
        yield Heading("Environment", 3)
        yield Grid(TextTable(title="", header=("name", "value", "runs"), rows=rows))
