"""What a figure shows, as numbers and words: lines or a map, in panels. It is drawn in figures and mapfigure.

How many lines are spread over the panels of a figure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from normexp.analysis.frames import frame
from normexp.analysis.sensitivity import Sensitivity
from normexp.config.keys import as_typed, is_number
from normexp.config.labels import Labels, values_text
from normexp.config.plan import LABEL
from normexp.records.record import Losses, Outcome
from normexp.schemes.network_config import Value

if TYPE_CHECKING:
    import pandas as pd


LABELS = 14
"""Lines in a panel at most."""
COMFORT = 6
"""Lines in a panel that are easily told apart: where panels allow it, there are no more."""
PANELS = 12
"""Panels in a figure at most."""
COLUMNS = 4
"""Panels side by side at most, where two keys span rows and columns."""

Texts = dict[str, str]
"""Label and axes of a line, as text; `post/pre` where one run answers several points."""
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed(Generic[Item]):
    """An item in its panel; `keys` are what tells its line from the others, `label` says so in words."""

    panel: str
    label: str
    keys: Texts
    item: Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout(Generic[Item]):
    """Items, panel by panel. `columns` is set where two keys span rows and columns; `omitted` ones had no place."""

    placed: Sequence[Placed[Item]]
    columns: int | None
    omitted: int


def place(
    items: Sequence[tuple[Texts, Item]], facets: Sequence[str] | None = None, *, panels: int = PANELS
) -> Layout[Item]:
    """As few panels as hold their lines in comfort, or those that `facets` tell apart; the rest is left out.

    Every item has the same keys. A line is named by those that tell lines of any panel of its label apart, so that it
    has one name, and one colour, in all of them.
    """
    if not items:
        return Layout(placed=(), columns=None, omitted=0)
    varying = [key for key in items[0][0] if len({texts[key] for texts, _ in items}) > 1]
    if facets is None:
        facets = _facets([texts for texts, _ in items], varying, panels)
    facets = [key for key in facets if key in varying]
    found: dict[tuple[str, ...], list[tuple[Texts, Item]]] = {}
    for texts, item in items:
        found.setdefault(tuple(texts[key] for key in facets), []).append((texts, item))
    ordered = _ordered(found)
    rest = [key for key in varying if key not in facets]
    told: dict[str, set[str]] = {}
    for lines in found.values():
        told.setdefault(lines[0][0].get(LABEL, ""), set()).update(_telling(lines, rest))
    placed: list[Placed[Item]] = []
    for panel in ordered[:panels]:
        name = values_text(dict(zip(facets, panel, strict=True)))
        lines = found[panel]
        keys = told[lines[0][0].get(LABEL, "")]
        placed += _lines_of_panel(name, lines, [key for key in rest if key in keys] or rest)
    return Layout(placed=placed, columns=_columns(facets, ordered[:panels]), omitted=len(items) - len(placed))


def _ordered(found: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Key by key, in the order in which each key's texts first come."""
    panels = list(found)
    ranks = [list(dict.fromkeys(texts)) for texts in zip(*panels, strict=True)]
    return sorted(panels, key=lambda panel: [rank.index(text) for rank, text in zip(ranks, panel, strict=True)])


def _telling(lines: Sequence[tuple[Texts, Item]], keys: Sequence[str]) -> set[str]:
    """The keys in which lines differ."""
    return {key for key in keys if len({texts[key] for texts, _ in lines}) > 1}


def _columns(facets: Sequence[str], panels: Sequence[tuple[str, ...]]) -> int | None:
    """As many as the second of two keys has values, where every combination is there."""
    if len(facets) != 2:
        return None
    rows, columns = ({panel[place] for panel in panels} for place in (0, 1))
    full = len(panels) == len(rows) * len(columns)
    return len(columns) if full and 1 < len(columns) <= COLUMNS else None


def _lines_of_panel(panel: str, found: Sequence[tuple[Texts, Item]], keys: Sequence[str]) -> list[Placed[Item]]:
    lines = []
    for texts, item in found:
        named = {key: texts[key] for key in keys}
        lines.append(Placed(panel=panel, label=values_text(named), keys=named, item=item))
    labels = list(dict.fromkeys(line.label for line in lines))[:LABELS]
    return [line for line in lines if line.label in labels]


def _facets(items: Sequence[Texts], varying: Sequence[str], panels: int) -> Sequence[str]:
    """The keys that tell panels apart: the fewest panels that hold their lines, and no `post/pre` panel if possible.

    Lines that would be alone in their panels stand together as long as one panel holds them: so they compare.
    What a user has put under different labels stands in different panels.
    """
    distinct = {tuple(texts[key] for key in varying) for texts in items}

    def cost(keys: tuple[str, ...]) -> tuple[bool, bool, bool, int, int, bool]:
        places = [varying.index(key) for key in keys]
        counts: dict[tuple[str, ...], int] = {}
        for texts in distinct:
            panel = tuple(texts[place] for place in places)
            counts[panel] = counts.get(panel, 0) + 1
        merged = any("/" in text for panel in counts for text in panel)
        most = max(counts.values())
        alone = most == 1 and len(counts) > 1
        return len(counts) > panels, most > LABELS, alone or most > COMFORT, len(counts), -len(keys), merged

    choices = [keys for size in range(4) for keys in combinations(varying, size)]
    return min((keys for keys in choices if ("label" in keys) == ("label" in varying)), key=cost)


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
