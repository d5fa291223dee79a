"""The values in a claims file: selections of runs, numbers, words of a table, and what each kind of parameter takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import yaml

from normexp.claims.checks import Takes
from normexp.claims.claim import Selection
from normexp.claims.measures import MEASURES, OF_ROW
from normexp.config.axes import Axis
from normexp.config.values import read_axis, read_value
from normexp.config.yamlfile import Source, nearest
from normexp.keys import Key, Value
from normexp.record import Outcome
from normexp.run import KEYS

MAX_VALUES = 1000
"""Values of a key that a claim may choose runs by."""
NUMBER = Key(kind=float, default=0.0, neutral=0.0, help="")
COUNT = Key(kind=int, default=1, neutral=1, help="", low=1)
SWITCH = Key(kind=bool, default=False, neutral=False, help="")


class Values:
    """Reads one value at a time; each complaint goes to the source's notes."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def selection(self, node: yaml.Node, where: str, also: tuple[str, ...] = ()) -> Selection:
        """Values by key; those in `also` hold one text."""
        found: dict[str, tuple[Any, ...]] = {}
        for entry in self.source.mapping(node, where):
            path = f"{where}.{entry.key[:40]}"
            if entry.key in also:
                found[entry.key] = (self.source.text(entry.node, path) or "",)
            elif entry.key not in KEYS:
                self.source.fault(entry.key_node, path, f"unknown key; {nearest(entry.key, [*also, *KEYS])}")
            elif (axis := read_axis(self.source, entry.node, path, KEYS[entry.key])) is not None:
                found[entry.key] = self._few(axis, entry.node, path) or ()
        return found

    def one_of(self, node: yaml.Node, where: str, word: str, known: Iterable[str]) -> str | None:
        names = [str(name) for name in known]
        if word in names:
            return word
        self.source.fault(node, where, f"{word[:40]!r} is not there; {nearest(word, names)}")
        return None

    def value(self, node: yaml.Node, where: str, key: Key) -> Any:
        return read_value(self.source, node, where, key)

    def figures(self, node: yaml.Node, where: str) -> tuple[str, ...]:
        """Numbers as they are written: their digits count."""
        nodes = [node] if isinstance(node, yaml.ScalarNode) else self.source.sequence(node, where)
        if not nodes:
            self.source.fault(node, where, "is empty: write the figures of the text")
        return tuple(str(item.value) for item in nodes if self.value(item, where, NUMBER) is not None)

    def words(self, node: yaml.Node, where: str, known: Iterable[str]) -> tuple[str, ...] | None:
        nodes = [node] if isinstance(node, yaml.ScalarNode) else self.source.sequence(node, where)
        words = [self.source.text(item, where) for item in nodes]
        found = [self.one_of(node, where, word, known) for word in words if word is not None]
        return tuple(word for word in found if word is not None) or None

    def one(self, node: yaml.Node, where: str, known: Iterable[str]) -> str | None:
        word = self.source.text(node, where)
        return None if word is None else self.one_of(node, where, word, known)

    def along(self, node: yaml.Node, where: str, axis: str | None) -> tuple[Any, ...] | None:
        found = read_axis(self.source, node, where, KEYS[axis]) if axis is not None and axis in KEYS else None
        return None if found is None else self._few(found, node, where)

    def _few(self, axis: Axis, node: yaml.Node, where: str) -> tuple[Value, ...] | None:
        """The values of an axis, each once; None after the complaint that there are too many."""
        if axis.count > MAX_VALUES:
            self.source.fault(node, where, f"has {axis.count} values, more than {MAX_VALUES}: give fewer")
            return None
        return tuple(dict.fromkeys(axis))


READERS: Mapping[Takes, Callable[[Values, yaml.Node, str, str | None], Any]] = {
    Takes.SELECTION: lambda reader, node, where, axis: reader.selection(node, where),
    Takes.NUMBER: lambda reader, node, where, axis: reader.value(node, where, NUMBER),
    Takes.STEPS: lambda reader, node, where, axis: reader.value(node, where, KEYS["steps"]),
    Takes.KEY: lambda reader, node, where, axis: reader.one(node, where, KEYS),
    Takes.VALUES: lambda reader, node, where, axis: reader.along(node, where, axis),
    Takes.MEASURE: lambda reader, node, where, axis: reader.one(node, where, [*OF_ROW, *MEASURES]),
    Takes.OUTCOMES: lambda reader, node, where, axis: reader.words(node, where, [*Outcome]),
    Takes.TREND: lambda reader, node, where, axis: reader.one(node, where, ("rising", "falling")),
}
"""How a parameter of each kind is read: reader, node, its place, and the claim's axis."""
