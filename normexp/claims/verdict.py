"""From findings to a verdict: the only place where the rules stand.

A sweep claim is looked at in each of its settings, and under the circumstances named in `elsewhere`:

- `not enough runs`: a setting lacks runs (a cell has fewer done runs than the claim's seeds), or no setting bears the
  claim out and a circumstance of `elsewhere` lacks runs;
- `reproduced`: it holds in every setting;
- `only when`: it holds in some settings, or in none of them but in some circumstance of `elsewhere`; they are named;
- `not reproduced`: it holds nowhere.

A calculation is made once a seed, and each finding has a word: its own (`misquoted`, `self-contradicting`, and `only
when` with the circumstances as its setting), or else whether it holds. All of one word give it; `only when` in the same
circumstances stays so where other seeds have `reproduced`; anything else is `not reproduced`.

A cited claim is `reproduced` where its source agrees; else `self-contradicting` where the source is the text itself,
and `misquoted` where it is another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from normexp.claims.claim import Claim, Finding, Kind, Word
from normexp.labels import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A claim judged. `when` names where an `only when` holds; `quick` tells that shortened runs were read."""

    claim: Claim
    word: Word
    findings: tuple[Finding, ...]
    when: tuple[str, ...] = ()
    quick: bool = False

    @property
    def text(self) -> str:
        """The verdict in a few words."""
        named = f" {listed([name or 'in the one setting' for name in self.when])}" if self.when else ""
        return f"{self.word}{named}{' (quick)' if self.quick and self.claim.kind is Kind.SWEEP else ''}"

    @property
    def differs(self) -> bool:
        """Whether a decided verdict on full runs is another than the expected one."""
        full = not (self.quick and self.claim.kind is Kind.SWEEP)
        decided = self.word is not Word.NOT_ENOUGH
        return full and decided and self.claim.expected not in (None, self.word)

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs that it rests on, each once."""
        return tuple(dict.fromkeys(run_id for finding in self.findings for run_id in finding.run_ids))


def judge(claim: Claim, findings: Sequence[Finding], *, quick: bool = False) -> Verdict:
    """Apply the rules. The findings of a sweep claim bear the names of its settings and of `elsewhere`."""
    word, when = _RULES[claim.kind](claim, findings)
    return Verdict(claim=claim, word=word, findings=tuple(findings), when=when, quick=quick)


def _of_runs(claim: Claim, findings: Sequence[Finding]) -> tuple[Word, tuple[str, ...]]:
    own = [finding for finding in findings if finding.setting in claim.settings]
    other = [finding for finding in findings if finding.setting not in claim.settings]
    if len(own) < len(claim.settings) or any(finding.holds is None for finding in own):
        return Word.NOT_ENOUGH, ()
    if all(finding.holds for finding in own):
        return Word.REPRODUCED, ()
    holding = tuple(finding.setting for finding in own if finding.holds)
    if holding:
        return Word.ONLY_WHEN, holding
    if any(finding.holds is None for finding in other):
        return Word.NOT_ENOUGH, ()
    holding = tuple(finding.setting for finding in other if finding.holds)
    return (Word.ONLY_WHEN, holding) if holding else (Word.NOT_REPRODUCED, ())


def _of_calculations(claim: Claim, findings: Sequence[Finding]) -> tuple[Word, tuple[str, ...]]:
    if len(findings) < claim.seeds or any(finding.holds is None for finding in findings):
        return Word.NOT_ENOUGH, ()
    words = {finding.word or (Word.REPRODUCED if finding.holds else Word.NOT_REPRODUCED) for finding in findings}
    when = tuple(dict.fromkeys(finding.setting for finding in findings if finding.word is Word.ONLY_WHEN))
    if len(when) == 1 and words <= {Word.ONLY_WHEN, Word.REPRODUCED}:
        return Word.ONLY_WHEN, when
    return words.pop() if len(words) == 1 and not when else Word.NOT_REPRODUCED, ()


def _of_sources(claim: Claim, findings: Sequence[Finding]) -> tuple[Word, tuple[str, ...]]:
    citation = claim.citation
    if citation is None:
        raise ValueError(f"{claim.id}: a cited claim without a citation")
    if citation.agrees:
        return Word.REPRODUCED, ()
    return Word.CONTRADICTING if citation.own else Word.MISQUOTED, ()


_RULES = {Kind.SWEEP: _of_runs, Kind.COMPUTE: _of_calculations, Kind.CITED: _of_sources}
