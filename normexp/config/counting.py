"""Count the points and runs of a sweep without building them: exactly for small sweeps, else an upper bound.

The effect of the interacting keys is computed once for all points that share their values.
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
"""Keys that do not affect the meaning of any other key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """The interacting keys of a point: as configured, resolved and canonical, with their conflicts as `faults`.

    `mattering` are the free keys that affect the run. `applying` are the keys whose value could affect it.
    """

    configured: Mapping[str, Value]
    resolved: Mapping[str, Value]
    canonical: Mapping[str, Value]
    mattering: frozenset[str]
    applying: frozenset[str]
    faults: tuple[str, ...] = ()

    def canonical_of(self, name: str, value: Value) -> Value:
        """Return the canonical value of a key whose configured value is `value`."""
        if name in self.canonical:
            return self.canonical[name]
        return KEYS[name].canonical(value, name in self.mattering)

    def agrees(self, name: str, wanted: Value, value: Value) -> bool:
        """Return whether the key applies to the point and its configured value equals `wanted`."""
        return name in self.applying and self.equal(name, wanted, value)

    def equal(self, name: str, wanted: Value, value: Value) -> bool:
        """Return whether the configured value of a key equals `wanted`, whether or not the key applies.

        `auto` equals the value that it resolves to, and synonyms are equal: a warm-up of 1 is a warm-up of 0.
        """
        same = KEYS[name].synonyms
        wanted, value = same.get(wanted, wanted), same.get(value, value)
        return wanted in (value, self.resolved.get(name, value))


@dataclass(slots=True)
class Structures:
    """A cache of structures, which also collects their conflicts. `origin` names the config in messages.

    `unread` are keys whose value could not be read; they cause no conflicts.
    """

    origin: str
    unread: Collection[str] = ()
    _known: dict[tuple[Value, ...], Structure] = field(default_factory=dict)
    _clashes: dict[str, str] = field(default_factory=dict)

    def find(self, configured: Callable[[str], Value]) -> Structure:
        """Return the structure of a point whose configured values are `configured(key)`."""
        values = tuple(configured(name) for name in INTERACTING)
        structure = self._known.get(values)
        if structure is None:
            structure = self._known[values] = _settle(dict(zip(INTERACTING, values, strict=True)), self.unread)
        return structure

    def note_clashes(self, structure: Structure, varied: Iterable[str]) -> None:
        """Record the conflicts of a structure, each with the varied values at which it first occurs."""
        for fault in structure.faults:
            at = values_text({name: structure.configured[name] for name in varied if name in structure.configured})
            self._clashes.setdefault(fault, f" (at {at})" if at else "")

    @property
    def clashes(self) -> list[str]:
        """One message per recorded conflict."""
        return [f"{self.origin}: {fault}{at}" for fault, at in self._clashes.items()]

    def fail_on_clashes(self) -> None:
        """Raise UserError with every recorded conflict."""
        if self._clashes:
            raise UserError(*bounded(self.clashes))


def _settle(configured: Mapping[str, Value], unread: Collection[str]) -> Structure:
    # The ellipsis is not a valid value of any key, so it mask the keys that could not be read.
    values: dict[str, Any] = {**configured, **dict.fromkeys(configured.keys() & set(unread), ...)}
    try:
        run = RunConfig(**values)
    except ValueError as error:
        faults = tuple(line for line in str(error).splitlines() if line.partition(":")[0] not in unread)
        free, every = frozenset(FREE), frozenset(KEYS)
        return Structure(
            configured=configured,
            resolved=configured,
            canonical=configured,
            mattering=free,
            applying=every,
            faults=faults,
        )
    same = run.canonical()
    return Structure(
        configured=configured,
        resolved={name: getattr(run, name) for name in INTERACTING},
        canonical={name: getattr(same, name) for name in INTERACTING},
        mattering=same.mattering() & frozenset(FREE),
        applying=applying(run, [name for name in AUTO_READS if configured[name] == "auto"]),
    )


EXACT_POINTS = 10**6
"""Duplicate and excluded points are counted up to this number of points."""
EXACT_STRUCTURES = 10**4
"""They are counted up to this number of combinations of interacting keys, which take about 0.1 ms each."""

Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The numbers of points, runs, duplicates (points that share a run with an earlier one), and excluded points.

    If `exact` is false, `runs` is an upper bound, and `duplicates` and `excluded` are 0.
    """

    points: int
    runs: int
    duplicates: int
    excluded: int
    exact: bool


def count(groups: Sequence[Group], structures: Structures) -> Count:
    """Count the points and runs of the groups without building them.

    Above EXACT_POINTS or EXACT_STRUCTURES the count is an upper bound. Below, each run is encoded as one integer.
    Raises UserError for values that conflict, if the count is exact.
    """
    points = sum(group.size for group in groups)
    bound = sum(math.prod(_length(axes) for axes in _split(group)[0]) for group in groups)
    if points > EXACT_POINTS or bound > EXACT_STRUCTURES:
        return Count(points=points, runs=points, duplicates=0, excluded=0, exact=False)
    coder = _Coder(groups)
    if coder.span * (bound + 1) >= 2**63:
        return Count(points=points, runs=points, duplicates=0, excluded=0, exact=False)
    kept = [part for group in groups for part in coder.codes(group, structures)]
    structures.fail_on_clashes()
    left = sum(part.size for part in kept)
    runs = int(np.unique(np.concatenate(kept)).size) if kept else 0
    return Count(points=points, runs=runs, duplicates=left - runs, excluded=points - left, exact=True)


def clashes(groups: Sequence[Group], structures: Structures) -> list[str]:
    """Return a message for each conflict of values, or none if there are too many points to check."""
    with suppress(UserError):
        count(groups, structures)
    return structures.clashes


def _length(axes: Mapping[str, Axis]) -> int:
    return next(iter(axes.values())).count


def _split(group: Group) -> tuple[list[Mapping[str, Axis]], list[Mapping[str, Axis]]]:
    """Split the dimensions of a group into those with an interacting key and the others."""
    bound = [axes for axes in group.dimensions if any(name in INTERACTING for name in axes)]
    free = [axes for axes in group.dimensions if not any(name in INTERACTING for name in axes)]
    return bound, free


class _Coder:
    """Encodes each run as one integer: the index of its structure and the value of each free key are its digits."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._heads: dict[tuple[Value, ...], int] = {}
        self._digit: dict[str, dict[Value, int]] = {name: {} for name in FREE}
        self._steps: dict[tuple[int, frozenset[str]], Codes] = {}
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

    def codes(self, group: Group, structures: Structures) -> list[Codes]:
        """Return the codes of all points that are not excluded, one array per combination of interacting keys."""
        bound, free = _split(group)
        self._steps.clear()  # keyed by the identity of a dimension, which is unique only within a group
        fixed = {name: group.asked(name) for name in (*INTERACTING, *FREE) if name not in group.varied}
        names = [name for axes in bound for name in axes]
        columns = [list(zip(*axes.values(), strict=True)) for axes in bound]
        parts = []
        for combination in itertools.product(*columns):
            values = fixed | dict(zip(names, itertools.chain(*combination), strict=True))
            structure = structures.find(values.__getitem__)
            codes = self._box(structure, values, free)
            excluded = _excluded(group, structure, values, free)
            if excluded is None or not excluded.all():
                structures.note_clashes(structure, names)
            parts.append(codes if excluded is None else codes[~excluded])
        return parts

    def _box(self, structure: Structure, values: Mapping[str, Value], free: Sequence[Mapping[str, Axis]]) -> Codes:
        head = self._heads.setdefault(tuple(structure.canonical.values()), len(self._heads))
        start = head * self.span + sum(self._code(structure, name, values[name]) for name in FREE if name in values)
        codes = np.array([start], dtype=np.int64)
        for axes in free:
            codes = (codes[:, None] + self._step(structure, axes)[None, :]).ravel()
        return codes

    def _step(self, structure: Structure, axes: Mapping[str, Axis]) -> Codes:
        """Return what each index of a dimension adds to the code."""
        known = (id(axes), structure.mattering)
        if known not in self._steps:
            steps = [self._code(structure, name, value) for name, axis in axes.items() for value in axis]
            self._steps[known] = np.array(steps, dtype=np.int64).reshape(len(axes), -1).sum(axis=0)
        return self._steps[known]

    def _code(self, structure: Structure, name: str, value: Value) -> int:
        return self._stride[name] * self._digit[name][structure.canonical_of(name, value)]


def _excluded(
    group: Group, structure: Structure, values: Mapping[str, Value], free: Sequence[Mapping[str, Axis]]
) -> Mask | None:
    """Return a mask of the points that an entry of `exclude` matches, or None if it matches none."""
    excluded: Mask | None = None
    for part in group.exclude:
        if not all(structure.agrees(name, wanted, values[name]) for name, wanted in part.items() if name in values):
            continue
        mask = np.ones(1, dtype=np.bool_)
        for axes in free:
            hit = np.ones(_length(axes), dtype=np.bool_)
            for name in (name for name in axes if name in part):
                hit &= np.array([structure.agrees(name, part[name], value) for value in axes[name]], dtype=np.bool_)
            mask = (mask[:, None] & hit[None, :]).ravel()
        excluded = mask if excluded is None else excluded | mask
    return excluded
