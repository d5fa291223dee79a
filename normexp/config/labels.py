"""How values, losses and combinations of values are written where people read them (never in data)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

from normexp.config.keys import as_typed
from normexp.schemes.network_config import Value

DIGITS: Mapping[str, int] = {"lr": 3}
"""Significant digits of a key's values, where these digits tell its values apart."""
USUAL_DIGITS = 6
"""The same for every other key."""
MOST_DIGITS = 17
"""Significant digits that tell any two floats apart."""
NEAR, NOISE = 1e-6, 1e-12
"""Relative differences. `0.001` is a wrong label for a value that differs from it by more than NOISE and at most NEAR,
such as the float32 nearest to 0.001. A larger difference is visible rounding; a smaller one is float64 rounding."""

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What would steer a terminal, turn the direction of writing, or has no glyph; a new line is none of it."""


def shown(text: str) -> str:
    """A text as it may be put before people: tabs as spaces, other control characters as the replacement character."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\t", " "))


class Labels:
    """How people see the values of each key: floats have as many digits as their key's values need to differ.

    `values_of` gives the values of a key among which a value must be told apart.
    """

    def __init__(self, values_of: Callable[[str], Iterable[Value]] = lambda key: ()) -> None:
        self._values_of = values_of
        self._texts: dict[str, dict[float, str]] = {}

    @classmethod
    def among(cls, settings: Iterable[Mapping[str, Value]]) -> Labels:
        """Labels for the values in these mappings of keys to values."""
        known = tuple(settings)
        return cls(lambda key: [values[key] for values in known if key in values])

    def text(self, key: str, value: Value) -> str:
        """The label of a value: Booleans as in YAML, learning rates with three significant digits or more."""
        if not isinstance(value, float):
            return as_typed(value)
        if key not in self._texts:
            self._texts[key] = _distinct(key, (one for one in self._values_of(key) if isinstance(one, float)))
        known = self._texts[key]
        return known[value] if value in known else _distinct(key, [*known, value])[value]

    def matching(self, key: str, wanted: Value) -> list[Value]:
        """The values of a key that equal the wanted one; if there are none, those whose label reads as it."""
        values = list(dict.fromkeys(self._values_of(key)))
        equal = [value for value in values if value == wanted]
        if equal or not isinstance(wanted, float):
            return equal
        return [value for value in values if isinstance(value, float) and float(self.text(key, value)) == wanted]


ALONE = Labels()
"""Labels for values that stand beside no other value of their key."""


def exact_text(value: float) -> str:
    """The fewest digits that read back as this number; no decimal point after a whole number."""
    return _rounded(value, MOST_DIGITS, USUAL_DIGITS)


def _distinct(key: str, values: Iterable[float]) -> dict[float, str]:
    """Each value's label. Two labels never agree, and none reads as a number close to its value but not equal to it."""
    least = DIGITS.get(key, USUAL_DIGITS)
    alike: dict[str, list[float]] = {}
    for value in dict.fromkeys(values):
        alike.setdefault(_rounded(value, least, least), []).append(value)
    return {value: text for group in alike.values() for value, text in _told_apart(group, least).items()}


def _told_apart(values: Sequence[float], least: int) -> dict[float, str]:
    """Labels of values that agree in their first digits, all with the same number of digits."""
    for digits in range(least, MOST_DIGITS):
        texts = {value: _rounded(value, digits, least) for value in values}
        differ = len(set(map(float, texts.values()))) == len(values)
        if differ and not any(_misleads(value, text, digits) for value, text in texts.items()):
            return texts
    return {value: _rounded(value, MOST_DIGITS, least) for value in values}


def _rounded(value: float, digits: int, least: int) -> str:
    """A number with so many significant digits, or with as few as read back as it, but at least `least`."""
    value += 0.0  # no sign before 0
    enough = max(_significant(value), least)
    text = f"{value:.{min(digits, enough)}g}"
    reads_back = digits < enough or float(text) == value  # of a tie, repr and format may take different digits
    return text if reads_back else f"{value:.{MOST_DIGITS}g}"


def _significant(value: float) -> int:
    return len(Decimal(repr(value)).normalize().as_tuple().digits)


def _misleads(value: float, text: str, digits: int) -> bool:
    """Whether a label has too few digits to look rounded, and reads as another number close to the value."""
    read = float(text)
    near = math.isclose(read, value, rel_tol=NEAR) and not math.isclose(read, value, rel_tol=NOISE)
    return near and _significant(read) < digits


def value_text(key: str, value: Value) -> str:
    """The label of a value that stands beside no other one of its key; see `Labels`."""
    return ALONE.text(key, value)


def values_text(values: Mapping[str, Value], labels: Labels = ALONE) -> str:
    """`position post, lr 0.003`; a label stands first and bare, an empty one is left out."""
    named = [f"{key} {labels.text(key, value)}" for key, value in values.items() if key != "label"]
    label = values.get("label")
    return ", ".join([str(label), *named] if label else named)


def heading(keys: Sequence[str], values: Sequence[Value], labels: Labels = ALONE) -> str:
    """Words speak for themselves, but for norms elsewhere than in a block; those, numbers and switches are named."""
    texts = []
    for key, value in zip(keys, values, strict=True):
        text = labels.text(key, value)
        speaks = isinstance(value, str) and value != "none" and not key.endswith("_norm")
        texts.append(text if key == "norm" or speaks else f"{key} {text}")
    return ", ".join(texts)


def loss_text(loss: float, digits: int = 3) -> str:
    """A loss in nats: fixed digits while it is of the size of a loss, else three significant ones."""
    if math.isnan(loss):
        return ""
    return f"{loss:z.{digits}f}" if abs(loss) < 100 else f"{loss:.3g}"


def range_text(numbers: Iterable[int]) -> str:
    """`12` or `12–33`."""
    found = sorted(set(numbers))
    return "" if not found else str(found[0]) if len(found) == 1 else f"{found[0]}–{found[-1]}"


def duration(seconds: float) -> str:
    """`1:05`, `2:03:04`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def plural(count: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
