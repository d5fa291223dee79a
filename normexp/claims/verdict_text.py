"""Short texts of verdicts: what was measured, and the number of verdicts of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from normexp.claims.claim import Claim, Finding, Kind, Verdict, Weight, Word
from normexp.config.labels import listed, plural

KINDS = {
    Kind.SWEEP: "by runs",
    Kind.COMPUTE: "by calculation",
    Kind.CITED: "by its source",
    Kind.NONE: "not checked",
}


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return the totals, and a line for each verdict that is not expected."""
    return "\n".join([totals(verdicts), *unexpected(verdicts)])


def totals(verdicts: Sequence[Verdict]) -> str:
    """Return the number of claims with each verdict: `61 claims: holds 20, holds when 9, ...`."""
    quick = " (quick: shortened runs, not conclusive)" if any(v.quick for v in verdicts) else ""
    return f"{plural(len(verdicts), 'claim')}{quick}: {_counts(verdicts)}."


def totals_by_kind(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the totals of each kind of claim, central and detail apart if any claim is central."""
    by_weight = any(verdict.claim.weight is Weight.CENTRAL for verdict in verdicts)
    for kind, name in KINDS.items():
        of_kind = [verdict for verdict in verdicts if verdict.claim.kind is kind]
        if not of_kind:
            continue
        parts = [_counts(of_kind)]
        if by_weight:
            weighed = [(weight, [v for v in of_kind if v.claim.weight is weight]) for weight in Weight]
            parts = [f"{weight}: {_counts(part)}" for weight, part in weighed if part]
        yield f"{name[0].upper()}{name[1:]}: {'; '.join(parts)}."


def unexpected(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each verdict that differs from the one that the file expects."""
    return [
        f"{verdict.claim.id}: {verdict.text}, but the file expects {verdict.claim.expected}"
        for verdict in verdicts
        if verdict.differs
    ]


def _counts(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.word for verdict in verdicts)
    return ", ".join(f"{word} {counts[word]}" for word in Word if counts[word])


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
    by_text: dict[tuple[str, str], list[str]] = {}
    for finding in _relevant(verdict):
        by_text.setdefault((finding.measured, finding.decision), []).append(finding.setting)
    named = [
        f"{listed(names)}{f' ({decision})' if text != decision else ''}: {text}" if all(names) else text
        for (text, decision), names in by_text.items()
    ]
    return "; ".join(named)


def quoted(claim: Claim) -> str:
    """Return the text's own sentence with its translation; empty if the entry has none."""
    return f"“{claim.quote}” ({claim.translation})" if claim.quote else ""


def remarks(verdict: Verdict) -> list[str]:
    """Return what else belongs to a verdict: the correction of a family, the threshold, and the entry's note."""
    return [text for text in (verdict.correction, verdict.threshold, verdict.claim.note) if text]


def _relevant(verdict: Verdict) -> Iterator[Finding]:
    """Yield the findings of the settings, and those of other conditions if they affect the verdict."""
    own = set(verdict.claim.settings)
    decided = verdict.word is Word.HOLDS or bool(own & set(verdict.when))
    for finding in verdict.findings:
        if finding.setting in own or finding.setting == "" or not decided:
            yield finding
