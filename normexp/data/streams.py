"""Named random streams: each random quantity comes from a separate generator, seeded by its name."""

from __future__ import annotations

import hashlib

import numpy as np


def seed_of(*names: object) -> int:
    """Return 63 bits of the SHA-256 of the names. They are the same in every process and on every machine."""
    text = "\x1f".join(map(str, names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(*names: object) -> np.random.Generator:
    """Return a generator that depends only on the names."""
    return np.random.Generator(np.random.PCG64(seed_of(*names)))
