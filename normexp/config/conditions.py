"""When a key changes the numbers of a run: the predicates that the key table names, each with its words.

A key matters, besides, wherever a row in use declares that it reads it (`keys_of_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from normexp.schemes.network_config import NetworkConfig
from normexp.schemes.norms import NORMS, Norm
from normexp.schemes.schemes import SCHEMES, Scheme


def has_blocks(run: NetworkConfig) -> bool:
    """There is a layer."""
    return run.depth > 0


def attends(run: NetworkConfig) -> bool:
    """A layer attends."""
    return run.depth > 0 and run.mixer == "attention"


def block_norm(run: NetworkConfig) -> str:
    """The norm that stands in the blocks: none, too, where the scheme opens no door."""
    if run.norm == "none" or run.depth == 0 or not SCHEMES[run.position].opens_a_door(run):
        return "none"
    return run.norm


def norms_in_use(run: NetworkConfig) -> set[str]:
    """The names of all norms of blocks and head."""
    return {block_norm(run), run.final_norm} - {"none"}


def _qk_normalizes(run: NetworkConfig) -> bool:
    return attends(run) and run.qk_norm != "none"


def _normalizes(run: NetworkConfig) -> bool:
    return bool(norms_in_use(run)) or _qk_normalizes(run)


def keys_of_rows(run: NetworkConfig) -> frozenset[str]:
    """What the rows of the run's norms and scheme read of it."""
    rows: list[Norm | Scheme] = [NORMS[name] for name in norms_in_use(run)]
    rows += [SCHEMES[run.position]] if run.depth > 0 else []
    return frozenset[str]().union(*(row.keys for row in rows))


def _rounds_norms(run: NetworkConfig) -> bool:
    return run.dtype != "float32" and _normalizes(run)


def places_a_norm(run: NetworkConfig) -> bool:
    """Whether the scheme has a site for a norm, whichever norm the run asks for."""
    return run.depth > 0 and SCHEMES[run.position].opens_a_door(run)


def needs_final_norm(run: NetworkConfig) -> bool:
    """Whether `final_norm: auto` stands for the norm of the blocks."""
    return run.depth == 0 or SCHEMES[run.position].final_norm


NARROWER: Mapping[str, Callable[[NetworkConfig], bool]] = {"norm": places_a_norm}
"""Keys that stay in a run's identity where they change nothing, and when they do change something."""
AUTO_READS: Mapping[str, tuple[str, Callable[[NetworkConfig], bool]]] = {
    "final_norm": ("norm", needs_final_norm),
    "pos_embed": ("mixer", lambda run: True),
}
"""Keys that may be `auto`; the key whose value `auto` depends on, and when it does."""


def applying(run: NetworkConfig, autos: Collection[str]) -> frozenset[str]:
    """Return the keys of which another value could give another run; `autos` are the keys asked for as `auto`."""
    keys = {name for name in run.mattering() if name not in NARROWER or NARROWER[name](run)}
    reads = (AUTO_READS[name] for name in autos)
    return frozenset(keys | {name for name, when in reads if when(run)})


BLOCKS: Mapping[str, Any] = {"matters": has_blocks, "matters_when": "depth > 0"}
ATTENTION: Mapping[str, Any] = {"matters": attends, "matters_when": "mixer: attention"}
EPS: Mapping[str, Any] = {"matters": _qk_normalizes, "matters_when": "a norm with statistics is anywhere"}
DYT: Mapping[str, Any] = {"matters": lambda run: False, "matters_when": "dyt is anywhere"}
NORM_DTYPE: Mapping[str, Any] = {"matters": _rounds_norms, "matters_when": "a norm is anywhere, dtype of 16 bits"}
POST_SHARE: Mapping[str, Any] = {"matters": lambda run: False, "matters_when": "position: mix"}
ADAM: Mapping[str, Any] = {
    "matters": lambda run: run.optimizer in ("adam", "adamw"),
    "matters_when": "optimizer: adam, adamw",
}
