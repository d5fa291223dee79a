"""How many threads torch computes with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def thread_count(threads: int) -> Iterator[None]:
    """torch with so many threads, and afterwards with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def alone() -> Iterator[None]:
    """torch with one thread, and its random state given back at the end."""
    with thread_count(1), torch.random.fork_rng(devices=[]):
        yield
