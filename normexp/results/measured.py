"""What a command has measured, in a folder of its own: a table, and its figure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from normexp.errors import UserError
from normexp.results.atomic import below, make_folder, write_atomically
from normexp.results.lock import driver_lock
from normexp.results.store import Store


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make the folder if need be, and hold it. Raises UserError where it is a sweep's, or another command holds it."""
    if Store(folder).exists():
        raise UserError(f"{folder} is the folder of a sweep: choose another with --out")
    make_folder(below(folder.parent, folder.name))
    with driver_lock(folder):
        yield


def write(folder: Path, name: str, csv: str, images: Mapping[str, bytes]) -> None:
    """Write the table, and each image by its suffix, under one name. Raises StorageError."""
    write_atomically(folder / f"{name}.csv", csv)
    for suffix, image in images.items():
        write_atomically(folder / f"{name}.{suffix}", image)
