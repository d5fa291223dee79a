"""The network (embedding, blocks, final norm, LM head) and its initial weights.

Each parameter is drawn from a separate random stream. A matrix of a block has a role (q, k, v, out, fc1, fc2; the
stacked matrix has three). Its weights are standard normal or uniform in [-1, 1], times a scale from the table INITS,
times `init_gain`, times the scheme's gain for the role. Networks with the same seed draw the same numbers for the
parameters that they have in common.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig
from normexp.data.streams import seed_of
from normexp.model.block import Block
from normexp.model.norms import make_norm
from normexp.schemes.schemes import SCHEMES

POSITION_STD = 0.1


@dataclass(frozen=True, slots=True)
class Fan:
    """Sizes that a scale may depend on: inputs, outputs of the stacked matrix and of the role, depth."""

    inputs: int
    stacked_outputs: int
    role_outputs: int
    role: str
    depth: int


@dataclass(frozen=True, slots=True)
class Init:
    """A distribution of weights and its scale; biases are drawn as in nn.Linear if `biases`, else 0."""

    scale: Callable[[Fan], float]
    uniform: bool = False
    biases: bool = False


def _small(fan: Fan) -> float:
    return 0.02 / math.sqrt(2 * fan.depth) if fan.role in ("out", "fc2") else 0.02


INITS: Mapping[str, Init] = MappingProxyType(
    {
        "xavier": Init(lambda fan: math.sqrt(2 / (fan.inputs + fan.stacked_outputs))),
        "xavier_split": Init(lambda fan: math.sqrt(2 / (fan.inputs + fan.role_outputs))),
        "torch": Init(lambda fan: 1 / math.sqrt(fan.inputs), uniform=True, biases=True),
        "unit": Init(lambda fan: 1 / math.sqrt(fan.inputs)),
        "small": Init(_small),
    }
)


def _draw(parameter: Tensor, name: str, seed: int, *, uniform: bool) -> None:
    generator = torch.Generator().manual_seed(seed_of("parameter", seed, name))
    if uniform:
        parameter.uniform_(-1, 1, generator=generator)
    else:
        parameter.normal_(generator=generator)


def _init_linear(linear: nn.Linear, name: str, roles: tuple[str, ...], config: RunConfig) -> None:
    init, scheme = INITS[config.init], SCHEMES[config.position]
    rows = linear.out_features // len(roles)
    _draw(linear.weight, f"{name}.weight", config.seed, uniform=init.uniform)
    for index, role in enumerate(roles):
        fan = Fan(linear.in_features, linear.out_features, rows, role, config.depth)
        gain = config.init_gain * scheme.gain(role, config.depth)
        linear.weight[index * rows : (index + 1) * rows].mul_(init.scale(fan) * gain)
    linear.bias.zero_()
    if init.biases:
        _draw(linear.bias, f"{name}.bias", config.seed, uniform=True)
        linear.bias.mul_(1 / math.sqrt(linear.in_features))


@torch.no_grad()
def initialize(network: nn.Module, config: RunConfig) -> None:
    """Set embeddings, LM head and the matrices of all blocks. Norms keep their default gains and biases."""
    for name, module in network.named_modules():
        role = name.rpartition(".")[2]
        if name == "head" and isinstance(module, nn.Linear):
            _draw(module.weight, "head.weight", config.seed, uniform=True)
            module.weight.mul_(1 / math.sqrt(module.in_features))
        elif isinstance(module, nn.Linear):
            _init_linear(module, name, ("q", "k", "v") if role == "qkv" else (role,), config)
        elif isinstance(module, nn.Embedding):
            _draw(module.weight, f"{name}.weight", config.seed, uniform=False)
            if name == "positions":
                module.weight.mul_(POSITION_STD)


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
