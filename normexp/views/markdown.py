"""summary.md and collapse.md: the same text tables as on the terminal, in GitHub's Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from normexp.labels import shown
from normexp.plan import Plan
from normexp.views.celltable import cell_table, reference_losses
from normexp.views.pivot import NO_RUNS, TextTable

if TYPE_CHECKING:
    import pandas as pd


def document(
    plan: Plan, conclusion: str, pivots: Sequence[TextTable], summary: pd.DataFrame, warnings: Sequence[str]
) -> str:
    """Title, conclusion, pivots, cells, reference losses, warnings."""
    blocks = [f"# {escape(plan.title or plan.name)}", escape(conclusion)]
    for table in pivots:
        blocks += [f"## {escape(table.title)}"] if table.title else []
        blocks += [table_text(table)] + ([escape(table.note)] if table.note else [])
    blocks += ["## Cells", table_text(cell_table(plan, summary))]
    references = reference_losses(summary)
    blocks += [escape(references)] if references else []
    if warnings:
        blocks += ["## Warnings", "\n".join(f"- {escape(warning)}" for warning in warnings)]
    return "\n\n".join(blocks) + "\n"


def worded_tables(words: str, tables: Sequence[TextTable]) -> str:
    """A sentence, and each table below its title."""
    blocks = [escape(words), *(f"## {escape(table.title)}\n\n{table_text(table)}" for table in tables)]
    return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is, in one line and in one cell."""
    one_line = " ".join(shown(text).split())
    return re.sub(r"([\\|`*_\[\]#])", r"\\\1", one_line).replace("&", "&amp;").replace("<", "&lt;")


def table_text(table: TextTable) -> str:
    """A table in Markdown, without its title."""
    lines = [_line(table.header), _line(["---"] * len(table.header), raw=True)]
    lines += [_line(row) for row in table.rows]
    return "\n".join(lines) + ("" if table.rows else f"\n\n{NO_RUNS}")


def _line(cells: Sequence[str], *, raw: bool = False) -> str:
    return f"| {' | '.join(cells if raw else map(escape, cells))} |"
