"""Two runs compared: configs, outcomes, losses, and the first step at which their curves part.

A comparison of two sweeps for people: tables, and what they come to in a few sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType

from normexp.analysis.comparison import CellDifference, Change, Comparison, Differing
from normexp.analysis.differences import first_difference
from normexp.analysis.frames import PENDING
from normexp.analysis.pairing import Pair, Values
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


def comparison(found: Comparison) -> RenderableType:
    """What differs between two sweeps: keys, outcomes, losses, environments, and the whole in sentences."""
    a, b = names(found.a.name, found.b.name, found.a.folder, found.b.folder)
    parts: list[RenderableType] = [Encodable(f"{a} (A) against {b} (B)", "bold")]
    tables = [differing("Keys that differ", "key", found.keys)]
    if found.pairing.pairs:
        tables += [_changes(found), _cells(found)]
    tables.append(differing("Made with", "", found.environment))
    parts += [ResponsiveTable(table) for table in tables if table.rows]
    return Group(*parts, *(Encodable(sentence) for sentence in sentences(found)))


def names(a: str, b: str, a_folder: str, b_folder: str) -> tuple[str, str]:
    """What two sides are called: by their names, or, where these are one, by their folders."""
    return (a, b) if a != b else (a_folder, b_folder)


def differing(title: str, name: str, found: Sequence[Differing]) -> TextTable:
    """What differs, a line each, with the values of either side."""
    labels = Labels(lambda key: [value for item in found if item.name == key for value in (*item.a, *item.b)])
    rows = tuple((item.name, *(_values(item.name, side, labels) for side in (item.a, item.b))) for item in found)
    return TextTable(title=title, header=(name, "A", "B"), rows=rows)


def _values(key: str, values: Sequence[Value], labels: Labels) -> str:
    texts = [labels.text(key, value) or "(empty)" for value in values[:SHOWN_VALUES]]
    more = len(values) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more else "")


def _changes(found: Comparison) -> TextTable:
    labels = found.labels
    rows = tuple((change.a, change.b, str(len(change.pairs)), _points(change, labels)) for change in found.changes)
    return TextTable(title="Outcomes", header=("A", "B", "pairs", "which, where they differ"), rows=rows)


def _points(change: Change, labels: Labels) -> str:
    """The points whose outcome changed, the first of them by name."""
    if change.a == change.b:
        return ""
    named = [_named(pair.of_points, labels) for pair in change.pairs]
    return "; ".join(at_most(named, SHOWN_POINTS))


def _named(places: Sequence[Pair], labels: Labels) -> str:
    """`lr 0.003, seed 0, norm ln → rms`: where both agree, and what each has instead."""
    return ", ".join(
        filter(None, [joined_text([place.where for place in places], labels), _replacement(places, labels)])
    )


def _replacement(places: Sequence[Pair], labels: Labels) -> str:
    before, after = (joined_values(values, labels) for values in _sides(places))
    return ", ".join(f"{key} {before[key]} → {after[key]}" for key in before)


def _sides(places: Sequence[Pair]) -> tuple[list[Values], list[Values]]:
    return [place.before for place in places], [place.after for place in places]


def _cells(found: Comparison) -> TextTable:
    cells, labels = found.cells, found.labels
    wheres = [joined_values([place.where for place in cell.places], labels) for cell in cells]
    keys = [key for key in found.pairing.matched if key != SEED and len({where[key] for where in wheres}) > 1]
    replaced = [_replacement(cell.places, labels) for cell in cells]
    several = len(set(replaced)) > 1
    header = (*keys, *(["A → B"] if several else []), "A", "B", "B - A (95 % interval)", "pairs")
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
        note="B - A: the mean over pairs of one seed, of which both survived; the interval is a t-interval.",
    )


def _difference(cell: CellDifference) -> str:
    if cell.same_runs:
        return "the same runs"
    if not cell.same_task:
        return "other tasks"
    if cell.mean is None:
        return "no pair survived"
    if cell.low is None or cell.high is None:
        return _signed(cell.mean)
    return f"{_signed(cell.mean)} ({_signed(cell.low)} to {_signed(cell.high)})"


def _signed(number: float) -> str:
    return ("+" if number > 0 else "") + loss_text(number)


def sentences(found: Comparison) -> list[str]:
    """How many runs pair, how many outcomes changed, and in how many cells which side is lower; each run pair once."""
    pairs = found.pairing
    unpaired = _unpaired(pairs.only_a, "A") + _unpaired(pairs.only_b, "B")
    if not pairs.pairs:
        return [f"Nothing to pair: no point of A and of B agrees on {_listed(pairs.matched)}{''.join(unpaired)}."]
    runs, points = len(pairs.pairs), plural(len(pairs.of_points), "pair")
    answer = f"answer{'s' * (runs == 1)} {points} of points"
    paired = f"{points} of points" if points == plural(runs, "pair") else f"{plural(runs, 'pair')} of runs {answer}"
    told = [f"{paired}{''.join(unpaired)}."]
    ours, theirs = (len({ids[side] for ids in (pair.run_ids for pair in pairs.pairs)}) for side in (0, 1))
    if min(ours, theirs) < runs:
        told.append(
            f"They are of {plural(ours, 'run')} of A and {theirs} of B: pairs that share a run are not independent."
        )
    ended = [change for change in found.changes if PENDING not in (change.a, change.b)]
    changed = sum(len(change.pairs) for change in ended if change.a != change.b)
    both = sum(len(change.pairs) for change in ended)
    open_ = runs - both - found.same
    waits = f"; {open_} more {'has' if open_ == 1 else 'have'} a side that is pending" if open_ else ""
    same = f"; {found.same} more {'is' if found.same == 1 else 'are'} one run on both sides" if found.same else ""
    told.append(f"Outcomes: {changed} of {both} differ{waits}{same}.")
    measured = [cell for cell in found.cells if cell.low is not None and not cell.same_runs]
    if measured:
        lower, higher = [c for c in measured if (c.mean or 0) < 0], [c for c in measured if (c.mean or 0) > 0]
        told.append(
            f"Of {plural(len(measured), 'cell')} with two pairs or more, B is lower in {len(lower)} "
            f"(significantly in {_clear(lower)}) and higher in {len(higher)} (significantly in {_clear(higher)}); "
            "significant: the 95 % interval excludes 0, which one in twenty does by chance."
        )
    return told if found.keys else ["Both have the same keys.", *told]


def _clear(cells: Sequence[CellDifference]) -> int:
    return sum(cell.clear for cell in cells)


def _unpaired(points: Iterable[Point], name: str) -> list[str]:
    count = len(list(points))
    return [f"; {plural(count, 'point')} of {name} found none"] if count else []


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(key for key in keys if key != "label")


LOSSES = ("train_loss", "val_loss")
MEASURED = ("train_loss", "grad_norm", "val_loss")
"""What is compared of a curve: the rate follows from the config."""
APART = 0.01
"""Relative difference of losses that shows in a figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Where two curves part: the first `step` of any difference, in `column`, and the first with losses 1 % `apart`.

    None: they agree over all the `steps` that both have.
    """

    steps: int
    step: int | None
    column: str = ""
    a: float | None = None
    b: float | None = None
    apart: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Two runs, with what differs of their keys and environments; `curves` is None where either stored no curve."""

    a: RunRecord
    b: RunRecord
    keys: tuple[Differing, ...]
    environment: tuple[Differing, ...]
    curves: Parting | None

    @property
    def difference(self) -> float | None:
        """Final validation loss of b less that of a, in nats; None where one has none, or the tasks are two."""
        one, other = self.a.result, self.b.result
        if one is None or other is None or one.final_val_loss is None or other.final_val_loss is None:
            return None
        return other.final_val_loss - one.final_val_loss if one.losses.agrees(other.losses) else None


def compare(a: RunRecord, b: RunRecord) -> RunComparison:
    """Compare two records with their traces."""
    keys = ((name, getattr(a.config, name), getattr(b.config, name)) for name in KEYS)
    names = dict.fromkeys([*a.made_with, *b.made_with])
    made = ((name, a.made_with.get(name, "unknown"), b.made_with.get(name, "unknown")) for name in names)
    return RunComparison(
        a=a,
        b=b,
        keys=tuple(Differing(name=name, a=(ours,), b=(theirs,)) for name, ours, theirs in keys if ours != theirs),
        environment=tuple(
            Differing(name=name, a=(ours,), b=(theirs,)) for name, ours, theirs in made if ours != theirs
        ),
        curves=parting(a.traces.curve, b.traces.curve) if a.traces and b.traces else None,
    )


def parting(a: Sequence[CurveRow], b: Sequence[CurveRow]) -> Parting | None:
    """Where two curves part, to the last bit; what one of them did not measure is left out. None without a curve."""
    rows = list(zip(a, b, strict=False))
    if not rows:
        return None
    steps = rows[-1][0].step
    found = first_difference(a, b, columns=MEASURED, one_lacks=MEASURED, other_lacks=MEASURED)
    if found is None or not found.column:
        return Parting(steps=steps, step=None)
    apart = next((one.step for one, other in rows if _losses_apart(one, other)), None)
    return Parting(steps=steps, step=found.step, column=found.column, a=found.one, b=found.other, apart=apart)


def _losses_apart(one: CurveRow, other: CurveRow) -> bool:
    pairs = [(getattr(one, column), getattr(other, column)) for column in LOSSES]
    known = [pair for pair in pairs if None not in pair and repr(pair[0]) != repr(pair[1])]
    return any(not math.isclose(*pair, rel_tol=APART) for pair in known)


def run_comparison(found: RunComparison) -> RenderableType:
    """What differs between two runs, for people."""
    tables = [
        differing("Keys that differ", "key", found.keys),
        _results(found),
        differing("Made with", "", found.environment),
    ]
    title = f"{found.a.run_id} (A) against {found.b.run_id} (B)"
    shown = [ResponsiveTable(table) for table in tables if table.rows]
    return Group(Encodable(title, "bold"), *shown, *map(Encodable, run_sentences(found)))


def _results(found: RunComparison) -> TextTable:
    rows = [
        ("result", found.a.result_word, found.b.result_word),
        ("rule", *(record.verdict.rule if record.verdict else record.error or "" for record in (found.a, found.b))),
        *((name, *map(_loss_text, pair)) for name, pair in _losses(found).items()),
    ]
    return TextTable(title="Results; losses in nats", header=("", "A", "B"), rows=tuple(rows))


def _loss_text(loss: float | None) -> str:
    """Nothing for a loss that was not measured; `nan` for one that was NaN."""
    return "" if loss is None else "nan" if math.isnan(loss) else loss_text(loss)


def _losses(found: RunComparison) -> dict[str, tuple[float | None, float | None]]:
    one, other = _numbers(found.a), _numbers(found.b)
    return {name: (one.get(name), other.get(name)) for name in dict.fromkeys([*one, *other])}


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


def run_sentences(found: RunComparison) -> list[str]:
    """The difference of the final losses, and where the curves part."""
    told = ["Both have the same keys."] if not found.keys else []
    if found.difference is not None and math.isfinite(found.difference):
        told.append(f"Final loss, B - A: {'+' * (found.difference > 0)}{loss_text(found.difference)}.")
    curves = found.curves
    if curves is None:
        return [*told, "One of them has no curve to compare."]
    if curves.step is None:
        return [*told, f"Their curves are the same, bit by bit, over {curves.steps} steps."]
    apart = f"are 1 % apart at step {curves.apart}" if curves.apart is not None else "stay within 1 %"
    values = f"{curves.column} {curves.a!r} and {curves.b!r}"
    return [*told, f"Their curves part at step {curves.step} ({values}); their losses {apart}."]


def as_data(found: RunComparison) -> dict[str, Any]:
    """What `normexp compare --json` prints of two runs."""
    curves = found.curves
    return {
        "schema": 1,
        "kind": "runs",
        "a": _run_data(found.a),
        "b": _run_data(found.b),
        "keys": [{"key": item.name, "a": item.a[0], "b": item.b[0]} for item in found.keys],
        "difference": {"final_val_loss": found.difference},
        "curves": curves
        and {
            "steps": curves.steps,
            "first_difference": curves.step,
            "column": curves.column,
            "a": curves.a,
            "b": curves.b,
            "losses_1_percent_apart": curves.apart,
        },
        "environment": [{"name": item.name, "a": item.a[0], "b": item.b[0]} for item in found.environment],
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
