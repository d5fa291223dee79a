"""Intervals and tests that decide claims: pure functions of numbers over seeds.

Where a t-interval would be wrong (a number is infinite, or a cell mixes outcomes), an exact sign test takes its place.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

LEVEL = 0.05
"""A two-sided test rejects at this level: its 95 % interval excludes the tested value."""


class Interval(NamedTuple):
    """Both ends of an interval; infinite where there is no bound."""

    low: float
    high: float


def fewest_for_sign_test(level: float = LEVEL) -> int:
    """Return the fewest pairs with which the two-sided sign test can reach this level: 6 at 5 %."""
    return math.ceil(math.log2(2 / level))


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the t-interval of the mean of at least two finite values, with a coverage of 1 - `level`."""
    from scipy.special import stdtrit

    mean = statistics.fmean(values)
    half = float(stdtrit(len(values) - 1, 1 - level / 2)) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean - half, mean + half)


def t_test(values: Sequence[float], threshold: float) -> float:
    """Return the one-sided p-value of Student's test that the mean of at least two values is above a threshold."""
    from scipy.special import stdtr

    distance = statistics.fmean(values) - threshold
    error = statistics.stdev(values) / math.sqrt(len(values))
    if error == 0 or math.isinf(distance):
        return 0.0 if distance > 0 else 1.0
    return float(stdtr(len(values) - 1, -distance / error))


def sign_test(values: Sequence[float], threshold: float) -> float:
    """Return the exact one-sided p-value that the median is above a threshold: P(X >= k) of n fair coins.

    k counts the values above the threshold. Values equal to it count against.
    """
    above, count = sum(value > threshold for value in values), len(values)
    return float(sum(math.comb(count, k) for k in range(above, count + 1)) / 2**count)


def share_interval(hits: int, count: int, level: float = LEVEL) -> Interval:
    """Return the exact interval of a binomial share (Clopper and Pearson 1934), with a coverage of 1 - `level`."""
    from scipy.special import betaincinv

    low = float(betaincinv(hits, count - hits + 1, level / 2)) if hits else 0.0
    high = float(betaincinv(hits + 1, count - hits, 1 - level / 2)) if hits < count else 1.0
    return Interval(low, high)


def fisher_test(hits: int, count: int, other_hits: int, other_count: int) -> float:
    """Return the exact one-sided p-value (Fisher) that the first share of hits is larger than the second."""
    total = hits + other_hits
    ways = sum(math.comb(count, k) * math.comb(other_count, total - k) for k in range(hits, min(count, total) + 1))
    return ways / math.comb(count + other_count, total)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values after Holm's correction (1979) for a family of tests, in the given order."""
    adjusted, highest = [1.0] * len(p_values), 0.0
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = highest
    return adjusted


def survival_median(steps: Sequence[float]) -> float:
    """Return the Kaplan-Meier median of steps of death: the first step by which half of the runs are dead.

    Runs that survive are censored at the end and have an infinite step. As they are censored after every death, the
    estimate of survival after a death is the share of runs that are still alive. Infinite if fewer than half die.
    """
    ordered = sorted(steps)
    return ordered[math.ceil(len(ordered) / 2) - 1]


def survival_median_interval(steps: Sequence[float], level: float = LEVEL) -> Interval:
    """Return an interval of the median step of death from order statistics, with a coverage of at least 1 - `level`.

    Its ends are the steps of rank r and n + 1 - r, for the largest r with P(X < r) <= level / 2 of n fair coins. The
    lower end is 0 and the upper infinite if there is no such rank. Runs that survive have an infinite step.
    """
    ordered, count = sorted(steps), len(steps)
    rank, below = 0, 1 / 2**count
    while below <= level / 2:
        rank += 1
        below += math.comb(count, rank) / 2**count
    if rank == 0:
        return Interval(0.0, math.inf)
    return Interval(ordered[rank - 1], ordered[count - rank])
