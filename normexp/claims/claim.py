"""The nouns of putting a text to the test: a claim, what was found about it, and the words of a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from normexp.keys import Value

Selection = Mapping[str, tuple[Value, ...]]
"""Points of a sweep: those whose value of each key (as asked for) is one of these."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Kind(StrEnum):
    """How a claim is settled: by stored runs, by a calculation made now, or by what its source says."""

    SWEEP = "sweep"
    COMPUTE = "compute"
    CITED = "cited"


class Word(StrEnum):
    """A verdict; `normexp.claims.verdict` has the rules."""

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
