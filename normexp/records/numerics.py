"""When the program began to give other numbers for the same config: what makes a stored run outdated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from normexp.config.conditions import attends, norms_in_use
from normexp.config.run import RunConfig


def _has_rms(run: RunConfig) -> bool:
    return "rms" in norms_in_use(run) or (attends(run) and run.qk_norm == "rms")


CHANGES: Mapping[int, Callable[[RunConfig], bool]] = MappingProxyType(
    {
        1: lambda run: True,
        2: _has_rms,  # RMSNorm by a kernel of its own: other last digits
        3: lambda run: run.dtype == "float32",  # gradients by a program: other last digits
        4: lambda run: run.dtype == "float32" and attends(run),  # attention by its formula: other deaths, too
    }
)
"""Number of a change, to whether it changed the numbers of a run. A change adds a row, with the next number."""


def numerics(run: RunConfig) -> int:
    """The number of the latest change that concerns a run."""
    return max(number for number, concerns in CHANGES.items() if concerns(run))
