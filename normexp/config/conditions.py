"""Conditions: when a config key affects a run, and the words that describe each condition.

A key also matters where a norm or scheme in use declares that it reads the key (`keys_of_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from normexp.schemes.network_config import NetworkConfig
from normexp.schemes.norms import NORMS, Norm
from normexp.schemes.schemes import SCHEMES, Scheme


def has_blocks(run: NetworkConfig) -> bool:
    """Return whether the network has a block."""
    return run.depth > 0


def attends(run: NetworkConfig) -> bool:
    """Return whether the network has an attention layer."""
    return run.depth > 0 and run.mixer == "attention"


def block_norm(run: NetworkConfig) -> str:
    """Return the norm inside the blocks: `none` also if the scheme has no norm site."""
    if run.norm == "none" or run.depth == 0 or not SCHEMES[run.position].opens_a_door(run):
        return "none"
    return run.norm


def norms_in_use(run: NetworkConfig) -> set[str]:
    """Return the names of all norms inside the blocks and before the LM head."""
    return {block_norm(run), run.final_norm} - {"none"}


def _qk_normalizes(run: NetworkConfig) -> bool:
    return attends(run) and run.qk_norm != "none"


def _normalizes(run: NetworkConfig) -> bool:
    return bool(norms_in_use(run)) or _qk_normalizes(run)


def keys_of_rows(run: NetworkConfig) -> frozenset[str]:
    """Return the config keys that the norms and the scheme of the run read."""
    rows: list[Norm | Scheme] = [NORMS[name] for name in norms_in_use(run)]
    rows += [SCHEMES[run.position]] if run.depth > 0 else []
    return frozenset[str]().union(*(row.keys for row in rows))


def _rounds_norms(run: NetworkConfig) -> bool:
    return run.dtype != "float32" and _normalizes(run)


def places_a_norm(run: NetworkConfig) -> bool:
    """Return whether the scheme has a norm site, whatever `norm` is."""
    return run.depth > 0 and SCHEMES[run.position].opens_a_door(run)


def needs_final_norm(run: NetworkConfig) -> bool:
    """Return whether `final_norm: auto` means the norm of the blocks."""
    return run.depth == 0 or SCHEMES[run.position].final_norm


NARROWER: Mapping[str, Callable[[NetworkConfig], bool]] = {"norm": places_a_norm}
"""Keys that are part of a run's id even where they have no effect, each with the condition for an effect."""
AUTO_READS: Mapping[str, tuple[str, Callable[[NetworkConfig], bool]]] = {
    "final_norm": ("norm", needs_final_norm),
    "pos_embed": ("mixer", lambda run: True),
}
"""Keys that accept `auto`, each with the key that `auto` depends on and the condition for that dependence."""


def applying(run: NetworkConfig, autos: Collection[str]) -> frozenset[str]:
    """Return the keys whose value can affect the run; `autos` are the keys that the user set to `auto`."""
    keys = {name for name in run.mattering() if name not in NARROWER or NARROWER[name](run)}
    reads = (AUTO_READS[name] for name in autos)
    return frozenset(keys | {name for name, when in reads if when(run)})


BLOCKS: Mapping[str, Any] = {"matters": has_blocks, "matters_when": "depth > 0"}
ATTENTION: Mapping[str, Any] = {"matters": attends, "matters_when": "mixer: attention"}
EPS: Mapping[str, Any] = {"matters": _qk_normalizes, "matters_when": "a norm with statistics is used"}
DYT: Mapping[str, Any] = {"matters": lambda run: False, "matters_when": "dyt is used"}
NORM_DTYPE: Mapping[str, Any] = {"matters": _rounds_norms, "matters_when": "a norm is used and dtype has 16 bits"}
POST_SHARE: Mapping[str, Any] = {"matters": lambda run: False, "matters_when": "position: mix"}
ADAM: Mapping[str, Any] = {
    "matters": lambda run: run.optimizer in ("adam", "adamw"),
    "matters_when": "optimizer: adam, adamw",
}
