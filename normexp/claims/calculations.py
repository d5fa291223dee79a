"""The calculations of compute claims, gathered from the shipped texts, and how one is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import cast

from normexp.claims.claim import Calculation, Finding

TEXTS: Mapping[str, Mapping[str, Calculation]] = MappingProxyType(
    {name: import_module(f"normexp.texts.{name}.calculations").CALCULATIONS for name in ("article", "papers")}
)
"""The folder of a text in `normexp.texts` to its table of calculations."""
COMPUTED: Mapping[str, Calculation] = MappingProxyType(
    {name: row for rows in TEXTS.values() for name, row in rows.items()}
)
"""Name to calculation."""


def function_of(name: str) -> Callable[..., Finding]:
    """Import the function of a calculation; its module loads torch."""
    text = next(text for text, rows in TEXTS.items() if name in rows)
    subject, _, function = name.partition(".")
    return cast(Callable[..., Finding], getattr(import_module(f"normexp.texts.{text}.{subject}"), function))


def calculate(name: str, seed: int, figures: Sequence[str] = ()) -> Finding:
    """Run a calculation with a seed, on one thread. The random state of torch is restored afterwards."""
    from normexp.training.trainer import alone

    made = function_of(name)
    with alone():
        return made(seed, figures) if COMPUTED[name].takes_figures else made(seed)
