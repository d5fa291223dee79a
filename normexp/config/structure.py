"""What the interacting keys of a point settle, once for all points that share them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from normexp.config.yamlfile import bounded
from normexp.errors import UserError
from normexp.keys import Value
from normexp.labels import values_text
from normexp.run import INTERACTING, KEYS, RunConfig

FREE = tuple(name for name in KEYS if name not in INTERACTING)
"""Keys that change nothing but themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Interacting keys: as asked, resolved, and canonical; the free keys that matter beside them; what clashes."""

    asked: Mapping[str, Value]
    resolved: Mapping[str, Value]
    canonical: Mapping[str, Value]
    mattering: frozenset[str]
    faults: tuple[str, ...] = ()

    def canonical_of(self, name: str, value: Value) -> Value:
        """The value of a key in the run that answers the point; `value` as asked."""
        if name in self.canonical:
            return self.canonical[name]
        return KEYS[name].canonical(value, name in self.mattering)

    def agrees(self, name: str, wanted: Value, value: Value) -> bool:
        """Whether the point's value of a key is the wanted one, as it was asked or as it is run."""
        key = KEYS[name]
        return wanted == value or key.canonical(wanted, True) == self.canonical_of(name, value)


@dataclass(slots=True)
class Structures:
    """The structures met so far, and the clashes in those that a point needs. `origin` is the config's name.

    Of keys that are `unread`, whose value is not known, nothing clashes.
    """

    origin: str
    unread: Collection[str] = ()
    _known: dict[tuple[Value, ...], Structure] = field(default_factory=dict)
    _clashes: dict[str, str] = field(default_factory=dict)

    def find(self, asked: Callable[[str], Value]) -> Structure:
        """The structure of a point whose keys have the values `asked(key)`."""
        values = tuple(asked(name) for name in INTERACTING)
        found = self._known.get(values)
        if found is None:
            found = self._known[values] = _settle(dict(zip(INTERACTING, values, strict=True)), self.unread)
        return found

    def note_clashes(self, structure: Structure, varied: Iterable[str]) -> None:
        """Keep what clashes, with the first values of the varied keys at which it does."""
        for fault in structure.faults:
            at = values_text({name: structure.asked[name] for name in varied if name in structure.asked})
            self._clashes.setdefault(fault, f" (at {at})" if at else "")

    @property
    def clashes(self) -> list[str]:
        """A complaint for each clash kept."""
        return [f"{self.origin}: {fault}{at}" for fault, at in self._clashes.items()]

    def fail_on_clashes(self) -> None:
        """Raises UserError with every clash kept."""
        if self._clashes:
            raise UserError(*bounded(self.clashes))


def _settle(asked: Mapping[str, Value], unread: Collection[str]) -> Structure:
    given: dict[str, Any] = {**asked, **dict.fromkeys(asked.keys() & set(unread), ...)}  # ... is no key's value
    try:
        run = RunConfig(**given)
    except ValueError as error:
        faults = tuple(line for line in str(error).splitlines() if line.partition(":")[0] not in unread)
        return Structure(asked=asked, resolved=asked, canonical=asked, mattering=frozenset(FREE), faults=faults)
    same = run.canonical()
    return Structure(
        asked=asked,
        resolved={name: getattr(run, name) for name in INTERACTING},
        canonical={name: getattr(same, name) for name in INTERACTING},
        mattering=same.mattering() & frozenset(FREE),
    )
