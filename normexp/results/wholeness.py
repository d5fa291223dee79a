"""Whether a file of weights was cut or emptied since it was written: without reading the tensors."""

from __future__ import annotations

import json
from pathlib import Path

MAX_HEADER = 10**8
"""Bytes of a safetensors header, by its format."""


def is_whole(path: Path) -> bool:
    """Whether a safetensors file is there and has the size that its header tells."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            tensors = json.loads(file.read(min(size, MAX_HEADER)))
        ends = [entry["data_offsets"][1] for name, entry in tensors.items() if name != "__metadata__"]
        return bool(path.stat().st_size == 8 + size + max(ends, default=0))
    except (OSError, ValueError, AttributeError, KeyError, IndexError, TypeError):
        return False
