"""Format values, losses and combinations of values for people (never for data files)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

from normexp.config.keys import as_typed
from normexp.schemes.network_config import Value

DIGITS: Mapping[str, int] = {"lr": 3}
"""Significant digits shown for a key, if they distinguish its values."""
USUAL_DIGITS = 6
"""The same for all other keys."""
MOST_DIGITS = 17
"""Significant digits that distinguish any two floats."""
NEAR, NOISE = 1e-6, 1e-12
"""Relative differences. A label misleads if it reads as a number that differs from its value by more than NOISE
(float64 rounding) and at most NEAR: `0.001` for the float32 nearest to it. Larger differences are visible rounding."""

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, bidirectional formatting and surrogates, but not the newline."""


def shown(text: str) -> str:
    """Return the text with tabs as spaces and other control characters as the replacement character."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\t", " "))


class Labels:
    """Labels of the values of each key. Floats get as many digits as it takes to distinguish the key's values.

    `values_of` returns the values of a key that must be distinguishable.
    """

    def __init__(self, values_of: Callable[[str], Iterable[Value]] = lambda key: ()) -> None:
        self._values_of = values_of
        self._texts: dict[str, dict[float, str]] = {}

    @classmethod
    def among(cls, settings: Iterable[Mapping[str, Value]]) -> Labels:
        """Return labels for the values in these mappings of keys to values."""
        known = tuple(settings)
        return cls(lambda key: [values[key] for values in known if key in values])

    def text(self, key: str, value: Value) -> str:
        """Return the label of a value: Booleans as in YAML, learning rates with three significant digits or more."""
        if not isinstance(value, float):
            return as_typed(value)
        if key not in self._texts:
            self._texts[key] = _distinct(key, (value for value in self._values_of(key) if isinstance(value, float)))
        known = self._texts[key]
        return known[value] if value in known else _distinct(key, [*known, value])[value]

    def matching(self, key: str, wanted: Value) -> list[Value]:
        """Return the values of a key that equal `wanted`, or else those whose label reads as `wanted`."""
        values = list(dict.fromkeys(self._values_of(key)))
        equal = [value for value in values if value == wanted]
        if equal or not isinstance(wanted, float):
            return equal
        return [value for value in values if isinstance(value, float) and float(self.text(key, value)) == wanted]


ALONE = Labels()
"""Labels for values shown without other values of their key."""


def exact_text(value: float) -> str:
    """Return the fewest digits that read back as this number, without a decimal point for whole numbers."""
    return _rounded(value, MOST_DIGITS, USUAL_DIGITS)


def _distinct(key: str, values: Iterable[float]) -> dict[float, str]:
    """Return a label for each value. Labels are unique, and none reads as a number close but not equal to its value."""
    least = DIGITS.get(key, USUAL_DIGITS)
    alike: dict[str, list[float]] = {}
    for value in dict.fromkeys(values):
        alike.setdefault(_rounded(value, least, least), []).append(value)
    return {value: text for group in alike.values() for value, text in _with_digits(group, least).items()}


def _with_digits(values: Sequence[float], least: int) -> dict[float, str]:
    """Return distinct labels, all with the same number of digits, for values that agree in their first digits."""
    for digits in range(least, MOST_DIGITS):
        texts = {value: _rounded(value, digits, least) for value in values}
        differ = len(set(map(float, texts.values()))) == len(values)
        if differ and not any(_misleads(value, text, digits) for value, text in texts.items()):
            return texts
    return {value: _rounded(value, MOST_DIGITS, least) for value in values}


def _rounded(value: float, digits: int, least: int) -> str:
    """Format a number with `digits` significant digits, or with fewer (at least `least`) that read back equal."""
    value += 0.0  # turns -0.0 into 0.0
    enough = max(_significant(value), least)
    text = f"{value:.{min(digits, enough)}g}"
    reads_back = digits < enough or float(text) == value  # repr and format can resolve a tie differently
    return text if reads_back else f"{value:.{MOST_DIGITS}g}"


def _significant(value: float) -> int:
    return len(Decimal(repr(value)).normalize().as_tuple().digits)


def _misleads(value: float, text: str, digits: int) -> bool:
    """Return whether a label looks exact but reads as another number close to the value."""
    read = float(text)
    near = math.isclose(read, value, rel_tol=NEAR) and not math.isclose(read, value, rel_tol=NOISE)
    return near and _significant(read) < digits


def value_text(key: str, value: Value) -> str:
    """Return the label of a value that is shown without other values of its key; see `Labels`."""
    return ALONE.text(key, value)


def values_text(values: Mapping[str, Value], labels: Labels = ALONE) -> str:
    """Return `position post, lr 0.003`. A non-empty label comes first, without a key."""
    named = [f"{key} {labels.text(key, value)}" for key, value in values.items() if key != "label"]
    label = values.get("label")
    return ", ".join([str(label), *named] if label else named)


def heading(keys: Sequence[str], values: Sequence[Value], labels: Labels = ALONE) -> str:
    """Return the values joined by commas, with their keys except for words that are clear alone, such as a norm."""
    texts = []
    for key, value in zip(keys, values, strict=True):
        text = labels.text(key, value)
        speaks = isinstance(value, str) and value != "none" and not key.endswith("_norm")
        texts.append(text if key == "norm" or speaks else f"{key} {text}")
    return ", ".join(texts)


def loss_text(loss: float, digits: int = 3) -> str:
    """Return a loss in nats with fixed digits below 100, else with three significant digits; empty for NaN."""
    if math.isnan(loss):
        return ""
    return f"{loss:z.{digits}f}" if abs(loss) < 100 else f"{loss:.3g}"


def range_text(numbers: Iterable[int]) -> str:
    """Return the range of the numbers: `12` or `12–33`, empty for none."""
    ordered = sorted(set(numbers))
    return "" if not ordered else str(ordered[0]) if len(ordered) == 1 else f"{ordered[0]}–{ordered[-1]}"


def duration(seconds: float) -> str:
    """Return a duration as `1:05` or `2:03:04`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 run`, `2 runs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(items: Sequence[str]) -> str:
    """Return a list in words: `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
