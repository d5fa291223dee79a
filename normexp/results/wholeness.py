"""Whether a file is as it was written: records, traces, logs and weights, whose tensors are not read.

`run.json` holds a stamp of each other file of its run: size, SHA-256 and, of a table, rows. Runs of older versions have
no stamps; of theirs, the form alone is checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from normexp.record import CurveRow, Result
from normexp.results import codec

MAX_HEADER = 10**8
"""Bytes of a safetensors header, by its format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """A file as it was written. `rows` of a table, without its header; `packed` is the stamp of what a pack restores.

    `packed` is None where that is the file itself: a pack leaves nothing but the gradient norms of a curve out.
    """

    bytes: int
    sha256: str
    rows: int | None = None
    packed: Stamp | None = None


def stamp(content: bytes, packed: bytes | None = None, *, table: bool = False) -> Stamp:
    """The stamp of a file, and of what a pack restores of it if that is not the same."""
    return Stamp(
        bytes=len(content),
        sha256=_sha256(content),
        rows=_rows(content) if table else None,
        packed=stamp(packed) if packed is not None and packed != content else None,
    )


def stamps_from(text: str) -> dict[str, Stamp]:
    """The stamps in a run.json, none in that of an older version. Raises ValueError."""
    found: dict[str, Stamp] = codec.typed(dict[str, Stamp], codec.from_json(text).get(codec.FILES, {}), codec.FILES)
    return found


def check_size(size: int, written: Stamp) -> None:
    """Raise ValueError where a file of this many bytes cannot be the one that was written."""
    if size not in {either.bytes for either in (written, written.packed) if either is not None}:
        raise ValueError(f"it has {size} bytes, and was written with {written.bytes}")


def check(content: bytes, written: Stamp) -> None:
    """Raise ValueError where a file is not the one that was written, nor what a pack restores of it."""
    if written.rows is not None and _rows(content) != written.rows:
        raise ValueError(f"it has {_rows(content)} rows, and was written with {written.rows}")
    check_size(len(content), written)
    if _sha256(content) not in {either.sha256 for either in (written, written.packed) if either is not None}:
        raise ValueError("its content is not what was written: its SHA-256 differs")


def is_empty(table: bytes) -> bool:
    """Whether a table has no rows."""
    return _rows(table) == 0


def _rows(content: bytes) -> int:
    """Lines below the header."""
    return max(0, content.count(b"\n") - 1)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
    """The rows of curve.csv. Raises ValueError where it is garbled, or ends before the result does."""
    curve = codec.curve_from_csv(text)
    if result is not None and curve and curve[-1].step < result.steps_done:
        raise ValueError(f"it ends at step {curve[-1].step} of {result.steps_done}")
    return curve


def check_unstamped(result: Result | None, curve: Sequence[CurveRow]) -> None:
    """Raise ValueError where a curve without a stamp lacks or repeats a step, or contradicts the result of its run.

    A curve has one row a step, from 0 on, and its first and last validation losses are those of the result.
    """
    for step, row in enumerate(curve):
        if row.step != step:
            raise ValueError(f"line {step + 2} is of step {row.step}, not {step}: rows were lost or added")
    if result is None or not curve:
        return
    known = {"init_val_loss": (curve[0].val_loss, result.init_val_loss)}
    if result.final_val_loss is not None:
        known["final_val_loss"] = (curve[-1].val_loss, result.final_val_loss)
    for name, (here, there) in known.items():
        if repr(here) != repr(there):
            raise ValueError(f"it is not of this run: its {name} is {here}, and that of run.json is {there}")


def is_record(path: Path) -> bool:
    """Whether a run.json can be read, if perhaps by a program with plugins only."""
    try:
        codec.record_from_json(path.read_text("utf-8"))
    except codec.UnknownRow:
        return True
    except (OSError, ValueError):
        return False
    return True
