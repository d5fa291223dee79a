"""Whether two folders tell the same: of a sweep, and of a run. Where, when and how a run was made is no difference.

Rows of curves: where two of them first differ, and which rows of a long one to keep.
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
    """At `step`, both values of a `column`. Without a column: there, one of the curves has ended."""

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
    """The first difference in these columns, NaN being equal to NaN; None without any.

    A value that is missing is a difference too, except in columns that its curve may lack.
    """
    for row, twin in zip(one, other, strict=False):
        for column in columns:
            mine, theirs = getattr(row, column), getattr(twin, column)
            lacking = (mine is None and column in one_lacks) or (theirs is None and column in other_lacks)
            if not lacking and repr(mine) != repr(theirs):
                return Difference(step=twin.step, column=column, one=mine, other=theirs)
    return Difference(step=min(len(one), len(other))) if len(one) != len(other) else None


def thinned(rows: Sequence[Sequence[float]], stretches: int) -> list[int]:
    """The places of the rows to keep of a long curve, in order.

    Kept are the first and the last row, every row with a value that is not finite, and of each stretch the rows with
    the lowest and the highest value of each column: a spike of one step stays.
    """
    kept = {0, len(rows) - 1} if rows else set()
    for part in range(stretches):
        stretch = range(part * len(rows) // stretches, (part + 1) * len(rows) // stretches)
        finite = [place for place in stretch if all(map(math.isfinite, rows[place]))]
        kept.update(set(stretch) - set(finite))
        for column in range(len(rows[0]) if finite else 0):
            kept.add(min(finite, key=lambda place: rows[place][column]))
            kept.add(max(finite, key=lambda place: rows[place][column]))
    return sorted(kept)


def of_sweeps(one: Plan, other: Plan, names: tuple[str, str]) -> list[str]:
    """A line for each thing in which the sweeps of two plans, shards or not, are not the same. `names` are theirs."""
    one, other = one.whole or one, other.whole or other
    first, second = names
    runs, others = manifest.stored_form(one), manifest.stored_form(other)
    lines = manifest.differences(runs, others, (f"in {first}", f"in {second}"))
    apart = len(runs.keys() ^ others.keys())
    if apart and not lines:
        lines.append(f"  {plural(apart, 'run')} in one of them only")
    for name in ("name", "title", "axes"):
        if getattr(one, name) != getattr(other, name):
            lines.append(f"  {name}: {getattr(one, name)!r} in {first}, {getattr(other, name)!r} in {second}")
    if not lines:
        lines += [
            f"  {name}" for name in ("points", "pivot", "published") if getattr(one, name) != getattr(other, name)
        ]
    return lines


def of_runs(one: RunRecord, other: RunRecord) -> str:
    """What differs between the numbers of two records with traces of one run, empty where nothing does.

    Gradient norms are compared where both have them: a pack leaves them out.
    """
    told = list(_results(one.result, other.result)) or list(_traces(one, other))
    if not told:
        return ""
    made = [
        f"{name} {one.made_with.get(name, 'unknown')} and {other.made_with.get(name, 'unknown')}"
        for name in COMPARED
        if one.made_with.get(name) != other.made_with.get(name)
    ]
    return "; ".join([*told, *([f"made with {', '.join(made)}"] if made else [])])


def _results(one: Result | None, other: Result | None) -> Iterator[str]:
    if one is None or other is None:
        return
    for field in dataclasses.fields(Result):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if repr(mine) != repr(theirs):
            yield f"{field.name} {_short(mine)} and {_short(theirs)}"


def _short(value: object) -> str:
    if dataclasses.is_dataclass(value):
        return ", ".join(f"{field.name} {getattr(value, field.name)}" for field in dataclasses.fields(value))
    return str(value)


def _traces(one: RunRecord, other: RunRecord) -> Iterator[str]:
    if one.traces is None or other.traces is None:
        return
    told = _curves(one.traces.curve, other.traces.curve)
    if told:
        yield told
    for name in ("layers", "death_layers"):
        if _signal(getattr(one.traces, name)) != _signal(getattr(other.traces, name)):
            yield f"{name.replace('_', ' ')} differ"


def _curves(one: Sequence[CurveRow], other: Sequence[CurveRow]) -> str:
    found = first_difference(one, other, one_lacks=("grad_norm",), other_lacks=("grad_norm",))
    if found is None:
        return ""
    if not found.column:
        return f"curves of {len(one)} and {len(other)} rows"
    return f"{found.column} of step {found.step} {found.one!r} and {found.other!r}"


def _signal(rows: Sequence[SignalRow]) -> list[str]:
    return [repr(row) for row in rows if row.quantity != "grad_norm"]
