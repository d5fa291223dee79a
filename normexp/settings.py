"""The three settings in which the same question is asked: the keys in which they differ from the defaults.

`as-written` is a skeleton whose mixer is a matrix on each token and whose final LayerNorm stays without a norm;
`as-described` mixes tokens by their mean, with no norm anywhere when there is none; `as-a-transformer` has attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from normexp.keys import Value

SETTINGS: Mapping[str, Mapping[str, Value]] = MappingProxyType(
    {
        "as-a-transformer": {"mixer": "attention", "init": "xavier"},
        "as-described": {"mixer": "mean", "init": "torch"},
        "as-written": {"mixer": "linear", "init": "torch", "order": 1, "final_norm": "ln"},
    }
)
