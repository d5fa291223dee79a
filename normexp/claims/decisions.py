"""Rules that decide a comparison: from differences over seeds to holds, refuted or undecided.

A difference has a 95 % t-interval, unless a value is infinite or a side mixes outcomes; then the exact sign test over
seeds takes its place. A comparison that neither holds nor is refuted is undecided, and says why.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from normexp.claims.claim import Decision
from normexp.claims.inference import LEVEL, Interval, fewest_for_sign_test, mean_interval, sign_test, t_test
from normexp.claims.measures import Scale


@dataclass(frozen=True, slots=True)
class Ruling:
    """A decision, the p-value of the test by which it would hold, and why it does not; empty if it holds."""

    decision: Decision
    p_value: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences of two sides by seed, or of one side and a number, on the scale of the measure.

    On a scale by ratio they are natural logarithms of ratios. `mixed` is True if a side mixes outcomes. `same_runs` is
    True if both sides consist of the same runs.
    """

    values: tuple[float, ...]
    scale: Scale = Scale.LINEAR
    mixed: bool = False
    same_runs: bool = False

    @property
    def middle(self) -> float:
        """The mean; the median if there is no interval; NaN for the mean of infinities with both signs."""
        if self.interval() is not None or len(self.values) == 1:
            return statistics.fmean(self.values)
        return statistics.median(self.values)

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Return the t-interval of the mean, with a coverage of 1 - `level`; None if there is none."""
        if len(self.values) < 2 or self.mixed or not all(map(math.isfinite, self.values)):
            return None
        return mean_interval(self.values, level)

    def p_above(self, threshold: float) -> float:
        """Return the one-sided p-value that the difference is above a threshold; 1 for a single seed."""
        return self._p(self.values, threshold)

    def p_below(self, threshold: float) -> float:
        """Return the one-sided p-value that the difference is below a threshold; 1 for a single seed."""
        return self._p([-value for value in self.values], -threshold)

    def _p(self, values: Iterable[float], threshold: float) -> float:
        numbers = list(values)
        if len(numbers) < 2:
            return 1.0
        return sign_test(numbers, threshold) if self.interval() is None else t_test(numbers, threshold)

    @property
    def text(self) -> str:
        """The difference or ratio with its 95 % interval in words, or its range over seeds if it has none."""
        if self.same_runs:
            return f"{self._number(self.middle)} (both sides are the same runs)"
        middle, interval = self._number(self.middle) or "undefined", self.interval()
        if interval is not None:
            return f"{middle} ({self._number(interval.low)} to {self._number(interval.high)})"
        if len(self.values) == 1:
            return middle
        ordered = sorted(self.values)
        ends = " to ".join(dict.fromkeys((self._number(ordered[0]), self._number(ordered[-1]))))
        above = sum(value > 0 for value in self.values)
        return f"{ends} by seed, {above} of {len(self.values)} above {self.zero}"

    @property
    def zero(self) -> str:
        """The value of no difference: 0, or a ratio of 1."""
        return "0" if self.scale is Scale.LINEAR else "1"

    def _number(self, number: float) -> str:
        return self.scale.text(self.scale.inverse(number))

    def no_interval(self, level: float = LEVEL) -> str:
        """Return what the sign test lacks, for a difference without an interval and a two-sided test at this level."""
        if len(self.values) < 2:
            return "one seed has no interval"
        fewest = fewest_for_sign_test(level)
        more = f", which needs at least {fewest} seeds" if len(self.values) < fewest else ""
        cause = "a side mixes outcomes" if self.mixed else "a number is infinite"
        return f"{cause}, so that the sign test over seeds decides{more}"


def is_above(gap: Difference, by: float = 0.0, at_least: float = 0.0) -> Ruling:
    """Decide whether a difference is above 0.

    It holds if its 95 % interval is above 0 and its mean at least `by`, a threshold of ours, or `at_least`, one that
    the text states. It is refuted if the interval is below 0, or below `at_least`. Thresholds are differences, or
    factors on a scale by ratio.
    """
    ours, stated = (gap.scale.number(limit) if limit else 0.0 for limit in (by, at_least))
    p_value = min(1.0, 2 * gap.p_above(0.0))
    above = p_value <= LEVEL
    if above and gap.middle >= max(ours, stated):
        return Ruling(Decision.HOLDS, p_value)
    if 2 * gap.p_below(0.0) <= LEVEL:
        return Ruling(Decision.REFUTED, p_value, f"it is below {gap.zero}")
    if stated > 0 and 2 * gap.p_below(stated) <= LEVEL:
        return Ruling(Decision.REFUTED, p_value, f"it is below the text's own {at_least:g}")
    if above:
        limit = f"our threshold of {by:g}" if gap.middle < ours else f"the text's own {at_least:g}"
        return Ruling(Decision.UNDECIDED, p_value, f"above {gap.zero}, but by less than {limit}")
    why = f"the interval contains {gap.zero}" if gap.interval() is not None else gap.no_interval()
    return Ruling(Decision.UNDECIDED, p_value, why)


def is_within(gap: Difference, low: float, high: float) -> Ruling:
    """Decide whether a difference lies between two limits, by two one-sided tests at 5 % each.

    It holds if its 90 % interval is inside, and is refuted if its 95 % interval is outside. An infinite limit makes it
    a test of non-inferiority. Limits are on the scale of the difference.
    """
    p_value = max(
        0.0 if math.isinf(low) else gap.p_above(low),
        0.0 if math.isinf(high) else gap.p_below(high),
    )
    if p_value <= LEVEL:
        return Ruling(Decision.HOLDS, p_value)
    if 2 * min(gap.p_below(low), gap.p_above(high)) <= LEVEL:
        return Ruling(Decision.REFUTED, p_value, "the 95 % interval is outside")
    interval = gap.interval(2 * LEVEL)
    if interval is None:
        return Ruling(Decision.UNDECIDED, p_value, gap.no_interval(2 * LEVEL))
    ends = " to ".join(gap.scale.text(gap.scale.inverse(end)) for end in interval)
    return Ruling(Decision.UNDECIDED, p_value, f"the 90 % interval, {ends}, is not inside")


def in_every_run(gap: Difference) -> Ruling:
    """Decide whether a difference is above 0 in every run, and its 95 % interval, if it has one, above 0, too.

    It is refuted if the difference is above 0 in no run, and the interval, if it has one, is below 0.
    """
    above, interval = sum(value > 0 for value in gap.values), gap.interval()
    p_value = None if interval is None else min(1.0, 2 * gap.p_above(0.0))
    if above == len(gap.values) and (interval is None or interval.low > 0):
        return Ruling(Decision.HOLDS, p_value)
    if above == 0 and (interval is None or interval.high < 0 or interval.low == interval.high):
        return Ruling(Decision.REFUTED, p_value, "so in no run")
    if 0 < above < len(gap.values):
        return Ruling(Decision.UNDECIDED, p_value, f"so in {above} of {len(gap.values)} runs")
    return Ruling(
        Decision.UNDECIDED, p_value, f"so in {'every' if above else 'no'} run, but the interval is on both sides"
    )
