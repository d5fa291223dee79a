"""Rows of curves: where two of them first differ, and which rows of a long one to keep."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from normexp.record import CurveRow

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
