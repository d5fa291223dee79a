"""The network: embedding, blocks, final norm, LM head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig
from normexp.model.block import Block
from normexp.model.init import initialize
from normexp.model.norms import make_norm


class Network(nn.Module):
    """Maps tokens (b, t) to logits (b, t, v) of the next token. Block names are layer numbers, counted from 1."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        self.positions = nn.Embedding(config.seq_len, config.width) if config.pos_embed == "learned" else None
        self.blocks = nn.ModuleDict({str(layer): Block(config, layer) for layer in range(1, config.depth + 1)})
        self.final_norm = make_norm(config.final_norm, config.width, config) or nn.Identity()
        self.head = nn.Linear(config.width, config.vocab, bias=False)

    def forward(self, tokens_bt: Tensor) -> Tensor:
        x_btd = self.embedding(tokens_bt)
        if self.positions is not None:
            x_btd = x_btd + self.positions.weight[: tokens_bt.shape[1]]
        for block in self.blocks.values():
            x_btd = block(x_btd)
        return self.head(self.final_norm(x_btd))  # type: ignore[no-any-return]


def build(config: RunConfig) -> Network:
    """Return the network with its initial weights, which depend only on the config."""
    with torch.random.fork_rng(devices=[]):
        network = Network(config)
    initialize(network, config)
    return network


def layer_of(name: str, depth: int) -> int:
    """Return the layer of a module or parameter name: 0 for embeddings, depth + 1 for final norm and LM head."""
    parts = name.split(".")
    if parts[0] == "blocks" and len(parts) > 1:
        return int(parts[1])
    return 0 if parts[0] in ("embedding", "positions") else depth + 1
