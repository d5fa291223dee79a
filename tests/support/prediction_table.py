"""The table of docs/predictions.md: predictions for networks at initialization, with their verdicts.

`python tests/support/prediction_table.py` prints it as Markdown.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from normexp.claims import evaluate
from normexp.claims.claim import Kind, Verdict
from normexp.claims.files import choose
from normexp.claims.verdict_text import measured
from normexp.report.markdown import escape


@functools.cache
def verdicts() -> Sequence[Verdict]:
    """Return the verdict of every calculated claim of the papers."""
    file, claims, _ = choose(["papers"])
    return evaluate.judged(file, [claim for claim in claims if claim.kind is Kind.COMPUTE], Path("no runs"))


def table() -> str:
    """Return every claim with its stated value, verdict and measurement, as Markdown."""
    lines = ["| claim | source | stated | verdict | measured here |", "|---|---|---|---|---|"]
    for verdict in verdicts():
        claim = verdict.claim
        cells = (claim.text, claim.section, claim.stated, verdict.text, measured(verdict))
        lines.append(f"| {' | '.join(map(escape, cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
