"""The bisection: brackets contain the border, cost no more than promised, and findings follow from the verdicts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normexp.analysis.stability_edges import Finding, Number, Span, borders, finding, wanted

SPANS = st.one_of(
    st.builds(
        lambda low, decades, resolution: Span(low=low, high=low * 10**decades, resolution=resolution, whole=False),
        st.floats(1e-6, 1e3),
        st.floats(0.01, 8),
        st.floats(1.001, 20),
    ),
    st.builds(
        lambda low, length, resolution: Span(low=low, high=low + length, resolution=resolution, whole=True),
        st.integers(0, 1000),
        st.integers(1, 5000),
        st.integers(1, 100),
    ),
)


def between(span: Span, share: float) -> float:
    """Return the value at this share of the way from low to high."""
    if span.whole:
        return span.low + share * (span.high - span.low)
    return span.low * (span.high / span.low) ** share


def look(span: Span, truth: Callable[[Number], bool | None], seen: dict[Number, bool | None]) -> int:
    """Search until nothing is wanted, and return the number of values that were looked at."""
    before = len(seen)
    while new := wanted(span, seen):
        assert not set(new) & set(seen)
        assert all(span.low <= value <= span.high for value in new)
        seen |= {value: truth(value) for value in new}
        assert len(seen) < 10_000
    return len(seen) - before


@given(SPANS, st.floats(0, 1), st.booleans())
def test_a_threshold_is_bracketed_as_finely_as_asked(span: Span, share: float, good_is_low: bool) -> None:
    threshold = between(span, share)
    seen: dict[Number, bool | None] = {}
    count = look(span, lambda value: (value <= threshold) is good_is_low, seen)
    assert count <= span.most_values
    if seen[span.low] is seen[span.high]:
        assert finding(span, seen) in (Finding.EVERYWHERE, Finding.NOWHERE)
        assert threshold >= span.high
        return
    assert finding(span, seen) is Finding.BORDER
    ((low, high),) = borders(seen)
    assert low <= threshold < high
    assert high - low <= span.resolution if span.whole else high / low <= span.resolution * (1 + 1e-6)


@given(SPANS, st.randoms(use_true_random=False), st.floats(0, 0.3), st.floats(0, 1))
def test_any_truth_gives_no_false_claim(span: Span, random, unknown: float, likely: float) -> None:
    truth: dict[Number, bool | None] = {}

    def at(value: Number) -> bool | None:
        verdict = None if random.random() < unknown else random.random() < likely
        return truth.setdefault(value, verdict)

    seen: dict[Number, bool | None] = {}
    count = look(span, at, seen)
    assert seen == truth
    assert count <= span.most_values
    decided = [value for value in sorted(seen) if seen[value] is not None]
    for low, high in borders(seen):
        assert seen[low] is not seen[high]
        assert None not in (seen[low], seen[high])
        assert decided.index(high) == decided.index(low) + 1
    verdicts = {seen[value] for value in decided}
    found = finding(span, seen)
    if found is Finding.EVERYWHERE:
        assert verdicts == {True}
    if found is Finding.NOWHERE:
        assert verdicts == {False}
    if found is Finding.BORDER:
        assert seen[span.low] is not seen[span.high]
        assert sum(seen[low] is not seen[high] for low, high in pairwise(decided)) == 1
    if None in (seen[span.low], seen[span.high]):
        assert found is Finding.OPEN


@given(SPANS, st.floats(0.2, 0.8))
def test_a_finer_resolution_goes_on_from_the_coarse_one(span: Span, share: float) -> None:
    threshold = between(span, share)
    fine = Span(low=span.low, high=span.high, resolution=1 if span.whole else 1.001, whole=span.whole)

    def truth(value: Number) -> bool:
        return value <= threshold

    coarse: dict[Number, bool | None] = {}
    look(span, truth, coarse)
    direct: dict[Number, bool | None] = {}
    look(fine, truth, direct)
    look(fine, truth, coarse)
    if finding(fine, direct) is Finding.BORDER:
        assert coarse == direct


def test_two_equal_ends_are_no_claim_yet() -> None:
    span = Span(low=1e-5, high=1.0, resolution=1.5, whole=False)
    assert finding(span, {1e-5: True, 1.0: True}) is Finding.OPEN
    assert finding(Span(low=1, high=2, resolution=1, whole=True), {1: False, 2: False}) is Finding.NOWHERE


def test_middles_have_few_digits() -> None:
    span = Span(low=1e-5, high=1.0, resolution=1.5, whole=False)
    seen: dict[Number, bool | None] = {}
    look(span, lambda value: value < 0.0123, seen)
    assert sorted(seen) == [1e-05, 0.003, 0.012, 0.017, 0.024, 0.05, 1.0]
    assert span.grid_values == 30


@pytest.mark.parametrize(
    ("low", "high"), [(2e-4, 1.5e-3), (3e-5, 2.5e-4), (1.5e-2, 0.2), (1e-3, 2e-2)], ids=["middle", "low", "high", "mid"]
)
def test_a_window_between_equal_ends_is_found_with_both_borders(low: float, high: float) -> None:
    span = Span(low=1e-5, high=1.0, resolution=1.5, whole=False)
    seen: dict[Number, bool | None] = {}
    count = look(span, lambda value: low <= value <= high, seen)
    assert finding(span, seen) is Finding.SEVERAL
    (below, lowest), (highest, above) = borders(seen)
    assert below < low <= lowest <= highest <= high < above
    assert max(lowest / below, above / highest) <= 1.5 * (1 + 1e-9)
    assert count <= span.most_values < span.grid_values


def test_what_is_known_before_narrows_the_search_and_is_not_hidden() -> None:
    span = Span(low=1e-4, high=1.0, resolution=2.0, whole=False)
    known: dict[Number, bool | None] = {1e-3: True, 1e-2: False, 3e-2: True, 1e-1: False}
    count = look(span, lambda value: value < 5e-3 or 2e-2 < value < 4e-2, known)
    assert finding(span, known) is Finding.SEVERAL
    assert count == 5
    first, *middle, last = borders(known)
    assert first[0] < 5e-3 <= first[1] <= 2 * first[0]
    assert last[0] < 4e-2 <= last[1] <= 2 * last[0]
    assert middle == [(1e-2, 3e-2)]


def test_a_middle_without_a_verdict_ends_the_search_there() -> None:
    span = Span(low=1, high=9, resolution=1, whole=True)
    seen: dict[Number, bool | None] = {}
    look(span, lambda value: None if value == 5 else value < 5, seen)
    assert borders(seen) == [(1, 9)]
    assert finding(span, seen) is Finding.BORDER


def test_a_span_wider_than_numbers_go_is_counted() -> None:
    span = Span(low=1e-300, high=1e30, resolution=10.0, whole=False)
    assert (span.grid_values, span.most_values < 40) == (331, True)
