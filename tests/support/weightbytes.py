"""Weights of a small network as bytes, intact and modified."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from normexp.config.run import RunConfig
from normexp.model.network import Network, build
from normexp.training.weights import network_from, tensors_of, weights_bytes


def small(**keys: Any) -> RunConfig:
    return RunConfig(**{"depth": 2, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "seq_len": 4, "order": 1, **keys})


def shuffled(config: RunConfig) -> Network:
    """Return a network with random numbers in every parameter and statistic."""
    network = build(config)
    generator = torch.Generator().manual_seed(2)
    for tensor in tensors_of(network).values():
        tensor.copy_(torch.rand(tensor.shape, generator=generator) * 9)
    return network


def read(data: bytes, config: RunConfig | None = None) -> tuple[RunConfig, Network]:
    return network_from(data, origin="here.safetensors", config=config)


def same(one: Network, other: Network) -> bool:
    pairs = zip(tensors_of(one).items(), tensors_of(other).items(), strict=True)
    return all(a == b and torch.equal(x, y) and x.dtype == y.dtype for (a, x), (b, y) in pairs)


CONFIG = small()
DATA = weights_bytes(shuffled(CONFIG), CONFIG)
TENSORS: Mapping[str, Tensor] = tensors_of(shuffled(CONFIG))


def tampered(change: Callable[[dict[str, Tensor]], object], config: RunConfig = CONFIG) -> bytes:
    tensors = {name: tensor.clone() for name, tensor in TENSORS.items()}
    change(tensors)
    return save(tensors, {"normexp_config": json.dumps(config.to_dict()), "normexp_format": "1"})


def with_header(text: bytes, size: int | None = None) -> bytes:
    return (len(text) if size is None else size).to_bytes(8, "little") + text + b"\0" * 64
