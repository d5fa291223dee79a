"""Expand a sweep into its points: count them first, then build each point with its run.

Entries of `exclude` are tracked, so that one with an unexpected effect draws a warning.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from normexp.config import counting, feasibility
from normexp.config.counting import FREE, Count, Structure, Structures
from normexp.config.feasibility import MAX_REASONS
from normexp.config.groups import Group
from normexp.config.keys import as_typed
from normexp.config.labels import Labels, plural
from normexp.config.plan import SEED, Exclusion, Plan, Point, Published
from normexp.config.run import KEYS, RunConfig
from normexp.config.sweep_file import Sweep, parse
from normexp.errors import UserError, at_most
from normexp.schemes.network_config import Value


@dataclass(slots=True)
class _Entry:
    """One entry of `exclude`: the points that it removes, and which values of the other axes it removes or keeps.

    `idle` are the keys that kept the entry from removing a matching point because they do not apply there.
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
        other_values = ((name, values[name]) for name in self.others)
        if removed:
            self.points += 1
            self.removed_values.update(dict.fromkeys(other_values))
        else:
            self.kept += 1
            self.kept_values.update(other_values)
        return removed


class Removals:
    """The `exclude` entries of a group, applied point by point."""

    def __init__(self, group: Group) -> None:
        self._label = group.label
        self._entries = [_Entry(where=part, others=_others(group, part)) for part in group.exclude]

    def removes(self, structure: Structure, values: Mapping[str, Value]) -> bool:
        """Count a point with these configured values, and return whether an entry removes it."""
        removed = [entry.removes(structure, values) for entry in self._entries]  # no `any`: every entry must count
        return any(removed)

    def exclusions(self) -> Iterator[Exclusion]:
        """Yield each entry with the number of points that it removes."""
        for entry in self._entries:
            yield Exclusion(entry=self._text(entry), points=entry.points)

    def warnings(self) -> Iterator[str]:
        """Yield a warning for each entry that removes nothing, or more than the values that it names."""
        for entry in self._entries:
            if not entry.points:
                idle = (name for name in entry.where if name in entry.idle)
                reasons = [f"; {name} only has an effect when: {KEYS[name].matters_when}" for name in idle]
                yield f"exclude {self._text(entry)} removes no point{''.join(reasons)}"
            elif not entry.kept:
                yield f"exclude {self._text(entry)} removes every point{' of its sweep' if self._label else ''}"
            else:
                lost = [value for value in entry.removed_values if value not in entry.kept_values]
                for name, value in lost:
                    yield f"exclude {self._text(entry)} removes every point with {name}: {as_typed(value)}"

    def _text(self, entry: _Entry) -> str:
        named = ", ".join(f"{name}: {as_typed(value)}" for name, value in entry.where.items())
        return f"{{{named}}}" + (f" of {self._label!r}" if self._label else "")


def _others(group: Group, part: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the varied keys that an entry neither names nor fixes through a zip."""
    return tuple(name for axes in group.dimensions if not set(axes) & set(part) for name in axes)


MAX_RUNS = 10_000
"""Default maximum number of runs of a plan."""
POINTS_PER_RUN = 10
"""Maximum number of points of a plan per allowed run: points that share a run take time and memory too."""


def count(sweep: Sweep) -> Count:
    """Count the points and runs of a sweep without building them. Raises UserError for values that conflict."""
    return counting.count(sweep.groups, Structures(sweep.origin))


def plan(sweep: Sweep, *, max_runs: int = MAX_RUNS) -> Plan:
    """Expand a sweep. The last axis in the file varies fastest; zip groups vary more slowly than the grid.

    Duplicate points (same label and values) are dropped with a warning. Raises UserError for more than `max_runs`
    runs or ten times as many points, before building any; for values that conflict; and for configurations that
    cannot run.
    """
    structures = Structures(sweep.origin)
    total = counting.count(sweep.groups, structures)
    needed = max(total.runs, -(-total.points // POINTS_PER_RUN))
    if needed > max_runs:
        most = "" if total.exact else "at most "
        also = f" or {POINTS_PER_RUN * max_runs} points" if total.runs <= max_runs else ""
        raise UserError(
            f"{sweep.origin}: {most}{total.runs} runs ({total.points} points), more than {max_runs}{also}:"
            f" make the grid smaller, or allow it with --max-runs {needed}"
        )
    builder = _Builder(axes_of(sweep), structures)
    for group in sweep.groups:
        builder.add(group)
    structures.fail_on_clashes()
    feasibility.refuse(builder.runs, sweep.origin)
    if not builder.points:
        raise UserError(f"{sweep.origin}: exclude removes every point: relax it or remove it")
    points = tuple(builder.points)
    return Plan(
        name=sweep.name,
        title=sweep.title,
        folder=sweep.folder,
        axes=builder.axes,
        points=points,
        source=sweep.source,
        pivot=sweep.pivot,
        published=sweep.published,
        plugins=sweep.plugins,
        warnings=(*sweep.warnings, *builder.warnings(), *_unmatched(sweep.published, points)),
        excluded=tuple(exclusion for removals in builder.removals for exclusion in removals.exclusions()),
    )


def plan_of(
    *,
    name: str,
    title: str,
    groups: Sequence[tuple[str, Mapping[str, Value | Sequence[Value]]]],
    max_runs: int = MAX_RUNS,
) -> Plan:
    """Return the plan of a sweep defined in code: a label and a mapping of keys to values or lists for each group.

    The source of the plan is the equivalent YAML. Raises UserError as for a file.
    """
    return plan(parse(as_yaml(name, title, groups), origin=name, stem=name), max_runs=max_runs)


def as_yaml(name: str, title: str, groups: Sequence[tuple[str, Mapping[str, Value | Sequence[Value]]]]) -> str:
    """Return the YAML config that describes the groups."""
    sweeps: list[dict[str, object]] = []
    for label, values in groups:
        entry: dict[str, object] = {"label": label} if label else {}
        entry["base"] = {key: value for key, value in values.items() if not _is_axis(value)}
        entry["grid"] = {key: list(value) for key, value in values.items() if _is_axis(value)}  # type: ignore[arg-type]
        sweeps.append({section: content for section, content in entry.items() if content} or {"base": {}})
    return yaml.safe_dump({"name": name, "title": title, "sweeps": sweeps}, sort_keys=False, allow_unicode=True)


def axes_of(sweep: Sweep) -> tuple[str, ...]:
    """Return the keys that vary, in order of appearance, `seed` last.

    A key varies if it is in a grid or zip group, if groups with the same label configure it differently, or if the
    table or a published number names it. Different labels alone do not make a key vary.
    """
    names = [name for group in sweep.groups for name in group.varied]
    configured: dict[tuple[str, str], set[Value]] = {}
    for group in sweep.groups:
        for name in KEYS:
            configured.setdefault((name, group.label), set()).add(group.asked(name))
    names += [name for (name, _), values in configured.items() if len(values) > 1]
    if sweep.pivot is not None:
        names += [*sweep.pivot.rows, *sweep.pivot.columns]
    names += [name for figure in sweep.published for name in figure.where if name in KEYS]
    unique = dict.fromkeys(names)
    return tuple(sorted(unique, key=lambda name: name == SEED))


@dataclass(slots=True)
class _Builder:
    """Collects points and creates each distinct run once."""

    axes: tuple[str, ...]
    structures: Structures
    points: list[Point] = field(default_factory=list)
    _runs: dict[tuple[Value, ...], RunConfig] = field(default_factory=dict)
    _seen: set[tuple[Value, ...]] = field(default_factory=set)
    removals: list[Removals] = field(default_factory=list)
    _duplicates: int = 0
    _slow: dict[tuple[int, int], set[float]] = field(default_factory=dict)

    def add(self, group: Group) -> None:
        """Add the points of one group, in order."""
        removals, varied = Removals(group), group.varied
        seen: set[tuple[Value, ...]] = set()
        for values in combinations(group):
            configured = tuple(values[name] for name in varied)
            if configured in seen:
                self._duplicates += 1
                continue
            seen.add(configured)
            structure = self.structures.find(values.__getitem__)
            if removals.removes(structure, values):
                continue
            self.structures.note_clashes(structure, varied)
            if not structure.faults:
                self._keep(group.label, structure, values)
        self.removals.append(removals)

    @property
    def runs(self) -> Collection[RunConfig]:
        """The distinct runs."""
        return self._runs.values()

    def warnings(self) -> Iterator[str]:
        """Yield warnings about valid input that is probably not what the user meant."""
        yield from at_most(feasibility.warnings(self.runs), MAX_REASONS)
        for removals in self.removals:
            yield from removals.warnings()
        if self._duplicates:
            yield f"dropped {plural(self._duplicates, 'duplicate point')}"
        for (warmup, steps), rates in self._slow.items():
            labels = Labels(lambda key, rates=rates: rates)  # type: ignore[misc]
            peaks = ((rate * steps / warmup, labels.text("lr", rate)) for rate in sorted(rates)[:5])
            reached = ", ".join(f"{peak:.3g} for lr {text}" for peak, text in peaks)
            more = ", ..." if len(rates) > 5 else ""
            yield f"warmup {warmup} is longer than steps {steps}: the learning rate only reaches {reached}{more}"

    def _keep(self, label: str, structure: Structure, values: Mapping[str, Value]) -> None:
        shown = {name: structure.resolved.get(name, values[name]) for name in self.axes}
        mark = (label, *shown.values())
        if mark in self._seen:
            self._duplicates += 1
            return
        self._seen.add(mark)
        canonical = structure.canonical | {name: structure.canonical_of(name, values[name]) for name in FREE}  # type: ignore[operator]
        identity = tuple(canonical.values())
        if identity not in self._runs:
            self._runs[identity] = RunConfig(**canonical)
        config = self._runs[identity]
        if config.warmup > config.steps:
            self._slow.setdefault((config.warmup, config.steps), set()).add(config.lr)
        self.points.append(Point(label=label, values=shown, config=config))


def combinations(group: Group) -> Iterator[dict[str, Value]]:
    """Yield the configured values of all keys, point by point."""
    values = {name: group.asked(name) for name in KEYS}
    dimensions = group.dimensions
    names = [name for axes in dimensions for name in axes]
    columns = [list(zip(*axes.values(), strict=True)) for axes in dimensions]
    for combination in itertools.product(*columns):
        yield values | dict(zip(names, itertools.chain(*combination), strict=True))


def _unmatched(published: Sequence[Published], points: Sequence[Point]) -> list[str]:
    """Return a warning for each published number that belongs to no point."""
    warnings = []
    for figure in published:
        where = {name: value for name, value in figure.where.items() if name != "label"}
        label = figure.where.get("label")
        if not any(
            label in (None, point.label) and all(point.values[name] == value for name, value in where.items())
            for point in points
        ):
            warnings.append(f"published: no point matches {figure.text!r} of {figure.source}")
    return warnings


def _is_axis(value: object) -> bool:
    return isinstance(value, list | tuple)
