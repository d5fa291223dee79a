"""The report of claims in a results folder, beside its sweeps."""

from __future__ import annotations

from pathlib import Path

from normexp.results.atomic import make_folder, write_atomically

REPORT, WEBPAGE, VERDICTS = "REPORT.md", "report.html", "verdicts.csv"
"""Its files; a sweep's own page has the name of the WEBPAGE too."""


def write(out: Path, name: str, content: str) -> Path:
    """Write a file of the report, whole or not at all. Raises StorageError."""
    make_folder(out)
    write_atomically(out / name, content)
    return out / name
