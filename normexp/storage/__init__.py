"""Reading and writing of results folders."""

from pathlib import Path

RESULTS = Path("results")
"""The default results folder."""
