"""The checks of sweep claims: named pure functions from a frame of stored runs (one setting) to a finding.

A check is called as `function(frame, needed, **parameters)`, `needed` the seeds that every cell must have, and raises
Thin or Mismatch through `normexp.claims.findings`. A limit is a parameter of the claim, never of a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from normexp.claims import loss_checks, outcome_checks, scan_checks
from normexp.claims.claim import Finding


class Takes(StrEnum):
    """What a parameter of a check holds in a claims file."""

    SELECTION = "a mapping of run keys to a value or a list of values"
    NUMBER = "a number"
    STEPS = "a number of updates"
    KEY = "a run key"
    VALUES = "a value or a list of values of the key `axis`"
    MEASURE = "a measure"
    OUTCOMES = "an outcome or a list of outcomes"
    TREND = "rising or falling"


@dataclass(frozen=True, slots=True)
class Check:
    """A row: the function, what its parameters hold, and which of them may be left out."""

    function: Callable[..., Finding]
    takes: Mapping[str, Takes]
    optional: frozenset[str] = field(default_factory=frozenset)

    @property
    def help(self) -> str:
        """The first line of the function's docstring."""
        return (self.function.__doc__ or "").splitlines()[0]


_SELECTED = frozenset({"of_runs"})
_RANKED = {"better": Takes.SELECTION, "worse": Takes.SELECTION}
_SIDES = {**_RANKED, "by": Takes.NUMBER}
_PAIRED = {"one": Takes.SELECTION, "other": Takes.SELECTION, "within": Takes.NUMBER}
_MEASURED = {"over": Takes.KEY, "measure": Takes.MEASURE}
_OF = {"of_runs": Takes.SELECTION}
_ON = {"axis": Takes.KEY}

CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "ends": Check(outcome_checks.ends, {"outcomes": Takes.OUTCOMES, **_OF}, _SELECTED),
        "rescues": Check(outcome_checks.rescues, _RANKED),
        "dies": Check(outcome_checks.dies, {"step": Takes.STEPS, "factor": Takes.NUMBER, **_OF}, _SELECTED),
        "dies_by": Check(outcome_checks.dies_by, {"step": Takes.STEPS, **_OF}, _SELECTED),
        "dies_later": Check(outcome_checks.dies_later, {"early": Takes.SELECTION, "late": Takes.SELECTION}),
        "lower": Check(loss_checks.lower, {**_SIDES, **_MEASURED}, frozenset({"by", "over", "measure"})),
        "close": Check(loss_checks.close, {**_PAIRED, **_MEASURED}, frozenset(_MEASURED)),
        "no_worse": Check(loss_checks.no_worse, {**_PAIRED, **_MEASURED}, frozenset(_MEASURED)),
        "near": Check(
            loss_checks.near,
            {"value": Takes.NUMBER, "within": Takes.NUMBER, **_OF, **_MEASURED},
            _SELECTED | {"over", "measure"},
        ),
        "above": Check(
            loss_checks.above, {"value": Takes.NUMBER, **_OF, "measure": Takes.MEASURE}, _SELECTED | {"measure"}
        ),
        "below": Check(
            loss_checks.below, {"value": Takes.NUMBER, **_OF, "measure": Takes.MEASURE}, _SELECTED | {"measure"}
        ),
        "changes": Check(
            loss_checks.changes,
            {
                "before": Takes.MEASURE,
                "after": Takes.MEASURE,
                "towards": Takes.TREND,
                "times": Takes.NUMBER,
                "through": Takes.NUMBER,
                "outcomes": Takes.OUTCOMES,
                **_OF,
            },
            _SELECTED | {"times", "through", "outcomes"},
        ),
        "trend": Check(
            scan_checks.trend, {**_ON, "towards": Takes.TREND, **_OF, "measure": Takes.MEASURE}, _SELECTED | {"measure"}
        ),
        "best_at": Check(
            scan_checks.best_at, {**_ON, "values": Takes.VALUES, "within": Takes.NUMBER, **_OF}, _SELECTED | {"within"}
        ),
        "best_higher": Check(
            scan_checks.best_higher,
            {**_ON, "higher": Takes.SELECTION, "lower": Takes.SELECTION, "times": Takes.NUMBER},
            frozenset({"times"}),
        ),
        "learns_at": Check(outcome_checks.learns_at, {**_ON, "values": Takes.VALUES, **_OF}, _SELECTED),
        "sensitivity": Check(scan_checks.sensitivity, {**_ON, **_SIDES}, frozenset({"by"})),
        "widens": Check(
            scan_checks.widens,
            {**_ON, **_RANKED, "narrow": Takes.SELECTION, "wide": Takes.SELECTION},
        ),
        "equally_sensitive": Check(scan_checks.equally_sensitive, {**_ON, **_PAIRED}),
    }
)
"""Name to check."""
