"""The table of norms: what each computes, its source, and the config keys that it reads.

The torch modules of the built-in norms are in `normexp.model.norms`; plugins bring their modules along.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from normexp.schemes.network_config import NetworkConfig

Row = TypeVar("Row")

NAME = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
RESERVED = ("none", "auto")
"""Words with a special meaning as values of a key."""


class Registry(Mapping[str, Row], Generic[Row]):
    """A table of named rows in insertion order. Each row has the `origin` that added it: "" for built-in rows."""

    def __init__(self, noun: str, rows: Mapping[str, Row]) -> None:
        self.noun = noun
        self._rows = dict(rows)
        self._origins: dict[str, str] = {}

    def __getitem__(self, name: str) -> Row:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def origin(self, name: str) -> str:
        """Return the origin of a row: "" for built-in rows and unknown names."""
        return self._origins.get(name, "")

    def check(self, name: str, origin: str) -> None:
        """Raise ValueError if `origin` may not add a row with this name."""
        if not NAME.match(name) or name in RESERVED:
            raise ValueError(
                "a name has up to 32 lower-case letters, digits and _, starts with a letter,"
                f" and is not {' or '.join(RESERVED)}"
            )
        if name in self._rows and self.origin(name) != origin:
            raise ValueError("already exists: choose another name")

    def add(self, name: str, row: Row, origin: str) -> None:
        """Add a row, or replace the one with the same name and origin. Raises ValueError, see `check`."""
        self.check(name, origin)
        self._rows[name], self._origins[name] = row, origin

    def remove(self, origin: str) -> None:
        """Remove the rows that `origin` added."""
        for name in [name for name, owner in self._origins.items() if owner == origin]:
            del self._rows[name], self._origins[name]


class Reading:
    """A view of a run that exposes only the declared keys. Raises AttributeError for any other key."""

    def __init__(self, run: NetworkConfig, keys: frozenset[str]) -> None:
        self._values = {key: getattr(run, key) for key in keys}

    def __getattr__(self, key: str) -> Any:
        try:
            return self.__dict__["_values"][key]
        except KeyError:
            raise AttributeError(f"reads the key {key!r}: declare it in keys=frozenset({{{key!r}}})") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """A norm. If `causal`, the output at a token depends on that token alone. `keys` are the config keys it reads.

    `make(width, run)` returns a new torch module over the last axis, of `width` features; only plugins set it. It can
    read only the declared keys of the run, because they determine the run id.
    """

    help: str
    source: str
    causal: bool = True
    keys: frozenset[str] = frozenset({"eps"})
    make: Callable[[int, Reading], Any] | None = None


NORMS: Registry[Norm] = Registry(
    "norm",
    {
        "ln": Norm(
            help="g (x - mean) / sqrt(var + eps) + b, biased variance",
            source="Ba et al. 2016, arXiv 1607.06450, equation 4",
        ),
        "rms": Norm(
            help="g x / sqrt(mean(x^2) + eps)",
            source="Zhang and Sennrich 2019, arXiv 1910.07467, equation 4",
        ),
        "bn": Norm(
            help="per feature over batch and tokens, including later tokens; running statistics in evaluation",
            source="Ioffe and Szegedy 2015, arXiv 1502.03167, algorithms 1 and 2",
            causal=False,
        ),
        "dyt": Norm(
            help="g tanh(a x) + b, one learned scalar a, initially dyt_alpha; no statistics",
            source="Zhu et al. 2025, arXiv 2503.10622; jiachenzhu/DyT, dynamic_tanh.py",
            keys=frozenset({"dyt_alpha"}),
        ),
        "scale": Norm(
            help="g x / sqrt(|x|^2 + d eps), one learned scalar g, initially sqrt(d)",
            source="Nguyen and Salazar 2019, arXiv 1910.05895",
        ),
    },
)
"""The norms by name. `none` means no norm and has no row."""
