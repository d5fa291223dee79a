"""What a training goes on from besides its parameters: the network's running statistics, and torch's random state.

Nothing here draws from the latter, but a user's norm may.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from normexp.run import RunConfig
from normexp.streams import seed_of


@contextmanager
def seeded(config: RunConfig) -> Iterator[None]:
    """While open, torch's random numbers are those of the config, from the first one on."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("torch", config.seed))
        yield


@contextmanager
def kept_state(network: nn.Module) -> Iterator[None]:
    """Give every buffer its value and torch its random state back at the end: looking must not change the training."""
    before = [(buffer, buffer.clone()) for buffer in network.buffers()]
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for buffer, values in before:
            buffer.copy_(values)
