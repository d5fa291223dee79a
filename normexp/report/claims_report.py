"""The report of a claims file: counts of verdicts, key findings, the sweeps that the claims use, and every verdict."""

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
from normexp.analysis.cells import cells, summarize, twins
from normexp.analysis.conclusions import conclusion
from normexp.analysis.tables import TextTable, cell_text, joined_text, pivot, reference_losses
from normexp.claims.claim import Claim, ClaimFile, Decision, Kind, Verdict, Weight, Word
from normexp.claims.evidence import QUICK_SCALE, Evidence, plans
from normexp.claims.files import called, folder_of
from normexp.claims.verdict_text import KINDS, measured, quoted, remarks, totals, totals_by_kind, unexpected
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
"""The section that holds the conclusions of a text."""
RULE = (
    f"Up to {MOST} claims, selected by rule: first the conclusions of the text (its section summary) that runs decide; "
    "then, from each other section, the claim based on the most runs, in descending order of runs."
)
STATISTICS = (
    "A comparison holds or is refuted by a 95 % t-interval over paired seeds, an equivalence by two one-sided tests at "
    "5 % each. Where the runs of a cell end differently, or a number is infinite, the sign test over seeds takes the "
    "place of the interval. Magnitudes and ratios are compared by ratio. A claim that holds in some cells only is "
    "corrected by Holm's method over all its cells. A claim about the step at which runs become non-finite needs 12 "
    "seeds. Each claim by runs is also judged with thresholds of 2 % and 5 % for learned; if its verdict changes, it "
    "says so."
)
"""How the verdicts by runs are reached."""
NEARLY_ALL = 0.8
"""A setting is described by the values that at least this share of its points have."""
MEANINGS = {
    Word.HOLDS: "holds in every setting, or for every seed of a calculation",
    Word.HOLDS_WHEN: "holds in some settings only, or under other conditions only; these are named",
    Word.REFUTED: "the evidence excludes it in every setting and under every condition",
    Word.INCONCLUSIVE: "the evidence neither shows nor excludes it",
    Word.SOURCE_AGREES: "the source says so",
    Word.SOURCE_DIFFERS: "its source, or another source that is named, says otherwise",
    Word.CONTRADICTING: "the text says otherwise elsewhere",
    Word.NOT_CHECKABLE: "neither runs nor a calculation nor a source can decide it; the reason is given",
    Word.NOT_ENOUGH: "too few runs are stored to decide",
}
COLUMNS = (
    *("id", "section", "kind", "weight", "verdict", "when", "quick", "expected", "stated", "measured"),
    *("correction", "threshold", "seeds", "run_ids"),
)


def key_findings(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Select at most five verdicts by `RULE`. Ties are broken by the order in the file."""
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


def findings_list(verdicts: Sequence[Verdict]) -> Points:
    """Return a list of claims: what the text claims, whether it holds, and what was measured."""
    leads = tuple(f"“{verdict.claim.text}” {_predicate(verdict)}." for verdict in verdicts)
    return Points(tuple(map(_evidence, verdicts)), numbered=True, leads=leads)


def _evidence(verdict: Verdict) -> str:
    runs = plural(len(verdict.run_ids), "run")
    more = "".join(f" {text[0].upper()}{text[1:]}." for text in (verdict.correction, verdict.threshold) if text)
    more += " Quick runs are not conclusive." if verdict.quick else ""
    claim = verdict.claim
    text = f" The text: {quoted(claim)}." if claim.quote else ""
    return f"Stated: {claim.stated}.{text} Measured in {runs}: {measured(verdict)}. Claim {claim.id}.{more}"


def _is_refuted_as_stated(verdict: Verdict) -> bool:
    """Whether the settings of the claim refute it, whatever the conditions in `elsewhere` say."""
    own = [finding for finding in verdict.findings if finding.setting in verdict.claim.settings]
    return all(finding.decision is Decision.REFUTED for finding in own)


def _predicate(verdict: Verdict) -> str:
    several = len(verdict.claim.settings) > 1
    if verdict.word is Word.HOLDS:
        return "holds in every setting" if several else "holds"
    if verdict.word is Word.HOLDS_WHEN and not set(verdict.when) & set(verdict.claim.settings):
        return f"does not hold as stated, but holds {listed(verdict.when)}"
    if verdict.word is Word.HOLDS_WHEN:
        return f"holds only {listed([name or 'in its only setting' for name in verdict.when])}"
    if verdict.word is Word.REFUTED:
        return "is refuted in every setting" if several else "is refuted"
    if verdict.claim.kind is Kind.SWEEP and _is_refuted_as_stated(verdict):
        return "is refuted as stated, and undecided under other conditions"
    return "is neither shown nor refuted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A sweep of a claims file: its plan, stored records, figures (PNG by name), and a line per damaged file."""

    plan: Plan
    records: Mapping[str, RunRecord]
    pictures: Mapping[str, bytes]
    damaged: Sequence[str] = ()

    @property
    def lacking(self) -> int:
        """The number of runs without a result, or with an outdated one."""
        return sum(_lacks(self.records.get(run_id)) for run_id in self.plan.configs)


def in_order(sheets: Mapping[str, Sheet], claims: Sequence[Claim]) -> list[str]:
    """Sort the stems of sweeps by the section with the most claims that use them."""
    sections = list(dict.fromkeys(claim.section for claim in claims))

    def section_index(stem: str) -> int:
        counts = [sum(stem in claim.sweeps for claim in claims if claim.section == name) for name in sections]
        return counts.index(max(counts)) if any(counts) else len(sections)

    return sorted(sheets, key=section_index)


def settings(sheets: Iterable[Sheet]) -> dict[str, dict[str, Value]]:
    """Describe each label: the values that nearly all of its points have, of the keys that differ between labels."""
    labels: dict[str, list[Mapping[str, Value]]] = {}
    for sheet in sheets:
        for point in sheet.plan.points:
            if point.label:
                labels.setdefault(point.label, []).append(point.config.to_dict())
    usual = {label: _usual(configs) for label, configs in labels.items()}
    keys = [key for key in KEYS if len({values.get(key) for values in usual.values()}) > 1]
    shared = [key for key in keys if all(key in values for values in usual.values())]
    return {label: {key: values[key] for key in shared} for label, values in usual.items()}


def _usual(configs: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    most_common = {key: Counter(config[key] for config in configs).most_common(1)[0] for key in configs[0]}
    return {key: value for key, (value, count) in most_common.items() if count >= NEARLY_ALL * len(configs)}


def apart(plan: Plan, known: Container[str]) -> dict[str, str]:
    """Describe what is specific to each label of a plan: values that all its points have and another label lacks.

    Axes and `known` keys are left out.
    """
    labels: dict[str, list[Mapping[str, Value]]] = {}
    for point in plan.points:
        labels.setdefault(point.label, []).append(point.config.to_dict())
    fixed = {label: _shared(configs) for label, configs in labels.items()}
    keys = [key for key in KEYS if key not in known and key not in plan.axes]
    differing = [key for key in keys if len({values.get(key) for values in fixed.values()}) > 1]
    own = {label: {key: values[key] for key in differing if key in values} for label, values in fixed.items()}
    texts = Labels.among(own.values())
    return {label: values_text(values, texts) for label, values in own.items() if label and values}


def _shared(configs: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    return {key: value for key, value in configs[0].items() if all(config[key] == value for config in configs)}


def blocks(sheet: Sheet, verdicts: Sequence[Verdict], known: Container[str] = ()) -> Iterator[Block]:
    """Yield the part of the page on one sweep.

    `verdicts` are those of the claims that use it; `known` keys are part of the description of its settings.
    """
    plan = sheet.plan
    runs = frames.runs(plan, sheet.records)
    summary = summarize(plan, runs)
    yield Heading(plan.title or plan.name, 3)
    yield Paragraph(conclusion(plan, runs))
    if own := apart(plan, known):
        yield Points(tuple(own.values()), leads=tuple(f"In this sweep, {label}:" for label in own))
    yield from grids(pivot(plan, runs))
    if references := reference_losses(summary):
        yield Paragraph(references)
    if verdicts:
        yield Heading("Claims about this experiment", 4)
        yield stated(verdicts)
    yield from _pictures(sheet)
    yield Folded("All cells: outcomes, medians and 95 % CIs", (Grid(_cells(plan, runs, summary)),))
    if lines := missing(sheet):
        yield Heading("Missing runs of this experiment", 4)
        yield Points(tuple(lines))
    if all_warnings := [*plan.warnings, *sheet.damaged, *warnings(sheet.records, [])]:
        yield Points(tuple(all_warnings))


def stated(verdicts: Sequence[Verdict]) -> Grid:
    """Return a table of claims with their verdicts."""
    rows = tuple((v.claim.id, v.text, v.claim.text, v.claim.stated) for v in verdicts)
    table = TextTable(title="", header=("claim", "verdict", "statement", "stated"), rows=rows)
    return Grid(table, marks=tuple(v.word.value for v in verdicts))


def missing(sheet: Sheet) -> list[str]:
    """Return a line for each cell that lacks runs, or one line if all runs are missing."""
    lacking, all_runs = sheet.lacking, len(sheet.plan.configs)
    if lacking == all_runs:
        return [f"all: none of {plural(all_runs, 'run')} is done"] if lacking else []
    lines, texts = [], sheet.plan.labels
    for same_runs in twins(cells(sheet.plan, frames.runs(sheet.plan, sheet.records))):
        runs = same_runs[0].runs
        count = sum(_lacks(sheet.records.get(run["run_id"])) for run in runs)
        if count:
            name = joined_text([cell.values for cell in same_runs], texts) or "all cells"
            lines.append(f"{name}: {count} of {plural(len(runs), 'run')}")
    return lines


def _lacks(record: RunRecord | None) -> bool:
    return record is None or record.result is None or record.outdated


def _cells(plan: Plan, runs: pd.DataFrame, summary: pd.DataFrame) -> TextTable:
    """Return one row per cell, in the order of the points. Intervals are over finite runs."""
    labels = ["label"] if any(summary["label"]) else []
    keys, texts = [*labels, *plan.cell_axes], plan.labels
    rows = []
    for cell, row in zip(cells(plan, runs), frames.rows(summary), strict=True):
        low, high, median = row["low95_val_loss"], row["high95_val_loss"], row["median_val_loss"]
        interval = "" if low is None else f"{loss_text(low)} to {loss_text(high)}"
        named = [texts.text(key, row[key]) for key in keys]
        rows.append((*named, cell_text(cell), "" if median is None else loss_text(median), interval, row["survivors"]))
    header = (*keys, "outcomes", "median", "95 % CI", "finite runs")
    return TextTable(title="", header=header, rows=tuple(rows))


def _pictures(sheet: Sheet) -> Iterator[Picture]:
    for name, data in sheet.pictures.items():
        yield picture(sheet.plan, name, data, f"{sheet.plan.folder}/")


def write(file: ClaimFile, verdicts: Sequence[Verdict], out: Path, *, scale: float, redraw: bool) -> list[Path]:
    """Write REPORT.md, report.html and verdicts.csv into a results folder, and return their paths.

    With `redraw`, the tables and figures of the stored sweeps are written again first. Raises UserError.
    """
    sweep_plans = plans(file, {stem for claim in file.claims for stem in claim.sweeps}, scale=scale)
    evidence = Evidence(out)
    sheets = {}
    for stem, plan in sweep_plans.items():
        store = Store(out / plan.folder)
        if redraw and store.exists():
            report.rebuild(store, figures=True)
        pictures = outputs.pictures(store.folder)
        records = evidence.records(plan)
        sheets[stem] = Sheet(plan=plan, records=records, pictures=pictures, damaged=evidence.damaged(plan))
    more = "" if out == folder_of(file, scale) else f" --out {shlex.quote(str(out))}"
    report_page = page(file, verdicts, sheets, scale=scale, more=more)
    contents = {
        files.REPORT: markdown(report_page),
        files.WEBPAGE: html(report_page),
        files.VERDICTS: to_csv(verdicts),
    }
    return [files.write_report(out, name, content) for name, content in contents.items()]


def page(
    file: ClaimFile, verdicts: Sequence[Verdict], sheets: Mapping[str, Sheet], *, scale: float, more: str = ""
) -> Page:
    """Return the report as blocks. A `scale` other than 1 marks it as based on quick runs.

    `more` holds further options of the commands that reproduce the report.
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
    """Return one row per claim as CSV text; run ids are separated by spaces."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for verdict in verdicts:
        claim = verdict.claim
        writer.writerow(
            {"id": claim.id, "section": claim.section, "kind": claim.kind, "weight": claim.weight}
            | {"verdict": verdict.word, "correction": verdict.correction, "threshold": verdict.threshold}
            | {"when": "; ".join(verdict.when), "quick": verdict.quick and claim.kind is Kind.SWEEP}
            | {"expected": claim.expected or "", "stated": claim.stated, "measured": measured(verdict)}
            | {"seeds": _seeds(verdict), "run_ids": " ".join(verdict.run_ids)}
        )
    return buffer.getvalue()


def _seeds(verdict: Verdict) -> int:
    """Return the number of seeds of the cell with the fewest, or of a calculation."""
    if verdict.claim.kind is Kind.COMPUTE:
        return len(verdict.findings)
    return min((finding.seeds for finding in verdict.findings), default=0)


def _head(file: ClaimFile, verdicts: Sequence[Verdict], scale: float) -> Iterator[Block]:
    if scale != 1.0:
        warning = (
            f"Quick runs: {100 * scale:.3g} % of the steps, and one seed. They show that the pipeline works; "
            "their verdicts are not conclusive and may differ from those of full runs."
        )
        yield Paragraph(warning, warning=True)
    yield Paragraph(
        "Each claim of the text is checked by runs stored here, by a calculation, or against the source it cites. "
        "Verdicts by runs and by calculation follow from the evidence alone."
    )
    yield Heading("Summary")
    yield Paragraph(totals(verdicts))
    yield Points(tuple(totals_by_kind(verdicts)))
    by_word = Counter((verdict.word, verdict.claim.kind, verdict.claim.weight) for verdict in verdicts)
    weights = [weight for weight in Weight if any(verdict.claim.weight is weight for verdict in verdicts)]
    parts = [(kind, weight) for kind in Kind for weight in weights if any(by_word[word, kind, weight] for word in Word)]
    rows, marks = [], []
    for word in Word:
        numbers = [by_word[(word, *part)] for part in parts]
        if sum(numbers):
            rows.append((word.value, MEANINGS[word], *map(str, numbers), str(sum(numbers))))
            marks.append(word.value)
    named = [KINDS[kind] + (f", {weight}" if len(weights) > 1 else "") for kind, weight in parts]
    yield Grid(TextTable(title="", header=("verdict", "meaning", *named, "claims"), rows=tuple(rows)), tuple(marks))
    yield Paragraph(STATISTICS)
    if differing := unexpected(verdicts):
        yield Heading("Verdicts that differ from the expected ones", 3)
        yield Points(tuple(differing))


def _findings(verdicts: Sequence[Verdict]) -> Iterator[Block]:
    findings = key_findings(verdicts)
    yield Heading("Key findings")
    yield Paragraph(RULE)
    yield findings_list(findings) if findings else Paragraph("No claim is decided by runs yet.")


def _lacking(sheets: Mapping[str, Sheet]) -> Iterator[Block]:
    lines = [
        f"{sheet.plan.name}: {sheet.lacking} of {plural(len(sheet.plan.configs), 'run')} in "
        f"{plural(len(missing(sheet)), 'cell') if sheet.lacking < len(sheet.plan.configs) else 'all cells'}"
        for sheet in sheets.values()
        if sheet.lacking
    ]
    if lines:
        yield Heading("Missing runs")
        yield Paragraph("The cells that lack runs are listed below each table.")
        yield Points(tuple(lines))


def _tables(file: ClaimFile, verdicts: Sequence[Verdict], sheets: Mapping[str, Sheet]) -> Iterator[Block]:
    by_label = settings(sheets.values())
    if sheets:
        yield Heading("Tables")
        yield Paragraph(
            "Final validation losses in nats: mean ± standard deviation over seeds. Values printed in the text, where "
            "known, are in brackets."
        )
        yield Paragraph(
            "The learned fraction is the share of the learnable gap, from the unigram loss down to the entropy floor, "
            f"that a run closes. Means and CIs are over finite runs: those that end {' or '.join(SURVIVED)}. The "
            "outcomes, in the order in which their rules are applied:"
        )
        yield Points(tuple(RULES.values()), leads=tuple(f"{outcome}:" for outcome in RULES))
        if by_label:
            yield Paragraph("The settings:")
            labels = Labels.among(by_label.values())
            texts = tuple(values_text(values, labels) for values in by_label.values())
            yield Points(texts, leads=tuple(f"{name}:" for name in by_label))
    known = {key for values in by_label.values() for key in values}
    for stem in in_order(sheets, file.claims):
        yield from blocks(sheets[stem], [verdict for verdict in verdicts if stem in verdict.claim.sweeps], known)


def _verdicts(verdicts: Sequence[Verdict]) -> Iterator[Block]:
    yield Heading("Verdicts")
    by_section: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_section.setdefault(verdict.claim.section, []).append(verdict)
    for section, in_section in by_section.items():
        yield Heading(f"Section {section}" if section[:1].isdigit() else section.capitalize(), 3)
        rows = tuple((v.claim.id, v.text, v.claim.text, v.claim.stated, measured(v)) for v in in_section)
        header = ("claim", "verdict", "statement", "stated", "measured, or source")
        yield Grid(TextTable(title="", header=header, rows=rows), tuple(v.word.value for v in in_section))
        if quotes := tuple(f"{v.claim.id}: {quoted(v.claim)}." for v in in_section if v.claim.quote):
            yield Paragraph("The sentences of the text that these entries are about:")
            yield Points(quotes)
        if notes := tuple(f"{v.claim.id}: {text}." for v in in_section for text in remarks(v)):
            yield Paragraph("Notes:")
            yield Points(notes)


def _commands(file: ClaimFile, scale: float, more: str) -> Iterator[Block]:
    quick = "" if scale == 1.0 else " --quick" if scale == QUICK_SCALE else f" --scale {exact_text(scale)}"
    options = quick + more + plugins.options()
    name = shlex.quote(called(file))
    example = next((claim.id for claim in file.claims if claim.kind is Kind.SWEEP), file.claims[0].id)
    yield Heading("Reproduce")
    yield Paragraph(
        "Run missing runs and write this report; write it from stored runs only; show one claim with its evidence:"
    )
    yield Commands(
        (
            f"normexp claims {name} --run{options}",
            f"normexp claims {name} --report{options}",
            f"normexp claims {name} {shlex.quote(example)}{options}",
        )
    )
