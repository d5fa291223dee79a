"""The nouns between a YAML file and its runs: what a sweep asks for, point by point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from normexp.keys import Value
from normexp.run import RunConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One combination asked for: the values of the plan's axes, and the canonical run that answers it.

    `label` is that of its entry under `sweeps`, or "". `values` has every axis of the plan, as asked: resolved, but
    not canonicalised, so that `position: post` without a norm still reads post.
    """

    label: str
    values: Mapping[str, Value]
    config: RunConfig


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
class Plan:
    """A sweep expanded: its points in order, the keys that vary, and the distinct runs that answer them."""

    name: str
    title: str
    folder: str
    axes: tuple[str, ...]
    points: tuple[Point, ...]
    source: str
    pivot: Pivot | None = None
    published: tuple[Published, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def configs(self) -> dict[str, RunConfig]:
        """Run id to config, each once, in the order in which the points ask for them."""
        return {point.config.run_id: point.config for point in self.points}
