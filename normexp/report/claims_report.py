"""The report of a text put to the test: what came of it, its tables beside what it states, every verdict.

The few findings that a reader should keep, chosen and worded by rule from verdicts.

The sweeps that a text's claims read, each as far as it has come: table, cells, what it lacks, figures.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from normexp.analysis import frames
from normexp.analysis.cells import Cell, cells, summarize, twins
from normexp.analysis.conclusions import conclusion
from normexp.analysis.tables import TextTable, cell_text, joined_text, pivot, reference_losses
from normexp.claims.claim import Claim, ClaimFile, Kind, Verdict, Word
from normexp.claims.evidence import QUICK_SCALE, Evidence, plans
from normexp.claims.files import called, folder_of
from normexp.claims.verdict_text import measured
from normexp.claims.verdict_text import summary as counts
from normexp.config import plugins
from normexp.config.labels import Labels, exact_text, listed, loss_text, plural, values_text
from normexp.config.plan import Plan
from normexp.config.run import KEYS
from normexp.records.outcome import RULES
from normexp.records.record import SURVIVED, RunRecord
from normexp.report import report
from normexp.report.html import html
from normexp.report.markdown import markdown
from normexp.report.page import Block, Commands, Folded, Grid, Heading, Page, Paragraph, Picture, Points, grids
from normexp.report.report import warnings
from normexp.report.sweep_page import picture
from normexp.schemes.network_config import Value
from normexp.storage import files, outputs
from normexp.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd


MOST = 5
SUMMARY = "summary"
"""The section of a text's own conclusions."""
RULE = (
    "Chosen by rule, not by hand: the conclusions that the text itself draws (its section summary), where runs decide "
    f"them; then, up to {MOST} in all, of each other section the claim that rests on most runs, most runs first."
)


def chosen(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """At most five, by the rule above; of equals, the first in the file."""
    decided = [v for v in verdicts if v.claim.kind is Kind.SWEEP and v.word is not Word.NOT_ENOUGH]
    conclusions = [verdict for verdict in decided if verdict.claim.section == SUMMARY]
    by_section: dict[str, Verdict] = {}
    for verdict in decided:
        if verdict.claim.section != SUMMARY:
            first = by_section.setdefault(verdict.claim.section, verdict)
            if len(verdict.run_ids) > len(first.run_ids):
                by_section[verdict.claim.section] = verdict
    others = sorted(by_section.values(), key=lambda verdict: -len(verdict.run_ids))
    return [*conclusions, *others][:MOST]


def told(verdicts: Sequence[Verdict]) -> Points:
    """What the text claims and whether it holds, then what was measured."""
    leads = tuple(f"“{verdict.claim.text}” {_held(verdict)}." for verdict in verdicts)
    return Points(tuple(map(_evidence, verdicts)), numbered=True, leads=leads)


def _evidence(verdict: Verdict) -> str:
    runs = plural(len(verdict.run_ids), "run")
    quick = " Quick runs settle nothing." if verdict.quick else ""
    told = f"Stated: {verdict.claim.stated}. Measured, in {runs}: {measured(verdict)}. Claim {verdict.claim.id}."
    return told + quick


def _held(verdict: Verdict) -> str:
    several = len(verdict.claim.settings) > 1
    if verdict.word is Word.REPRODUCED:
        return "holds in every setting" if several else "holds"
    if verdict.word is Word.ONLY_WHEN and not set(verdict.when) & set(verdict.claim.settings):
        return f"does not hold as stated, but does {listed(verdict.when)}"
    if verdict.word is Word.ONLY_WHEN:
        return f"holds only {listed([name or 'in its one setting' for name in verdict.when])}"
    return "holds in no setting" if several else "does not hold"


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
    runs = frames.runs(plan, sheet.records)
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
    for alike in twins(cells(sheet.plan, frames.runs(sheet.plan, sheet.records))):
        runs = alike[0].runs
        lost = sum(_lacks(sheet.records.get(run["run_id"])) for run in runs)
        if lost:
            name = joined_text([cell.values for cell in alike], texts) or "its runs"
            told.append(f"{name}: {lost} of {plural(len(runs), 'run')}")
    return told


def _lacks(record: RunRecord | None) -> bool:
    return record is None or record.result is None or record.outdated


def _cells(plan: Plan, runs: pd.DataFrame, summary: pd.DataFrame) -> TextTable:
    """One row a cell, in the order of the points; intervals over survivors."""
    labels = ["label"] if any(summary["label"]) else []
    keys, texts = [*labels, *plan.cell_axes], plan.labels
    found: Sequence[Cell] = cells(plan, runs)
    rows = []
    for cell, row in zip(found, frames.rows(summary), strict=True):
        low, high, median = row["low95_val_loss"], row["high95_val_loss"], row["median_val_loss"]
        interval = "" if low is None else f"{loss_text(low)} to {loss_text(high)}"
        named = [texts.text(key, row[key]) for key in keys]
        rows.append((*named, cell_text(cell), "" if median is None else loss_text(median), interval, row["survivors"]))
    header = (*keys, "outcomes", "median", "95 % interval", "survivors")
    return TextTable(title="", header=header, rows=tuple(rows))


def _pictures(sheet: Sheet) -> Iterator[Picture]:
    for name, data in sheet.pictures.items():
        yield picture(sheet.plan, name, data, f"{sheet.plan.folder}/")


MEANINGS = {
    Word.REPRODUCED: "it holds in every setting, for every seed of a calculation, or in the source",
    Word.ONLY_WHEN: "it holds in some settings alone, or in none but in other circumstances; they are named",
    Word.NOT_REPRODUCED: "it holds in none of them",
    Word.MISQUOTED: "its source, or another that is named, says otherwise",
    Word.CONTRADICTING: "the text itself says otherwise elsewhere",
    Word.NOT_ENOUGH: "too few runs are stored to tell",
}
KINDS = {Kind.SWEEP: "by runs", Kind.COMPUTE: "by calculation", Kind.CITED: "by its source"}
COLUMNS = ("id", "section", "kind", "verdict", "when", "quick", "expected", "stated", "measured", "seeds", "run_ids")


def write(file: ClaimFile, verdicts: Sequence[Verdict], out: Path, *, scale: float, redraw: bool) -> list[Path]:
    """Write REPORT.md, report.html and verdicts.csv into a results folder; the paths.

    With `redraw` the tables and figures of the sweeps there are made again first. Raises UserError.
    """
    found = plans(file, {stem for claim in file.claims for stem in claim.sweeps}, scale=scale)
    evidence = Evidence(out)
    sheets = {}
    for stem, plan in found.items():
        store = Store(out / plan.folder)
        if redraw and store.exists():
            report.rebuild(store, figures=True)
        pictures = outputs.pictures(store.folder)
        records = evidence.records(plan)
        sheets[stem] = Sheet(plan=plan, records=records, pictures=pictures, damaged=evidence.damaged(plan))
    more = "" if out == folder_of(file, scale) else f" --out {shlex.quote(str(out))}"
    made = page(file, verdicts, sheets, scale=scale, more=more)
    contents = {
        files.REPORT: markdown(made),
        files.WEBPAGE: html(made),
        files.VERDICTS: to_csv(verdicts),
    }
    return [files.write_report(out, name, content) for name, content in contents.items()]


def page(
    file: ClaimFile, verdicts: Sequence[Verdict], sheets: Mapping[str, Sheet], *, scale: float, more: str = ""
) -> Page:
    """The report as blocks; a scale other than 1 says everywhere that it is of quick runs.

    `more` follows the commands that make it again.
    """
    parts = (
        _head(file, verdicts, scale),
        _findings(verdicts),
        _lacking(sheets),
        _tables(file, verdicts, sheets),
        _verdicts(verdicts),
        _commands(file, scale, more),
    )
    return Page(file.title + (" (quick)" if scale != 1.0 else ""), tuple(block for part in parts for block in part))


def to_csv(verdicts: Sequence[Verdict]) -> str:
    """One row a claim; run ids with blanks between them."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for verdict in verdicts:
        claim = verdict.claim
        writer.writerow(
            {"id": claim.id, "section": claim.section, "kind": claim.kind, "verdict": verdict.word}
            | {"when": "; ".join(verdict.when), "quick": verdict.quick and claim.kind is Kind.SWEEP}
            | {"expected": claim.expected or "", "stated": claim.stated, "measured": measured(verdict)}
            | {"seeds": _seeds(verdict), "run_ids": " ".join(verdict.run_ids)}
        )
    return buffer.getvalue()


def _seeds(verdict: Verdict) -> int:
    """Of the cell that has the fewest; of a calculation, as many as were made."""
    if verdict.claim.kind is Kind.COMPUTE:
        return len(verdict.findings)
    return min((finding.seeds for finding in verdict.findings), default=0)


def _head(file: ClaimFile, verdicts: Sequence[Verdict], scale: float) -> Iterator[Block]:
    if scale != 1.0:
        told = f"Quick: these runs take {scale:.3g} of the steps, and one seed. They show that all of it works"
        yield Paragraph(f"{told}, and settle nothing: a verdict on full runs may be another.", warning=True)
    yield Paragraph(
        "A text put to the test: each claim is judged by runs stored here, by a calculation, or by what its source "
        "says. No verdict by runs or calculation is typed by hand."
    )
    yield Heading("In short")
    first, *differing = counts(verdicts).splitlines()
    yield Paragraph(first)
    by_word = Counter((verdict.word, verdict.claim.kind) for verdict in verdicts)
    kinds = [kind for kind in Kind if any(verdict.claim.kind is kind for verdict in verdicts)]
    rows, marks = [], []
    for word in Word:
        numbers = [by_word[word, kind] for kind in kinds]
        if sum(numbers):
            rows.append((word.value, MEANINGS[word], *map(str, numbers), str(sum(numbers))))
            marks.append(word.value)
    header = ("verdict", "it means", *(KINDS[kind] for kind in kinds), "claims")
    yield Grid(TextTable(title="", header=header, rows=tuple(rows)), tuple(marks))
    if differing:
        yield Heading("Other than the claims file expects", 3)
        yield Points(tuple(differing))


def _findings(verdicts: Sequence[Verdict]) -> Iterator[Block]:
    found = chosen(verdicts)
    yield Heading("Findings to take away")
    yield Paragraph(RULE)
    yield told(found) if found else Paragraph("No claim is decided by runs yet.")


def _lacking(sheets: Mapping[str, Sheet]) -> Iterator[Block]:
    lost = [
        f"{sheet.plan.name}: {sheet.lacking} of {plural(len(sheet.plan.configs), 'run')} in "
        f"{plural(len(missing(sheet)), 'cell') if sheet.lacking < len(sheet.plan.configs) else 'all cells'}"
        for sheet in sheets.values()
        if sheet.lacking
    ]
    if lost:
        yield Heading("Missing runs")
        yield Paragraph("The cells are named below the tables.")
        yield Points(tuple(lost))


def _tables(file: ClaimFile, verdicts: Sequence[Verdict], sheets: Mapping[str, Sheet]) -> Iterator[Block]:
    told = settings(sheets.values())
    if sheets:
        yield Heading("Tables")
        yield Paragraph(
            "Final validation losses in nats, as mean ± standard deviation over seeds. What the text prints for a "
            "cell, if that is known, stands in brackets."
        )
        yield Paragraph(
            "How runs end. The learned fraction is how far the loss has come from the guess, which knows no context, "
            f"to the floor, the lowest that can be reached. Survivors are those that end {' or '.join(SURVIVED)}."
        )
        yield Points(tuple(RULES.values()), leads=tuple(f"{outcome}:" for outcome in RULES))
        if told:
            yield Paragraph("The settings:")
            labels = Labels.among(told.values())
            texts = tuple(values_text(values, labels) for values in told.values())
            yield Points(texts, leads=tuple(f"{name}:" for name in told))
    known = {key for values in told.values() for key in values}
    for stem in in_order(sheets, file.claims):
        yield from blocks(sheets[stem], [verdict for verdict in verdicts if stem in verdict.claim.sweeps], known)


def _verdicts(verdicts: Sequence[Verdict]) -> Iterator[Block]:
    yield Heading("Verdicts")
    by_section: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_section.setdefault(verdict.claim.section, []).append(verdict)
    for section, found in by_section.items():
        yield Heading(f"Section {section}" if section[:1].isdigit() else section.capitalize(), 3)
        rows = tuple((v.claim.id, v.text, v.claim.text, v.claim.stated, measured(v)) for v in found)
        header = ("claim", "verdict", "it says", "stated", "measured, or its source")
        yield Grid(TextTable(title="", header=header, rows=rows), tuple(v.word.value for v in found))
        notes = tuple(f"{v.claim.id}: {v.claim.note}." for v in found if v.claim.note)
        if notes:
            yield Points(notes)


def _commands(file: ClaimFile, scale: float, more: str) -> Iterator[Block]:
    quick = "" if scale == 1.0 else " --quick" if scale == QUICK_SCALE else f" --scale {exact_text(scale)}"
    options = quick + more + plugins.options()
    name = shlex.quote(called(file))
    example = next((claim.id for claim in file.claims if claim.kind is Kind.SWEEP), file.claims[0].id)
    yield Heading("Make it again")
    yield Paragraph(
        "Run what is missing, and write this page; write it from stored runs alone; one claim with its evidence:"
    )
    yield Commands(
        (
            f"normexp claims {name} --run{options}",
            f"normexp claims {name} --report{options}",
            f"normexp claims {name} {shlex.quote(example)}{options}",
        )
    )
