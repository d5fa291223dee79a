"""How many lines are spread over the panels of a figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

from normexp.labels import values_text
from normexp.plan import LABEL

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
        placed += _lines(name, lines, [key for key in rest if key in keys] or rest)
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


def _lines(panel: str, found: Sequence[tuple[Texts, Item]], keys: Sequence[str]) -> list[Placed[Item]]:
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
