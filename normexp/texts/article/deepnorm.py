"""Where DeepNorm applies alpha, and its effect at initialization (section 5.2)."""

from __future__ import annotations

from torch import nn

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.model.block import Block
from normexp.model.network import Network, build
from normexp.texts.article.printed import setting
from normexp.texts.figures import by_condition
from normexp.training.inspection import inspect_trainer
from normexp.training.trainer import Trainer

DEPTHS = (8, 32)
BRANCH, SKIP = "alpha on the branch F", "alpha on the skip path, as in its paper"


def swapped(config: RunConfig) -> Network:
    """Return the network with the factors of skip path and branch exchanged."""
    network = build(config)
    for block in network.blocks.values():
        assert isinstance(block, Block)
        for branch in (block.mixer, block.ffn):
            skip = branch.skip or nn.Identity()
            branch.skip, branch.branch_out = branch.branch_out, skip
    return network


def update(config: RunConfig, network: Network) -> float:
    """Return the RMS change of the logits by one SGD step at 0.01 on all matrices of the blocks."""
    rows = inspect_trainer(Trainer(config, network, autograd=True), number=1)
    return next(row.value for row in rows if row.part == "logits" and row.quantity == "sgd_update")


def tames(seed: int, position: str = "deepnorm") -> Finding:
    """Check that the effect of an SGD step grows by less than a factor of 1.5 from 8 to 32 layers.

    It is computed for both readings of the article: alpha on the branch, and alpha on the skip path.
    """
    changes: dict[str, list[float]] = {BRANCH: [], SKIP: []}
    for depth in DEPTHS:
        config = setting("as a Transformer")(depth=depth, position=position, seed=seed)
        changes[BRANCH].append(update(config, swapped(config)))
        changes[SKIP].append(update(config, build(config)))
    seen = {name: (late < 1.5 * early, f"{early:.2g} and {late:.2g}") for name, (early, late) in changes.items()}
    sentence = "change of the logits by a step of SGD at 8 and at 32 layers"
    return by_condition(seen, {}, sentence)
