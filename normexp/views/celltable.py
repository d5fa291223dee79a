"""The cells of a sweep as a table of texts, and the reference losses of its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from normexp.labels import listed, loss_text, range_text
from normexp.plan import Plan
from normexp.record import REFERENCES
from normexp.views.pivot import TextTable
from normexp.views.summary import best_first
from normexp.views.tables import COUNTS
from normexp.views.tables import rows as rows_of

if TYPE_CHECKING:
    import pandas as pd


def cell_table(plan: Plan, summary: pd.DataFrame) -> TextTable:
    """One row a cell, best first and dead last; losses over survivors as mean ± std, the 95 % interval beside."""
    axes, texts = plan.cell_axes, plan.labels
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
    for row in rows_of(best_first(summary)):
        keys = [texts.text(key, row[key]) for key in [*labels, *axes]]
        mean, spread, low = row["mean_val_loss"], row["std_val_loss"], row["low95_val_loss"]
        rows.append(
            (
                *keys,
                *(str(row[name]) for name in COUNTS),
                _text(row["median_val_loss"]),
                _text(mean) + ("" if spread is None else f" ± {_text(spread)}"),
                "" if low is None else f"{_text(low)} to {_text(row['high95_val_loss'])}",
                row["survivors"],
                _text(row["learned_fraction"]),
                range_text([row["first_dead_step"], row["last_dead_step"]]) if row["nonfinite"] else "",
            )
        )
    count = "" if summary.empty else int(summary["shared_runs"].sum())
    note = "Cells with a run that answers several of them each show it." if count else ""
    return TextTable(title="", header=header, rows=tuple(rows), note=note)


def _text(number: float | None) -> str:
    """Nothing for what was not measured."""
    return "" if number is None else loss_text(number)


def reference_losses(summary: pd.DataFrame) -> str:
    """Floor, guess and bigram of the sweep's tasks, as ranges where they differ; label by label if labels differ."""
    known = summary.dropna(subset=["floor"])
    if known.empty:
        return ""
    labels: dict[str, list[str]] = {}
    for label, rows in known.groupby("label", sort=False):
        labels.setdefault(_references(rows), []).append(str(label))
    texts = [f"{listed(names)}: {text}" for text, names in labels.items()] if len(labels) > 1 else list(labels)
    return f"Reference losses in nats: {'; '.join(texts)}."


def _references(known: pd.DataFrame) -> str:
    parts = []
    for name in REFERENCES:
        ends = dict.fromkeys((loss_text(known[name].min()), loss_text(known[name].max())))
        parts.append(f"{name} {' to '.join(ends)}")
    return ", ".join(parts)
