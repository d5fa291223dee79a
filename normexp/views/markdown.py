"""summary.md: the same text tables as on the terminal, in GitHub's Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from normexp.labels import loss_text, range_text, shown, value_text
from normexp.plan import Plan
from normexp.record import REFERENCES
from normexp.views.pivot import TextTable
from normexp.views.summary import by_loss
from normexp.views.tables import COUNTS

if TYPE_CHECKING:
    import pandas as pd

NO_RUNS = "no runs"


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


def cell_table(plan: Plan, summary: pd.DataFrame) -> TextTable:
    """One row a cell, best first and dead last; losses over survivors as mean ± std, the 95 % interval beside."""
    axes = plan.cell_axes
    labels = ["label"] if any(summary["label"]) else []
    header = (
        *labels,
        *axes,
        *COUNTS,
        "median",
        "mean ± std",
        "95 % interval",
        "survivors",
        "learned fraction",
        "died at",
    )
    rows = []
    for row in by_loss(summary).to_dict("records"):
        keys = [value_text(key, row[key]) for key in [*labels, *axes]]
        mean, spread, low = row["mean_val_loss"], row["std_val_loss"], row["low95_val_loss"]
        rows.append(
            (
                *keys,
                *(str(row[name]) for name in COUNTS),
                loss_text(row["median_val_loss"]),
                loss_text(mean) + ("" if math.isnan(spread) else f" ± {loss_text(spread)}"),
                "" if math.isnan(low) else f"{loss_text(low)} to {loss_text(row['high95_val_loss'])}",
                row["survivors"],
                loss_text(row["learned_fraction"]),
                range_text([row["first_dead_step"], row["last_dead_step"]]) if row["nonfinite"] else "",
            )
        )
    return TextTable(title="", header=header, rows=tuple(rows))


def reference_losses(summary: pd.DataFrame) -> str:
    """Floor, guess and bigram of the sweep's tasks, as ranges where they differ."""
    known = summary.dropna(subset=["floor"])
    if known.empty:
        return ""
    parts = []
    for name in REFERENCES:
        ends = dict.fromkeys((loss_text(known[name].min()), loss_text(known[name].max())))
        parts.append(f"{name} {' to '.join(ends)}")
    return f"Reference losses in nats: {', '.join(parts)}."


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
