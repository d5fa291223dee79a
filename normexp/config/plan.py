"""What `--only key=value` asks for: some of a sweep's points, by their labels and the values of their keys.

The nouns between a YAML file and its runs: what a sweep asks for, point by point.

A share of a sweep's runs, for one machine of several that know nothing of each other.
"""

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
"""What stands among the keys of a point for its label."""
SEED = "seed"
"""The key over whose values the runs of a cell differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One combination asked for: the values of the plan's axes, and the canonical run that answers it.

    `label` is that of its entry under `sweeps`, or "". `values` has every axis of the plan, as asked: resolved, but
    not canonicalised, so that `position: post` without a norm still reads post.
    """

    label: str
    values: Mapping[str, Value]
    config: RunConfig

    def value_of(self, key: str) -> Value:
        """Its label, its value of an axis as asked, or of any other key as its run has it."""
        if key == LABEL:
            return self.label
        value: Value = self.values[key] if key in self.values else getattr(self.config, key)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Pivot:
    """How a table is laid out: the axes of its rows and of its columns."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A figure that a text printed for some points: those whose values agree with `where`.."""

    where: Mapping[str, Value]
    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """An entry of `exclude` as it is written, and how many points it removes, whatever other entries remove."""

    entry: str
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A sweep expanded: its points in order, the keys that vary, and the distinct runs that answer them.

    That of a `shard` has the points of its runs alone, and the plan of the `whole` sweep. `argv`: the command that
    began its folder, if it comes from one. `excluded`: what `exclude` removes, of a plan just expanded.
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
    shard: Shard | None = None
    whole: Plan | None = None
    argv: tuple[str, ...] = field(default=(), compare=False)
    excluded: tuple[Exclusion, ...] = field(default=(), compare=False)

    @property
    def configs(self) -> dict[str, RunConfig]:
        """Run id to config, each once, in the order in which the points ask for them."""
        return {point.config.run_id: point.config for point in self.points}

    @property
    def cell_axes(self) -> tuple[str, ...]:
        """The axes that tell cells apart: all but the seed."""
        return tuple(axis for axis in self.axes if axis != SEED)

    @property
    def labels(self) -> Labels:
        """Labels that tell all values of the whole sweep apart, so that a shard writes them as the sweep does."""
        points = (self.whole or self).points
        return Labels(lambda key: [point.value_of(key) for point in points])

    def part(self, shard: Shard) -> Plan:
        """The plan of one shard of this sweep, in a folder of its own."""
        return replace(
            self,
            title=f"{self.title or self.name} ({shard})",
            folder=shard.folder(self.folder),
            points=tuple(point for point in self.points if shard.has(point.config.run_id)),
            shard=shard,
            whole=self,
        )


MOST = 10_000
"""Shards of a sweep."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number` of `count`, counted from 1. Raises ValueError where there is none such.

    A run belongs to a shard by its id alone: runs that a sweep gains or loses move no other.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count <= MOST:
            raise ValueError(f"there is no shard {self.number} of {self.count}")

    def __str__(self) -> str:
        return f"shard {self.number} of {self.count}"

    @property
    def option(self) -> str:
        """As it is asked for: `2/4`."""
        return f"{self.number}/{self.count}"

    def has(self, run_id: str) -> bool:
        """Whether the run of this id is one of its own."""
        return of_run(run_id, self.count) == self

    def folder(self, whole: str) -> str:
        """The name of its folder, from that of the sweep."""
        return f"{whole}.shard-{self.number}-of-{self.count}"


def of_run(run_id: str, count: int) -> Shard:
    """Which of so many shards a run belongs to: the same everywhere and for ever."""
    digest = hashlib.sha256(run_id.encode()).digest()
    return Shard(int.from_bytes(digest[:8], "big") % count + 1, count)


def parse_shard(text: str) -> Shard:
    """From `2/4`. Raises UserError that says what to write."""
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip(), re.ASCII)
    if found is None:
        raise UserError(f"shard {text[:40]}: write 2/4 for shard 2 of 4")
    number, count = int(found[1]), int(found[2])
    try:
        return Shard(number, count)
    except ValueError:
        if not 1 <= count <= MOST:
            raise UserError(f"shard {text[:40]}: a sweep has 1 to {MOST} shards") from None
        raise UserError(f"shard {text[:40]}: shards are counted from 1: write 1/{count} to {count}/{count}") from None


def parse_point_filter(texts: Sequence[str]) -> dict[str, list[Value]]:
    """Each key's values, from `key=value` or `key=value,value`. Raises UserError, all complaints at once."""
    found: dict[str, list[Value]] = {}
    complaints = []
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not values:
            complaints.append(f"only {text}: write key=value")
        elif key == LABEL:
            found.setdefault(key, []).append(values)
        elif key not in KEYS:
            complaints.append(f"only {text}: {key} is no key: {nearest(key, [LABEL, *KEYS])}")
        else:
            try:
                found.setdefault(key, []).extend([KEYS[key].parse(value) for value in values.split(",")])
            except ValueError as fault:
                decimal = with_point(values)
                hint = f"; {values} is two values: for a decimal write {key}={decimal}" if decimal else ""
                complaints.append(f"only {text}: {fault}{hint}")
    if complaints:
        raise UserError(*complaints)
    return found


def as_labelled(wanted: Mapping[str, Sequence[Value]], labels: Labels) -> dict[str, list[Value]]:
    """The values that were asked for, each a value itself or the label that tables print for one."""
    return {key: [one for value in values for one in labels.matching(key, value)] for key, values in wanted.items()}


def selected(plan: Plan, only: Sequence[str]) -> set[str]:
    """Ids of the runs whose points agree with a value of every key in `only`, as asked or as run.

    Those of other shards are among them: a shard may have none. Raises UserError where the sweep has none.
    """
    wanted, points = parse_point_filter(only), (plan.whole or plan).points
    labelled = as_labelled(wanted, plan.labels)
    found = {
        point.config.run_id
        for point in points
        if all(_has(point, key, [*wanted[key], *labelled[key]]) for key in wanted)
    }
    if only and not found:
        raise UserError(f"only {' '.join(only)}: no point of {plan.name} matches")
    return found


def _has(point: Point, key: str, values: Sequence[Value]) -> bool:
    return point.value_of(key) in values or getattr(point.config, key, None) in values
