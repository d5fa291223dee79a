"""Bars and curves of block characters."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normexp.terminal.live import bar, levels, sparkline


def test_levels_are_logarithmic_and_mark_nonfinite_values() -> None:
    drawn = levels([0.0, 0.1, 1.0, 1e3, 1e5, 1e30, math.inf, math.nan], 0.1, 1e5)
    assert drawn[0] == drawn[1] == "▁"
    assert drawn[:6] == "".join(sorted(drawn[:6]))
    assert drawn[2] < drawn[3] < drawn[4]
    assert drawn[4:6] == "██"
    assert drawn[6:] == "!!"


@pytest.mark.parametrize("unicode", [True, False])
def test_a_curve_goes_from_its_lowest_to_its_highest(unicode: bool) -> None:
    ends = "▁█" if unicode else "_#"
    assert sparkline([1.0, 2.0], 16, unicode=unicode) == ends
    assert sparkline([3.0, 3.0, 3.0], 16, unicode=unicode) == ends[0] * 3
    assert sparkline([1.0, math.nan, 2.0], 16, unicode=unicode) == f"{ends[0]}!{ends[1]}"
    assert sparkline([], 16, unicode=unicode) == ""


def test_a_curve_over_decades_is_logarithmic() -> None:
    assert sparkline([1.0, 1e3, 1e6], 3)[1] not in "▁█"
    assert sparkline([-1.0, 1e3, 1e6], 3)[1] == "▁"


@given(st.lists(st.floats(), max_size=50), st.integers(0, 20))
def test_any_curve_has_the_given_width(values: list[float], width: int) -> None:
    assert len(sparkline(values, width)) == min(len(values), width)


@given(st.floats(), st.integers(1, 30), st.booleans())
def test_any_bar_fits(value: float, width: int, unicode: bool) -> None:
    assert len(bar(value, 0.1, 1e5, width, unicode=unicode)) <= width


def test_a_bar_grows_by_eighths() -> None:
    assert bar(0.1, 0.1, 1e3, 4) == ""
    assert bar(10.0, 0.1, 1e3, 4) == "██"
    assert bar(10.0 * 10**0.5, 0.1, 1e3, 4) == "██▌"
    assert bar(1e9, 0.1, 1e3, 4) == "████"
    assert bar(math.nan, 0.1, 1e3, 4) == "!!!!"
