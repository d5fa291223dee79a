"""Verdicts for people: a table that folds at the width of the terminal, one claim with its evidence, a summary line."""

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
from normexp.claims.calculations import COMPUTED
from normexp.claims.checks import CHECKS
from normexp.claims.claim import ClaimFile, Finding, Kind, Verdict, Word
from normexp.claims.measures import MEASURES, OF_ROW
from normexp.claims.verdict_text import measured, summary
from normexp.config.labels import listed, plural
from normexp.terminal.console import WIDE, Encodable, ResponsiveTable, encodable, unpadded

COLUMNS = (("claim", 28, None), ("verdict", 18, None), ("it says", None, 4), ("stated", None, 2), ("measured", None, 6))
"""Heading, width and share of the rest."""
NARROW_COLUMNS = (("claim", 28, None), ("", None, 1))
NARROW = 120
"""Columns below which a claim takes two columns, what was found below what was stated."""
STYLES = {
    Word.REPRODUCED: "green",
    Word.ONLY_WHEN: "yellow",
    Word.NOT_REPRODUCED: "red",
    Word.MISQUOTED: "red",
    Word.CONTRADICTING: "red",
    Word.NOT_ENOUGH: "dim",
}


class VerdictTable:
    """One row a claim. Where nobody looks at a screen, each is one line."""

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
    """All verdicts under the file's title, and the summary."""
    return Group(Encodable(title, "bold"), VerdictTable(verdicts), Encodable(summary(verdicts)))


def detail(verdict: Verdict, commands: Sequence[str], folder: Path) -> RenderableType:
    """One claim: what it says, the verdict, what each setting shows, its runs in `folder`, what repeats it.

    Without enough runs there is nothing to repeat: `missing` then says what to run.
    """
    claim = verdict.claim
    lines = [f"{claim.text}.", f"Stated: {claim.stated} (in {claim.section}; {claim.place})."]
    parts: list[RenderableType] = [Encodable(claim.id, "bold"), *map(Encodable, lines)]
    parts.append(Encodable(f"Verdict: {verdict.text}.", STYLES[verdict.word]))
    if claim.citation is not None:
        parts.append(Encodable(f"{claim.citation.source}: {claim.citation.says}."))
    count = len(verdict.findings)
    for number, finding in enumerate(verdict.findings, start=1):
        drawn = claim.kind is Kind.COMPUTE and count > 1
        name = f"Draw {number} of {count}" if drawn else (claim.kind is Kind.SWEEP and finding.setting) or "Found"
        parts.append(Encodable(f"{name}: {_held(finding, claim.kind)}. {finding.sentence}."))
    if claim.note:
        parts.append(Encodable(f"Note: {claim.note}."))
    if verdict.differs:
        parts.append(Encodable(f"The file expects: {claim.expected}.", "red"))
    if verdict.run_ids:
        rows = tuple((run_id, finding.setting) for finding in verdict.findings for run_id in finding.run_ids)
        parts.append(ResponsiveTable(TextTable(title="Runs", header=("run", "setting"), rows=rows)))
        parts += [Encodable("One of them:"), f"normexp explain {rows[0][0]} --out {quote(str(folder))}"]
    parts += [Encodable("Repeat it:"), *commands] if commands and verdict.word is not Word.NOT_ENOUGH else []
    return Group(*(Encodable(part, soft=True) if isinstance(part, str) else part for part in parts))


def missing(lacking: int, needed: int, folder: Path, duration: str, command: str, *, packed_elsewhere: str) -> str:
    """Which runs are missing, and the commands that supply them.

    `packed_elsewhere` is the claims file's name where the project's repository holds packed runs of it, else empty.
    """
    lines = [
        f"{folder} lacks {lacking} of the {plural(needed, 'run')} that this needs. To run them ({duration}):",
        command,
    ]
    if packed_elsewhere:
        source = f"the results/{packed_elsewhere} folder of normexp's repository, which holds packed runs,"
        lines.append(f"Or copy {source} to {folder}. Then repeat this command.")
    return "\n".join(lines)


def as_data(file: ClaimFile, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """What `normexp claims --json` prints."""
    counts = Counter(str(verdict.word) for verdict in verdicts)
    claims = [_claim_data(verdict) for verdict in verdicts]
    return {"schema": 1, "file": str(file.path), "title": file.title, "verdicts": dict(counts), "claims": claims}


def _claim_data(verdict: Verdict) -> dict[str, Any]:
    claim = verdict.claim
    told = {name: getattr(claim, name) for name in ("id", "section", "kind", "text", "stated")}
    judged = {"verdict": verdict.word, "when": verdict.when, "quick": verdict.quick and claim.kind is Kind.SWEEP}
    expected = {"expected": claim.expected, "differs": verdict.differs}
    return told | judged | expected | {"findings": verdict.findings, "citation": claim.citation, "note": claim.note}


def vocabulary() -> RenderableType:
    """What a claims file may name: checks with their parameters, measures, calculations."""
    checks = tuple(
        (name, ", ".join(f"[{part}]" if part in row.optional else part for part in row.takes), row.help)
        for name, row in CHECKS.items()
    )
    takes = tuple(dict.fromkeys((part, str(kind)) for row in CHECKS.values() for part, kind in row.takes.items()))
    measures = tuple((name, measure.help) for name, measure in MEASURES.items())
    computed = tuple((name, _figures(row.figures), row.help) for name, row in COMPUTED.items())
    tables = (
        TextTable(title="Checks of stored runs", header=("check", "with", "it holds where"), rows=checks),
        TextTable(title="Their parameters", header=("parameter", "takes"), rows=takes),
        TextTable(title=f"Measures, beside {listed(OF_ROW)}", header=("measure", "it is"), rows=measures),
        TextTable(title="Calculations", header=("check", "figures", "it holds where"), rows=computed),
    )
    return Group(*map(ResponsiveTable, tables))


def _figures(count: int | None) -> str:
    return "some" if count is None else str(count or "")


def _held(finding: Finding, kind: Kind) -> str:
    if finding.holds is None:
        return "not enough runs"
    told = f"it {'holds' if finding.holds else 'does not hold'}"
    if kind is Kind.COMPUTE:
        return f"it holds only when {finding.setting}" if finding.word is Word.ONLY_WHEN else told
    return f"{told}, {plural(finding.seeds, 'seed')} a cell"


def _broken(claim_id: str) -> str:
    """An id on two lines, broken at its last dot."""
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
    said = f"{claim.text}.\nStated: {claim.stated}.\n{_found(verdict)}: {measured(verdict)}.\n"
    return [(f"{_broken(claim.id)}\n{verdict.text}", STYLES[verdict.word]), (said, "")]


def _found(verdict: Verdict) -> str:
    return "Source" if verdict.claim.kind is Kind.CITED else "Measured"
