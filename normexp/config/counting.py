"""How many points and runs a sweep has: exactly where that is quick, else at most.

What the interacting keys of a point settle, once for all points that share them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from normexp.config.axes import Axis
from normexp.config.conditions import AUTO_READS, applying
from normexp.config.groups import Group
from normexp.config.labels import values_text
from normexp.config.run import INTERACTING, KEYS, RunConfig
from normexp.config.yaml_file import bounded
from normexp.errors import UserError
from normexp.schemes.network_config import Value

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


EXACT_POINTS = 10**6
"""Points up to which redundant and excluded ones are worked out."""
EXACT_STRUCTURES = 10**4
"""Combinations of interacting keys up to which they are: each takes about a tenth of a millisecond."""

Places = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Points asked for; those left out by `exclude`; the runs that answer the rest; how many share another's run.

    Where `exact` is false, `runs` is an upper bound, and redundant and excluded points are not counted.
    """

    points: int
    runs: int
    redundant: int
    excluded: int
    exact: bool

    def __str__(self) -> str:
        """`20 points, 15 runs, 5 redundant`."""
        if not self.exact:
            return f"{self.points} points, at most {self.runs} runs"
        parts = [f"{self.points} points", f"{self.runs} runs", f"{self.redundant} redundant"]
        return ", ".join([*parts, f"{self.excluded} excluded"] if self.excluded else parts)


def count(groups: Sequence[Group], structures: Structures) -> Count:
    """Count without building: by lengths alone above the limits, else run by run as one number each.

    Raises UserError for values that clash, where it meets them.
    """
    points = sum(group.size for group in groups)
    bound = sum(math.prod(_length(axes) for axes in _split(group)[0]) for group in groups)
    if points > EXACT_POINTS or bound > EXACT_STRUCTURES:
        return Count(points=points, runs=points, redundant=0, excluded=0, exact=False)
    coder = _Coder(groups)
    if coder.span * (bound + 1) >= 2**63:
        return Count(points=points, runs=points, redundant=0, excluded=0, exact=False)
    kept = [part for group in groups for part in coder.codes(group, structures)]
    structures.fail_on_clashes()
    left = sum(part.size for part in kept)
    runs = int(np.unique(np.concatenate(kept)).size) if kept else 0
    return Count(points=points, runs=runs, redundant=left - runs, excluded=points - left, exact=True)


def clashes(groups: Sequence[Group], structures: Structures) -> list[str]:
    """A complaint for each clash of values; none where there are too many points to look at."""
    with suppress(UserError):
        count(groups, structures)
    return structures.clashes


def _length(axes: Mapping[str, Axis]) -> int:
    return next(iter(axes.values())).count


def _split(group: Group) -> tuple[list[Mapping[str, Axis]], list[Mapping[str, Axis]]]:
    """The dimensions that hold an interacting key, and the others."""
    bound = [axes for axes in group.dimensions if any(name in INTERACTING for name in axes)]
    free = [axes for axes in group.dimensions if not any(name in INTERACTING for name in axes)]
    return bound, free


class _Coder:
    """Numbers each run: a place for its structure, and one for the value of each free key, as digits of one number."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._heads: dict[tuple[Value, ...], int] = {}
        self._digit: dict[str, dict[Value, int]] = {name: {} for name in FREE}
        self._steps: dict[tuple[int, frozenset[str]], Places] = {}
        for name, digits in self._digit.items():
            digits[KEYS[name].neutral] = 0
            for group in groups:
                axis = next((axes[name] for axes in group.dimensions if name in axes), None)
                for value in axis or [group.asked(name)]:
                    digits.setdefault(KEYS[name].canonical(value, True), len(digits))
        self._stride: dict[str, int] = {}
        self.span = 1
        for name, digits in self._digit.items():
            self._stride[name] = self.span
            self.span *= len(digits)

    def codes(self, group: Group, structures: Structures) -> list[Places]:
        """The runs of the points that are not left out, one array for each combination of interacting keys."""
        bound, free = _split(group)
        self._steps.clear()  # dimensions are told apart by identity, within a group
        fixed = {name: group.asked(name) for name in (*INTERACTING, *FREE) if name not in group.varied}
        names = [name for axes in bound for name in axes]
        columns = [list(zip(*axes.values(), strict=True)) for axes in bound]
        parts = []
        for combination in itertools.product(*columns):
            values = fixed | dict(zip(names, itertools.chain(*combination), strict=True))
            structure = structures.find(values.__getitem__)
            codes = self._box(structure, values, free)
            out = _left_out(group, structure, values, free)
            if out is None or not out.all():
                structures.note_clashes(structure, names)
            parts.append(codes if out is None else codes[~out])
        return parts

    def _box(self, structure: Structure, values: Mapping[str, Value], free: Sequence[Mapping[str, Axis]]) -> Places:
        head = self._heads.setdefault(tuple(structure.canonical.values()), len(self._heads))
        start = head * self.span + sum(self._code(structure, name, values[name]) for name in FREE if name in values)
        codes = np.array([start], dtype=np.int64)
        for axes in free:
            codes = (codes[:, None] + self._step(structure, axes)[None, :]).ravel()
        return codes

    def _step(self, structure: Structure, axes: Mapping[str, Axis]) -> Places:
        """What each place of a dimension adds to the number."""
        known = (id(axes), structure.mattering)
        if known not in self._steps:
            steps = [self._code(structure, name, value) for name, axis in axes.items() for value in axis]
            self._steps[known] = np.array(steps, dtype=np.int64).reshape(len(axes), -1).sum(axis=0)
        return self._steps[known]

    def _code(self, structure: Structure, name: str, value: Value) -> int:
        return self._stride[name] * self._digit[name][structure.canonical_of(name, value)]


def _left_out(
    group: Group, structure: Structure, values: Mapping[str, Value], free: Sequence[Mapping[str, Axis]]
) -> Marks | None:
    """Marks of the points that an exclude matches; None for none of them."""
    out: Marks | None = None
    for part in group.exclude:
        if not all(structure.agrees(name, wanted, values[name]) for name, wanted in part.items() if name in values):
            continue
        marks = np.ones(1, dtype=np.bool_)
        for axes in free:
            hit = np.ones(_length(axes), dtype=np.bool_)
            for name in (name for name in axes if name in part):
                hit &= np.array([structure.agrees(name, part[name], value) for value in axes[name]], dtype=np.bool_)
            marks = (marks[:, None] & hit[None, :]).ravel()
        out = marks if out is None else out | marks
    return out
