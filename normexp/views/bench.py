"""A benchmark of norms as tables, CSV, and what its figure shows."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from normexp.labels import plural
from normexp.paths import ExecutionPath
from normexp.timing import BOTH, FORWARD, STEP, Timing
from normexp.views.pivot import TextTable

MANY_US = 1e4
SPREAD = "In brackets: 10th to 90th percentile over rounds. Ratios are taken within a round."
SHARE = "The share of norms is what a step takes more than one with norm none in the same round."


def tables(rows: Sequence[Timing]) -> list[TextTable]:
    """A table for each part and number of threads."""
    found: dict[tuple[str, int, str], list[Timing]] = {}
    for row in rows:
        found.setdefault((row.part, row.threads, row.where if row.part == STEP else ""), []).append(row)
    made = [
        _step_table(where, threads, part_rows) if part == STEP else _table(part, threads, part_rows)
        for (part, threads, where), part_rows in found.items()
    ]
    last = max((index for index, table in enumerate(made) if not table.note), default=None)
    return [dataclasses.replace(table, note=SPREAD) if index == last else table for index, table in enumerate(made)]


def _table(part: str, threads: int, rows: Sequence[Timing]) -> TextTable:
    return TextTable(
        title=f"{part.capitalize()}, {plural(threads, 'thread')}",
        header=("shape", "norm", "time", "ratio to LN", "params"),
        rows=tuple((row.where, row.norm, _time(row), _ratio(row), str(row.parameters)) for row in rows),
    )


def paths(seconds: Mapping[ExecutionPath, Sequence[float]], told: str, *, in_use: ExecutionPath) -> TextTable:
    """Median time of a step by each path, and how many times as fast as autograd it is."""
    medians = {path: statistics.median(values) for path, values in seconds.items()}
    reference = medians[ExecutionPath.AUTOGRAD]
    rows = tuple(
        (str(path), f"{1000 * time:.2f}", f"{reference / time:.2f}", "yes" if path is in_use else "")
        for path, time in medians.items()
    )
    return TextTable(
        title=f"Training step by path: {told}, 1 thread",
        header=("path", "ms", "times as fast as autograd", "in use"),
        rows=rows,
    )


def _step_table(where: str, threads: int, rows: Sequence[Timing]) -> TextTable:
    return TextTable(
        title=f"{STEP.capitalize()}: {where}, {plural(threads, 'thread')}",
        header=("norm", "time", "ratio to ln", "share of norms", "params"),
        rows=tuple((row.norm, _time(row), _ratio(row), _share(row), str(row.parameters)) for row in rows),
        note=f"{SHARE} {SPREAD}",
    )


def _time(row: Timing) -> str:
    """In microseconds, from ten thousand on in milliseconds."""
    unit, factor = ("µs", 1.0) if row.median_us < MANY_US else ("ms", 1e-3)
    median, low, high = (_three(time * factor) for time in (row.median_us, row.p10_us, row.p90_us))
    return f"{median} {unit} ({low}–{high})"


def _three(number: float) -> str:
    """Three significant digits, never as a power."""
    return f"{number:.0f}" if number >= 100 else f"{number:#.3g}".rstrip(".")


def _ratio(row: Timing) -> str:
    found = (row.ratio, row.ratio_p10, row.ratio_p90)
    median, low, high = (f"{ratio:.2f}" if ratio < 10 else _three(ratio) for ratio in found)
    return f"{median} ({low}–{high})"


def _share(row: Timing) -> str:
    if math.isnan(row.share) or row.share == row.share_p10 == row.share_p90 == 0:
        return ""
    return f"{row.share:z.1%} ({row.share_p10:z.1%} to {row.share_p90:z.1%})"


def to_csv(rows: Sequence[Timing]) -> str:
    """One line a row; nan is an empty cell."""
    text = io.StringIO()
    names = [field.name for field in dataclasses.fields(Timing)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: "" if value != value else value for name, value in dataclasses.asdict(row).items()})
    return text.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One norm's ratios with one number of threads, in a panel, at places on the axis of shapes."""

    panel: str
    norm: str
    threads: int
    points: tuple[tuple[int, Timing], ...]


def series(rows: Sequence[Timing]) -> tuple[list[str], list[Series]]:
    """The shapes, and what is drawn: every norm but the reference, whose ratio is 1, forward first."""
    rows = [row for row in rows if row.part in (FORWARD, BOTH)]
    shapes = list(dict.fromkeys(row.where for row in rows))
    found: dict[tuple[str, str, int], list[tuple[int, Timing]]] = {}
    for row in rows:
        if not row.ratio_p10 == row.ratio == row.ratio_p90 == 1:
            found.setdefault((row.part, row.norm, row.threads), []).append((shapes.index(row.where), row))
    lines = [
        Series(panel=part, norm=norm, threads=threads, points=tuple(points))
        for (part, norm, threads), points in found.items()
    ]
    return shapes, sorted(lines, key=lambda line: (line.panel != FORWARD, line.threads))
