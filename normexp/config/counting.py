"""How many points and runs a sweep has: exactly where that is quick, else at most."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from normexp.config.axes import Axis
from normexp.config.groups import Group
from normexp.config.structure import FREE, Structure, Structures
from normexp.errors import UserError
from normexp.keys import Value
from normexp.run import INTERACTING, KEYS

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
