"""Networks with LayerNorm and random weights, and the difference between two of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig
from normexp.model.network import Network, build
from normexp.schemes.schemes import SCHEMES, Scale, Scheme, by_branch

ROUNDING = 1e-12


def small(**keys: Any) -> RunConfig:
    tiny = {"depth": 6, "width": 16, "hidden": 24, "vocab": 11, "norm": "ln", "order": 1, "batch": 4, "steps": 20}
    return RunConfig(**{**tiny, **keys})


def shuffled(config: RunConfig, dtype: torch.dtype = torch.float64) -> Network:
    """Return a network with random gains, biases, matrices and scales."""
    network = build(config).to(dtype)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3)
    return network


def tokens(vocab: int = 11) -> Tensor:
    return torch.randint(0, vocab, (8, 16), generator=torch.Generator().manual_seed(0))


def error(one: Network, other: Network) -> float:
    with torch.no_grad():
        return float((one(tokens()) - other(tokens())).abs().max())


def no_final_bias(network: Network) -> Network:
    with torch.no_grad():
        network.final_norm.bias.zero_()
    return network


def even(network: Network, gain: float, *, biases: bool = True) -> Network:
    """Make all gains equal, so that a zero mean stays zero, and remove the mean of the embeddings."""
    for module in network.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.constant_(module.weight, gain)
            if not biases:
                nn.init.zeros_(module.bias)
    with torch.no_grad():
        for table in filter(None, (network.embedding, network.positions)):
            table.weight -= table.weight.mean(1, keepdim=True)
    return network


@contextmanager
def scheme(mixer: frozenset[str], ffn: frozenset[str], **scales: Scale) -> Iterator[str]:
    """Yield the name of a scheme with these norm sites and scales, which is in the table while open."""
    doors = by_branch(mixer=tuple(mixer), ffn=tuple(ffn))
    SCHEMES.add("odd", Scheme(doors=doors, final_norm=True, help="", source="", **scales), "test")
    try:
        yield "odd"
    finally:
        SCHEMES.remove("test")


def scales_of(numbers: tuple[float, float, float, float], learned: bool) -> dict[str, Scale]:
    """Return scales that differ by layer, learned or not; only the FFN has `bottom`."""
    skip, branch_in, branch_out, bottom = numbers
    return {
        "skip": Scale(lambda site: skip, learned=learned),
        "branch_in": Scale(lambda site: branch_in * site.layer, learned=learned),
        "branch_out": Scale(lambda site: branch_out, learned=learned, shared=True),
        "bottom": Scale(lambda site: bottom if site.branch == "ffn" else 0.0),
    }
