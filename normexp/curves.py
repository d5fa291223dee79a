"""Where two curves part: row by row, to the last bit."""

from __future__ import annotations

import dataclasses
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
