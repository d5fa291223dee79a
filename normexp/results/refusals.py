"""Why a results folder cannot be taken for a sweep; nothing here writes."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Callable, Set
from pathlib import Path

from normexp.errors import UserError
from normexp.results import RESULTS
from normexp.results.atomic import SUFFIX, is_readable, storage_errors
from normexp.results.manifest import Configs, Newer, differences


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
