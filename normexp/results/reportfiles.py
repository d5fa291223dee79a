"""What lies in a results folder beside its sweeps: the report of claims; and the pictures of a sweep for it."""

from __future__ import annotations

from pathlib import Path

from normexp.results.atomic import below, make_folder, storage_errors, write_atomically
from normexp.results.store import FIGURES

REPORT, WEBPAGE, VERDICTS = "REPORT.md", "report.html", "verdicts.csv"


def write(out: Path, name: str, content: str) -> Path:
    """Write a file of the report, whole or not at all. Raises StorageError."""
    make_folder(out)
    write_atomically(out / name, content)
    return out / name


def pictures(folder: Path) -> dict[str, bytes]:
    """The PNGs of a sweep's figures by name, without suffix. Raises UserError."""
    found = {}
    for path in sorted((folder / FIGURES).glob("*.png")):
        with storage_errors(path, "read"):
            found[path.stem] = below(folder, FIGURES, path.name).read_bytes()
    return found
