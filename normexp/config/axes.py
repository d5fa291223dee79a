"""Axes: the values of one config key, computed by index, so that a long axis is never built in memory."""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from normexp.config.keys import Key
from normexp.schemes.network_config import Value

BUILDERS = {"logspace": "[first, last, count]", "linspace": "[first, last, count]", "range": "[start, stop, step]"}
"""The axis builders, each with its three arguments."""
DIGITS = 12
"""Significant digits of the inner values of a logspace. Rounding keeps run ids independent of the last bit."""
STOP_TOLERANCE = Fraction(1, 10**9)
"""A range includes its stop if it misses it by at most this fraction of a step."""

_NUMBER = Key(kind=float, default=0.0, neutral=0.0, help="")
_WHOLE = Key(kind=int, default=0, neutral=0, help="")
_COUNT = Key(kind=int, default=1, neutral=1, help="", low=1, high=2**63 - 1)
_CONTEXT = decimal.Context(prec=40, Emin=-9999, Emax=9999)


@dataclass(frozen=True, slots=True)
class Axis:
    """`count` values; `at(i)` computes the i-th, counted from 0."""

    count: int
    at: Callable[[int], Value]

    def value(self, index: int) -> Value:
        """Return the value at an index, 0 <= index < count."""
        return self.at(index)

    def __iter__(self) -> Iterator[Value]:
        return (self.value(index) for index in range(self.count))

    def map(self, change: Callable[[Value], Value]) -> Axis:
        """Return this axis with `change` applied to each value."""
        return Axis(self.count, lambda index: change(self.value(index)))


def listed(values: Sequence[Value]) -> Axis:
    """Return the axis of the given values."""
    fixed = tuple(values)
    return Axis(len(fixed), fixed.__getitem__)


def build(builder: str, key: Key, texts: Sequence[str]) -> Axis:
    """Return the axis of `{builder: [texts]}`. Its end values are exactly those typed.

    Raises ValueError with the correct form.
    """
    if key.choices is not None or key.kind is bool:
        raise ValueError(f"{builder} makes numbers, but the values of this key are {key.limits()}: write a list")
    if len(texts) != 3:
        raise ValueError(f"{builder} takes three numbers, {BUILDERS[builder]}, not {len(texts)}")
    if builder == "range":
        return _range(key, *texts)
    first, last, count = key.parse(texts[0]), key.parse(texts[1]), int(_COUNT.parse(texts[2]))
    if count == 1:
        if first != last:
            raise ValueError(f"{builder} with a count of 1 cannot start at {first} and end at {last}")
        return listed([first])
    if first == last:
        raise ValueError(f"{builder} from {first} to {last} gives the same value {count} times: write {first}")
    if builder == "linspace":
        return _linspace(key, first, last, count)
    return _logspace(key, first, last, count)


def _exact(value: Value) -> Fraction:
    """Return the number that the decimal digits denote, not its binary approximation: 0.1 is one tenth."""
    return Fraction(repr(value))


def _number(key: Key, exact: Fraction) -> Value:
    return int(exact) if key.kind is int else float(exact)


def _linspace(key: Key, first: Value, last: Value, count: int) -> Axis:
    start, step = _exact(first), (_exact(last) - _exact(first)) / (count - 1)
    if key.kind is int and step.denominator != 1:
        raise ValueError(
            f"linspace of {count} values from {first} to {last} has a step of {float(step):.4g}:"
            " this key takes whole numbers"
        )
    _check_apart(key, first, last, count, step)
    return Axis(count, _between(first, last, count, lambda index: _number(key, start + index * step)))


def _logspace(key: Key, first: Value, last: Value, count: int) -> Axis:
    for end in (first, last):
        if float(end) <= 0:
            raise ValueError(f"logspace cannot include {end}: both ends must be above 0")
    low, high = (_CONTEXT.ln(decimal.Decimal(repr(end))) for end in (first, last))
    if abs(high - low) / (count - 1) < 10 ** (1 - DIGITS):
        raise ValueError(f"{count} values from {first} to {last} differ only beyond {DIGITS} significant digits")

    def inner(index: int) -> Value:
        power = _CONTEXT.add(low, _CONTEXT.multiply(_CONTEXT.subtract(high, low), index) / (count - 1))
        number = float(f"{_CONTEXT.exp(power):.{DIGITS}g}")
        return int(number) if key.kind is int and number == int(number) else number

    axis = Axis(count, _between(first, last, count, inner))
    if key.kind is int:
        # At most 63 whole numbers below 2^63 form a geometric series, so a longer one cannot be whole throughout.
        broken = [value for value in itertools.islice(axis, 64) if value != int(value)]
        if broken or count > 64:
            example = f" ({broken[0]:.4g})" if broken else ""
            raise ValueError(f"logspace of {count} values from {first} to {last} gives fractions{example}")
    return axis


def _range(key: Key, *texts: str) -> Axis:
    kind = _WHOLE if key.kind is int else _NUMBER
    first, stop, step = (kind.parse(text) for text in texts)
    key.check(first)
    if step == 0:
        raise ValueError("range has a step of 0")
    steps = (_exact(stop) - _exact(first)) / _exact(step)
    if steps < 0:
        raise ValueError(f"range from {first} never reaches {stop} with a step of {step}: change the sign of the step")
    whole = round(steps)
    hits_stop = abs(steps - whole) <= STOP_TOLERANCE
    count = (whole if hits_stop else math.floor(steps)) + 1
    start, stride = _exact(first), _exact(step)
    last = stop if hits_stop and count > 1 else _number(key, start + (count - 1) * stride)
    key.check(last)
    _check_apart(key, first, last, count, stride)
    return Axis(count, _between(first, last, count, lambda index: _number(key, start + index * stride)))


def _between(first: Value, last: Value, count: int, inner: Callable[[int], Value]) -> Callable[[int], Value]:
    """Return a function of the index: the typed value at both ends, `inner` between them."""

    def at(index: int) -> Value:
        return first if index == 0 else last if index == count - 1 else inner(index)

    return at


def _check_apart(key: Key, first: Value, last: Value, count: int, step: Fraction) -> None:
    if key.kind is float and abs(step) < 2 * Fraction(math.ulp(max(abs(float(first)), abs(float(last))))):
        raise ValueError(f"{count} values from {first} to {last} are too close to differ as floats")
