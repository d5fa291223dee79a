"""Text output of `normexp compare`, for two sweeps and for two runs; the comparison of two runs is made here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType

from normexp.analysis.comparison import CellDifference, Change, Comparison, Differing, Pair, Values
from normexp.analysis.differences import first_difference
from normexp.analysis.frames import PENDING
from normexp.analysis.tables import TextTable, cell_text, joined_text, joined_values
from normexp.config.labels import Labels, loss_text, plural
from normexp.config.plan import SEED, Point
from normexp.config.run import KEYS
from normexp.errors import at_most
from normexp.records.record import CurveRow, RunRecord
from normexp.schemes.network_config import Value
from normexp.terminal.console import Encodable, ResponsiveTable

SHOWN_VALUES = 8
SHOWN_POINTS = 5
LOSSES = ("train_loss", "val_loss")
MEASURED = ("train_loss", "grad_norm", "val_loss")
"""Compared columns of a curve. The learning rate follows from the config."""
APART = 0.01
"""Relative difference from which two losses count as different."""


def comparison(sweeps: Comparison) -> RenderableType:
    """Return the differences between two sweeps: keys, outcomes, losses, environments, and a summary."""
    a, b = names(sweeps.a.name, sweeps.b.name, sweeps.a.folder, sweeps.b.folder)
    parts: list[RenderableType] = [Encodable(f"{a} (A) against {b} (B)", "bold")]
    tables = [differing("Keys that differ", "key", sweeps.keys)]
    if sweeps.pairing.pairs:
        tables += [_changes(sweeps), _cells(sweeps)]
    tables.append(differing("Environment", "", sweeps.environment))
    parts += [ResponsiveTable(table) for table in tables if table.rows]
    paper = paper_sentences(sweeps)
    parts += [Encodable(sentence) for sentence in sentences(sweeps)]
    return Group(*parts, *(Encodable(line) for line in (["For a paper:", *paper] if paper else [])))


def names(a: str, b: str, a_folder: str, b_folder: str) -> tuple[str, str]:
    """Return the names of two sides, or their folders if the names are equal."""
    return (a, b) if a != b else (a_folder, b_folder)


def differing(title: str, name: str, items: Sequence[Differing]) -> TextTable:
    """Return a table with one row per item that differs and its values on both sides."""
    labels = Labels(lambda key: [value for item in items if item.name == key for value in (*item.a, *item.b)])
    rows = tuple((item.name, *(_values(item.name, side, labels) for side in (item.a, item.b))) for item in items)
    return TextTable(title=title, header=(name, "A", "B"), rows=rows)


def _values(key: str, values: Sequence[Value], labels: Labels) -> str:
    texts = [labels.text(key, value) or "(empty)" for value in values[:SHOWN_VALUES]]
    more = len(values) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more else "")


def _changes(sweeps: Comparison) -> TextTable:
    labels = sweeps.labels
    rows = tuple((change.a, change.b, str(len(change.pairs)), _points(change, labels)) for change in sweeps.changes)
    return TextTable(title="Outcomes", header=("A", "B", "pairs", "changed configs"), rows=rows)


def _points(change: Change, labels: Labels) -> str:
    """Return the first points whose outcome changed, and how many more there are."""
    if change.a == change.b:
        return ""
    texts = [_pair_text(pair.of_points, labels) for pair in change.pairs]
    return "; ".join(at_most(texts, SHOWN_POINTS))


def _pair_text(pairs: Sequence[Pair], labels: Labels) -> str:
    """Return `lr 0.003, seed 0, norm ln → rms`: the values that both sides share, then those that differ."""
    return ", ".join(filter(None, [joined_text([pair.where for pair in pairs], labels), _replacement(pairs, labels)]))


def _replacement(pairs: Sequence[Pair], labels: Labels) -> str:
    before, after = (joined_values(values, labels) for values in _sides(pairs))
    return ", ".join(f"{key} {before[key]} → {after[key]}" for key in before)


def _sides(pairs: Sequence[Pair]) -> tuple[list[Values], list[Values]]:
    return [pair.before for pair in pairs], [pair.after for pair in pairs]


def _cells(sweeps: Comparison) -> TextTable:
    cells, labels = sweeps.cells, sweeps.labels
    wheres = [joined_values([pair.where for pair in cell.places], labels) for cell in cells]
    keys = [key for key in sweeps.pairing.matched if key != SEED and len({where[key] for where in wheres}) > 1]
    replaced = [_replacement(cell.places, labels) for cell in cells]
    several = len(set(replaced)) > 1
    header = (*keys, *(["A → B"] if several else []), "A", "B", "B - A (95 % CI)", "pairs")
    rows = tuple(
        (
            *(where[key] for key in keys),
            *([replacement] if several else []),
            cell_text(cell.a),
            cell_text(cell.b),
            _difference(cell),
            f"{cell.compared} of {cell.pairs}",
        )
        for cell, where, replacement in zip(cells, wheres, replaced, strict=True)
    )
    return TextTable(
        title="Final validation loss in nats",
        header=header,
        rows=rows,
        note="B - A: mean paired difference over seeds in which both runs stayed finite, with its 95 % t-interval.",
    )


def _difference(cell: CellDifference) -> str:
    if cell.same_runs:
        return "the same runs"
    if not cell.same_task:
        return "different tasks"
    if cell.mean is None:
        return "no finite pair"
    if cell.low is None or cell.high is None:
        return _signed(cell.mean)
    return f"{_signed(cell.mean)} ({_signed(cell.low)} to {_signed(cell.high)})"


def _signed(number: float) -> str:
    return ("+" if number > 0 else "") + loss_text(number)


def sentences(sweeps: Comparison) -> list[str]:
    """Return a summary: paired runs, changed outcomes, and in how many cells which side has the lower loss."""
    pairs = sweeps.pairing
    unpaired = _unpaired(pairs.only_a, "A") + _unpaired(pairs.only_b, "B")
    if not pairs.pairs:
        keys = ", ".join(key for key in pairs.matched if key != "label")
        return [f"Nothing to pair: no configs of A and B agree on {keys}{''.join(unpaired)}."]
    runs, points = len(pairs.pairs), len(pairs.of_points)
    paired = f"{plural(runs, 'pair')} of runs"
    if points != runs:
        paired += f" for {plural(points, 'pair')} of configs"
    lines = [f"{paired}{''.join(unpaired)}."]
    runs_a, runs_b = (len({pair.run_ids[side] for pair in pairs.pairs}) for side in (0, 1))
    if min(runs_a, runs_b) < runs:
        lines.append(
            f"The pairs are not independent: they share runs ({plural(runs_a, 'run')} of A and {runs_b} of B)."
        )
    ended = [change for change in sweeps.changes if PENDING not in (change.a, change.b)]
    changed = sum(len(change.pairs) for change in ended if change.a != change.b)
    both = sum(len(change.pairs) for change in ended)
    unfinished = runs - both - sweeps.same
    pending = f"; {unfinished} more {'has' if unfinished == 1 else 'have'} a pending side" if unfinished else ""
    same = (
        f"; {sweeps.same} more {'is' if sweeps.same == 1 else 'are'} the same run on both sides" if sweeps.same else ""
    )
    lines.append(f"Outcomes: {changed} of {both} differ{pending}{same}.")
    intervals = [cell for cell in sweeps.cells if cell.low is not None and not cell.same_runs]
    if intervals:
        measured = [cell for cell in intervals if not cell.nothing_learned]
        lower, higher = [c for c in measured if (c.mean or 0) < 0], [c for c in measured if (c.mean or 0) > 0]
        idle = len(intervals) - len(measured)
        left_out = f"; in {idle}, nothing was learned on either side" if idle else ""
        lines.append(
            f"In {plural(len(intervals), 'cell')} with two or more pairs, B is lower in {len(lower)} "
            f"(significantly in {_significant(lower)}) and higher in {len(higher)} "
            f"(significantly in {_significant(higher)}){left_out}. "
            "Significant: the 95 % CI excludes 0, which happens by chance in 1 of 20 cells."
        )
    return lines if sweeps.keys else ["Both have the same keys.", *lines]


def paper_sentences(sweeps: Comparison) -> list[str]:
    """Return a sentence on each cell's difference, to paste into a paper; at most `SHOWN_POINTS` and how many are left.

    Example: `rms - ln with position pre: -0.335 nats, 95 % CI -0.456 to -0.214, 3 paired seeds.`
    """
    a, b = names(sweeps.a.name, sweeps.b.name, sweeps.a.folder, sweeps.b.folder)
    cells = [cell for cell in sweeps.cells if not cell.same_runs and cell.same_task]
    lines = [_paper_sentence(cell, sweeps.labels, a, b) for cell in cells]
    return at_most(lines, SHOWN_POINTS, "and {} more in the table")


def _paper_sentence(cell: CellDifference, labels: Labels, a: str, b: str) -> str:
    where = joined_text(
        [{key: value for key, value in pair.where.items() if key != SEED} for pair in cell.places], labels
    )
    before, after = (", ".join(joined_values(values, labels).values()) for values in _sides(cell.places))
    pair = f"{after or b} - {before or a}{' with ' if where else ''}{where}"
    seeds = plural(cell.compared, "paired seed") + (f" of {cell.pairs}" if cell.compared < cell.pairs else "")
    if cell.mean is None:
        return f"{pair}: no difference of losses, since in no seed both runs learned or ended on a plateau."
    if cell.nothing_learned:
        return f"{pair}: nothing was learned on either side, {seeds}."
    if cell.low is None or cell.high is None:
        return f"{pair}: {_signed(cell.mean)} nats, {seeds}, so no confidence interval."
    interval = f"{_signed(cell.low)} to {_signed(cell.high)}"
    return f"{pair}: {_signed(cell.mean)} nats, 95 % CI {interval}, {seeds}."


def _significant(cells: Sequence[CellDifference]) -> int:
    return sum(cell.clear for cell in cells)


def _unpaired(points: Iterable[Point], name: str) -> list[str]:
    count = len(list(points))
    return [f"; {plural(count, 'config')} of {name} without a partner"] if count else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Where two curves over `steps` common steps diverge from each other.

    `step` is the first step with any difference, in `column`, with the values `a` and `b`. `apart` is the first step
    with losses 1 % apart. Both are None without such a step.
    """

    steps: int
    step: int | None
    column: str = ""
    a: float | None = None
    b: float | None = None
    apart: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Two runs, with their differing keys and environments; `curves` is None if a curve is missing."""

    a: RunRecord
    b: RunRecord
    keys: tuple[Differing, ...]
    environment: tuple[Differing, ...]
    curves: Parting | None

    @property
    def difference(self) -> float | None:
        """Final validation loss of b minus that of a, in nats; None if one is missing or the tasks differ."""
        a, b = self.a.result, self.b.result
        if a is None or b is None or a.final_val_loss is None or b.final_val_loss is None:
            return None
        return b.final_val_loss - a.final_val_loss if a.losses.agrees(b.losses) else None


def compare(a: RunRecord, b: RunRecord) -> RunComparison:
    """Compare two records with their traces."""
    keys = ((name, getattr(a.config, name), getattr(b.config, name)) for name in KEYS)
    names = dict.fromkeys([*a.made_with, *b.made_with])
    versions = ((name, a.made_with.get(name, "unknown"), b.made_with.get(name, "unknown")) for name in names)
    return RunComparison(
        a=a,
        b=b,
        keys=_differing_items(keys),
        environment=_differing_items(versions),
        curves=parting(a.traces.curve, b.traces.curve) if a.traces and b.traces else None,
    )


def _differing_items(items: Iterable[tuple[str, Value, Value]]) -> tuple[Differing, ...]:
    return tuple(Differing(name=name, a=(in_a,), b=(in_b,)) for name, in_a, in_b in items if in_a != in_b)


def parting(a: Sequence[CurveRow], b: Sequence[CurveRow]) -> Parting | None:
    """Compare two curves bit by bit, without values that one of them did not measure. Return None without a curve."""
    rows = list(zip(a, b, strict=False))
    if not rows:
        return None
    steps = rows[-1][0].step
    first = first_difference(a, b, columns=MEASURED, one_lacks=MEASURED, other_lacks=MEASURED)
    if first is None or not first.column:
        return Parting(steps=steps, step=None)
    apart = next((row_a.step for row_a, row_b in rows if _losses_apart(row_a, row_b)), None)
    return Parting(steps=steps, step=first.step, column=first.column, a=first.one, b=first.other, apart=apart)


def _losses_apart(a: CurveRow, b: CurveRow) -> bool:
    pairs = [(getattr(a, column), getattr(b, column)) for column in LOSSES]
    known = [pair for pair in pairs if None not in pair and repr(pair[0]) != repr(pair[1])]
    return any(not math.isclose(*pair, rel_tol=APART) for pair in known)


def run_comparison(runs: RunComparison) -> RenderableType:
    """Return the differences between two runs as tables and sentences."""
    tables = [
        differing("Keys that differ", "key", runs.keys),
        _results(runs),
        differing("Environment", "", runs.environment),
    ]
    title = f"{runs.a.run_id} (A) against {runs.b.run_id} (B)"
    shown = [ResponsiveTable(table) for table in tables if table.rows]
    return Group(Encodable(title, "bold"), *shown, *map(Encodable, run_sentences(runs)))


def _results(runs: RunComparison) -> TextTable:
    rows = [
        ("result", runs.a.result_word, runs.b.result_word),
        ("rule", *(record.verdict.rule if record.verdict else record.error or "" for record in (runs.a, runs.b))),
        *((name, *map(_loss_text, pair)) for name, pair in _losses(runs).items()),
    ]
    return TextTable(title="Results; losses in nats", header=("", "A", "B"), rows=tuple(rows))


def _loss_text(loss: float | None) -> str:
    """Return an empty text for a loss that was not measured, `nan` for NaN."""
    return "" if loss is None else "nan" if math.isnan(loss) else loss_text(loss)


def _losses(runs: RunComparison) -> dict[str, tuple[float | None, float | None]]:
    a, b = _numbers(runs.a), _numbers(runs.b)
    return {name: (a.get(name), b.get(name)) for name in dict.fromkeys([*a, *b])}


def _numbers(record: RunRecord) -> dict[str, float]:
    result = record.result
    if result is None:
        return {}
    losses = {
        "loss before training": result.init_val_loss,
        "best loss": result.best_val_loss,
        "final loss": result.final_val_loss,
    }
    known = {name: loss for name, loss in losses.items() if loss is not None}
    if result.final_val_loss is not None:
        known["learned fraction"] = result.learned_fraction
    return known


def run_sentences(runs: RunComparison) -> list[str]:
    """Return sentences on the difference of the final losses and the first difference of the curves."""
    lines = ["Both have the same keys."] if not runs.keys else []
    if runs.difference is not None and math.isfinite(runs.difference):
        lines.append(f"Final loss, B - A: {'+' * (runs.difference > 0)}{loss_text(runs.difference)}.")
    curves = runs.curves
    if curves is None:
        return [*lines, "The curves cannot be compared: one of the runs has none."]
    if curves.step is None:
        return [*lines, f"The curves are bit-identical over {curves.steps} steps."]
    apart = f"differ by more than 1 % from step {curves.apart}" if curves.apart is not None else "stay within 1 %"
    values = f"{curves.column} {curves.a!r} and {curves.b!r}"
    return [*lines, f"The curves first differ at step {curves.step} ({values}); the losses {apart}."]


def as_data(runs: RunComparison) -> dict[str, Any]:
    """Return the data that `normexp compare --json` prints for two runs."""
    curves = runs.curves
    return {
        "schema": 1,
        "kind": "runs",
        "a": _run_data(runs.a),
        "b": _run_data(runs.b),
        "keys": [{"key": item.name, "a": item.a[0], "b": item.b[0]} for item in runs.keys],
        "difference": {"final_val_loss": runs.difference},
        "curves": curves
        and {
            "steps": curves.steps,
            "first_difference": curves.step,
            "column": curves.column,
            "a": curves.a,
            "b": curves.b,
            "losses_1_percent_apart": curves.apart,
        },
        "environment": [{"name": item.name, "a": item.a[0], "b": item.b[0]} for item in runs.environment],
    }


def _run_data(record: RunRecord) -> dict[str, Any]:
    result, verdict = record.result, record.verdict
    data: dict[str, Any] = {
        "run_id": record.run_id,
        "status": record.status,
        "outcome": verdict and verdict.outcome,
        "rule": verdict and verdict.rule,
        "error": record.error,
    }
    for name in ("steps_done", "init_val_loss", "best_val_loss", "final_val_loss", "death"):
        data[name] = getattr(result, name, None)
    return data
