"""Memory for buffers that live as long as a program: side by side, in large pages where the system has them.

A step writes and reads tens of megabytes in small pieces; in pages of 4 KiB, part of its time goes into finding them.
"""

from __future__ import annotations

import contextlib
import math
import mmap

import torch
from torch import Tensor

CHUNK_BYTES = 2**25
"""What is asked of the system at a time; a chunk begins at a large page, and what is not touched costs nothing."""
ALIGNED_BYTES = 64
"""A buffer begins at a cache line."""
PAGE_BYTES = 2**21


class Arena:
    """Gives out float32 tensors filled with zeros, and never takes them back."""

    def __init__(self) -> None:
        self._map(CHUNK_BYTES)

    def zeros(self, *shape: int) -> Tensor:
        """A tensor of float32, with a storage of its own: autograd tells tensors apart by it."""
        count = math.prod(shape)
        size = -(-4 * count // ALIGNED_BYTES) * ALIGNED_BYTES
        if self._start + size > self._stop:
            self._map(max(size, CHUNK_BYTES))
        tensor = torch.frombuffer(self._chunk, dtype=torch.float32, count=count, offset=self._start).view(shape)
        self._start += size
        return tensor

    def _map(self, size: int) -> None:
        """Take fresh zeros from the system, from the border of a large page on."""
        self._chunk = mmap.mmap(-1, size + PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without large pages
                self._chunk.madvise(mmap.MADV_HUGEPAGE)
        self._start = -torch.frombuffer(self._chunk, dtype=torch.uint8).data_ptr() % PAGE_BYTES
        self._stop = self._start + size
