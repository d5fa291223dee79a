"""What the interacting keys of a point settle, once for all points that share them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from normexp.config.yamlfile import bounded
from normexp.errors import UserError
from normexp.keys import Value
from normexp.labels import values_text
from normexp.matters import AUTO_READS, applying
from normexp.run import INTERACTING, KEYS, RunConfig

FREE = tuple(name for name in KEYS if name not in INTERACTING)
"""Keys that change nothing but themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Interacting keys: as asked, resolved, and canonical; the keys that matter beside them; what clashes.

    A key `applies` to a point where another value of it could give another run.
    """

    asked: Mapping[str, Value]
    resolved: Mapping[str, Value]
    canonical: Mapping[str, Value]
    mattering: frozenset[str]
    applying: frozenset[str]
    faults: tuple[str, ...] = ()

    def canonical_of(self, name: str, value: Value) -> Value:
        """The value of a key in the run that answers the point; `value` as asked."""
        if name in self.canonical:
            return self.canonical[name]
        return KEYS[name].canonical(value, name in self.mattering)

    def agrees(self, name: str, wanted: Value, value: Value) -> bool:
        """Whether the key applies to the point, and the point's value of it, as asked, is the wanted one."""
        return name in self.applying and self.equal(name, wanted, value)

    def equal(self, name: str, wanted: Value, value: Value) -> bool:
        """Whether the point's value of a key, as asked, is the wanted one, applied or not.

        `auto` equals what it stands for, and a value its synonyms: a warm-up of 1 is one of 0.
        """
        same = KEYS[name].synonyms
        wanted, value = same.get(wanted, wanted), same.get(value, value)
        return wanted in (value, self.resolved.get(name, value))


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
        free, every = frozenset(FREE), frozenset(KEYS)
        return Structure(asked=asked, resolved=asked, canonical=asked, mattering=free, applying=every, faults=faults)
    same = run.canonical()
    return Structure(
        asked=asked,
        resolved={name: getattr(run, name) for name in INTERACTING},
        canonical={name: getattr(same, name) for name in INTERACTING},
        mattering=same.mattering() & frozenset(FREE),
        applying=applying(run, [name for name in AUTO_READS if asked[name] == "auto"]),
    )
