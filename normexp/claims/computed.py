"""The calculations of compute claims: a name to a function that makes it now, from a seed.

The functions are in `normexp.claims.snippets`; each imports torch itself, when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from normexp.claims.claim import Finding
from normexp.claims.snippets import norms

Calculation = Callable[[int], Finding]

COMPUTED: Mapping[str, Calculation] = MappingProxyType(
    {
        "layer_norm_by_hand": norms.layer_norm_by_hand,
        "norm_parameters": norms.norm_parameters,
    }
)
"""Name to calculation."""
