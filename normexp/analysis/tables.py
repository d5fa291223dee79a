"""The cells of a sweep as a table of texts, and the reference losses of its tasks.

A sweep as tables of rows by columns, each cell in a few words that tell the dead from the living.
"""

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
"""What stands for the rows of a table that has none."""
MEASURED = "final loss"
"""Heads the one column of a table without column keys."""
SEVERAL = "Cells of several seeds: mean ± std over seeds (k of n)."


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table as text: each row has as many cells as the header. `note` stands below it, for the tables above too."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def pivot(plan: Plan, runs: pd.DataFrame) -> list[TextTable]:
    """The plan's pivot, a table for each label and each combination of the axes that it does not name."""
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
    found = [cell for group in groups.values() for cell in group]
    several = SEVERAL if any(len(cell.runs) > 1 for cell in found) else ""
    return _noted_once(tables, " ".join(filter(None, (several, shared_note(found)))))


def shared_note(found: Sequence[Cell]) -> str:
    """What is told where cells share runs: totals are less than the sum over cells."""
    count = len(shared(found))
    if not count:
        return ""
    verb = "answers" if count == 1 else "answer"
    return f"{plural(count, 'run')} {verb} several cells: each of these cells shows them, and totals count them once."


def joined_values(several: Sequence[Mapping[str, Value]], labels: Labels = ALONE) -> dict[str, str]:
    """The values of several places as texts, each value once: `pre/post` where the same runs answer both."""
    return {key: "/".join(dict.fromkeys(labels.text(key, values[key]) for values in several)) for key in several[0]}


def joined_text(several: Sequence[Mapping[str, Value]], labels: Labels = ALONE) -> str:
    """As `values_text`, of several places at once: `position pre/post, lr 0.003`."""
    if len(several) == 1:
        return values_text(several[0], labels)
    texts = joined_values(several, labels)
    label = texts.pop(LABEL, "").strip("/")
    return ", ".join([*([label] if label else []), *(f"{key} {text}" for key, text in texts.items())])


def _varying(keys: Sequence[str], group: Sequence[Cell]) -> Sequence[str]:
    """The keys that tell the rows of one table apart; all of them where none does."""
    return [key for key in keys if len({_all_values(cell)[key] for cell in group}) > 1] or keys


def _noted_once(tables: Sequence[TextTable], last: str) -> list[TextTable]:
    """Each note below the last table that has it; what holds for all of them below the last table."""
    place = {table.note: index for index, table in enumerate(tables)}
    notes = [table.note if place[table.note] == index else "" for index, table in enumerate(tables)]
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
        found = [item for item in published if all(values.get(key) == value for key, value in item.where.items())]
        sources |= dict.fromkeys(item.source for item in found)
        beside = "".join(f" [{item.text}]" for item in found)
        place = tuple(values[key] for key in row_keys), tuple(values[key] for key in column_keys)
        texts[place] = cell_text(cell) + beside
    rows, columns = _ordered(row for row, _ in texts), _ordered(column for _, column in texts)
    return TextTable(
        title=title,
        header=(" / ".join(row_keys), *(heading(column_keys, column, labels) or MEASURED for column in columns)),
        rows=tuple(
            (_row_heading(row_keys, row, labels), *(texts.get((row, column), "") for column in columns)) for row in rows
        ),
        note=f"In brackets: {'; '.join(sources)}." if sources else "",
    )


def _ordered(found: Iterable[Combination]) -> list[Combination]:
    """Distinct combinations, sorted key by key: numbers ascending, words in the order in which they first come."""
    distinct = list(dict.fromkeys(found))
    ranks = [_in_order(values) for values in zip(*distinct, strict=True)]
    return sorted(distinct, key=lambda values: [rank.index(value) for rank, value in zip(ranks, values, strict=True)])


def _in_order(values: Sequence[Value]) -> list[Value]:
    known = list(dict.fromkeys(values))
    return sorted(known) if all(map(is_number, known)) else known


def _all_values(cell: Cell) -> Mapping[str, Value]:
    """What was asked for in a cell; keys that are no axis as its run has them."""
    return cell.point.config.to_dict() | cell.values


def _row_heading(keys: Sequence[str], values: Sequence[Value], labels: Labels) -> str:
    """Under a header that names the keys, the one value needs no name."""
    return labels.text(keys[0], values[0]) if len(keys) == 1 else heading(keys, values, labels)


def cell_text(cell: Cell) -> str:
    """`1.865`, `plateau 4.07, falling`, `nan @12`; of several runs `1.870 ± 0.020 (3)`, `2 of 3 nan @12–33`."""
    groups: dict[str, list[Run]] = {}
    for run in sorted(cell.runs, key=_rank):
        groups.setdefault(result_word(run), []).append(run)
    total = len(cell.runs)
    if total == 1:
        return _single(next(iter(groups)), cell.runs[0])
    return "; ".join(_several(kind, found, total) for kind, found in groups.items())


def _rank(run: Run) -> int:
    order = [*Outcome]
    return order.index(Outcome(run["outcome"])) if run["status"] == Status.DONE else len(order)


def _single(kind: str, run: Run) -> str:
    if run["status"] != Status.DONE:
        return kind
    if run["outcome"] == Outcome.NONFINITE:
        return f"{run['kind']} @{run['step']}"
    loss = final_loss(run)
    return loss_text(loss) if kind == Outcome.LEARNED else f"{kind} {loss_text(loss, 2)}{_trends([run])}"


def _several(kind: str, found: Sequence[Run], total: int) -> str:
    share = f"({total})" if len(found) == total else f"({len(found)} of {total})"
    first = found[0]
    if first["status"] != Status.DONE:
        return f"{len(found)} of {total} {kind}"
    if first["outcome"] == Outcome.NONFINITE:
        kinds = "/".join(sorted({run["kind"] for run in found}, reverse=True))
        return f"{len(found)} of {total} {kinds} @{range_text(run['step'] for run in found)}"
    losses = [final_loss(run) for run in found]
    spread = f" ± {loss_text(statistics.stdev(losses))}" if len(losses) > 1 else ""
    mean = f"{loss_text(statistics.fmean(losses))}{spread} {share}"
    return mean if kind == Outcome.LEARNED else f"{kind} {mean}{_trends(found)}"


def _trends(found: Sequence[Run]) -> str:
    """`, falling` or `, 2 falling, 1 rising`: how those that did not learn still moved when training ended."""
    counts = {trend: sum(run["trend"] == trend for run in found) for trend in ("falling", "rising")}
    return "".join(
        f", {trend}" if count == len(found) else f", {count} {trend}" for trend, count in counts.items() if count
    )


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
