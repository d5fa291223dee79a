"""Whether a file is as it was written: records, curves, and weights, of which the tensors are not read."""

from __future__ import annotations

import json
from pathlib import Path

from normexp.record import CurveRow, Result
from normexp.results import codec

MAX_HEADER = 10**8
"""Bytes of a safetensors header, by its format."""


def is_whole(path: Path) -> bool:
    """Whether a safetensors file is there, no symbolic link to one, and has the size that its header tells."""
    try:
        if path.is_symlink():
            return False
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            tensors = json.loads(file.read(min(size, MAX_HEADER)))
        ends = [entry["data_offsets"][1] for name, entry in tensors.items() if name != "__metadata__"]
        return bool(path.stat().st_size == 8 + size + max(ends, default=0))
    except (OSError, ValueError, AttributeError, KeyError, IndexError, TypeError):
        return False


def whole_curve(result: Result | None, text: str) -> list[CurveRow]:
    """The rows of curve.csv. ValueError where it is garbled, or ends before the result does."""
    curve = codec.curve_from_csv(text)
    if result is not None and curve and curve[-1].step < result.steps_done:
        raise ValueError(f"it ends at step {curve[-1].step} of {result.steps_done}")
    return curve


def is_record(path: Path) -> bool:
    """Whether a run.json can be read, if perhaps by a program with plugins only."""
    try:
        codec.record_from_json(path.read_text("utf-8"))
    except codec.UnknownRow:
        return True
    except (OSError, ValueError):
        return False
    return True
