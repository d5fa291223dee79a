"""What a figure shows, as numbers and words: lines or a map, in panels. It is drawn in figures and mapfigure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from normexp.keys import Value, as_typed, is_number
from normexp.labels import Labels
from normexp.record import Losses, Outcome
from normexp.sensitivity import Sensitivity
from normexp.views.figures.panels import Texts
from normexp.views.tables import frame

if TYPE_CHECKING:
    import pandas as pd

LINEAR, LOG, LOSS, SHARE, NAMES = "linear", "log", "loss", "share", "names"
"""Scales of an axis: `loss` is linear up to a bend above the guess, `share` goes from 0 to 1, `names` has words."""
SENSITIVITY = ("sensitivity", "sensitivity_values", "no_sensitivity")
"""Columns of a figure's data: S in nats, over how many values, and why there is none."""
TRAINING = "training"
"""The series that is drawn thin, behind the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """`key` names it in data, `label` in the figure, with its unit. `names` are the labels of its `values`, in order.

    Panels whose y axes are equal share it: a `group` of its own keeps one apart.
    """

    key: str
    label: str
    scale: str = LINEAR
    values: tuple[Value, ...] = ()
    names: tuple[str, ...] = ()
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """What a line has at one x: `middle` is the median, infinite where half of the runs or more are; NaN: unknown.

    `low` and `high` are the lowest and the highest finite value, None where there is none; `dead` of `runs` ended
    non-finite.
    """

    x: Value
    middle: float
    low: float | None
    high: float | None
    runs: int
    dead: int = 0

    @classmethod
    def of(cls, x: Value, values: Iterable[float], *, alive: bool = False) -> Spot:
        """Of one value a run, not finite for a dead one; with `alive`, `middle` is the median of the others alone."""
        found = list(values)
        finite = [value for value in found if math.isfinite(value)]
        counted = finite if alive else [value if math.isfinite(value) else math.inf for value in found]
        return cls(
            x=x,
            middle=statistics.median(counted) if counted else math.nan,
            low=min(finite, default=None),
            high=max(finite, default=None),
            runs=len(found),
            dead=len(found) - len(finite),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where a run went non-finite, or (`outcome` another) where one ended that came to no rest.

    Over layers, `x` is the layer, and `text` how many of the line's runs became non-finite there, empty for all.
    """

    x: float
    y: float
    outcome: Outcome
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a panel. `keys` tell it from those beside it, and `label` says so in words; `series` is which of its
    measurements it is. `sensitivity` stands in the legend."""

    panel: str
    label: str
    keys: Texts
    spots: Sequence[Spot]
    series: str = ""
    marks: Sequence[Mark] = ()
    losses: Losses | None = None
    sensitivity: Sensitivity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines by panel. `axes` are the y axes of panels whose axis is not `y`; `columns` panels stand side by side.

    `notes` say what the reader must know beyond that: what is left out, what is pooled.
    """

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    axes: Mapping[str, Axis]
    columns: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def data(self) -> pd.DataFrame:
        """One row a spot; inf and nan are written out."""
        rows = []
        for line in self.lines:
            about = {"panel": line.panel, "line": line.label, "series": line.series}
            told = {} if line.sensitivity is None else _sensitivity_cells(line.sensitivity)
            for spot in line.spots:
                row: dict[str, Any] = {**about, **told, self.x.key: spot.x}
                row |= {"runs": spot.runs, "nonfinite": spot.dead}
                row |= {"median": repr(float(spot.middle)), "lowest": _text(spot.low), "highest": _text(spot.high)}
                rows.append(row)
        series = ["series"] if any(line.series for line in self.lines) else []
        scanned = [*SENSITIVITY] if any(line.sensitivity is not None for line in self.lines) else []
        spread = ["runs", "nonfinite", "median", "lowest", "highest"]
        return frame(rows, ["panel", "line", *series, self.x.key, *spread, *scanned])


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """The runs at one place of a map: how many came to what (outcome, status or pending), and the median learned
    fraction of the done ones, the dead as 0; None where none is done."""

    panel: str
    x: str
    y: str
    counts: Mapping[str, int]
    fraction: float | None

    @property
    def runs(self) -> int:
        """All of them."""
        return sum(self.counts.values())

    @property
    def learned(self) -> int:
        """Those that learned."""
        return self.counts.get(Outcome.LEARNED, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """Squares by panel, over two axes of names; `by_fraction`: coloured by learned fraction, else by outcome."""

    title: str
    x: Axis
    y: Axis
    squares: Sequence[Square]
    by_fraction: bool
    columns: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def data(self) -> pd.DataFrame:
        """One row a square, with a count for each word that any square has."""
        words = list(dict.fromkeys(word for square in self.squares for word in square.counts))
        ordered = [*(word.value for word in Outcome if word in words), *(w for w in words if w not in [*Outcome])]
        xs, ys = (dict(zip(axis.names, map(as_typed, axis.values), strict=True)) for axis in (self.x, self.y))
        rows: Iterable[dict[str, Any]] = (
            {"panel": square.panel, f"x_{self.x.key}": xs[square.x], f"y_{self.y.key}": ys[square.y]}
            | {"runs": square.runs}
            | {f"{word}_runs": square.counts.get(word, 0) for word in ordered}
            | {"median_learned_fraction": _text(square.fraction)}
            for square in self.squares
        )
        counts = [f"{word}_runs" for word in ordered]
        places = [f"x_{self.x.key}", f"y_{self.y.key}"]
        return frame(rows, ["panel", *places, "runs", *counts, "median_learned_fraction"])


def names_axis(key: str, values: Iterable[Value], labels: Labels) -> Axis:
    """An axis of the words of these values: numbers in rising order, anything else as it comes."""
    distinct = list(dict.fromkeys(values))
    if all(is_number(value) for value in distinct):
        distinct.sort(key=float)
    names = tuple(labels.text(key, value) for value in distinct)
    return Axis(key=key, label=label_of(key), scale=NAMES, values=tuple(distinct), names=names)


def value_axis(key: str, values: Sequence[Value], labels: Labels) -> Axis:
    """An axis for these values: logarithmic where positive numbers span more than a decade, of names for words."""
    if not all(is_number(value) for value in values):
        return names_axis(key, values, labels)
    numbers = [float(value) for value in values]
    log = min(numbers) > 0 and max(numbers) > 10 * min(numbers)
    scale = LOG if log or (key == "lr" and min(numbers) > 0) else LINEAR
    return replace(names_axis(key, values, labels), scale=scale)


def label_of(key: str) -> str:
    """A key as the name of an axis."""
    return {"lr": "learning rate", "depth": "depth (blocks)", "warmup": "warm-up (steps)"}.get(key, key)


def _sensitivity_cells(found: Sensitivity) -> dict[str, Any]:
    count = str(found.count) if found.by_seed else ""
    return dict(zip(SENSITIVITY, (_text(found.mean), count, found.reason), strict=True))


def _text(number: float | None) -> str | None:
    return None if number is None else repr(float(number))
