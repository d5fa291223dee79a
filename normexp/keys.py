"""One key of a run's description: its type, its limits, its words, and when it matters."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Value = int | float | bool | str
"""What a resolved key holds."""

_INT = re.compile(r"[+-]?(0|[1-9][0-9]*)$")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$")
_BOOLS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}
NONE_WORDS = frozenset({"none", "null", "~", ""})
"""Spellings (case folded) that mean the choice `none`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A row of the key table.

    `choices` are the allowed words of a text key (None: a number or a switch), given as a function, so
    that tables which grow are read when asked. `low` and `high` bound a number; `low_open` and `high_open`
    exclude the bound itself. `matters` tells, from a resolved run, whether the key changes its numbers:
    where it does not, the key takes its `neutral` value, which is what the program did before the key
    existed and never changes.
    """

    kind: type
    default: Any
    neutral: Any
    help: str
    choices: Callable[[], tuple[str, ...]] | None = None
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    matters: Callable[[Any], bool] = field(default=lambda run: True)
    matters_when: str = "always"

    def parse(self, text: str) -> Value:
        """The value that a plain (unquoted) YAML scalar stands for. Raises ValueError with what to write."""
        if self.choices is not None:
            return self._choice(text)
        if self.kind is bool:
            if text.lower() not in _BOOLS:
                raise ValueError(f"{text!r} is neither true nor false")
            return _BOOLS[text.lower()]
        return self.check(self._number(text))

    def check(self, value: Any) -> Value:
        """A value of Python type, checked and brought to the key's type. Raises ValueError."""
        if self.choices is not None:
            return self._choice("none" if value is None else value)
        if self.kind is bool:
            if not isinstance(value, bool):
                raise ValueError(f"{value!r} is neither true nor false")
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{value!r} is not a number")
        if not math.isfinite(value):
            raise ValueError(f"{value!r} is not finite")
        if self.kind is int:
            if value != int(value):
                raise ValueError(f"{value!r} is not a whole number")
            value = int(value)
        else:
            value = float(value)
        below = value < self.low or (self.low_open and value == self.low)
        above = value > self.high or (self.high_open and value == self.high)
        if below or above:
            raise ValueError(f"{value!r} is out of range: {self.limits()}")
        return value

    def limits(self) -> str:
        """The allowed values in words."""
        if self.choices is not None:
            return ", ".join(self.choices())
        if self.kind is bool:
            return "true, false"
        noun = "a whole number" if self.kind is int else "a number"
        bounds = []
        if self.low > -math.inf:
            bounds.append(f"{'above' if self.low_open else 'at least'} {self.low:g}")
        if self.high < math.inf:
            high = int(self.high) if self.kind is int else f"{self.high:g}"
            bounds.append(f"{'below' if self.high_open else 'at most'} {high}")
        return " ".join([noun, " and ".join(bounds)]).strip()

    def _choice(self, text: Any) -> str:
        assert self.choices is not None
        words = self.choices()
        if isinstance(text, str):
            word = text.lower()
            if word in NONE_WORDS and "none" in words:
                return "none"
            if word in words:
                return word
        raise ValueError(f"{text!r} is not one of {', '.join(words)}")

    def _number(self, text: str) -> int | float:
        if _INT.match(text):
            return int(text)
        if _FLOAT.match(text):
            digits = text.lstrip("+-")
            if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
                raise ValueError(f"{text!r} starts with 0, which YAML reads as an octal number: write it without the 0")
            return float(text)
        if re.match(r"[+-]?[0-9]+,[0-9]+$", text):
            raise ValueError(
                f"{text!r} has a decimal comma: write {text.replace(',', '.')}, or [{text}] for two values"
            )
        if re.match(r"[0-9]+(:[0-9]+)+$", text):
            raise ValueError(f"{text!r} is a base-60 number to YAML: write it in plain digits")
        raise ValueError(f"{text!r} is not a number")
