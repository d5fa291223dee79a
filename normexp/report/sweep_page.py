"""A sweep as a page: what was asked, what came of it, tables, figures, every run, and how it was made.

A run's losses by step, thinned to what a page needs: no spike is smoothed away.

Every run of a sweep as a row: what broke first, with its curve.
"""

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
from normexp.records.outcome import RULES
from normexp.records.record import RunRecord, Traces
from normexp.report.page import Block, Commands, Folded, Grid, Heading, Page, Paragraph, Picture, Points, grids
from normexp.schemes.network_config import Value
from normexp.storage.store import FIGURES

if TYPE_CHECKING:
    from normexp.report.contents import Report


MOST_POINTS = 200
CurvePoints = list[tuple[int, float | None]]
"""(step, loss in nats), None where it is not finite."""


def run_curve(record: RunRecord, traces: Traces, story: str) -> dict[str, Any]:
    """What a page draws of a run that came to a result: training losses thinned, validation losses, its task's levels.

    `story` is the text beside it. Raises ValueError for any other run.
    """
    result = record.result
    if result is None:
        raise ValueError(f"{record.run_id} came to no result")
    train = [(row.step, row.train_loss) for row in traces.curve if row.train_loss is not None]
    return {
        "steps": record.config.steps,
        "train": thinned(train),
        "val": thinned(traces.evaluations),
        "death": result.death.step if result.death is not None else None,
        "guides": {"floor": _short(result.losses.floor), "guess": _short(result.losses.guess)},
        "story": story,
    }


def thinned(points: Sequence[tuple[int, float]], most: int = MOST_POINTS) -> CurvePoints:
    """At most so many finite points, with the lowest and the highest of each stretch; all that are not finite."""
    kept = (
        range(len(points))
        if len(points) <= most
        else differences.thinned([(loss,) for _, loss in points], most // 2 - 1)
    )
    return [(points[place][0], _short(points[place][1])) for place in kept]


def _short(loss: float) -> float | None:
    """Four significant digits: a page shows no more."""
    return float(f"{loss:.4g}") if math.isfinite(loss) else None


MOST_CURVES = 500
"""Runs whose curves a page holds; the others are rows alone."""
ORDER = (*RULES, PENDING)
"""Of rows; what came to no result stands before all of these."""


def run_rows(report: Report, traces: Callable[[str], Traces]) -> Grid:
    """All runs, failed and dead ones first, the first of them with what `traces` gives of them by their ids."""
    plan, records = report.plan, report.records
    values, labels = _row_values(plan), plan.labels
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


def _row_values(plan: Plan) -> dict[str, dict[str, Value]]:
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


MOST_VALUES = 12
"""Values of an axis that are named one by one."""
NO_RESULT = "the run came to no result: its process failed, was killed or took too long"


def page(report: Report, traces: Callable[[str], Traces], pictures: Mapping[str, bytes], folder: Path) -> Page:
    """The page of a sweep's folder. `traces` by run id, `pictures` by the names of figures, as PNG."""
    parts = (
        _asked(report),
        _outcomes(report),
        _tables(report),
        _figures(report, pictures),
        _runs(report, traces),
        _made(report, folder),
    )
    return Page(report.plan.title or report.plan.name, tuple(block for part in parts for block in part))


def _asked(report: Report) -> Iterator[Block]:
    plan = report.plan
    points, runs = plural(len(plan.points), "point"), plural(len(plan.configs), "run")
    yield Paragraph(report.conclusion)
    for warning in report.warnings:
        yield Paragraph(warning, warning=True)
    yield Heading("What was asked")
    axes = list(plan.axes)
    if labels := list(dict.fromkeys(point.label for point in plan.points if point.label)):
        yield Points((", ".join(labels),), leads=("settings:",))
    value_labels = plan.labels
    texts = {axis: list(dict.fromkeys(value_labels.text(axis, p.values[axis]) for p in plan.points)) for axis in axes}
    if axes:
        yield Points(tuple(_values(values) for values in texts.values()), leads=tuple(f"{axis}:" for axis in axes))
    redundant = len(plan.points) - len(plan.configs)
    told = f", {redundant} of them answered by the run of another" if redundant else ""
    yield Paragraph(f"{points}{told}: {runs}.")
    if shared := _shared(plan):
        yield Paragraph(f"All with {values_text(shared)}; every other key as the program has it by default.")


def _shared(plan: Plan) -> dict[str, Value]:
    """Keys that are no axes, and that all runs have at one value other than the default."""
    default = RunConfig()
    found = {key: {getattr(config, key) for config in plan.configs.values()} for key in KEYS if key not in plan.axes}
    return {
        key: values.pop() for key, values in found.items() if len(values) == 1 and {getattr(default, key)} != values
    }


def _values(values: list[str]) -> str:
    if len(values) <= MOST_VALUES:
        return ", ".join(values)
    return f"{values[0]} to {values[-1]}, {len(values)} values"


def _outcomes(report: Report) -> Iterator[Block]:
    plan, records = report.plan, report.records
    found = {run_id: records.get(run_id) for run_id in plan.configs}
    counts = Counter(record.result_word if record is not None else PENDING for record in found.values())
    words = [*sorted(set(counts) - {*RULES, PENDING}), *(str(word) for word in (*RULES, PENDING) if counts[word])]
    meanings = {str(outcome): _meaning(rule) for outcome, rule in RULES.items()} | {PENDING: "not run yet"}
    rows = tuple((str(counts[word]), word, meanings.get(word, NO_RESULT)) for word in words)
    yield Heading("Outcomes")
    yield Grid(TextTable(title="", header=("runs", "outcome", "it means"), rows=rows), tuple(words))


def _meaning(rule: str) -> str:
    """A rule by itself, for a table that need not have those before it."""
    first, _, rest = rule.partition("otherwise")
    return rule if first else f"none of the worse ones{rest}"


def _tables(report: Report) -> Iterator[Block]:
    yield Heading("Tables")
    yield Paragraph("Final validation losses in nats; any other outcome than learned is named.")
    yield from grids(report.pivots, sorts=True)
    if references := reference_losses(report.summary):
        yield Paragraph(references)
    yield Heading("Cells", 3)
    yield Paragraph("Best first, dead last; means and intervals over survivors, medians with the dead as infinite.")
    yield Grid(_without_zeros(cell_table(report.plan, report.summary)), sorts=True)


def _without_zeros(table: TextTable) -> TextTable:
    """Less the counts of outcomes that no cell has."""
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
    """A figure of a sweep by its name; the sweep's folder is told relative to the page."""
    return Picture(f"{folder}{FIGURES}/{name}.png", f"{title_of(name)}: {plan.title or plan.name}", data)


def _runs(report: Report, traces: Callable[[str], Traces]) -> Iterator[Block]:
    grid = run_rows(report, traces)
    yield Heading("Runs")
    told = "Failed and dead runs first. A click on a run shows its losses by step."
    ended = sum(record.result is not None for record in report.records.values())
    more = f" The page holds the curves of the first {MOST_CURVES} of {ended}." if ended > MOST_CURVES else ""
    yield Paragraph(told + more)
    yield grid


def _made(report: Report, folder: Path) -> Iterator[Block]:
    yield Heading("How it was made")
    if report.plan.argv:
        yield Commands((shlex.join(["normexp", *report.plan.argv[1:]]),))
    yield Paragraph("Its tables and this page again, from the stored runs:")
    yield Commands((f"normexp report --figures {shlex.quote(str(folder))}{plugins.options()}",))
    if report.plan.source:
        yield Folded("Config", (Commands(tuple(report.plan.source.splitlines())),))
    values: dict[str, Counter[str]] = {}
    for record in report.records.values():
        for name, value in record.environment.items():
            values.setdefault(name, Counter())[str(value)] += 1
    rows = tuple((name, value, str(count)) for name, found in values.items() for value, count in found.most_common())
    if rows:
        yield Heading("Environment", 3)
        yield Grid(TextTable(title="", header=("", "value", "runs"), rows=rows))
