"""Claims, findings and verdicts, and the rules that derive a verdict from findings.

A sweep claim is checked in each of its settings, and under each of the conditions in `elsewhere`:

- `not enough runs`: a setting lacks runs (a cell has fewer done runs than the claim's seeds), or the claim holds in no
  setting and a condition of `elsewhere` lacks runs;
- `reproduced`: it holds in every setting;
- `only when`: it holds in some settings, or in no setting but under some condition of `elsewhere`; these are named;
- `not reproduced`: it holds nowhere.

A calculation runs once per seed. Each finding has a verdict: the one it sets (`misquoted`, `self-contradicting`, or
`only when` with the condition as its setting), or else `reproduced` or `not reproduced`. If all findings agree, this is
the verdict. `only when` under one condition also stands if other seeds have `reproduced`. Anything else is `not
reproduced`.

A cited claim is `reproduced` if its source agrees. Otherwise it is `self-contradicting` if the source is the text
itself, and `misquoted` if it is another.

A claim of kind `none` is `not checkable here`: neither runs nor a calculation nor a source can decide it, and its entry
says why.
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
"""A selection of points: for each key, the allowed configured values."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Kind(StrEnum):
    """How a claim is checked: against stored runs, by a calculation, against its source, or not at all."""

    SWEEP = "sweep"
    COMPUTE = "compute"
    CITED = "cited"
    NONE = "none"


class Weight(StrEnum):
    """What hangs on a claim: a conclusion of the text rests on a central one, and on no detail."""

    CENTRAL = "central"
    DETAIL = "detail"


class Word(StrEnum):
    """The words of verdicts. The docstring of this module has the rules."""

    REPRODUCED = "reproduced"
    ONLY_WHEN = "only when"
    NOT_REPRODUCED = "not reproduced"
    MISQUOTED = "misquoted"
    CONTRADICTING = "self-contradicting"
    NOT_CHECKABLE = "not checkable here"
    NOT_ENOUGH = "not enough runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a claim in one setting, or with one seed of a calculation.

    `holds` is None if there are too few runs. `measured` is a short text for tables, and `sentence` the full text.
    Only calculations set `word`: if the text contradicts itself or misquotes, or if the claim holds only under the
    condition that `setting` names.
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
    """A calculation: a help text that says when it holds, and the number of printed figures it compares with.

    `figures` is None if it takes any number of figures, but at least one.
    """

    help: str
    figures: int | None = 0

    @property
    def takes_figures(self) -> bool:
        return self.figures != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """What the source of a cited claim says. `own` is True if the source is another passage of the text itself."""

    source: str
    says: str
    agrees: bool
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim. `stated` is the value as printed in the text; `place` is the file:line of its entry.

    `quote` is the sentence of the text that makes the claim, in its language, and `translation` is the same in English;
    both may be empty. `why` says why a claim of kind none cannot be checked.

    A sweep claim uses the points of `sweeps` (stems of files) that match `where`, separately for each of its settings
    (labels of the sweeps). `elsewhere` holds further conditions by name, each with its changes to `where`. Every cell
    that the check compares needs `seeds` done runs; a calculation runs with as many seeds. `expected` is the verdict of
    the last full run, or None if there was none or if it depends on the machine.
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
    quote: str = ""
    translation: str = ""
    weight: Weight = Weight.DETAIL
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFile:
    """The claims of a text, and their sweep files by stem, in the order in which they run."""

    name: str
    title: str
    path: Path
    sweeps: Mapping[str, Path]
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of a claim. `when` names the settings of an `only when`; `quick` is True for shortened runs."""

    claim: Claim
    word: Word
    findings: tuple[Finding, ...]
    when: tuple[str, ...] = ()
    quick: bool = False

    @property
    def text(self) -> str:
        """The verdict with the settings in which it holds."""
        named = f" {listed([name or 'in the only setting' for name in self.when])}" if self.when else ""
        return f"{self.word}{named}{' (quick)' if self.quick and self.claim.kind is Kind.SWEEP else ''}"

    @property
    def differs(self) -> bool:
        """Whether a decided verdict on full runs differs from the expected one."""
        full = not (self.quick and self.claim.kind is Kind.SWEEP)
        decided = self.word is not Word.NOT_ENOUGH
        return full and decided and self.claim.expected not in (None, self.word)

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The distinct runs behind the verdict."""
        return tuple(dict.fromkeys(run_id for finding in self.findings for run_id in finding.run_ids))


def judge(claim: Claim, findings: Sequence[Finding], *, quick: bool = False) -> Verdict:
    """Apply the rules of verdicts. Findings of a sweep claim are named by its settings and the keys of `elsewhere`."""
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


def _of_nothing(claim: Claim, findings: Sequence[Finding]) -> tuple[Word, tuple[str, ...]]:
    return Word.NOT_CHECKABLE, ()


_RULES = {
    Kind.SWEEP: _of_runs,
    Kind.COMPUTE: _of_calculations,
    Kind.CITED: _of_sources,
    Kind.NONE: _of_nothing,
}
