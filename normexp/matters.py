"""When a key changes the numbers of a run: the predicates that the key table names, each with its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from normexp.norms import NORMS
from normexp.schemes import SCHEMES

if TYPE_CHECKING:
    from normexp.run import RunConfig


def has_blocks(run: RunConfig) -> bool:
    """There is a layer."""
    return run.depth > 0


def attends(run: RunConfig) -> bool:
    """A layer attends."""
    return run.depth > 0 and run.mixer == "attention"


def block_norm(run: RunConfig) -> str:
    """The norm that stands in the blocks: none, too, where the scheme opens no door."""
    return run.norm if run.depth > 0 and SCHEMES[run.position].opens_a_door(run.depth) else "none"


def norms_in_use(run: RunConfig) -> set[str]:
    """The names of all norms of blocks and head."""
    return {block_norm(run), run.final_norm} - {"none"}


def _qk_normalizes(run: RunConfig) -> bool:
    return attends(run) and run.qk_norm != "none"


def _normalizes(run: RunConfig) -> bool:
    return bool(norms_in_use(run)) or _qk_normalizes(run)


def _uses_eps(run: RunConfig) -> bool:
    return any(NORMS[name].uses_eps for name in norms_in_use(run)) or _qk_normalizes(run)


def _rounds_norms(run: RunConfig) -> bool:
    return run.dtype != "float32" and _normalizes(run)


def _scheme_reads(key: str) -> Mapping[str, Any]:
    def matters(run: RunConfig) -> bool:
        return block_norm(run) != "none" and key in SCHEMES[run.position].keys

    return {"matters": matters}


BLOCKS: Mapping[str, Any] = {"matters": has_blocks, "matters_when": "depth > 0"}
ATTENTION: Mapping[str, Any] = {"matters": attends, "matters_when": "mixer: attention"}
EPS: Mapping[str, Any] = {"matters": _uses_eps, "matters_when": "a norm with statistics is anywhere"}
DYT: Mapping[str, Any] = {"matters": lambda run: "dyt" in norms_in_use(run), "matters_when": "dyt is anywhere"}
NORM_DTYPE: Mapping[str, Any] = {"matters": _rounds_norms, "matters_when": "a norm is anywhere, dtype of 16 bits"}
POST_SHARE: Mapping[str, Any] = {**_scheme_reads("post_share"), "matters_when": "position: mix"}
ADAM: Mapping[str, Any] = {
    "matters": lambda run: run.optimizer in ("adam", "adamw"),
    "matters_when": "optimizer: adam, adamw",
}
