"""Claims, findings and verdicts, and the rules that derive a verdict from findings.

Each finding of a sweep claim holds, is refuted, is undecided, or lacks runs. The claim is checked in each of its
settings, and under each of the conditions in `elsewhere`. Its verdict is

- `not enough runs` if a setting lacks runs, or if the claim holds in no setting and a condition of `elsewhere` lacks
  runs;
- `holds` if it holds in every setting;
- `holds when` if it holds in some settings, or in no setting but under some condition of `elsewhere`; these are named.
  As each setting and condition is one more chance to hold, the p-values of the findings are first corrected by Holm's
  method, over all of them. Findings that hold by counts of outcomes have no p-value, and stand;
- `refuted` if every finding is refuted;
- `inconclusive` otherwise.

A calculation runs once per seed. Each finding has a verdict: the one it sets (`source differs`, `contradicts itself`,
or `holds when` with the condition as its setting), or else `holds` or `refuted`. If all findings agree, this is the
verdict. `holds when` under one condition also stands if other seeds have `holds`. Anything else is `inconclusive`: the
result depends on the seed.

A cited claim is `source agrees` if its source does. Otherwise it is `contradicts itself` if the source is the text
itself, and `source differs` if it is another.

A claim of kind `none` is `not checkable here`: neither runs nor a calculation nor a source can decide it, and its entry
says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from normexp.claims.inference import LEVEL, holm
from normexp.config.labels import listed, plural
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

    HOLDS = "holds"
    HOLDS_WHEN = "holds when"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    SOURCE_AGREES = "source agrees"
    SOURCE_DIFFERS = "source differs"
    CONTRADICTING = "contradicts itself"
    NOT_CHECKABLE = "not checkable here"
    NOT_ENOUGH = "not enough runs"


class Decision(StrEnum):
    """What one finding says about its claim."""

    HOLDS = "holds"
    REFUTED = "refuted"
    UNDECIDED = "undecided"
    TOO_FEW = "not enough runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a claim in one setting, or with one seed of a calculation.

    `measured` is a short text for tables, and `sentence` the full text. `p_value` is that of the test by which a
    comparison holds, two-sided or for an equivalence the larger of two one-sided ones, so that 0.05 is the limit; None
    for counts and calculations. Only calculations set `word`: if the text contradicts itself or its source, or if the
    claim holds only under the condition that `setting` names.
    """

    decision: Decision
    measured: str
    sentence: str
    setting: str = ""
    seeds: int = 0
    run_ids: tuple[str, ...] = ()
    p_value: float | None = None
    word: Word | None = None

    @property
    def holds(self) -> bool:
        """Whether the claim holds. If not, it is refuted, undecided or lacks runs."""
        return self.decision is Decision.HOLDS


def yes_or_no(holds: bool) -> Decision:
    """Return the decision of a check that leaves nothing undecided, such as a calculation."""
    return Decision.HOLDS if holds else Decision.REFUTED


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


@dataclass(frozen=True, slots=True)
class Expected:
    """The verdict that an entry expects, as `written`. A word of earlier versions may stand for one of several."""

    words: tuple[Word, ...]
    written: str

    def __str__(self) -> str:
        return " or ".join(self.words)


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
    expected: Expected | None = None
    note: str = ""
    quote: str = ""
    translation: str = ""
    weight: Weight = Weight.DETAIL
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFile:
    """The claims of a text, and their sweep files by stem, in the order in which they run.

    `warnings` names the words of earlier versions in the file, and what to write instead.
    """

    name: str
    title: str
    path: Path
    sweeps: Mapping[str, Path]
    claims: tuple[Claim, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of a claim. `when` names the settings of a `holds when`; `quick` is True for shortened runs.

    `uncorrected` names the settings that hold before Holm's correction over `family` findings, and is empty if no
    correction was made. `by_threshold` has the verdict's text for other thresholds of the outcome `learned`.
    """

    claim: Claim
    word: Word
    findings: tuple[Finding, ...]
    when: tuple[str, ...] = ()
    quick: bool = False
    uncorrected: tuple[str, ...] = ()
    family: int = 0
    by_threshold: Mapping[str, str] = field(default_factory=lambda: NOTHING)

    @property
    def text(self) -> str:
        """The verdict with the settings in which it holds."""
        named = f" {_listed(self.when)}" if self.when else ""
        return f"{self.word}{named}{' (quick)' if self.quick and self.claim.kind is Kind.SWEEP else ''}"

    @property
    def correction(self) -> str:
        """What Holm's correction changes, as a sentence without its full stop; empty if no correction was made."""
        if not self.uncorrected:
            return ""
        cells = f"Holm's correction over {plural(self.family, 'cell')}"
        held = f"holds uncorrected {_listed(self.uncorrected)}"
        kept = tuple(name for name in self.uncorrected if name in self.when)
        if kept == self.uncorrected:
            return f"{held}, and after {cells} too"
        return f"{held}, after {cells} only {_listed(kept)}" if kept else f"{held}, not after {cells}"

    @property
    def threshold(self) -> str:
        """How the verdict depends on the threshold of `learned`, without a full stop; empty if it does not."""
        other = {name: text for name, text in self.by_threshold.items() if text != self.text}
        if not other:
            return ""
        return "; ".join(f"with a threshold of {name} of the learnable gap: {text}" for name, text in other.items())

    @property
    def differs(self) -> bool:
        """Whether a decided verdict on full runs differs from the expected one."""
        full = not (self.quick and self.claim.kind is Kind.SWEEP)
        decided = self.word is not Word.NOT_ENOUGH
        expected = self.claim.expected
        return full and decided and expected is not None and self.word not in expected.words

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The distinct runs behind the verdict."""
        return tuple(dict.fromkeys(run_id for finding in self.findings for run_id in finding.run_ids))


def _listed(settings: Sequence[str]) -> str:
    return listed([name or "in the only setting" for name in settings])


def judge(claim: Claim, findings: Sequence[Finding], *, quick: bool = False) -> Verdict:
    """Apply the rules of verdicts. Findings of a sweep claim are named by its settings and the keys of `elsewhere`."""
    if claim.kind is Kind.SWEEP:
        return _of_runs(claim, tuple(findings), quick)
    word, when = _RULES[claim.kind](claim, findings)
    return Verdict(claim=claim, word=word, findings=tuple(findings), when=when, quick=quick)


def _of_runs(claim: Claim, findings: tuple[Finding, ...], quick: bool) -> Verdict:
    word, when = _by_settings(claim, findings)
    corrected = corrected_findings(findings) if word is Word.HOLDS_WHEN else findings
    if corrected == findings and not any(f.p_value is not None for f in findings if f.setting in when):
        return Verdict(claim=claim, word=word, findings=findings, when=when, quick=quick)
    uncorrected = when
    word, when = _by_settings(claim, corrected)
    return Verdict(
        claim=claim,
        word=word,
        findings=findings,
        when=when,
        quick=quick,
        uncorrected=uncorrected if word is not Word.HOLDS else (),
        family=len(findings),
    )


def corrected_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings after Holm's correction over all of them: those that no longer hold become undecided.

    A finding without a p-value counts as one more test, with a p-value of 1; if it holds, it stands.
    """
    adjusted = holm([1.0 if finding.p_value is None else finding.p_value for finding in findings])
    return tuple(
        replace(finding, decision=Decision.UNDECIDED)
        if finding.holds and finding.p_value is not None and p_value > LEVEL
        else finding
        for finding, p_value in zip(findings, adjusted, strict=True)
    )


def _by_settings(claim: Claim, findings: Sequence[Finding]) -> tuple[Word, tuple[str, ...]]:
    own = [finding for finding in findings if finding.setting in claim.settings]
    other = [finding for finding in findings if finding.setting not in claim.settings]
    if len(own) < len(claim.settings) or _any_lacks(own):
        return Word.NOT_ENOUGH, ()
    if all(finding.holds for finding in own):
        return Word.HOLDS, ()
    holding = tuple(finding.setting for finding in own if finding.holds)
    if holding:
        return Word.HOLDS_WHEN, holding
    if _any_lacks(other):
        return Word.NOT_ENOUGH, ()
    holding = tuple(finding.setting for finding in other if finding.holds)
    if holding:
        return Word.HOLDS_WHEN, holding
    return Word.REFUTED if all(f.decision is Decision.REFUTED for f in findings) else Word.INCONCLUSIVE, ()


def _any_lacks(findings: Sequence[Finding]) -> bool:
    return any(finding.decision is Decision.TOO_FEW for finding in findings)


def _of_calculations(claim: Claim, findings: Sequence[Finding]) -> tuple[Word, tuple[str, ...]]:
    if len(findings) < claim.seeds or _any_lacks(findings):
        return Word.NOT_ENOUGH, ()
    words = {finding.word or _WORDS[finding.decision] for finding in findings}
    when = tuple(dict.fromkeys(finding.setting for finding in findings if finding.word is Word.HOLDS_WHEN))
    if len(when) == 1 and words <= {Word.HOLDS_WHEN, Word.HOLDS}:
        return Word.HOLDS_WHEN, when
    return words.pop() if len(words) == 1 and not when else Word.INCONCLUSIVE, ()


_WORDS = {Decision.HOLDS: Word.HOLDS, Decision.REFUTED: Word.REFUTED, Decision.UNDECIDED: Word.INCONCLUSIVE}


def _of_sources(claim: Claim, findings: Sequence[Finding]) -> tuple[Word, tuple[str, ...]]:
    citation = claim.citation
    if citation is None:
        raise ValueError(f"{claim.id}: a cited claim without a citation")
    if citation.agrees:
        return Word.SOURCE_AGREES, ()
    return Word.CONTRADICTING if citation.own else Word.SOURCE_DIFFERS, ()


def _not_checkable(claim: Claim, findings: Sequence[Finding]) -> tuple[Word, tuple[str, ...]]:
    return Word.NOT_CHECKABLE, ()


_RULES = {Kind.COMPUTE: _of_calculations, Kind.CITED: _of_sources, Kind.NONE: _not_checkable}
