"""Collect the calculations of the shipped texts, and run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import cast

from normexp.claims.claim import Calculation, Finding

TEXTS: Mapping[str, Mapping[str, Calculation]] = MappingProxyType(
    {name: import_module(f"normexp.texts.{name}.calculations").CALCULATIONS for name in ("article", "papers")}
)
"""The calculations of each text, by the name of its folder in `normexp.texts`."""
COMPUTED: Mapping[str, Calculation] = MappingProxyType(
    {name: row for rows in TEXTS.values() for name, row in rows.items()}
)
"""All calculations by name."""


def function_of(name: str) -> Callable[..., Finding]:
    """Import and return the function of a calculation. Its module imports torch."""
    text = next(text for text, rows in TEXTS.items() if name in rows)
    subject, _, function = name.partition(".")
    return cast(Callable[..., Finding], getattr(import_module(f"normexp.texts.{text}.{subject}"), function))


def calculate(name: str, seed: int, figures: Sequence[str] = ()) -> Finding:
    """Run a calculation with a seed on one thread. The random state of torch is restored afterwards."""
    from normexp.training.trainer import alone

    function = function_of(name)
    with alone():
        return function(seed, figures) if COMPUTED[name].takes_figures else function(seed)
