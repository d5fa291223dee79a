"""A small network, as arguments of `normexp probe` and as keys."""

from __future__ import annotations

TINY = ("width=8", "hidden=8", "heads=2", "vocab=8", "seq_len=6", "batch=4", "order=1")
KEYS_OF_TINY = {"width": 8, "hidden": 8, "heads": 2, "vocab": 8, "seq_len": 6, "batch": 4, "order": 1}
