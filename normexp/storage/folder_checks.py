"""Checks of results folders and their files. Nothing is written here.

`run.json` contains a stamp of every other file of its run: size, SHA-256 and, for tables, the number of rows. Runs of
older versions have no stamps; only the format of their files is checked.
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

MAX_HEADER = 10**8
"""Largest safetensors header in bytes that the format allows."""


def unwritable(folder: Path) -> None:
    """Raise StorageError if a folder cannot be created or written to."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(path))
    with storage_errors(folder, "make"):
        if not existing.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def no_sweep(folder: Path, manifest: str, pack: str) -> str:
    """Return why a folder without a manifest is not a sweep's, and what to do."""
    if is_readable(folder / pack):
        return f"{folder}: its runs are packed: restore them first with `normexp unpack {shlex.quote(str(folder))}`"
    message = f"{folder} is not a results folder: it has no {manifest}"
    if not os.path.isdir(folder):
        message = f"{folder} is a file, not a results folder" if os.path.exists(folder) else f"{folder}: no such folder"
    return f"{message}; did you mean {RESULTS / folder}?" if is_readable(RESULTS / folder / manifest) else message


def foreign(folder: Path, ours: Set[str], manifest: str, read_manifest: Callable[[], object]) -> None:
    """Raise UserError if a folder has files other than `ours` and no readable manifest."""
    with storage_errors(folder, "make"):
        names = {path.name for path in folder.iterdir()}
    others = sorted(name for name in names - ours if not name.endswith(SUFFIX))
    if manifest in names or others:
        try:
            read_manifest()
        except UserError as error:
            if others or manifest not in names:
                raise UserError(
                    f"{folder} contains files that are not normexp's ({', '.join(others[:3])}): "
                    "choose another folder with --out"
                ) from error


def other_sweep(folder: Path, stored: Set[str], read_old: Callable[[], Configs], new: Configs) -> None:
    """Raise UserError if a folder shares no run with the `new` sweep.

    If its manifest is damaged, only its stored runs are compared.
    """
    try:
        old = read_old()
    except UserError as error:
        if isinstance(error.__cause__, Newer) or not stored & set(new):
            raise
        return
    if not (stored | set(old)) & set(new):
        raise UserError(
            f"{folder} belongs to another sweep: none of its {len(stored)} stored runs is part of this one:",
            *differences(old, new),
            "choose another name or --out, or overwrite the folder with --force",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Size and SHA-256 of a file when it was written, and for tables the number of rows below the header.

    `packed` is the stamp of the file as restored from a pack, or None if that is equal. Only curves differ: packs leave
    out gradient norms.
    """

    bytes: int
    sha256: str
    rows: int | None = None
    packed: Stamp | None = None


def stamp(content: bytes, packed: bytes | None = None, *, table: bool = False) -> Stamp:
    """Return the stamp of a file, with that of its restored form `packed` if it is different."""
    return Stamp(
        bytes=len(content),
        sha256=_sha256(content),
        rows=_rows(content) if table else None,
        packed=stamp(packed) if packed is not None and packed != content else None,
    )


def stamps_from(text: str) -> dict[str, Stamp]:
    """Return the stamps in a run.json; none if it was written by an older version. Raises ValueError."""
    stamps: dict[str, Stamp] = codec.typed(dict[str, Stamp], codec.from_json(text).get(codec.FILES, {}), codec.FILES)
    return stamps


def check_size(size: int, written: Stamp) -> None:
    """Raise ValueError if a file's size is neither that when written nor that when restored from a pack."""
    if size not in {form.bytes for form in (written, written.packed) if form is not None}:
        raise ValueError(f"it has {size} bytes instead of {written.bytes}")


def check(content: bytes, written: Stamp) -> None:
    """Raise ValueError if a file's content is neither that when written nor that when restored from a pack."""
    if written.rows is not None and _rows(content) != written.rows:
        raise ValueError(f"it has {_rows(content)} rows instead of {written.rows}")
    check_size(len(content), written)
    if _sha256(content) not in {form.sha256 for form in (written, written.packed) if form is not None}:
        raise ValueError("SHA-256 mismatch: the file was changed after it was written")


def is_empty(table: bytes) -> bool:
    """Return whether a table has no rows."""
    return _rows(table) == 0


def _rows(content: bytes) -> int:
    """Return the number of lines below the header."""
    return max(0, content.count(b"\n") - 1)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_whole(path: Path) -> bool:
    """Return whether the path is a safetensors file, not a symbolic link, of the size that its header implies."""
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
    """Parse curve.csv. Raises ValueError if it is damaged or ends before the last step of the result."""
    curve = codec.curve_from_csv(text)
    if result is not None and curve and curve[-1].step < result.steps_done:
        raise ValueError(f"it ends at step {curve[-1].step} instead of {result.steps_done}")
    return curve


def check_unstamped(result: Result | None, curve: Sequence[CurveRow]) -> None:
    """Raise ValueError if a curve without a stamp lacks or repeats a step, or contradicts the result of its run.

    A curve has one row per step, starting at 0. Its first and last validation losses are those of the result.
    """
    for step, row in enumerate(curve):
        if row.step != step:
            raise ValueError(f"line {step + 2} has step {row.step} instead of {step}: rows were lost or added")
    if result is None or not curve:
        return
    known = {"init_val_loss": (curve[0].val_loss, result.init_val_loss)}
    if result.final_val_loss is not None:
        known["final_val_loss"] = (curve[-1].val_loss, result.final_val_loss)
    for name, (in_curve, in_record) in known.items():
        if repr(in_curve) != repr(in_record):
            raise ValueError(f"it belongs to another run: its {name} is {in_curve}, that of run.json is {in_record}")


def is_record(path: Path) -> bool:
    """Return whether a run.json can be read, possibly only with plugins that are not loaded."""
    try:
        codec.record_from_json(path.read_text("utf-8"))
    except UnknownRow:
        return True
    except (OSError, ValueError):
        return False
    return True
