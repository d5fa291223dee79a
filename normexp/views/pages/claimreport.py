"""The report of a text put to the test: what came of it, its tables beside what it states, every verdict."""

from __future__ import annotations

import csv
import io
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from normexp import plugins
from normexp.claims.claim import ClaimFile, Kind, Word
from normexp.claims.evidence import QUICK_SCALE, Evidence, plans
from normexp.claims.files import called, folder_of
from normexp.claims.verdict import Verdict
from normexp.labels import Labels, exact_text, plural, values_text
from normexp.outcome import RULES
from normexp.record import SURVIVED
from normexp.results import figurefiles, reportfiles
from normexp.results.store import Store
from normexp.views import report
from normexp.views.claims import measured
from normexp.views.claims import summary as counts
from normexp.views.pages import takeaways
from normexp.views.pages.page import Block, Commands, Grid, Heading, Page, Paragraph, Points
from normexp.views.pages.sheets import Sheet, blocks, in_order, missing, settings
from normexp.views.pages.textpage import markdown
from normexp.views.pages.webpage import html
from normexp.views.pivot import TextTable

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
        pictures = figurefiles.pictures(store.folder)
        records = evidence.records(plan)
        sheets[stem] = Sheet(plan=plan, records=records, pictures=pictures, damaged=evidence.damaged(plan))
    more = "" if out == folder_of(file, scale) else f" --out {shlex.quote(str(out))}"
    made = page(file, verdicts, sheets, scale=scale, more=more)
    contents = {
        reportfiles.REPORT: markdown(made),
        reportfiles.WEBPAGE: html(made),
        reportfiles.VERDICTS: to_csv(verdicts),
    }
    return [reportfiles.write(out, name, content) for name, content in contents.items()]


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
    found = takeaways.chosen(verdicts)
    yield Heading("Findings to take away")
    yield Paragraph(takeaways.RULE)
    yield takeaways.told(found) if found else Paragraph("No claim is decided by runs yet.")


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
