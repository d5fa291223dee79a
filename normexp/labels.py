"""How values, losses and combinations of values are written where people read them (never in data)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from normexp.keys import Value, as_typed

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What would steer a terminal, turn the direction of writing, or has no glyph; a new line is none of it."""


def shown(text: str) -> str:
    """A text as it may be put before people: tabs as spaces, other control characters as the replacement character."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\t", " "))


def value_text(key: str, value: Value) -> str:
    """A config value: switches as in YAML, learning rates at three significant digits."""
    if isinstance(value, float):
        return f"{value:.3g}" if key == "lr" else f"{value:g}"
    return as_typed(value)


def values_text(values: Mapping[str, Value]) -> str:
    """`position post, lr 0.003`; a label stands first and bare, an empty one is left out."""
    named = [f"{key} {value_text(key, value)}" for key, value in values.items() if key != "label"]
    label = values.get("label")
    return ", ".join([str(label), *named] if label else named)


def heading(keys: Sequence[str], values: Sequence[Value]) -> str:
    """Words speak for themselves, but for norms elsewhere than in a block; those, numbers and switches are named."""
    texts = []
    for key, value in zip(keys, values, strict=True):
        text = value_text(key, value)
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
