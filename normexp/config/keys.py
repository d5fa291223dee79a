"""One key of a run's description: its type, its limits, its words, and when it matters."""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from normexp.schemes.network_config import Value

_INT = re.compile(r"[+-]?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_MINUSES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"), "-")
"""Characters that word processors and web pages put for a minus."""
_BOOLS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}
MOST = 10**300
"""The largest size of any number, which a float can hold."""
GUARD = 10**9
"""An upper bound from here on only keeps numbers representable."""
NONE_WORDS = frozenset({"none", "null", "~", ""})
"""Spellings (case folded) that mean the choice `none`."""
ELSEWHERE = {
    other: name
    for name, others in {
        "ln": "layer layernorm layernormalization",
        "rms": "rmsnorm rootmeansquare",
        "bn": "batch batchnorm batchnorm1d",
        "dyt": "dynamictanh tanh",
        "scale": "scalenorm",
        "l2": "l2norm",
        "none": "identity",
        "pre": "prenorm preln",
        "post": "postnorm postln",
        "depth": "layers nlayer nlayers numlayers blocks",
        "width": "dmodel",
        "position": "scheme",
        "lr": "learningrate",
        "batch": "batchsize",
        "steps": "epochs iterations updates",
        "clip": "gradclip",
    }.items()
    for other in others.split()
}
"""What others call a key or a choice, in small letters and digits, to its name here; for hints alone."""


def is_number(value: Value) -> bool:
    """Switches are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_typed(value: Value) -> str:
    """A value in full, as YAML has it: switches in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A row of the key table.

    `choices` are the allowed words of a text key (None: a number or a switch), given as a function, so
    that tables which grow are read when asked. `low` and `high` bound a number; `low_open` and `high_open`
    exclude the bound itself. `matters` tells, from a resolved run, whether the key changes its numbers:
    where it does not, the key takes its `neutral` value, which is what the program did before the key
    existed and never changes. `synonyms` maps values to the one that means the same. An `interacting` key
    decides whether others matter, what auto stands for, or which values clash; any other changes nothing
    but itself. A plugin may add choices of an `extensible` key.
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
    synonyms: Mapping[Any, Any] = field(default_factory=lambda: MappingProxyType({}))
    interacting: bool = False
    extensible: bool = False

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
        """Check a Python value, or a scalar of NumPy's, and return it in the key's type. Raises ValueError.

        No digit is lost: `np.float32(1e-3)` is 0.0010000000474974513, which is not 1e-3.
        """
        value = plain_scalar(value)
        if self.choices is not None:
            return self._choice("none" if value is None else value)
        if self.kind is bool:
            if not isinstance(value, bool):
                raise ValueError(f"{value!r} is neither true nor false")
            return value
        number = self._finite(value)
        below = number < self.low or (self.low_open and number == self.low)
        above = number > self.high or (self.high_open and number == self.high)
        if below or above:
            raise ValueError(f"{number!r} is out of range: {self.limits(guards=above)}")
        return number

    def canonical(self, value: Value, matters: bool) -> Value:
        """The one value that stands for all which mean the same."""
        same: Value = self.synonyms.get(value, value) if matters else self.neutral
        return same

    def limits(self, *, guards: bool = False) -> str:
        """The allowed values in words; with `guards`, also an upper bound that nobody comes near."""
        if self.choices is not None:
            return ", ".join(self.choices())
        if self.kind is bool:
            return "true, false"
        noun = "a whole number" if self.kind is int else "a number"
        bounds = []
        if self.low > -math.inf:
            bounds.append(f"{'above' if self.low_open else 'at least'} {self.low:g}")
        if self.high < (math.inf if guards else GUARD):
            high = int(self.high) if self.kind is int else f"{self.high:g}"
            bounds.append(f"{'below' if self.high_open else 'at most'} {high}")
        return " ".join([noun, " and ".join(bounds)]).strip()

    def _finite(self, value: Any) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{value!r} is not a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value!r} is not finite")
        if abs(value) > MOST:
            raise ValueError("a number of that size is out of range")
        if self.kind is not int:
            return float(value) + 0.0  # -0.0 and 0.0 are one value, and must be written as one
        if value != int(value):
            raise ValueError(f"{value!r} is not a whole number")
        return int(value)

    def _choice(self, text: Any) -> str:
        words = self.choices() if self.choices is not None else ()
        word = text.lower() if isinstance(text, str) else ""
        if isinstance(text, str) and word in NONE_WORDS and "none" in words:
            return "none"
        if word in words:
            return word
        meant = near_to(word, words)
        hints = [f"; did you mean {meant}?"] if meant else []
        hints += ["; if a plugin has it, name its file: --plugin FILE.py"] if self.extensible else []
        raise ValueError(f"{text!r} is not one of {', '.join(words)}{''.join(hints)}")

    def _number(self, text: str) -> int | float:
        if len(text) > 400:
            raise ValueError(f"{text[:20] + '...'!r} is too long for a number")
        if _INT.match(text):
            return int(text)
        if _FLOAT.match(text):
            digits = text.lstrip("+-")
            if digits[:1] == "0" and digits[1:2].isdigit():
                raise ValueError(f"{text!r} starts with 0, which YAML reads as an octal number: write it without the 0")
            return float(text)
        if decimal := with_point(text):
            raise ValueError(f"{text!r} has a decimal comma: write {decimal}, or [{text}] for two values")
        if (typed := _in_ascii(text)) != text:
            what = (
                "a typographic minus" if typed == text.translate(_MINUSES) else "characters that are not plain digits"
            )
            raise ValueError(f"{text!r} has {what}: write {typed}")
        if re.match(r"[0-9]+(:[0-9]+)+\Z", text):
            raise ValueError(f"{text!r} is a base-60 number to YAML: write it in plain digits")
        raise ValueError(f"{text!r} is not a number")


def plain_scalar(value: Any) -> Any:
    """Return a scalar of NumPy's, or an array of no axes, as the Python value that is equal to it; others unchanged.

    Raises ValueError for a number of more digits than a float holds.
    """
    if getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return value
    found = value.item()
    if type(found) is not type(value):
        return found
    if float(value) != value:  # np.longdouble gives itself
        raise ValueError(f"{value!r} has more digits than a float holds: write float(...) of it")
    return float(value)


def with_point(text: str) -> str:
    """Return a number that is written with a decimal comma with a point instead; empty for any other text."""
    comma = re.fullmatch(r"([+-]?[0-9]+),([0-9]+([eE][+-]?[0-9]+)?)", _in_ascii(text))
    return f"{comma[1]}.{comma[2]}" if comma else ""


def _in_ascii(text: str) -> str:
    """Return the number that a text in look-alike characters was meant for; a text that is none unchanged."""
    typed = unicodedata.normalize("NFKC", text.translate(_MINUSES)).strip()
    typed = "".join(str(unicodedata.decimal(c, c)) for c in typed)
    return typed if _INT.match(typed) or _FLOAT.match(typed) or "," in typed else text


def near_to(word: str, words: Collection[str]) -> str:
    """The one of the words that `word`, in small letters, was meant for; empty for none."""
    meant = ELSEWHERE.get(re.sub(r"[^a-z0-9]", "", word), "")
    return meant if meant in words else next(iter(difflib.get_close_matches(word, words, n=1)), "")
