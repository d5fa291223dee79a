"""The three settings in which claims are checked, and the axes along which stability limits are searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from normexp.schemes.network_config import Value

Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting: its `label` in configs and reports, its keys, and the learning rate at which collapse is tested.

    `keys` apply at every position. `pre_final_norm` is a final norm that Pre-LN keeps whatever its other norms are;
    other positions do not have it. With "", the final norm follows from the scheme and the norm.
    """

    label: str
    keys: Mapping[str, Value]
    collapse_lr: float
    pre_final_norm: str = ""

    @property
    def word(self) -> str:
        """The name on the command line."""
        return self.label.lower().replace(" ", "-")

    def keys_at(self, position: Value) -> dict[str, Value]:
        """Return the keys of a network in this setting at a position."""
        final = {"final_norm": self.pre_final_norm} if self.pre_final_norm and position == "pre" else {}
        return {**self.keys, **final}


_TRANSFORMER = Setting(label="as a Transformer", keys={"mixer": "attention", "init": "xavier"}, collapse_lr=1e-2)
# Tokens are mixed by their causal mean. With norm=none there is no norm at all, not even before the LM head.
_DESCRIBED = Setting(label="as described", keys={"mixer": "mean", "init": "torch"}, collapse_lr=1e-3)
# The mixer is a matrix applied to each token. Pre-LN keeps its final LayerNorm even with norm=none.
_WRITTEN = Setting(
    label="as written",
    keys={"mixer": "linear", "init": "torch", "order": 1},
    collapse_lr=1e-3,
    pre_final_norm="ln",
)

COLLAPSE_DEFAULTS: Mapping[str, Value] = MappingProxyType({"steps": 400, "eval_every": 50})
"""Values of `normexp collapse` that differ from those of a config, in every setting."""
SETTINGS: Mapping[str, Setting] = MappingProxyType({row.word: row for row in (_TRANSFORMER, _DESCRIBED, _WRITTEN)})
"""The settings by their name on the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeAxis:
    """The default search range of an axis: from `low` to `high`, until a bracket is within `resolution`.

    `high` None stands for the number of steps of the shortest run. For whole numbers the resolution is a difference,
    otherwise a ratio. `least` is the lowest allowed value.
    """

    low: Number
    high: Number | None
    resolution: Number
    whole: bool = False
    least: Number = 0

    def __str__(self) -> str:
        high = "the number of steps" if self.high is None else f"{self.high:g}"
        return f"{self.low:g} to {high}, {'difference' if self.whole else 'ratio'} {self.resolution:g}"


EDGE_AXES: Mapping[str, EdgeAxis] = MappingProxyType(
    {
        "lr": EdgeAxis(low=1e-5, high=1.0, resolution=1.5),
        "init_gain": EdgeAxis(low=0.1, high=10.0, resolution=1.25),
        "depth": EdgeAxis(low=1, high=64, resolution=2, whole=True, least=1),
        "warmup": EdgeAxis(low=0, high=None, resolution=20, whole=True),
    }
)
"""The keys that `normexp edge` can bisect."""
