"""The heap of a process that trains keeps what is freed: giving it back to the system, and taking it again, costs
thousands of page faults a step, by luck of the layout."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""
KEPT_BYTES = 2**30
LARGEST_HEAP_BLOCK_BYTES = 2**25
"""The most that glibc accepts; larger blocks are mapped one by one."""


def keep_freed_memory() -> None:
    """Tell glibc so; where there is another C library, nothing changes."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_MMAP_THRESHOLD, LARGEST_HEAP_BLOCK_BYTES)
