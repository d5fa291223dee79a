"""Files for other programs, where the user wants them: nothing that is there is replaced unless asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from normexp.errors import UserError
from normexp.results.atomic import make_folder, storage_errors, write_atomically


def refuse_what_is_there(target: Path) -> None:
    """Raise UserError where a file is there already, or a folder that holds something."""
    with storage_errors(target, "read"):
        there = next(target.iterdir(), None) is not None if target.is_dir() else target.exists()
    if there:
        raise UserError(f"{target} is there already: replace it with --force, or give another --out")


def write(files: Iterable[tuple[Path, bytes]]) -> list[Path]:
    """Write each file whole, making its folder if need be; one at a time is held. Raises StorageError."""
    made = []
    for path, content in files:
        make_folder(path.parent)
        write_atomically(path, content)
        made.append(path)
    return made
