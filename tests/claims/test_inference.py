"""Intervals and exact tests, against values worked out by hand or by scipy.stats, which the package does not use."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from normexp.claims import inference

NUMBERS = st.lists(st.integers(-50, 50).map(lambda number: number / 10), min_size=2, max_size=12)


def test_the_interval_of_a_mean() -> None:
    # mean 11/30 = 0.3667, std 0.11547, t(0.975, 2) = 4.3027, t(0.95, 2) = 2.9200: half 0.28684 and 0.19466
    values = [0.3, 0.3, 0.5]
    assert inference.mean_interval(values) == pytest.approx((0.07982, 0.65351), abs=1e-5)
    assert inference.mean_interval(values, 0.10) == pytest.approx((0.17200, 0.56133), abs=1e-5)


@given(NUMBERS, st.sampled_from([-0.5, 0.0, 0.3]))
def test_the_p_value_of_a_mean_agrees_with_scipy_and_with_its_interval(values: list[float], threshold: float) -> None:
    p_value = inference.t_test(values, threshold)
    if len(set(values)) > 1:
        reference = stats.ttest_1samp(values, threshold, alternative="greater").pvalue
        assert p_value == pytest.approx(reference, abs=1e-12)
    assert (2 * p_value < 0.05) == (inference.mean_interval(values).low > threshold)


def test_a_mean_without_variation_is_above_or_not() -> None:
    assert [inference.t_test([1.0, 1.0], threshold) for threshold in (0.9, 1.0, 1.1)] == [0.0, 1.0, 1.0]


def test_the_sign_test_counts_coins() -> None:
    # 5 of 6: (C(6, 5) + C(6, 6)) / 2^6 = 7 / 64
    assert inference.sign_test([1, 2, math.inf, 4, 5, -9], 0) == 7 / 64
    assert inference.sign_test([1] * 6, 0) == 1 / 64
    assert inference.sign_test([0, 0, 1], 0) == 7 / 8, "a value equal to the threshold counts against"
    assert inference.sign_test([-math.inf] * 3, 0) == 1.0
    # two-sided 2 / 2^n <= 0.05 from n = 6 on
    assert inference.fewest_for_sign_test() == 6


@given(st.integers(1, 30), st.data())
def test_the_interval_of_a_share_is_that_of_scipy(count: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, count))
    reference = stats.binomtest(hits, count).proportion_ci(0.95, method="exact")
    assert inference.share_interval(hits, count) == pytest.approx((reference.low, reference.high), abs=1e-9)


def test_the_interval_of_no_and_of_all_runs() -> None:
    # 1 - 0.025^(1/n): 0.7076 for n = 3, 0.4593 for n = 6
    assert inference.share_interval(0, 3) == pytest.approx((0, 1 - 0.025 ** (1 / 3)))
    assert inference.share_interval(6, 6) == pytest.approx((0.025 ** (1 / 6), 1))


def test_fisher_s_test() -> None:
    assert inference.fisher_test(3, 3, 0, 3) == 1 / 20, "C(6, 3) = 20 ways, one of them as extreme"
    for table in ((5, 6, 1, 6), (2, 3, 1, 3), (0, 3, 3, 3), (3, 3, 3, 3)):
        hits, count, other, other_count = table
        reference = stats.fisher_exact([[hits, count - hits], [other, other_count - other]], alternative="greater")
        assert inference.fisher_test(*table) == pytest.approx(reference.pvalue)


def test_holm_s_correction() -> None:
    # sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1, and never falling: 0.04, 0.06, 0.06, 0.06
    assert inference.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert inference.holm([1.0, 0.0, 0.5]) == [1.0, 0.0, 1.0]
    assert inference.holm([]) == []


def test_the_median_of_survival_with_censored_runs() -> None:
    assert inference.survival_median([30, 10, 20]) == 20, "S falls to 2/3, 1/3, 0"
    assert inference.survival_median([10, 20, math.inf, math.inf]) == 20, "S is exactly 1/2 after the second death"
    assert inference.survival_median([10, math.inf, math.inf]) == math.inf


def test_the_interval_of_the_median_is_that_of_two_ranks() -> None:
    # n = 12: P(X <= 2) = 79 / 4096 = 0.0193, P(X <= 3) = 299 / 4096 = 0.0730: ranks 3 and 10
    assert inference.survival_median_interval(range(1, 13)) == (3, 10)
    assert inference.survival_median_interval([*range(1, 8), *[math.inf] * 5]) == (3, math.inf)
    # n = 6: P(X = 0) = 1 / 64; n = 5: 1 / 32 > 0.025
    assert inference.survival_median_interval(range(1, 7)) == (1, 6)
    assert inference.survival_median_interval(range(1, 6)) == (0, math.inf)


@given(st.integers(6, 40))
def test_the_interval_of_the_median_covers_it(count: int) -> None:
    low, high = inference.survival_median_interval(range(1, count + 1))
    missed = float(stats.binom.cdf(low - 1, count, 0.5))
    assert high == count + 1 - low
    assert 2 * missed <= 0.05 < 2 * float(stats.binom.cdf(low, count, 0.5))
