"""Axes: counts, ends and places, without building."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normexp.config.axes import Axis, build, listed
from normexp.config.run import KEYS
from normexp.schemes.network_config import Value


def made(builder: str, name: str, *numbers: str) -> Axis:
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
    axis = made(builder, name, *numbers.split())
    assert list(axis) == values
    assert axis.count == len(values)
    assert {type(value) for value in axis} == {KEYS[name].kind}


@pytest.mark.parametrize(
    ("builder", "name", "numbers", "words"),
    [
        ("logspace", "lr", "0 1 3", "above 0"),
        ("logspace", "warmup", "0 8 3", "no logarithm of 0"),
        ("logspace", "lr", "1e-4 1e-2", "takes three numbers, [first, last, count], not 2"),
        ("logspace", "lr", "1e-4 1e-2 2.5", "not a whole number"),
        ("logspace", "depth", "4 64 6", "not whole (6.964)"),
        ("logspace", "seed", "1 9e18 100", "not whole"),
        ("logspace", "lr", "1 2 1e12", "closer than 12 digits"),
        ("linspace", "lr", "0.1 0.3 0", "at least 1"),
        ("linspace", "lr", "0.1 0.3 1", "cannot both begin at 0.1 and end at 0.3"),
        ("linspace", "lr", "0.1 0.1 4", "gives one value 4 times"),
        ("linspace", "lr", "0.1 x 4", "'x' is not a number"),
        ("linspace", "depth", "1 4 3", "has a step of 1.5: they must be whole"),
        ("linspace", "lr", "1 1.000000000000001 100", "closer than a float"),
        ("range", "lr", "0.1 0.4 -0.1", "turn its sign"),
        ("range", "lr", "0.4 0.1 0.1", "turn its sign"),
        ("range", "lr", "0.1 0.4 0", "a step of 0"),
        ("range", "lr", "1 0 -0.5", "0.0 is out of range"),
        ("range", "lr", "0 1 0.5", "0.0 is out of range"),
        ("range", "depth", "1 10 0.5", "0.5 is not a whole number"),
        ("linspace", "norm", "1 2 3", "write a list"),
        ("range", "residual", "0 1 1", "write a list"),
    ],
)
def test_what_makes_no_axis(builder: str, name: str, numbers: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        made(builder, name, *numbers.split())


@pytest.mark.parametrize("numbers", [("linspace", "1e-5", "1", "1e12"), ("logspace", "1e-5", "1", "1e12")])
def test_a_huge_axis_is_known_without_being_built(numbers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    value = Axis.value
    monkeypatch.setattr(Axis, "value", lambda axis, index: built.append(index) or value(axis, index))
    axis = made(numbers[0], "lr", *numbers[1:])
    assert axis.count == 10**12
    assert axis.value(10**12 - 1) == 1.0
    assert 1e-5 < float(axis.value(1)) < float(axis.value(2)) < 1e-5 + 1e-9
    assert len(built) == 3


def test_places_beyond_what_a_sequence_can_hold() -> None:
    axis = made("range", "seed", "0", str(2**63 - 1), "1")
    assert axis.count == 2**63
    assert axis.value(2**63 - 2) == 2**63 - 2


def test_a_mapped_axis_is_as_lazy() -> None:
    axis = made("linspace", "lr", "1e-5", "1", "1e12").map(lambda value: float(value) * 2)
    assert axis.count == 10**12
    assert axis.value(10**12 - 1) == 2.0
    assert list(listed([1, 2]).map(lambda value: -value)) == [-1, -2]


positive = st.floats(1e-12, 1e12)


@given(builder=st.sampled_from(["logspace", "linspace"]), first=positive, last=positive, count=st.integers(2, 40))
def test_ends_are_what_was_typed_and_values_run_one_way(builder: str, first: float, last: float, count: int) -> None:
    try:
        axis = made(builder, "lr", repr(first), repr(last), str(count))
    except ValueError as error:
        assert "closer" in str(error) or "gives one value" in str(error)  # noqa: PT017
        return
    values = [float(value) for value in axis]
    assert (values[0], values[-1], len(values)) == (first, last, count)
    assert len(set(values)) == count
    assert values == sorted(values, reverse=first > last)
