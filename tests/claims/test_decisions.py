"""Rules that decide comparisons, and that they never contradict each other."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normexp.claims.claim import Decision
from normexp.claims.decisions import Difference, in_every_run, is_above, is_within
from normexp.claims.measures import Scale

FINITE = st.integers(-100, 100).map(lambda number: number / 20)
VALUES = st.lists(FINITE, min_size=1, max_size=12).map(tuple)
GAPS = st.builds(Difference, VALUES, mixed=st.booleans()) | st.builds(
    Difference, st.lists(FINITE | st.sampled_from([math.inf, -math.inf]), min_size=1, max_size=12).map(tuple)
)
LIMITS = st.sampled_from([0.0, 0.05, 0.5, 2.0])
WIDTHS = st.sampled_from([0.05, 0.5, 2.0])


@pytest.mark.parametrize(
    ("values", "by", "at_least", "decision", "why"),
    [
        ((0.3, 0.3, 0.5), 0.0, 0.0, "holds", ""),  # 0.367 (0.080 to 0.654)
        ((0.3, 0.3, 0.5), 0.36, 0.0, "holds", ""),
        ((0.3, 0.3, 0.5), 0.37, 0.0, "undecided", "by less than our threshold of 0.37"),
        ((0.3, 0.3, 0.5), 0.0, 0.37, "undecided", "by less than the text's own 0.37"),
        ((0.3, 0.3, 0.5), 0.0, 0.66, "refuted", "below the text's own 0.66"),
        ((0.3, 0.3, 0.5), 0.66, 0.0, "undecided", "our threshold of 0.66"),
        ((-0.3, -0.3, -0.5), 0.0, 0.0, "refuted", "it is below 0"),
        ((0.3, 0.3, 0.9), 0.0, 0.0, "undecided", "the interval contains 0"),  # 0.5 (-0.36 to 1.36)
        ((0.3,), 0.0, 0.0, "undecided", "one seed"),
    ],
)
def test_a_difference_above_0(values: tuple[float, ...], by: float, at_least: float, decision: str, why: str) -> None:
    ruling = is_above(Difference(values), by, at_least)
    assert ruling.decision == decision
    assert why in ruling.why
    assert bool(ruling.why) is (decision != "holds")


@pytest.mark.parametrize(
    ("within", "decision"),
    [
        # 0.02 with a 90 % interval of 0.0031 to 0.0369 and a 95 % interval of -0.0048 to 0.0448
        (0.037, "holds"),
        (0.036, "undecided"),
        (0.001, "undecided"),
    ],
)
def test_equivalence_by_two_one_sided_tests(within: float, decision: str) -> None:
    assert is_within(Difference((0.01, 0.02, 0.03)), -within, within).decision == decision


def test_the_90_percent_interval_is_named() -> None:
    assert is_within(Difference((0.01, 0.02, 0.03)), -0.036, 0.036).why == (
        "the 90 % interval, 0.003 to 0.037, is not inside"
    )


def test_equivalence_is_refuted_by_the_95_percent_interval() -> None:
    # 0.05 (0.0252 to 0.0748), 90 % interval 0.0331 to 0.0669
    gap = Difference((0.04, 0.05, 0.06))
    assert is_within(gap, -0.025, 0.025).decision is Decision.REFUTED
    assert is_within(gap, -0.026, 0.026).decision is Decision.UNDECIDED
    assert is_within(gap, -0.025, math.inf).decision is Decision.HOLDS
    assert is_within(Difference((-0.04, -0.05, -0.06)), -0.025, math.inf).decision is Decision.REFUTED


def test_without_an_interval_the_sign_test_decides() -> None:
    six = Difference((math.inf,) * 6)
    assert (is_above(six).decision, is_above(six).p_value) == (Decision.HOLDS, 2 / 64)
    five = is_above(Difference((math.inf,) * 5))
    assert (five.decision, "at least 6 seeds" in five.why) == (Decision.UNDECIDED, True)
    assert is_above(Difference((-0.1,) * 6, mixed=True)).decision is Decision.REFUTED
    # 10 of 12: 2 * 79 / 4096 = 0.0386; 9 of 12: 2 * 299 / 4096 = 0.146
    assert is_above(Difference((1.0,) * 10 + (-1.0,) * 2, mixed=True)).p_value == pytest.approx(0.03857, abs=1e-5)
    assert is_above(Difference((1.0,) * 9 + (-1.0,) * 3, mixed=True)).decision is Decision.UNDECIDED
    assert is_above(Difference((math.inf, *[0.05] * 5)), by=0.1).decision is Decision.UNDECIDED, "by the median"
    assert is_within(Difference((math.inf,) * 6), -0.1, math.inf).decision is Decision.HOLDS


def test_ratios_have_factors_as_intervals() -> None:
    gap = Difference((math.log(2), math.log(4), math.log(8)), Scale.LOG)
    # ln 4, std ln 2, half 4.3027 ln 2 / sqrt 3 = 1.7219: 4 / 5.595 to 4 * 5.595
    assert gap.text == "4 (0.715 to 22.4)"
    assert is_above(gap).why == "the interval contains 1"
    assert is_above(Difference((math.log(3.9), math.log(4), math.log(4.1)), Scale.LOG), by=3.9).decision == "holds"


def test_every_run_and_the_interval_must_agree() -> None:
    assert in_every_run(Difference((0.3, 0.3, 0.5))).decision is Decision.HOLDS
    assert in_every_run(Difference((0.3, 0.3, 0.9))).decision is Decision.UNDECIDED, "the interval contains 0"
    assert in_every_run(Difference((0.3, 0.3, -0.01))).decision is Decision.UNDECIDED
    assert in_every_run(Difference((-0.3, -0.3, -0.5))).decision is Decision.REFUTED
    assert in_every_run(Difference((math.inf, 0.1, 0.1))).decision is Decision.HOLDS, "a count, without a p-value"
    assert in_every_run(Difference((math.inf, 0.1, 0.1))).p_value is None


@given(GAPS, LIMITS, WIDTHS)
def test_a_comparison_never_both_holds_and_is_refuted(gap: Difference, by: float, within: float) -> None:
    mirrored = Difference(tuple(-value for value in gap.values), gap.scale, gap.mixed)
    above, below = is_above(gap, by), is_above(mirrored, by)
    assert (above.decision is Decision.HOLDS) <= (below.decision is Decision.REFUTED)
    assert not (above.decision is Decision.HOLDS and below.decision is Decision.HOLDS)
    both, no_worse = is_within(gap, -within, within), is_within(gap, -within, math.inf)
    if both.decision is Decision.HOLDS:
        assert no_worse.decision is Decision.HOLDS
        assert is_above(gap, at_least=within).decision is not Decision.HOLDS
    if no_worse.decision is Decision.REFUTED:
        assert both.decision is Decision.REFUTED
        assert below.decision is Decision.HOLDS or by > 0
    for ruling in (above, below, both, no_worse, in_every_run(gap)):
        assert ruling.p_value is None or 0 <= ruling.p_value <= (0.05 if ruling.decision is Decision.HOLDS else 1)


@given(GAPS, st.randoms(use_true_random=False), LIMITS)
def test_the_order_of_seeds_does_not_matter(gap: Difference, random: object, by: float) -> None:
    values = list(gap.values)
    random.shuffle(values)  # type: ignore[attr-defined]
    shuffled = Difference(tuple(values), gap.scale, gap.mixed)
    for decide in (lambda one: is_above(one, by), lambda one: is_within(one, -1.0, 1.0), in_every_run):
        assert decide(shuffled).decision is decide(gap).decision
