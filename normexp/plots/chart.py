"""The data of figures: charts of lines and maps of squares, in panels; and the layout of lines over panels."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
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
"""Maximum number of lines in a panel."""
COMFORT = 6
"""Number of lines in a panel that are easy to distinguish; used where the number of panels allows it."""
PANELS = 12
"""Maximum number of panels in a figure."""
COLUMNS = 4
"""Maximum number of panels side by side if two keys span rows and columns."""
LINEAR, LOG, LOSS, SHARE, NAMES = "linear", "log", "loss", "share", "names"
"""Scales of an axis. `loss` is linear up to a bend above the unigram loss, `share` spans 0 to 1, `names` has words."""
SENSITIVITY = ("sensitivity", "sensitivity_values", "no_sensitivity")
"""Columns of a figure's data: S in nats, the number of values it covers, and the reason if there is no S."""
TRAINING = "training"
"""The series that is drawn thin, behind the others."""

Texts = dict[str, str]
"""The label and the axis values of a line as text; values are joined (`post/pre`) if one run answers several points."""
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed(Generic[Item]):
    """An item in its panel. `keys` hold the values that distinguish its line from others, and `label` is their text."""

    panel: str
    label: str
    keys: Texts
    item: Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout(Generic[Item]):
    """Items in order of their panels. `columns` is set if two keys span rows and columns; `omitted` counts the rest."""

    placed: Sequence[Placed[Item]]
    columns: int | None
    omitted: int


def place(
    items: Sequence[tuple[Texts, Item]], facets: Sequence[str] | None = None, *, panels: int = PANELS
) -> Layout[Item]:
    """Distribute items over panels: by `facets`, or else over the fewest panels that keep lines distinguishable.

    Items that do not fit are omitted. All items have the same keys. A line is named by the keys that distinguish lines
    in any panel of its label, so that it has the same name and colour in all panels.
    """
    if not items:
        return Layout(placed=(), columns=None, omitted=0)
    varying = [key for key in items[0][0] if len({texts[key] for texts, _ in items}) > 1]
    if facets is None:
        facets = _choose_facets([texts for texts, _ in items], varying, panels)
    facets = [key for key in facets if key in varying]
    items_by_panel: dict[tuple[str, ...], list[tuple[Texts, Item]]] = {}
    for texts, item in items:
        items_by_panel.setdefault(tuple(texts[key] for key in facets), []).append((texts, item))
    ordered = _ordered(items_by_panel)
    rest = [key for key in varying if key not in facets]
    distinguishing: dict[str, set[str]] = {}
    for lines in items_by_panel.values():
        distinguishing.setdefault(lines[0][0].get(LABEL, ""), set()).update(_differing(lines, rest))
    placed: list[Placed[Item]] = []
    for panel in ordered[:panels]:
        name = values_text(dict(zip(facets, panel, strict=True)))
        lines = items_by_panel[panel]
        keys = distinguishing[lines[0][0].get(LABEL, "")]
        placed += _lines_of_panel(name, lines, [key for key in rest if key in keys] or rest)
    return Layout(placed=placed, columns=_columns(facets, ordered[:panels]), omitted=len(items) - len(placed))


def _ordered(panels: Collection[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Sort panels key by key, in the order in which each text first appears."""
    ranks = [list(dict.fromkeys(texts)) for texts in zip(*panels, strict=True)]
    return sorted(panels, key=lambda panel: [rank.index(text) for rank, text in zip(ranks, panel, strict=True)])


def _differing(lines: Sequence[tuple[Texts, Item]], keys: Sequence[str]) -> set[str]:
    """Return the keys in which lines differ."""
    return {key for key in keys if len({texts[key] for texts, _ in lines}) > 1}


def _columns(facets: Sequence[str], panels: Sequence[tuple[str, ...]]) -> int | None:
    """Return the number of values of the second of two facets if every combination has a panel, else None."""
    if len(facets) != 2:
        return None
    rows, columns = ({panel[index] for panel in panels} for index in (0, 1))
    full = len(panels) == len(rows) * len(columns)
    return len(columns) if full and 1 < len(columns) <= COLUMNS else None


def _lines_of_panel(panel: str, items: Sequence[tuple[Texts, Item]], keys: Sequence[str]) -> list[Placed[Item]]:
    lines = []
    for texts, item in items:
        named = {key: texts[key] for key in keys}
        lines.append(Placed(panel=panel, label=values_text(named), keys=named, item=item))
    labels = list(dict.fromkeys(line.label for line in lines))[:LABELS]
    return [line for line in lines if line.label in labels]


def _choose_facets(items: Sequence[Texts], varying: Sequence[str], panels: int) -> Sequence[str]:
    """Return the keys that define the panels: the fewest panels that hold their lines, avoiding joined panel names.

    Lines that would each be alone in a panel share one if it can hold them, so that they can be compared. Different
    labels always have different panels.
    """
    distinct = {tuple(texts[key] for key in varying) for texts in items}

    def cost(keys: tuple[str, ...]) -> tuple[bool, bool, bool, int, int, bool]:
        indices = [varying.index(key) for key in keys]
        counts: dict[tuple[str, ...], int] = {}
        for texts in distinct:
            panel = tuple(texts[index] for index in indices)
            counts[panel] = counts.get(panel, 0) + 1
        merged = any("/" in text for panel in counts for text in panel)
        most = max(counts.values())
        alone = most == 1 and len(counts) > 1
        return len(counts) > panels, most > LABELS, alone or most > COMFORT, len(counts), -len(keys), merged

    choices = [keys for size in range(4) for keys in combinations(varying, size)]
    return min((keys for keys in choices if ("label" in keys) == ("label" in varying)), key=cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis: `key` is its name in the data, `label` its name and unit in the figure, `names` label its `values`.

    Panels with equal y axes share them; different `group` values keep them separate.
    """

    key: str
    label: str
    scale: str = LINEAR
    values: tuple[Value, ...] = ()
    names: tuple[str, ...] = ()
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """The values of a line at one x. `middle` is the median: infinite if it is not finite, NaN if there are no values.

    `low` and `high` are the lowest and the highest finite value, or None. `nonfinite` of the `runs` became non-finite.
    """

    x: Value
    middle: float
    low: float | None
    high: float | None
    runs: int
    nonfinite: int = 0

    @classmethod
    def of(cls, x: Value, values: Iterable[float], *, finite_only: bool = False) -> Spot:
        """Summarize one value per run. With `finite_only`, the median leaves out non-finite values."""
        by_run = list(values)
        finite = [value for value in by_run if math.isfinite(value)]
        counted = finite if finite_only else [value if math.isfinite(value) else math.inf for value in by_run]
        return cls(
            x=x,
            middle=statistics.median(counted) if counted else math.nan,
            low=min(finite, default=None),
            high=max(finite, default=None),
            runs=len(by_run),
            nonfinite=len(by_run) - len(finite),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A mark where a run became non-finite, or (for another `outcome`) where a diverged or unsettled run ended.

    In figures by layer, `x` is the layer, and `text` the share of runs that became non-finite there, empty for all.
    """

    x: float
    y: float
    outcome: Outcome
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a panel. `keys` and their text `label` distinguish it from others; `series` names the measurement.

    `sensitivity` is shown in the legend.
    """

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
    """Lines by panel. `axes` holds the y axes of panels whose axis is not `y`; `columns` panels are side by side.

    `notes` tell the reader what is left out or pooled.
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
        """One row per spot. Infinity and NaN are written out."""
        rows = []
        for line in self.lines:
            shared = {"panel": line.panel, "line": line.label, "series": line.series}
            shared |= {} if line.sensitivity is None else _sensitivity_columns(line.sensitivity)
            for spot in line.spots:
                row: dict[str, Any] = {**shared, self.x.key: spot.x}
                row |= {"runs": spot.runs, "nonfinite": spot.nonfinite}
                row |= {"median": repr(float(spot.middle)), "lowest": _text(spot.low), "highest": _text(spot.high)}
                rows.append(row)
        series = ["series"] if any(line.series for line in self.lines) else []
        scanned = [*SENSITIVITY] if any(line.sensitivity is not None for line in self.lines) else []
        spread = ["runs", "nonfinite", "median", "lowest", "highest"]
        return frame(rows, ["panel", "line", *series, self.x.key, *spread, *scanned])


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """The runs at one position of a map: their number by outcome, status or `pending`, and a median.

    `fraction` is the median learned fraction of the done runs, 0 for non-finite ones; None if no run is done.
    """

    panel: str
    x: str
    y: str
    counts: Mapping[str, int]
    fraction: float | None

    @property
    def runs(self) -> int:
        """The number of runs."""
        return sum(self.counts.values())

    @property
    def learned(self) -> int:
        """The number of runs that learned."""
        return self.counts.get(Outcome.LEARNED, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """Squares by panel, over two axes of names, coloured by learned fraction (`by_fraction`) or by outcome."""

    title: str
    x: Axis
    y: Axis
    squares: Sequence[Square]
    by_fraction: bool
    columns: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def data(self) -> pd.DataFrame:
        """One row per square, with a count for each outcome or status that occurs in the map."""
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
        positions = [f"x_{self.x.key}", f"y_{self.y.key}"]
        return frame(rows, ["panel", *positions, "runs", *counts, "median_learned_fraction"])


def names_axis(key: str, values: Iterable[Value], labels: Labels) -> Axis:
    """Return an axis of names for these values: numbers ascending, other values in order of appearance."""
    distinct = list(dict.fromkeys(values))
    if all(is_number(value) for value in distinct):
        distinct.sort(key=float)
    names = tuple(labels.text(key, value) for value in distinct)
    return Axis(key=key, label=label_of(key), scale=NAMES, values=tuple(distinct), names=names)


def value_axis(key: str, values: Sequence[Value], labels: Labels) -> Axis:
    """Return an axis for these values: names for words, logarithmic for positive numbers over more than a decade."""
    if not all(is_number(value) for value in values):
        return names_axis(key, values, labels)
    numbers = [float(value) for value in values]
    log = min(numbers) > 0 and max(numbers) > 10 * min(numbers)
    scale = LOG if log or (key == "lr" and min(numbers) > 0) else LINEAR
    return replace(names_axis(key, values, labels), scale=scale)


def label_of(key: str) -> str:
    """Return the label of the axis of a key."""
    return {"lr": "learning rate", "depth": "depth (blocks)", "warmup": "warm-up (steps)"}.get(key, key)


def _sensitivity_columns(sensitivity: Sensitivity) -> dict[str, Any]:
    count = str(sensitivity.count) if sensitivity.by_seed else ""
    return dict(zip(SENSITIVITY, (_text(sensitivity.mean), count, sensitivity.reason), strict=True))


def _text(number: float | None) -> str | None:
    return None if number is None else repr(float(number))
