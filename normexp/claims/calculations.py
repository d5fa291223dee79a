"""Collect the calculations of the shipped texts and of plugins, and run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import cast

from normexp.claims.claim import Calculation, Finding
from normexp.config import plugins
from normexp.errors import UserError

TEXTS: Mapping[str, Mapping[str, Calculation]] = MappingProxyType(
    {name: import_module(f"normexp.texts.{name}.calculations").CALCULATIONS for name in ("article", "papers")}
)
"""The calculations of each text, by the name of its folder in `normexp.texts`."""
COMPUTED: Mapping[str, Calculation] = MappingProxyType(
    {name: row for rows in TEXTS.values() for name, row in rows.items()}
)
"""The calculations of all shipped texts by name."""


def calculations() -> Mapping[str, Calculation]:
    """Return all calculations by name: those of the shipped texts, and those of the plugins added so far."""
    return {**COMPUTED, **{name: _row(function) for name, function in plugins.CALCULATIONS.items()}}


def _row(function: Callable[..., Finding]) -> Calculation:
    """Return the row of a plugin's function. Its help is the first line of the docstring."""
    first = (function.__doc__ or "").strip().splitlines()[0]
    return Calculation(first, None if plugins.takes_figures(function) else 0)


def function_of(name: str) -> Callable[..., Finding]:
    """Return the function of a calculation. For a shipped text, import its module, which imports torch."""
    if name in plugins.CALCULATIONS:
        return plugins.CALCULATIONS[name]
    text = next(text for text, rows in TEXTS.items() if name in rows)
    subject, _, function = name.partition(".")
    return cast(Callable[..., Finding], getattr(import_module(f"normexp.texts.{text}.{subject}"), function))


def calculate(name: str, seed: int, figures: Sequence[str] = ()) -> Finding:
    """Run a calculation with a seed on one thread. The random state of torch is restored afterwards.

    Raises UserError if the function of a plugin does not return a finding.
    """
    from normexp.training.trainer import alone

    function = function_of(name)
    with alone():
        finding = function(seed, figures) if calculations()[name].takes_figures else function(seed)
    if not isinstance(finding, Finding):
        raise UserError(
            f"calculation {name!r} returned a {type(finding).__name__}: write "
            "return one_seed(holds, measured, sentence), with one_seed from normexp.texts.figures"
        )
    return finding
