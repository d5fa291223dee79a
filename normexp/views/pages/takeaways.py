"""The few findings that a reader should keep, chosen and worded by rule from verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from normexp.claims.claim import Kind, Word
from normexp.claims.verdict import Verdict
from normexp.labels import listed, plural
from normexp.views.claims import measured
from normexp.views.pages.page import Points

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
