"""How many lines are spread over the panels of a figure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TypeVar

from normexp.views.labels import values_text

LABELS = 14
"""Distinct lines in a panel at most."""
TWINS = 48
"""Lines in a panel at most, those that differ by seed alone included."""
PANELS = 12
"""Panels in a figure at most."""

Texts = dict[str, str]
"""Label and axes of a line, as text; `post/pre` where one run answers several points."""
Item = TypeVar("Item")


def place(items: Sequence[tuple[Texts, Item]]) -> list[tuple[str, str, Item]]:
    """(panel, line label, item): as few panels as hold their lines; what exceeds the limits is left out.

    Lines that differ by seed alone have one label, unless only the seed varies.
    """
    if not items:
        return []
    varying = [key for key in items[0][0] if len({texts[key] for texts, _ in items}) > 1]
    if varying != ["seed"]:
        varying = [key for key in varying if key != "seed"]
    facets = _facets([texts for texts, _ in items], varying)
    panels: dict[str, list[tuple[Texts, Item]]] = {}
    for texts, item in items:
        panels.setdefault(values_text({key: texts[key] for key in facets}), []).append((texts, item))
    lines = []
    for panel, found in list(panels.items())[:PANELS]:
        keys = [key for key in varying if key not in facets]
        told = [key for key in keys if len({texts[key] for texts, _ in found}) > 1] or keys
        lines += _first([(panel, values_text({key: texts[key] for key in told}), item) for texts, item in found])
    return lines


def _first(lines: Sequence[tuple[str, str, Item]]) -> list[tuple[str, str, Item]]:
    labels = list(dict.fromkeys(label for _, label, _ in lines))[:LABELS]
    return [line for line in lines if line[1] in labels][:TWINS]


def _facets(items: Sequence[Texts], varying: Sequence[str]) -> tuple[str, ...]:
    """The keys that tell panels apart: the fewest panels that hold their lines, and no `post/pre` panel if possible.

    What a user has put under different labels stands in different panels.
    """
    distinct = {tuple(texts[key] for key in varying) for texts in items}

    def cost(keys: tuple[str, ...]) -> tuple[bool, int, bool]:
        places = [varying.index(key) for key in keys]
        counts: dict[tuple[str, ...], int] = {}
        for texts in distinct:
            panel = tuple(texts[place] for place in places)
            counts[panel] = counts.get(panel, 0) + 1
        merged = any("/" in text for panel in counts for text in panel)
        return max(counts.values()) > LABELS, len(counts), merged

    choices = [keys for size in range(4) for keys in combinations(varying, size)]
    return min((keys for keys in choices if ("label" in keys) == ("label" in varying)), key=cost)
