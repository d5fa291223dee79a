"""The sweep for searches of stability limits: one cell for each of two positions."""

from __future__ import annotations

BASE = "depth: 1, width: 8, hidden: 8, heads: 2, vocab: 8, batch: 4, steps: 5, eval_every: 5"
CELLS = f"name: tiny\ntitle: Tiny\nbase: {{{BASE}}}\ngrid: {{position: [post, pre]}}\n"
