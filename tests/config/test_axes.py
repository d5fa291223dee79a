"""Axes: counts, end values and indexing, without building them."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normexp.config.axes import Axis, build, listed
from normexp.config.run import KEYS
from normexp.schemes.network_config import Value


def axis_of(builder: str, name: str, *numbers: str) -> Axis:
    return build(builder, KEYS[name], numbers)


@pytest.mark.parametrize(
    ("builder", "name", "numbers", "values"),
    [
        ("logspace", "lr", "1e-4 1e-2 5", [1e-4, 0.000316227766017, 1e-3, 0.00316227766017, 1e-2]),
        ("logspace", "lr", "1e-2 1e-4 3", [1e-2, 1e-3, 1e-4]),
        ("logspace", "depth", "4 64 5", [4, 8, 16, 32, 64]),
        ("range", "lr", "0.1 0.4 0.1", [0.1, 0.2, 0.3, 0.4]),
        ("range", "lr", "1.3 0 -0.5", [1.3, 0.8, 0.3]),
        ("range", "lr", "0.1 0.1 1", [0.1]),
        ("range", "lr", "0.25 1 0.374999999999", [0.25, 0.624999999999, 1.0]),
        ("range", "depth", "1 10 4", [1, 5, 9]),
        ("range", "depth", "1 1e1 3.0", [1, 4, 7, 10]),
        ("range", "seed", "9223372036854775805 9223372036854775807 1", [2**63 - 3, 2**63 - 2, 2**63 - 1]),
        ("linspace", "lr", "0.1 0.3 3", [0.1, 0.2, 0.3]),
        ("linspace", "lr", "0.1 0.1 1", [0.1]),
        ("linspace", "warmup", "0 300 4", [0, 100, 200, 300]),
    ],
)
def test_values(builder: str, name: str, numbers: str, values: list[Value]) -> None:
    axis = axis_of(builder, name, *numbers.split())
    assert list(axis) == values
    assert axis.count == len(values)
    assert {type(value) for value in axis} == {KEYS[name].kind}


@pytest.mark.parametrize(
    ("builder", "name", "numbers", "fact"),
    [
        ("logspace", "lr", "0 1 3", "above 0"),
        ("logspace", "warmup", "0 8 3", "above 0"),
        ("logspace", "lr", "1e-4 1e-2", "[first, last, count]"),
        ("logspace", "lr", "1e-4 1e-2 2.5", "2.5"),
        ("logspace", "depth", "4 64 6", "6.964"),
        ("logspace", "seed", "1 9e18 100", "100 values"),
        ("logspace", "lr", "1 2 1e12", "12"),
        ("linspace", "lr", "0.1 0.3 0", "at least 1"),
        ("linspace", "lr", "0.1 0.3 1", "0.3"),
        ("linspace", "lr", "0.1 0.1 4", "write 0.1"),
        ("linspace", "lr", "0.1 x 4", "'x'"),
        ("linspace", "depth", "1 4 3", "1.5"),
        ("linspace", "lr", "1 1.000000000000001 100", "100 values"),
        ("range", "lr", "0.1 0.4 -0.1", "sign"),
        ("range", "lr", "0.4 0.1 0.1", "sign"),
        ("range", "lr", "0.1 0.4 0", "a step of 0"),
        ("range", "lr", "1 0 -0.5", "0.0"),
        ("range", "lr", "0 1 0.5", "0.0"),
        ("range", "depth", "1 10 0.5", "0.5"),
        ("linspace", "norm", "1 2 3", "write a list"),
        ("range", "residual", "0 1 1", "write a list"),
    ],
)
def test_invalid_axes_are_rejected(builder: str, name: str, numbers: str, fact: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fact)):
        axis_of(builder, name, *numbers.split())


@pytest.mark.parametrize("builder", ["linspace", "logspace"])
def test_a_huge_axis_is_not_built(builder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    value = Axis.value
    monkeypatch.setattr(Axis, "value", lambda axis, index: built.append(index) or value(axis, index))
    axis = axis_of(builder, "lr", "1e-5", "1", "1e12")
    assert axis.count == 10**12
    assert axis.value(10**12 - 1) == 1.0
    assert 1e-5 < float(axis.value(1)) < float(axis.value(2)) < 1e-5 + 1e-9
    assert len(built) == 3


def test_a_count_beyond_the_length_of_a_sequence() -> None:
    axis = axis_of("range", "seed", "0", str(2**63 - 1), "1")
    assert axis.count == 2**63
    assert axis.value(2**63 - 2) == 2**63 - 2


def test_a_mapped_axis_is_lazy() -> None:
    axis = axis_of("linspace", "lr", "1e-5", "1", "1e12").map(lambda value: float(value) * 2)
    assert axis.count == 10**12
    assert axis.value(10**12 - 1) == 2.0
    assert list(listed([1, 2]).map(lambda value: -value)) == [-1, -2]


positive = st.floats(1e-12, 1e12)


@given(builder=st.sampled_from(["logspace", "linspace"]), first=positive, last=positive, count=st.integers(2, 40))
def test_end_values_are_exact_and_values_are_monotonic(builder: str, first: float, last: float, count: int) -> None:
    try:
        axis = axis_of(builder, "lr", repr(first), repr(last), str(count))
    except ValueError:
        assert math.isclose(first, last, rel_tol=1e-9)
        return
    values = [float(value) for value in axis]
    assert (values[0], values[-1], len(values)) == (first, last, count)
    assert len(set(values)) == count
    assert values == sorted(values, reverse=first > last)
