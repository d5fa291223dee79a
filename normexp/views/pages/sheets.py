"""The sweeps that a text's claims read, each as far as it has come: table, cells, what it lacks, figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from normexp.claims.claim import Claim
from normexp.claims.verdict import Verdict
from normexp.keys import Value
from normexp.labels import Labels, loss_text, plural, values_text
from normexp.plan import Plan
from normexp.record import RunRecord
from normexp.run import KEYS
from normexp.views import tables
from normexp.views.celltable import reference_losses
from normexp.views.conclusion import conclusion
from normexp.views.pages.page import Block, Folded, Grid, Heading, Paragraph, Picture, Points, grids
from normexp.views.pages.sweeppage import picture
from normexp.views.pivot import TextTable, cell_text, joined_text, pivot
from normexp.views.report import warnings
from normexp.views.summary import Cell, cells, summarize, twins

if TYPE_CHECKING:
    import pandas as pd

NEARLY_ALL = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A plan, what is stored of its runs, its figures (name to PNG), and a line for each file that is damaged."""

    plan: Plan
    records: Mapping[str, RunRecord]
    pictures: Mapping[str, bytes]
    damaged: Sequence[str] = ()

    @property
    def lacking(self) -> int:
        """Runs that have not come to a result, or came to it with other numerics."""
        return sum(_lacks(self.records.get(run_id)) for run_id in self.plan.configs)


def in_order(sheets: Mapping[str, Sheet], claims: Sequence[Claim]) -> list[str]:
    """The stems, in the order of the text: each in the section most of whose claims read it."""
    sections = list(dict.fromkeys(claim.section for claim in claims))

    def place(stem: str) -> int:
        counts = [sum(stem in claim.sweeps for claim in claims if claim.section == name) for name in sections]
        return counts.index(max(counts)) if any(counts) else len(sections)

    return sorted(sheets, key=place)


def settings(sheets: Iterable[Sheet]) -> dict[str, dict[str, Value]]:
    """Each label of the sweeps, with the values that nearly all of its points have and that differ between labels."""
    labels: dict[str, list[Mapping[str, Value]]] = {}
    for sheet in sheets:
        for point in sheet.plan.points:
            if point.label:
                labels.setdefault(point.label, []).append(point.config.to_dict())
    usual = {label: _usual(found) for label, found in labels.items()}
    keys = [key for key in KEYS if len({values.get(key) for values in usual.values()}) > 1]
    shared = [key for key in keys if all(key in values for values in usual.values())]
    return {label: {key: values[key] for key in shared} for label, values in usual.items()}


def _usual(configs: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    found = {key: Counter(config[key] for config in configs).most_common(1)[0] for key in configs[0]}
    return {key: value for key, (value, count) in found.items() if count >= NEARLY_ALL * len(configs)}


def apart(plan: Plan, known: Container[str]) -> dict[str, str]:
    """Each label of a plan with what all its points have and those of another label have not, but for `known` keys."""
    labels: dict[str, list[Mapping[str, Value]]] = {}
    for point in plan.points:
        labels.setdefault(point.label, []).append(point.config.to_dict())
    fixed = {label: _shared(configs) for label, configs in labels.items()}
    keys = [key for key in KEYS if key not in known and key not in plan.axes]
    told = [key for key in keys if len({values.get(key) for values in fixed.values()}) > 1]
    own = {label: {key: values[key] for key in told if key in values} for label, values in fixed.items()}
    texts = Labels.among(own.values())
    return {label: values_text(values, texts) for label, values in own.items() if label and values}


def _shared(configs: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    return {key: value for key, value in configs[0].items() if all(config[key] == value for config in configs)}


def blocks(sheet: Sheet, verdicts: Sequence[Verdict], known: Container[str] = ()) -> Iterator[Block]:
    """A sweep's part of the page; `verdicts` are those of the claims that read it, `known` keys told of its labels."""
    plan = sheet.plan
    runs = tables.runs(plan, sheet.records)
    summary = summarize(plan, runs)
    yield Heading(plan.title or plan.name, 3)
    yield Paragraph(conclusion(plan, runs))
    if own := apart(plan, known):
        yield Points(tuple(own.values()), leads=tuple(f"Here {label}:" for label in own))
    yield from grids(pivot(plan, runs))
    if references := reference_losses(summary):
        yield Paragraph(references)
    if verdicts:
        yield Heading("What the text says of it", 4)
        yield stated(verdicts)
    yield from _pictures(sheet)
    yield Folded("All cells: outcomes, means and 95 % intervals", (Grid(_cells(plan, runs, summary)),))
    if lost := missing(sheet):
        yield Heading("Missing here", 4)
        yield Points(tuple(lost))
    if told := [*plan.warnings, *sheet.damaged, *warnings(sheet.records, [])]:
        yield Points(tuple(told))


def stated(verdicts: Sequence[Verdict]) -> Grid:
    """What claims state, each with its verdict."""
    rows = tuple((v.claim.id, v.text, v.claim.text, v.claim.stated) for v in verdicts)
    table = TextTable(title="", header=("claim", "verdict", "it says", "stated"), rows=rows)
    return Grid(table, marks=tuple(v.word.value for v in verdicts))


def missing(sheet: Sheet) -> list[str]:
    """A line for each cell that lacks runs, one for all where none has any."""
    lacking, all_runs = sheet.lacking, len(sheet.plan.configs)
    if lacking == all_runs:
        return [f"all: none of {plural(all_runs, 'run')} is done"] if lacking else []
    told, texts = [], sheet.plan.labels
    for alike in twins(cells(sheet.plan, tables.runs(sheet.plan, sheet.records))):
        runs = alike[0].runs
        lost = sum(_lacks(sheet.records.get(run["run_id"])) for run in runs)
        if lost:
            name = joined_text([cell.values for cell in alike], texts) or "its runs"
            told.append(f"{name}: {lost} of {plural(len(runs), 'run')}")
    return told


def _lacks(record: RunRecord | None) -> bool:
    return record is None or record.result is None or record.stale


def _cells(plan: Plan, runs: pd.DataFrame, summary: pd.DataFrame) -> TextTable:
    """One row a cell, in the order of the points; intervals over survivors."""
    labels = ["label"] if any(summary["label"]) else []
    keys, texts = [*labels, *plan.cell_axes], plan.labels
    found: Sequence[Cell] = cells(plan, runs)
    rows = []
    for cell, row in zip(found, tables.rows(summary), strict=True):
        low, high, median = row["low95_val_loss"], row["high95_val_loss"], row["median_val_loss"]
        interval = "" if low is None else f"{loss_text(low)} to {loss_text(high)}"
        named = [texts.text(key, row[key]) for key in keys]
        rows.append((*named, cell_text(cell), "" if median is None else loss_text(median), interval, row["survivors"]))
    header = (*keys, "outcomes", "median", "95 % interval", "survivors")
    return TextTable(title="", header=header, rows=tuple(rows))


def _pictures(sheet: Sheet) -> Iterator[Picture]:
    for name, data in sheet.pictures.items():
        yield picture(sheet.plan, name, data, f"{sheet.plan.folder}/")
