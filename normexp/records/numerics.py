"""Changes of the program that altered the numbers of runs. A stored run made before such a change is outdated."""

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
        2: _has_rms,  # RMSNorm got a kernel, which changed the last digits
        3: lambda run: run.dtype == "float32",  # gradients come from a program, which changed the last digits
        4: lambda run: run.dtype == "float32" and attends(run),  # attention by its formula becomes non-finite elsewhere
    }
)
"""The changes by number, each with the runs that it affected. A new change gets the next number."""


def numerics(run: RunConfig) -> int:
    """Return the number of the latest change that affected a run."""
    return max(number for number, concerns in CHANGES.items() if concerns(run))
