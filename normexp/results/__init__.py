"""The only readers and writers of results/."""

from pathlib import Path

RESULTS = Path("results")
"""The folder of all results, unless told otherwise."""
