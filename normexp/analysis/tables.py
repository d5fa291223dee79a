"""Tables of a sweep as text: its pivot tables, the table of all cells, and the reference losses of its tasks."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from normexp.analysis.cells import Cell, Run, best_first, cells, final_loss, result_word, shared
from normexp.analysis.frames import COUNTS
from normexp.analysis.frames import rows as rows_of
from normexp.config.keys import is_number
from normexp.config.labels import ALONE, Labels, heading, listed, loss_text, plural, range_text, values_text
from normexp.config.plan import LABEL, Plan, Published
from normexp.records.record import REFERENCES, Outcome, Status
from normexp.schemes.network_config import Value

if TYPE_CHECKING:
    import pandas as pd

Combination = tuple[Value, ...]

NO_RUNS = "no runs"
"""Shown instead of a table without rows."""
MEASURED = "final loss"
"""The column header of a table without column keys."""
REFERENCE_NAMES = {"floor": "entropy floor", "guess": "unigram loss", "bigram": "bigram loss"}
"""The names of the reference losses in texts, by column."""
SEVERAL = "Cells show mean ± standard deviation over seeds (number of seeds)."


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table of texts; each row has as many cells as the header. The `note` below it may cover tables above too."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def pivot(plan: Plan, runs: pd.DataFrame) -> list[TextTable]:
    """Return the pivot tables of a plan, one for each label and combination of the axes not named by the pivot."""
    if plan.pivot is None:
        return []
    row_keys, column_keys = plan.pivot.rows, plan.pivot.columns
    named, labels = {*row_keys, *column_keys}, plan.labels
    groups: dict[tuple[Value, ...], list[Cell]] = {}
    for cell in cells(plan, runs):
        rest = {key: value for key, value in cell.values.items() if key not in named}
        groups.setdefault(tuple(rest.values()), []).append(cell)
    tables = []
    for group in groups.values():
        rest = {key: value for key, value in group[0].values.items() if key not in named}
        title, rows = values_text(rest, labels), _varying(row_keys, group)
        tables.append(_table(title, rows, column_keys, group, plan.published, labels))
    all_cells = [cell for group in groups.values() for cell in group]
    several = SEVERAL if any(len(cell.runs) > 1 for cell in all_cells) else ""
    return _noted_once(tables, " ".join(filter(None, (several, shared_note(all_cells)))))


def shared_note(cells: Sequence[Cell]) -> str:
    """Return the note on runs that belong to several cells, so that totals are less than the sum over cells."""
    count = len(shared(cells))
    if not count:
        return ""
    verb = "belongs" if count == 1 else "belong"
    return f"{plural(count, 'run')} {verb} to several cells; totals count each run once."


def joined_values(several: Sequence[Mapping[str, Value]], labels: Labels = ALONE) -> dict[str, str]:
    """Return the values of cells with the same runs as texts, each distinct value once: `pre/post`."""
    return {key: "/".join(dict.fromkeys(labels.text(key, values[key]) for values in several)) for key in several[0]}


def joined_text(several: Sequence[Mapping[str, Value]], labels: Labels = ALONE) -> str:
    """Return the name of cells with the same runs, as `values_text` does for one: `position pre/post, lr 0.003`."""
    if len(several) == 1:
        return values_text(several[0], labels)
    texts = joined_values(several, labels)
    label = texts.pop(LABEL, "").strip("/")
    return ", ".join([*([label] if label else []), *(f"{key} {text}" for key, text in texts.items())])


def _varying(keys: Sequence[str], group: Sequence[Cell]) -> Sequence[str]:
    """Return the keys that distinguish the rows of a table, or all of them if none does."""
    return [key for key in keys if len({_all_values(cell)[key] for cell in group}) > 1] or keys


def _noted_once(tables: Sequence[TextTable], last: str) -> list[TextTable]:
    """Keep each note only below the last table that has it, and add the note `last` below the last table."""
    last_index = {table.note: index for index, table in enumerate(tables)}
    notes = [table.note if last_index[table.note] == index else "" for index, table in enumerate(tables)]
    notes[-1:] = [" ".join(filter(None, (note, last))) for note in notes[-1:]]
    return [replace(table, note=note) for table, note in zip(tables, notes, strict=True)]


def _table(
    title: str,
    row_keys: Sequence[str],
    column_keys: Sequence[str],
    group: Sequence[Cell],
    published: Iterable[Published],
    labels: Labels,
) -> TextTable:
    texts: dict[tuple[Combination, Combination], str] = {}
    sources: dict[str, None] = {}
    for cell in group:
        values = _all_values(cell)
        matching = [item for item in published if all(values.get(key) == value for key, value in item.where.items())]
        sources |= dict.fromkeys(item.source for item in matching)
        row, column = tuple(values[key] for key in row_keys), tuple(values[key] for key in column_keys)
        texts[row, column] = cell_text(cell) + "".join(f" [{item.text}]" for item in matching)
    rows, columns = _ordered(row for row, _ in texts), _ordered(column for _, column in texts)
    return TextTable(
        title=title,
        header=(" / ".join(row_keys), *(heading(column_keys, column, labels) or MEASURED for column in columns)),
        rows=tuple(
            (_row_heading(row_keys, row, labels), *(texts.get((row, column), "") for column in columns)) for row in rows
        ),
        note=f"In brackets: {'; '.join(sources)}." if sources else "",
    )


def _ordered(combinations: Iterable[Combination]) -> list[Combination]:
    """Return the distinct combinations, sorted key by key: numbers ascending, words in order of first appearance."""
    distinct = list(dict.fromkeys(combinations))
    ranks = [_in_order(values) for values in zip(*distinct, strict=True)]
    return sorted(distinct, key=lambda values: [rank.index(value) for rank, value in zip(ranks, values, strict=True)])


def _in_order(values: Sequence[Value]) -> list[Value]:
    known = list(dict.fromkeys(values))
    return sorted(known) if all(map(is_number, known)) else known


def _all_values(cell: Cell) -> Mapping[str, Value]:
    """Return the values of all keys: the configured axis values, and those of the run for other keys."""
    return cell.point.config.to_dict() | cell.values


def _row_heading(keys: Sequence[str], values: Sequence[Value], labels: Labels) -> str:
    """Return the heading of a row. A single value is not named: the header names its key."""
    return labels.text(keys[0], values[0]) if len(keys) == 1 else heading(keys, values, labels)


def cell_text(cell: Cell) -> str:
    """Return the result of a cell as text.

    For one run: `1.865`, `plateau 4.07, falling`, `nan @12`. For several: `1.870 ± 0.020 (3)`, `2/3 nan @12–33`.
    """
    groups: dict[str, list[Run]] = {}
    for run in sorted(cell.runs, key=_rank):
        groups.setdefault(result_word(run), []).append(run)
    total = len(cell.runs)
    if total == 1:
        return _single(next(iter(groups)), cell.runs[0])
    return "; ".join(_several(result, runs, total) for result, runs in groups.items())


def _rank(run: Run) -> int:
    order = [*Outcome]
    return order.index(Outcome(run["outcome"])) if run["status"] == Status.DONE else len(order)


def _single(result: str, run: Run) -> str:
    if run["status"] != Status.DONE:
        return result
    if run["outcome"] == Outcome.NONFINITE:
        return f"{run['kind']} @{run['step']}"
    loss = final_loss(run)
    return loss_text(loss) if result == Outcome.LEARNED else f"{result} {loss_text(loss, 2)}{_trends([run])}"


def _several(result: str, runs: Sequence[Run], total: int) -> str:
    share = f"{len(runs)}/{total}"
    first = runs[0]
    if first["status"] != Status.DONE:
        return f"{share} {result}"
    if first["outcome"] == Outcome.NONFINITE:
        kinds = "/".join(sorted({run["kind"] for run in runs}, reverse=True))
        return f"{share} {kinds} @{range_text(run['step'] for run in runs)}"
    losses = [final_loss(run) for run in runs]
    spread = f" ± {loss_text(statistics.stdev(losses))}" if len(losses) > 1 else ""
    mean = f"{loss_text(statistics.fmean(losses))}{spread} ({total if len(runs) == total else share})"
    return mean if result == Outcome.LEARNED else f"{result} {mean}{_trends(runs)}"


def _trends(runs: Sequence[Run]) -> str:
    """Return how the losses still changed at the end of training: `, falling` or `, 2 falling, 1 rising`."""
    counts = {trend: sum(run["trend"] == trend for run in runs) for trend in ("falling", "rising")}
    return "".join(
        f", {trend}" if count == len(runs) else f", {count} {trend}" for trend, count in counts.items() if count
    )


def cell_table(plan: Plan, summary: pd.DataFrame) -> TextTable:
    """Return one row per cell, best median first. Means, standard deviations and 95 % CIs are over finite runs."""
    axes, texts = plan.cell_axes, plan.labels
    labels = ["label"] if any(summary["label"]) else []
    header = (
        *labels,
        *axes,
        *COUNTS,
        "median",
        "mean ± std",
        "95 % CI",
        "finite runs",
        "learned fraction",
        "non-finite at step",
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
    note = "Runs that belong to several cells are shown in each of them." if count else ""
    return TextTable(title="", header=header, rows=tuple(rows), note=note)


def _text(number: float | None) -> str:
    """Return a loss as text, empty if it is missing."""
    return "" if number is None else loss_text(number)


def reference_losses(summary: pd.DataFrame) -> str:
    """Return the reference losses of the sweep's tasks, as ranges if they differ, by label if the labels differ."""
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
    for column in REFERENCES:
        ends = dict.fromkeys((loss_text(known[column].min()), loss_text(known[column].max())))
        parts.append(f"{REFERENCE_NAMES[column]} {' to '.join(ends)}")
    return ", ".join(parts)
