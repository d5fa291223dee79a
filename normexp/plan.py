"""The nouns between a YAML file and its runs: what a sweep asks for, point by point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from normexp.keys import Value
from normexp.labels import Labels
from normexp.run import RunConfig
from normexp.shard import Shard

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
