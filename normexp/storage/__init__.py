"""The only readers and writers of results folders."""

from pathlib import Path

RESULTS = Path("results")
"""The folder of all results, unless told otherwise."""
