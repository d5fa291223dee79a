"""A config key: its type, range, help text, and when it affects a run."""

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
"""Characters that word processors and web pages use for a minus sign."""
_BOOLS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}
MAX_NUMBER = 10**300
"""Maximum absolute value of a number, which a float can represent."""
GUARD = 10**9
"""Upper bounds of this size and above only keep numbers representable, so messages do not show them."""
NONE_WORDS = frozenset({"none", "null", "~", ""})
"""Case-folded spellings of the choice `none`."""
OTHER_NAMES = {
    other: name
    for name, others in {
        "ln": "layer layernorm layernormalization",
        "rms": "rmsnorm rootmeansquare t5layernorm",
        "bn": "batch batchnorm batchnorm1d",
        "dyt": "dynamictanh tanh",
        "scale": "scalenorm",
        "l2": "l2norm",
        "none": "identity no nonorm",
        "pre": "prenorm preln prelayernorm",
        "post": "postnorm postln postlayernorm",
        "float16": "fp16 half",
        "bfloat16": "bf16",
        "float32": "fp32 single",
        "depth": "layers nlayer nlayers numlayers numhiddenlayers blocks nblocks numblocks",
        "width": "dmodel hiddensize nembd embeddim embeddingdim dim modeldim",
        "hidden": "dff ffndim ffnhiddensize intermediatesize dimfeedforward feedforwarddim mlpdim",
        "heads": "nhead nheads numheads numattentionheads",
        "norm": "normtype normlayer normalization",
        "position": "scheme normposition normplacement placement",
        "seq_len": "sequencelength maxseqlen maxpositionembeddings blocksize contextlength contextsize",
        "vocab": "vocabsize nvocab",
        "activation": "act actfn hiddenact activationfunction nonlinearity",
        "eps": "epsilon layernormeps rmsnormeps normeps",
        "lr": "learningrate baselr maxlr peaklr",
        "schedule": "lrschedule scheduler lrscheduler lrschedulertype",
        "warmup": "warmupsteps numwarmupsteps warmupiters",
        "batch": "batchsize trainbatchsize perdevicetrainbatchsize",
        "steps": "epochs iterations updates maxsteps numsteps nsteps maxiters trainsteps numtrainsteps numtrainepochs",
        "eval_every": "evalinterval evalsteps valinterval valcheckinterval",
        "clip": "gradclip maxgradnorm gradclipnorm clipgradnorm gradientclipval",
        "weight_decay": "wd",
        "dtype": "precision torchdtype",
        "seed": "seeds nseeds numseeds randomseed",
    }.items()
    for other in others.split()
}
"""Names that other programs use for a key or choice (lower-case letters and digits), for hints only."""
NUMBERS_OF_SEEDS = frozenset({"seeds", "nseeds", "numseeds", "repeats", "repetitions", "replicates"})
"""Names that other programs use for the number of seeds, in the same form."""


def is_number(value: Value) -> bool:
    """Return whether a value is a number. Booleans are not numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_typed(value: Value) -> str:
    """Return a value in full, as in YAML: Booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A row of the key table.

    `choices` returns the allowed words of a text key, or is None for a number or Boolean. It is a function because
    plugins add choices later. `low` and `high` bound a number; `low_open` and `high_open` exclude the bound.
    `matters` returns, for a resolved run, whether the key affects its results. If it does not, the canonical run has
    the key's `neutral` value: the behavior of the program before the key existed, which never changes. `synonyms`
    maps values to an equivalent one. An `interacting` key decides whether other keys matter, what `auto` means, or
    which values conflict. Plugins may add choices to an `extensible` key. `changes_step` is False if a training step
    does the same work for every value.
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
    changes_step: bool = True

    def parse(self, text: str) -> Value:
        """Return the value of a plain (unquoted) YAML scalar. Raises ValueError with the allowed values."""
        if self.choices is not None:
            return self._choice(text)
        if self.kind is bool:
            if text.lower() not in _BOOLS:
                raise ValueError(f"{text!r} is neither true nor false")
            return _BOOLS[text.lower()]
        return self.check(self._number(text))

    def check(self, value: Any) -> Value:
        """Check a Python or NumPy scalar and return it in the key's type. Raises ValueError.

        Numbers are not rounded: `np.float32(1e-3)` is 0.0010000000474974513, which is not 1e-3.
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
        """Return the value that represents all equivalent ones."""
        same: Value = self.synonyms.get(value, value) if matters else self.neutral
        return same

    def limits(self, *, guards: bool = False) -> str:
        """Return the allowed values in words; with `guards`, include upper bounds that are only technical."""
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
        if abs(value) > MAX_NUMBER:
            raise ValueError(f"numbers beyond ±{MAX_NUMBER:.0e} are out of range")
        if self.kind is not int:
            return float(value) + 0.0  # turns -0.0 into 0.0: they are equal, so their text must be too
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
        meant = near_to(word.rpartition(".")[2], words)
        hints = [f"; did you mean {meant}?"] if meant else []
        if self.extensible and not translated(meant and word.rpartition(".")[2]):
            hints.append("; to use a plugin, name its file in the config (plugin: FILE.py), or give --plugin FILE.py")
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
            reason = (
                "a typographic minus" if typed == text.translate(_MINUSES) else "characters other than plain digits"
            )
            raise ValueError(f"{text!r} has {reason}: write {typed}")
        if re.match(r"[0-9]+(:[0-9]+)+\Z", text):
            raise ValueError(f"{text!r} is a base-60 number in YAML: write it in plain digits")
        raise ValueError(f"{text!r} is not a number")


def plain_scalar(value: Any) -> Any:
    """Return a NumPy scalar or zero-dimensional array as the equal Python value; return other values unchanged.

    Raises ValueError for a number with more digits than a float holds.
    """
    if getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return value
    scalar = value.item()
    if type(scalar) is not type(value):
        return scalar
    if float(value) != value:  # np.longdouble.item() returns np.longdouble
        raise ValueError(f"{value!r} has more digits than a float holds: write float(...)")
    return float(value)


def with_point(text: str) -> str:
    """Return a number with a decimal comma rewritten with a point, or an empty text for anything else."""
    comma = re.fullmatch(r"([+-]?[0-9]+),([0-9]+([eE][+-]?[0-9]+)?)", _in_ascii(text))
    return f"{comma[1]}.{comma[2]}" if comma else ""


def _in_ascii(text: str) -> str:
    """Return a number typed in look-alike characters in ASCII; return any other text unchanged."""
    typed = unicodedata.normalize("NFKC", text.translate(_MINUSES)).strip()
    typed = "".join(str(unicodedata.decimal(c, c)) for c in typed)
    return typed if _INT.match(typed) or _FLOAT.match(typed) or "," in typed else text


def near_to(word: str, words: Collection[str]) -> str:
    """Return the closest of the words to a lower-case `word`, or an empty text if none is close."""
    meant = translated(word)
    return meant if meant in words else next(iter(difflib.get_close_matches(word, words, n=1)), "")


def translated(word: str) -> str:
    """Return the key or choice that other programs call by this word, or an empty text."""
    return OTHER_NAMES.get(_bare(word.lower()), "")


def counts_seeds(word: str) -> bool:
    """Return whether a word is a name that other programs use for the number of seeds."""
    return _bare(word.lower()) in NUMBERS_OF_SEEDS


def _bare(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word)
