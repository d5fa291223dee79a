"""Text output of `normexp claims`: a table of verdicts, one claim with its evidence, and the vocabulary of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from normexp.analysis.tables import TextTable
from normexp.claims.calculations import calculations
from normexp.claims.checks import CHECKS
from normexp.claims.claim import ClaimFile, Decision, Finding, Kind, Verdict, Word
from normexp.claims.measures import MEASURES, OF_ROW
from normexp.claims.verdict_text import measured, quoted, summary, totals_by_kind
from normexp.config.labels import listed, plural
from normexp.terminal.console import WIDE, Encodable, ResponsiveTable, encodable, unpadded

COLUMNS = (("claim", 28, None), ("verdict", 18, None), ("text", None, 4), ("stated", None, 2), ("measured", None, 6))
"""Heading, and either the width or the share of the remaining width."""
NARROW_COLUMNS = (("claim", 28, None), ("", None, 1))
NARROW = 120
"""Terminal width below which a claim takes two columns, with the measured values below the stated ones."""
STATEMENT = ("id", "section", "kind", "weight", "quote", "translation", "text", "stated")
STYLES = {
    Word.HOLDS: "green",
    Word.HOLDS_WHEN: "yellow",
    Word.REFUTED: "red",
    Word.INCONCLUSIVE: "cyan",
    Word.SOURCE_AGREES: "green",
    Word.SOURCE_DIFFERS: "red",
    Word.CONTRADICTING: "red",
    Word.NOT_CHECKABLE: "dim",
    Word.NOT_ENOUGH: "dim",
}


EVIDENCE = {Kind.CITED: "Source", Kind.NONE: "Why"}
"""What precedes the evidence of a claim, if it is not measured."""


class VerdictTable:
    """A table with one row per claim, folded at the terminal's width. If piped, each row is one line."""

    def __init__(self, verdicts: Sequence[Verdict]) -> None:
        self.verdicts = verdicts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType | Segment]:
        narrow, piped = options.max_width < NARROW, options.max_width >= WIDE
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, safe_box=True, show_header=not narrow)
        table.expand = not piped
        for name, width, ratio in NARROW_COLUMNS if narrow else COLUMNS:
            table.add_column(
                name, overflow="fold", no_wrap=piped, width=None if piped else width, ratio=None if piped else ratio
            )
        for verdict in self.verdicts:
            row = _narrow_row(verdict) if narrow else _wide_row(verdict, broken=not piped)
            table.add_row(*(Text(encodable(text, options.encoding), style=style) for text, style in row))
        yield from unpadded(table, console, options)


def listing(verdicts: Sequence[Verdict], title: str) -> RenderableType:
    """Return the file's title, the totals by kind, the table of verdicts, and a summary."""
    by_kind = [Encodable(line) for line in totals_by_kind(verdicts)]
    return Group(Encodable(title, "bold"), *by_kind, VerdictTable(verdicts), Encodable(summary(verdicts)))


def detail(verdict: Verdict, commands: Sequence[str], folder: Path) -> RenderableType:
    """Return one claim with its verdict, the findings per setting, its runs in `folder` and the commands to repeat it.

    Commands are left out if runs are missing; `missing` then says what to run.
    """
    claim = verdict.claim
    lines = [f"{claim.text}.", f"Stated: {claim.stated} (in {claim.section}; {claim.place})."]
    lines += [f"The text: {quoted(claim)}."] if claim.quote else []
    parts: list[RenderableType] = [Encodable(claim.id, "bold"), *map(Encodable, lines)]
    parts.append(Encodable(f"Verdict: {verdict.text}.", STYLES[verdict.word]))
    if claim.why:
        parts.append(Encodable(f"Why: {claim.why}."))
    if claim.citation is not None:
        parts.append(Encodable(f"{claim.citation.source}: {claim.citation.says}."))
    if verdict.correction:
        parts.append(Encodable(f"Several cells: {verdict.correction}."))
    if verdict.threshold:
        parts.append(Encodable(f"Threshold of learned: {verdict.threshold}."))
    count = len(verdict.findings)
    for number, finding in enumerate(verdict.findings, start=1):
        repeated = claim.kind is Kind.COMPUTE and count > 1
        name = (
            f"Repetition {number} of {count}"
            if repeated
            else (claim.kind is Kind.SWEEP and finding.setting) or "Result"
        )
        parts.append(Encodable(f"{name}: {_result(finding, claim.kind)}. {finding.sentence}."))
    if claim.note:
        parts.append(Encodable(f"Note: {claim.note}."))
    if verdict.differs:
        parts.append(Encodable(f"The file expects: {claim.expected}.", "red"))
    if verdict.run_ids:
        rows = tuple((run_id, finding.setting) for finding in verdict.findings for run_id in finding.run_ids)
        parts.append(ResponsiveTable(TextTable(title="Runs", header=("run", "setting"), rows=rows)))
        parts += [Encodable("To see one of them:"), f"normexp explain {rows[0][0]} --out {quote(str(folder))}"]
    parts += [Encodable("To repeat:"), *commands] if commands and verdict.word is not Word.NOT_ENOUGH else []
    return Group(*(Encodable(part, soft=True) if isinstance(part, str) else part for part in parts))


def missing(lacking: int, needed: int, folder: Path, duration: str, command: str, *, packed_elsewhere: str) -> str:
    """Return how many runs are missing, and the commands that supply them.

    `packed_elsewhere` is the name of a claims file whose packed runs the project's repository contains, or empty.
    """
    lines = [
        f"{folder} lacks {lacking} of {plural(needed, 'required run')}. To run them ({duration}):",
        command,
    ]
    if packed_elsewhere:
        source = f"results/{packed_elsewhere} of normexp's repository, which contains packed runs,"
        lines.append(f"Or copy {source} to {folder}. Then repeat this command.")
    return "\n".join(lines)


def as_data(file: ClaimFile, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the data that `normexp claims --json` prints."""
    counts = Counter(str(verdict.word) for verdict in verdicts)
    claims = [_claim_data(verdict) for verdict in verdicts]
    return {"schema": 2, "file": str(file.path), "title": file.title, "verdicts": dict(counts), "claims": claims}


def _claim_data(verdict: Verdict) -> dict[str, Any]:
    claim = verdict.claim
    statement = {name: getattr(claim, name) for name in STATEMENT}
    judged = {"verdict": verdict.word, "when": verdict.when, "quick": verdict.quick and claim.kind is Kind.SWEEP}
    expected = {"expected": str(claim.expected) if claim.expected else None, "differs": verdict.differs}
    corrected = {"uncorrected": verdict.uncorrected, "family": verdict.family, "correction": verdict.correction}
    threshold = {"by_threshold": dict(verdict.by_threshold), "threshold": verdict.threshold}
    evidence = {"findings": verdict.findings, "citation": claim.citation, "why": claim.why, "note": claim.note}
    return statement | judged | expected | corrected | threshold | evidence


def vocabulary() -> RenderableType:
    """Return tables of the checks with their parameters, the measures and the calculations of claims files."""
    checks = tuple(
        (name, ", ".join(f"[{part}]" if part in row.optional else part for part in row.takes), row.help)
        for name, row in CHECKS.items()
    )
    takes = tuple(dict.fromkeys((part, str(kind)) for row in CHECKS.values() for part, kind in row.takes.items()))
    measures = tuple((name, str(measure.scale), measure.help) for name, measure in MEASURES.items())
    computed = tuple((name, _figures(row.figures), row.help) for name, row in calculations().items())
    tables = (
        TextTable(title="Checks of stored runs", header=("check", "parameters", "holds if"), rows=checks),
        TextTable(title="Parameters of checks", header=("parameter", "value"), rows=takes),
        TextTable(
            title=f"Measures, in addition to {listed(OF_ROW)}", header=("measure", "compared", "meaning"), rows=measures
        ),
        TextTable(title="Calculations", header=("check", "figures", "holds if"), rows=computed),
    )
    return Group(*map(ResponsiveTable, tables))


def _figures(count: int | None) -> str:
    return "any" if count is None else str(count or "")


def _result(finding: Finding, kind: Kind) -> str:
    if finding.decision is Decision.TOO_FEW:
        return str(finding.decision)
    if kind is Kind.COMPUTE:
        return f"holds only when {finding.setting}" if finding.word is Word.HOLDS_WHEN else str(finding.decision)
    return f"{finding.decision}, {plural(finding.seeds, 'seed')} per cell{p_value_text(finding)}"


def p_value_text(finding: Finding) -> str:
    """Return the p-value of a comparison after a comma, empty for a count."""
    if finding.p_value is None:
        return ""
    return f", p = {finding.p_value:.2g}" if finding.p_value >= 1e-4 else ", p < 0.0001"


def _broken(claim_id: str) -> str:
    """Break a claim id at its last dot into two lines."""
    head, dot, tail = claim_id.rpartition(".")
    return f"{head}{dot}\n{tail}" if dot else tail


def _wide_row(verdict: Verdict, *, broken: bool) -> list[tuple[str, str]]:
    claim = verdict.claim
    return [
        (_broken(claim.id) if broken else claim.id, ""),
        (verdict.text, STYLES[verdict.word]),
        (claim.text, ""),
        (claim.stated, ""),
        (measured(verdict), ""),
    ]


def _narrow_row(verdict: Verdict) -> list[tuple[str, str]]:
    claim = verdict.claim
    evidence = EVIDENCE.get(claim.kind, "Measured")
    text = f"{claim.text}.\nStated: {claim.stated}.\n{evidence}: {measured(verdict)}.\n"
    return [(f"{_broken(claim.id)}\n{verdict.text}", STYLES[verdict.word]), (text, "")]
