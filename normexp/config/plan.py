"""The plan of a sweep: its points, the run of each point, shards for several machines, and selections of points."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from normexp.config.keys import with_point
from normexp.config.labels import Labels
from normexp.config.run import KEYS, RunConfig
from normexp.config.yaml_file import nearest
from normexp.errors import UserError
from normexp.schemes.network_config import Value

LABEL = "label"
"""Name under which a point's label appears among its keys."""
SEED = "seed"
"""The key that varies between the runs of a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One combination of the plan's axes, and the canonical run that gives its result.

    `label` is that of its entry under `sweeps`, or "". `values` has every axis of the plan, resolved but not
    canonicalised, so that `position: post` without a norm still reads `post`.
    """

    label: str
    values: Mapping[str, Value]
    config: RunConfig

    def value_of(self, key: str) -> Value:
        """Return the label, the configured value of an axis, or the value of another key in the run."""
        if key == LABEL:
            return self.label
        value: Value = self.values[key] if key in self.values else getattr(self.config, key)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Pivot:
    """The layout of a table: the axes of its rows and columns."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A number that a text reports for the points whose values match `where`."""

    where: Mapping[str, Value]
    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """An entry of `exclude` as text, and how many points it removes, regardless of other entries."""

    entry: str
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An expanded sweep: its points in order, the keys that vary, and the distinct runs.

    The plan of a `shard` has only the points of that shard, and `whole` is the plan of the whole sweep. `argv` is the
    command that created the folder, if it was read from one. `plugins` are those that the config names, as written
    there, and their digests. `excluded` is only known right after expansion.
    """

    name: str
    title: str
    folder: str
    axes: tuple[str, ...]
    points: tuple[Point, ...]
    source: str
    pivot: Pivot | None = None
    published: tuple[Published, ...] = ()
    warnings: tuple[str, ...] = ()
    plugins: Mapping[str, str] = field(default_factory=dict)
    shard: Shard | None = None
    whole: Plan | None = None
    argv: tuple[str, ...] = field(default=(), compare=False)
    excluded: tuple[Exclusion, ...] = field(default=(), compare=False)

    @property
    def configs(self) -> dict[str, RunConfig]:
        """The distinct runs by run id, in order of their first point."""
        return {point.config.run_id: point.config for point in self.points}

    @property
    def cell_axes(self) -> tuple[str, ...]:
        """The axes that distinguish cells: all but the seed."""
        return tuple(axis for axis in self.axes if axis != SEED)

    @property
    def labels(self) -> Labels:
        """Labels that distinguish all values of the whole sweep, so that shards use the same labels."""
        points = (self.whole or self).points
        return Labels(lambda key: [point.value_of(key) for point in points])

    def part(self, shard: Shard) -> Plan:
        """Return the plan of one shard of this sweep, with a separate folder."""
        return replace(
            self,
            title=f"{self.title or self.name} ({shard})",
            folder=shard.folder(self.folder),
            points=tuple(point for point in self.points if shard.has(point.config.run_id)),
            shard=shard,
            whole=self,
        )


MAX_SHARDS = 10_000
"""Maximum number of shards of a sweep."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number` of `count`, counted from 1. Raises ValueError for numbers out of range.

    The shard of a run depends only on the run's id, so adding or removing runs moves no other run.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count <= MAX_SHARDS:
            raise ValueError(f"shard {self.number} of {self.count} is out of range")

    def __str__(self) -> str:
        return f"shard {self.number} of {self.count}"

    @property
    def option(self) -> str:
        """The value of the `--shard` option: `2/4`."""
        return f"{self.number}/{self.count}"

    def has(self, run_id: str) -> bool:
        """Return whether the run belongs to this shard."""
        return of_run(run_id, self.count) == self

    def folder(self, whole: str) -> str:
        """Return the name of the shard's folder, given that of the sweep."""
        return f"{whole}.shard-{self.number}-of-{self.count}"


def of_run(run_id: str, count: int) -> Shard:
    """Return the shard that a run belongs to. It never changes and is the same on every machine."""
    digest = hashlib.sha256(run_id.encode()).digest()
    return Shard(int.from_bytes(digest[:8], "big") % count + 1, count)


def parse_shard(text: str) -> Shard:
    """Read a shard written as `2/4`. Raises UserError with the correct form."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip(), re.ASCII)
    if match is None:
        raise UserError(f"shard {text[:40]}: write 2/4 for shard 2 of 4")
    number, count = int(match[1]), int(match[2])
    try:
        return Shard(number, count)
    except ValueError:
        if not 1 <= count <= MAX_SHARDS:
            raise UserError(f"shard {text[:40]}: a sweep has 1 to {MAX_SHARDS} shards") from None
        raise UserError(f"shard {text[:40]}: shards are counted from 1: write 1/{count} to {count}/{count}") from None


def parse_point_filter(texts: Sequence[str]) -> dict[str, list[Value]]:
    """Read `key=value` or `key=value,value` texts into values by key. Raises UserError with all errors at once."""
    wanted: dict[str, list[Value]] = {}
    complaints = []
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not values:
            complaints.append(f"only {text}: write key=value")
        elif key == LABEL:
            wanted.setdefault(key, []).append(values)
        elif key not in KEYS:
            complaints.append(f"only {text}: unknown key {key}; {nearest(key, [LABEL, *KEYS])}")
        else:
            try:
                wanted.setdefault(key, []).extend([KEYS[key].parse(value) for value in values.split(",")])
            except ValueError as fault:
                decimal = with_point(values)
                hint = f"; {values} reads as two values: for a decimal write {key}={decimal}" if decimal else ""
                complaints.append(f"only {text}: {fault}{hint}")
    if complaints:
        raise UserError(*complaints)
    return wanted


def as_labelled(wanted: Mapping[str, Sequence[Value]], labels: Labels) -> dict[str, list[Value]]:
    """Replace each wanted value by the values that equal it, or else by those whose printed label equals it."""
    return {key: [match for value in values for match in labels.matching(key, value)] for key, values in wanted.items()}


def selected(plan: Plan, only: Sequence[str]) -> set[str]:
    """Return the ids of the runs whose points match a value of every key in `only`, as configured or as run.

    The ids include runs of other shards, since a shard may have no match. Raises UserError if the sweep has none.
    """
    wanted, points = parse_point_filter(only), (plan.whole or plan).points
    labelled = as_labelled(wanted, plan.labels)
    run_ids = {
        point.config.run_id
        for point in points
        if all(_has(point, key, [*wanted[key], *labelled[key]]) for key in wanted)
    }
    if only and not run_ids:
        raise UserError(f"only {' '.join(only)}: no point of {plan.name} matches")
    return run_ids


def _has(point: Point, key: str, values: Sequence[Value]) -> bool:
    return point.value_of(key) in values or getattr(point.config, key, None) in values
