"""A network's running statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def kept_statistics(network: nn.Module) -> Iterator[None]:
    """Give every buffer (running statistics) its value back at the end: looking must not change the training."""
    before = [(buffer, buffer.clone()) for buffer in network.buffers()]
    try:
        yield
    finally:
        for buffer, values in before:
            buffer.copy_(values)
