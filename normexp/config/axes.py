"""An axis: the values that one key takes, known by count and by place, so that a long one is never built."""

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
"""Names of the axis builders, and the three numbers that each takes."""
DIGITS = 12
"""Significant digits of what lies between the ends of a logspace, so that ids do not hang on the last bit."""
LANDS = Fraction(1, 10**9)
"""A range lands on its stop when it misses it by at most this share of a step."""

_NUMBER = Key(kind=float, default=0.0, neutral=0.0, help="")
_WHOLE = Key(kind=int, default=0, neutral=0, help="")
_COUNT = Key(kind=int, default=1, neutral=1, help="", low=1, high=2**63 - 1)
_CONTEXT = decimal.Context(prec=40, Emin=-9999, Emax=9999)


@dataclass(frozen=True, slots=True)
class Axis:
    """`count` values, of which `at(i)` gives the i-th (from 0), made when asked for."""

    count: int
    at: Callable[[int], Value]

    def value(self, index: int) -> Value:
        """The value at a place, 0 <= index < count."""
        return self.at(index)

    def __iter__(self) -> Iterator[Value]:
        return (self.value(index) for index in range(self.count))

    def map(self, change: Callable[[Value], Value]) -> Axis:
        """The same axis with each value changed."""
        return Axis(self.count, lambda index: change(self.value(index)))


def listed(values: Sequence[Value]) -> Axis:
    """The axis of the values as they stand."""
    fixed = tuple(values)
    return Axis(len(fixed), fixed.__getitem__)


def build(builder: str, key: Key, texts: Sequence[str]) -> Axis:
    """The axis of `{builder: [texts]}`. Its ends are what was typed. Raises ValueError with what to write."""
    if key.choices is not None or key.kind is bool:
        raise ValueError(f"{builder} makes numbers, but the values are {key.limits()}: write a list")
    if len(texts) != 3:
        raise ValueError(f"{builder} takes three numbers, {BUILDERS[builder]}, not {len(texts)}")
    if builder == "range":
        return _range(key, *texts)
    first, last, count = key.parse(texts[0]), key.parse(texts[1]), int(_COUNT.parse(texts[2]))
    if count == 1:
        if first != last:
            raise ValueError(f"{builder} of one value cannot both begin at {first} and end at {last}")
        return listed([first])
    if first == last:
        raise ValueError(f"{builder} from {first} to {last} gives one value {count} times: write {first}")
    if builder == "linspace":
        return _linspace(key, first, last, count)
    return _logspace(key, first, last, count)


def _exact(value: Value) -> Fraction:
    """The number as its decimal digits say, not as binary holds it: 0.1 is one tenth."""
    return Fraction(repr(value))


def _number(key: Key, exact: Fraction) -> Value:
    return int(exact) if key.kind is int else float(exact)


def _linspace(key: Key, first: Value, last: Value, count: int) -> Axis:
    start, step = _exact(first), (_exact(last) - _exact(first)) / (count - 1)
    if key.kind is int and step.denominator != 1:
        raise ValueError(
            f"linspace of {count} values from {first} to {last} has a step of {float(step):.4g}: they must be whole"
        )
    _check_apart(key, first, last, count, step)
    return Axis(count, _between(first, last, count, lambda index: _number(key, start + index * step)))


def _logspace(key: Key, first: Value, last: Value, count: int) -> Axis:
    for end in (first, last):
        if float(end) <= 0:
            raise ValueError(f"logspace has no logarithm of {end}: both ends must be above 0")
    low, high = (_CONTEXT.ln(decimal.Decimal(repr(end))) for end in (first, last))
    if abs(high - low) / (count - 1) < 10 ** (1 - DIGITS):
        raise ValueError(f"{count} values from {first} to {last} are closer than {DIGITS} digits can tell apart")

    def inner(index: int) -> Value:
        power = _CONTEXT.add(low, _CONTEXT.multiply(_CONTEXT.subtract(high, low), index) / (count - 1))
        number = float(f"{_CONTEXT.exp(power):.{DIGITS}g}")
        return int(number) if key.kind is int and number == int(number) else number

    axis = Axis(count, _between(first, last, count, inner))
    if key.kind is int:
        # whole numbers below 2^63 in constant ratio are at most 63: more of them cannot all be whole
        broken = [value for value in itertools.islice(axis, 64) if value != int(value)]
        if broken or count > 64:
            example = f" ({broken[0]:.4g})" if broken else ""
            raise ValueError(f"logspace of {count} values from {first} to {last} has some that are not whole{example}")
    return axis


def _range(key: Key, *texts: str) -> Axis:
    kind = _WHOLE if key.kind is int else _NUMBER
    first, stop, step = (kind.parse(text) for text in texts)
    key.check(first)
    if step == 0:
        raise ValueError("range has a step of 0")
    steps = (_exact(stop) - _exact(first)) / _exact(step)
    if steps < 0:
        raise ValueError(f"range from {first} never reaches {stop} with a step of {step}: turn its sign")
    whole = round(steps)
    lands = abs(steps - whole) <= LANDS
    count = (whole if lands else math.floor(steps)) + 1
    start, stride = _exact(first), _exact(step)
    last = stop if lands and count > 1 else _number(key, start + (count - 1) * stride)
    key.check(last)
    _check_apart(key, first, last, count, stride)
    return Axis(count, _between(first, last, count, lambda index: _number(key, start + index * stride)))


def _between(first: Value, last: Value, count: int, inner: Callable[[int], Value]) -> Callable[[int], Value]:
    """What was typed at both ends, `inner` between them."""

    def at(index: int) -> Value:
        return first if index == 0 else last if index == count - 1 else inner(index)

    return at


def _check_apart(key: Key, first: Value, last: Value, count: int, step: Fraction) -> None:
    if key.kind is float and abs(step) < 2 * Fraction(math.ulp(max(abs(float(first)), abs(float(last))))):
        raise ValueError(f"{count} values from {first} to {last} are closer than a float can tell apart")
