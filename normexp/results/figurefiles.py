"""The figures of a sweep as they lie in its folder, and whether they are those of its tables."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import normexp
from normexp.errors import UserError
from normexp.results.atomic import below, read_those, storage_errors, write_atomically
from normexp.results.reportfiles import WEBPAGE
from normexp.results.store import DRAWN, FIGURES


def pictures(folder: Path) -> dict[str, bytes]:
    """The PNGs of a sweep's figures by name, without suffix. Raises UserError."""
    found = {}
    for path in sorted((folder / FIGURES).glob("*.png")):
        with storage_errors(path, "read"):
            found[path.stem] = below(folder, FIGURES, path.name).read_bytes()
    return found


def drawn(folder: Path, tables: Iterable[str]) -> bool:
    """Whether a sweep's figures and page were made by this program from these tables, and are all there, undamaged."""
    try:
        digest, *names = read_those(folder, (DRAWN,)).get(DRAWN, b"").decode("utf-8", "replace").splitlines()
        return digest == _digest(tables) and set(names) <= {*_figures(folder)}
    except (UserError, ValueError):
        return False


def note_drawn(folder: Path, tables: Iterable[str]) -> None:
    """Let `drawn` know that the figures are of these tables. Raises StorageError."""
    write_atomically(below(folder, DRAWN), "\n".join([_digest(tables), *_figures(folder)]) + "\n")


def _digest(tables: Iterable[str]) -> str:
    digest = hashlib.sha256(normexp.__version__.encode())
    for table in tables:
        digest.update(table.encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _figures(folder: Path) -> list[str]:
    """Digest and name of each: a damaged one is none of them."""
    paths = [path for path in (*sorted((folder / FIGURES).glob("*.*")), folder / WEBPAGE) if path.is_file()]
    with storage_errors(folder, "read"):
        return [f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.name}" for path in paths]
