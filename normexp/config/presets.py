"""The three settings in which the same question is asked: the keys in which they differ from the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from normexp.schemes.network_config import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row of the table: its `label` in configs and reports, and the learning rate at which a collapse is looked for.

    `keys` hold at every position. `pre_final_norm` is a final norm that Pre-LN has whatever its other norms are, and
    no other position has; "" where the final norm follows from the scheme and the norm.
    """

    label: str
    keys: Mapping[str, Value]
    collapse_lr: float
    pre_final_norm: str = ""

    @property
    def word(self) -> str:
        """Its name on the command line."""
        return self.label.lower().replace(" ", "-")

    def keys_at(self, position: Value) -> dict[str, Value]:
        """The keys of a network in this setting."""
        final = {"final_norm": self.pre_final_norm} if self.pre_final_norm and position == "pre" else {}
        return {**self.keys, **final}


_TRANSFORMER = Setting(label="as a Transformer", keys={"mixer": "attention", "init": "xavier"}, collapse_lr=1e-2)
_DESCRIBED = Setting(label="as described", keys={"mixer": "mean", "init": "torch"}, collapse_lr=1e-3)
"""It mixes tokens by their mean, and has no norm anywhere when there is none."""
_WRITTEN = Setting(
    label="as written",
    keys={"mixer": "linear", "init": "torch", "order": 1},
    collapse_lr=1e-3,
    pre_final_norm="ln",
)
"""A skeleton whose mixer is a matrix on each token; the final LayerNorm of its Pre-LN stays without a norm."""

SETTINGS: Mapping[str, Setting] = MappingProxyType({row.word: row for row in (_TRANSFORMER, _DESCRIBED, _WRITTEN)})
"""By their words."""
