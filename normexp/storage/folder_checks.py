"""Whether a file is as it was written: records, traces, logs and weights, whose tensors are not read.

`run.json` holds a stamp of each other file of its run: size, SHA-256 and, of a table, rows. Runs of older versions have
no stamps; of theirs, the form alone is checked.

Why a results folder cannot be taken for a sweep; nothing here writes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shlex
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from normexp.config.run import UnknownRow
from normexp.errors import UserError
from normexp.records.record import CurveRow, Result
from normexp.storage import RESULTS, codec
from normexp.storage.files import SUFFIX, is_readable, storage_errors
from normexp.storage.manifest import Configs, Newer, differences


def unwritable(folder: Path) -> None:
    """Raise StorageError where a folder cannot be made, or written to."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(path))
    with storage_errors(folder, "make"):
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def no_sweep(folder: Path, manifest: str, pack: str) -> str:
    """Why a folder without a manifest is not that of a sweep, and what helps."""
    if is_readable(folder / pack):
        return f"{folder}: its runs are packed: restore them first, with `normexp unpack {shlex.quote(str(folder))}`"
    told = f"{folder} is not a results folder: it has no {manifest}"
    if not os.path.isdir(folder):
        told = f"{folder} is a file, not a results folder" if os.path.exists(folder) else f"{folder}: no such folder"
    return f"{told}; did you mean {RESULTS / folder}?" if is_readable(RESULTS / folder / manifest) else told


def foreign(folder: Path, ours: Set[str], manifest: str, read_manifest: Callable[[], object]) -> None:
    """Raise UserError where a folder holds files that are not `ours`, and no manifest that can be read."""
    with storage_errors(folder, "make"):
        names = {path.name for path in folder.iterdir()}
    others = sorted(name for name in names - ours if not name.endswith(SUFFIX))
    if manifest in names or others:
        try:
            read_manifest()
        except UserError as error:
            if others or manifest not in names:
                raise UserError(
                    f"{folder} holds files that are not normexp's ({', '.join(others[:3])}): "
                    "choose another folder with --out"
                ) from error


def other_sweep(folder: Path, stored: Set[str], read_old: Callable[[], Configs], new: Configs) -> None:
    """Raise UserError where a folder's stored runs, and those of its sweep, are none of the `new` ones.

    One whose manifest is damaged is known by its stored runs alone.
    """
    try:
        old = read_old()
    except UserError as error:
        if isinstance(error.__cause__, Newer) or not stored & set(new):
            raise
        return
    if not (stored | set(old)) & set(new):
        raise UserError(
            f"{folder} belongs to another sweep, whose {len(stored)} stored runs this one shares none of:",
            *differences(old, new),
            "choose another name or --out, or take the folder over with --force",
        )


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
    except UnknownRow:
        return True
    except (OSError, ValueError):
        return False
    return True
