"""Short texts of verdicts: what was measured, and the number of verdicts of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from normexp.claims.claim import Claim, Finding, Kind, Verdict, Word
from normexp.config.labels import listed, plural


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return the counts (`61 claims: 20 reproduced, 9 only when, ...`), and a line per verdict that is not expected."""
    counts = Counter(verdict.word for verdict in verdicts)
    quick = " (quick: shortened runs, not conclusive)" if any(v.quick for v in verdicts) else ""
    counts_text = ", ".join(f"{counts[word]} {word}" for word in Word if counts[word])
    lines = [f"{plural(len(verdicts), 'claim')}{quick}: {counts_text}."]
    lines += [
        f"{verdict.claim.id}: {verdict.text}, but the file expects {verdict.claim.expected}"
        for verdict in verdicts
        if verdict.differs
    ]
    return "\n".join(lines)


def measured(verdict: Verdict) -> str:
    """Return the evidence in brief: by setting, of the first seed of a calculation, from the source, or why none."""
    if verdict.claim.kind is Kind.NONE:
        return verdict.claim.why
    citation = verdict.claim.citation
    if citation is not None:
        return f"{citation.source}: {citation.says}"
    if verdict.claim.kind is Kind.COMPUTE and verdict.findings:
        more = len(verdict.findings) - 1
        return verdict.findings[0].measured + (f" (first of {more + 1} seeds)" if more else "")
    by_text: dict[str, list[str]] = {}
    for finding in _relevant(verdict):
        by_text.setdefault(finding.measured, []).append(finding.setting)
    named = [f"{listed(names)}: {text}" if all(names) else text for text, names in by_text.items()]
    return "; ".join(named)


def quoted(claim: Claim) -> str:
    """Return the text's own sentence with its translation; empty if the entry has none."""
    return f"“{claim.quote}” ({claim.translation})" if claim.quote else ""


def _relevant(verdict: Verdict) -> Iterator[Finding]:
    """Yield the findings of the settings, and those of other conditions if they affect the verdict."""
    decided = any(finding.holds for finding in verdict.findings if finding.setting in verdict.claim.settings)
    for finding in verdict.findings:
        if finding.setting in verdict.claim.settings or finding.setting == "" or not decided:
            yield finding
