"""Find the differences between two plans, two records of one run, or two curves; thin out long curves.

Where, when and by which execution path a run was trained does not count as a difference.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from normexp.config.labels import plural
from normexp.config.plan import Plan
from normexp.records.record import COMPARED, CurveRow, Result, RunRecord, SignalRow
from normexp.storage import manifest

COLUMNS = tuple(field.name for field in dataclasses.fields(CurveRow))


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Both values of a `column` at `step`. An empty column means that one of the curves ends at `step` rows."""

    step: int
    column: str = ""
    one: float | None = None
    other: float | None = None


def first_difference(
    one: Sequence[CurveRow],
    other: Sequence[CurveRow],
    *,
    columns: Sequence[str] = COLUMNS,
    one_lacks: Collection[str] = (),
    other_lacks: Collection[str] = (),
) -> Difference | None:
    """Return the first difference in these columns, or None. NaN equals NaN.

    A missing value is a difference too, except in the columns that `one_lacks` and `other_lacks` name for its curve.
    """
    for row, other_row in zip(one, other, strict=False):
        for column in columns:
            value, other_value = getattr(row, column), getattr(other_row, column)
            lacking = (value is None and column in one_lacks) or (other_value is None and column in other_lacks)
            if not lacking and repr(value) != repr(other_value):
                return Difference(step=other_row.step, column=column, one=value, other=other_value)
    return Difference(step=min(len(one), len(other))) if len(one) != len(other) else None


def thinned(rows: Sequence[Sequence[float]], stretches: int) -> list[int]:
    """Return the indices of the rows of a long curve to keep, in order.

    Kept are the first and the last row, every row with a non-finite value, and of each stretch the rows with the lowest
    and the highest value of each column. A spike of a single step is therefore kept.
    """
    kept = {0, len(rows) - 1} if rows else set()
    for part in range(stretches):
        stretch = range(part * len(rows) // stretches, (part + 1) * len(rows) // stretches)
        finite = [index for index in stretch if all(map(math.isfinite, rows[index]))]
        kept.update(set(stretch) - set(finite))
        for column in range(len(rows[0]) if finite else 0):
            kept.add(min(finite, key=lambda index: rows[index][column]))
            kept.add(max(finite, key=lambda index: rows[index][column]))
    return sorted(kept)


def of_sweeps(one: Plan, other: Plan, names: tuple[str, str]) -> list[str]:
    """Return one line for each difference between the whole sweeps of two plans, which `names` names in the lines."""
    one, other = one.whole or one, other.whole or other
    first, second = names
    runs, other_runs = manifest.stored_form(one), manifest.stored_form(other)
    lines = manifest.differences(runs, other_runs, (f"in {first}", f"in {second}"))
    unmatched = len(runs.keys() ^ other_runs.keys())
    if unmatched and not lines:
        lines.append(f"  {plural(unmatched, 'run')} in only one of them")
    for name in ("name", "title", "axes"):
        if getattr(one, name) != getattr(other, name):
            lines.append(f"  {name}: {getattr(one, name)!r} in {first}, {getattr(other, name)!r} in {second}")
    if not lines:
        lines += [
            f"  {name}" for name in ("points", "pivot", "published") if getattr(one, name) != getattr(other, name)
        ]
    return lines


def of_runs(one: RunRecord, other: RunRecord) -> str:
    """Return the differences between two records of one run as text, empty if their numbers are equal.

    Gradient norms are compared only if both records have them: packs leave them out.
    """
    differences = list(_results(one.result, other.result)) or list(_traces(one, other))
    if not differences:
        return ""
    environments = [
        f"{name} {one.made_with.get(name, 'unknown')} and {other.made_with.get(name, 'unknown')}"
        for name in COMPARED
        if one.made_with.get(name) != other.made_with.get(name)
    ]
    return "; ".join([*differences, *([f"made with {', '.join(environments)}"] if environments else [])])


def _results(one: Result | None, other: Result | None) -> Iterator[str]:
    if one is None or other is None:
        return
    for field in dataclasses.fields(Result):
        value, other_value = getattr(one, field.name), getattr(other, field.name)
        if repr(value) != repr(other_value):
            yield f"{field.name} {_short(value)} and {_short(other_value)}"


def _short(value: object) -> str:
    if dataclasses.is_dataclass(value):
        return ", ".join(f"{field.name} {getattr(value, field.name)}" for field in dataclasses.fields(value))
    return str(value)


def _traces(one: RunRecord, other: RunRecord) -> Iterator[str]:
    if one.traces is None or other.traces is None:
        return
    if difference := _curves(one.traces.curve, other.traces.curve):
        yield difference
    for name in ("layers", "death_layers"):
        if _signal(getattr(one.traces, name)) != _signal(getattr(other.traces, name)):
            yield f"{name.replace('_', ' ')} differ"


def _curves(one: Sequence[CurveRow], other: Sequence[CurveRow]) -> str:
    difference = first_difference(one, other, one_lacks=("grad_norm",), other_lacks=("grad_norm",))
    if difference is None:
        return ""
    if not difference.column:
        return f"curves of {len(one)} and {len(other)} rows"
    return f"{difference.column} of step {difference.step} {difference.one!r} and {difference.other!r}"


def _signal(rows: Sequence[SignalRow]) -> list[str]:
    return [repr(row) for row in rows if row.quantity != "grad_norm"]
