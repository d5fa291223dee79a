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

The nouns of putting a text to the test: a claim, what was found about it, and the words of a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from normexp.config.labels import listed
from normexp.schemes.network_config import Value

Selection = Mapping[str, tuple[Value, ...]]
"""Points of a sweep: those whose value of each key (as asked for) is one of these."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Kind(StrEnum):
    """How a claim is settled: by stored runs, by a calculation made now, or by what its source says."""

    SWEEP = "sweep"
    COMPUTE = "compute"
    CITED = "cited"


class Word(StrEnum):
    """A verdict; `normexp.claims.claim` has the rules."""

    REPRODUCED = "reproduced"
    ONLY_WHEN = "only when"
    NOT_REPRODUCED = "not reproduced"
    MISQUOTED = "misquoted"
    CONTRADICTING = "self-contradicting"
    NOT_ENOUGH = "not enough runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one setting, or one seed of a calculation, says about a claim.

    `holds` is None where there are too few runs. `measured` is short, for a table; `sentence` says it in full.
    `word` is given by a calculation alone, where it shows that a text contradicts itself or misquotes, or that a claim
    holds only when in the circumstances that `setting` then names.
    """

    holds: bool | None
    measured: str
    sentence: str
    setting: str = ""
    seeds: int = 0
    run_ids: tuple[str, ...] = ()
    word: Word | None = None


@dataclass(frozen=True, slots=True)
class Calculation:
    """A row of a table of calculations: when it holds, and the number of figures of the text that it compares with.

    `figures` is None where it takes any number of them, but at least one.
    """

    help: str
    figures: int | None = 0

    @property
    def takes_figures(self) -> bool:
        return self.figures != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """What the source of a cited claim says, and where; `own` where the source is the text itself, elsewhere."""

    source: str
    says: str
    agrees: bool
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim. `stated` is the figure as the text gives it; `place` is file:line of its entry.

    A sweep claim reads the points of `sweeps` (stems of files) that agree with `where`, setting by setting (the
    labels of the sweeps), and those of `elsewhere`: other circumstances, by name, each with what it changes of
    `where`. `seeds` are needed in every cell that the check compares; a calculation is made with as many.
    `expected` is the verdict of the last full run, None where there was none or where it hangs on the machine.
    """

    id: str
    section: str
    text: str
    stated: str
    kind: Kind
    place: str
    check: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    settings: tuple[str, ...] = ("",)
    sweeps: tuple[str, ...] = ()
    where: Selection = field(default_factory=lambda: NOTHING)
    elsewhere: Mapping[str, Selection] = field(default_factory=lambda: NOTHING)
    seeds: int = 3
    citation: Citation | None = None
    expected: Word | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFile:
    """A text's claims, and the sweep files that they read, by stem, in the order in which they are run."""

    name: str
    title: str
    path: Path
    sweeps: Mapping[str, Path]
    claims: tuple[Claim, ...]


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
