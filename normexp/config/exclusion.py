"""What each entry of `exclude` removes from a group, and what it removes that it does not name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from normexp.config.groups import Group
from normexp.config.structure import Structure
from normexp.keys import Value, as_typed
from normexp.plan import Exclusion
from normexp.run import KEYS


@dataclass(slots=True)
class _Entry:
    """One entry: the points it removes, and the values of other axes that go with them, or stay.

    `idle` are keys that kept it from removing a point of its values, since they do not apply there.
    """

    where: Mapping[str, Value]
    others: tuple[str, ...]
    points: int = 0
    kept: int = 0
    idle: set[str] = field(default_factory=set)
    removed_values: dict[tuple[str, Value], None] = field(default_factory=dict)
    kept_values: set[tuple[str, Value]] = field(default_factory=set)

    def removes(self, structure: Structure, values: Mapping[str, Value]) -> bool:
        equal = all(structure.equal(name, wanted, values[name]) for name, wanted in self.where.items())
        idle = self.where.keys() - structure.applying if equal else ()
        removed = equal and not idle
        self.idle.update(idle)
        found = ((name, values[name]) for name in self.others)
        if removed:
            self.points += 1
            self.removed_values.update(dict.fromkeys(found))
        else:
            self.kept += 1
            self.kept_values.update(found)
        return removed


class Removals:
    """The entries of a group's `exclude`, counted point by point."""

    def __init__(self, group: Group) -> None:
        self._label = group.label
        self._entries = [_Entry(where=part, others=_others(group, part)) for part in group.exclude]

    def removes(self, structure: Structure, values: Mapping[str, Value]) -> bool:
        """Count a point, whose keys have these values as asked, and return whether an entry removes it."""
        removed = [entry.removes(structure, values) for entry in self._entries]  # every entry counts the point
        return any(removed)

    def exclusions(self) -> Iterator[Exclusion]:
        """Yield each entry with the points that it removes."""
        for entry in self._entries:
            yield Exclusion(entry=self._text(entry), points=entry.points)

    def warnings(self) -> Iterator[str]:
        """Yield a warning for each entry that removes nothing, or more than it names."""
        for entry in self._entries:
            if not entry.points:
                idle = (name for name in entry.where if name in entry.idle)
                reasons = [f"; {name} matters only when: {KEYS[name].matters_when}" for name in idle]
                yield f"exclude {self._text(entry)} removes no point{''.join(reasons)}"
            elif not entry.kept:
                yield f"exclude {self._text(entry)} removes every point{' of its entry' if self._label else ''}"
            else:
                lost = [value for value in entry.removed_values if value not in entry.kept_values]
                for name, value in lost:
                    yield f"exclude {self._text(entry)} removes every point with {name}: {as_typed(value)}"

    def _text(self, entry: _Entry) -> str:
        named = ", ".join(f"{name}: {as_typed(value)}" for name, value in entry.where.items())
        return f"{{{named}}}" + (f" of {self._label!r}" if self._label else "")


def _others(group: Group, part: Mapping[str, Value]) -> tuple[str, ...]:
    """The keys that vary apart from those which the entry names, and from those zipped with them."""
    return tuple(name for axes in group.dimensions if not set(axes) & set(part) for name in axes)
