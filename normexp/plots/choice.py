"""What a figure is asked to show of a sweep: axes, facets, and which runs; checked against what varies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from normexp.analysis.cells import Cell, cells
from normexp.config.labels import Labels, listed, plural
from normexp.config.plan import LABEL, SEED, Plan, as_labelled
from normexp.config.run import KEYS
from normexp.config.yaml_file import nearest
from normexp.errors import UserError
from normexp.plots.chart import Texts
from normexp.records.record import RunRecord, Traces
from normexp.schemes.network_config import Value

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A sweep as far as it has come. `traces` reads those of a run.

    Where only some of its points are shown, `whole` is the plan with all of them.
    """

    plan: Plan
    records: Mapping[str, RunRecord]
    runs: pd.DataFrame
    traces: Callable[[str], Traces]
    whole: Plan | None = None

    @property
    def labels(self) -> Labels:
        """Those of the sweep's tables, whichever points are shown."""
        return (self.whole or self.plan).labels

    @property
    def title(self) -> str:
        """That of the sweep, or its name."""
        return self.plan.title or self.plan.name

    @property
    def varying(self) -> tuple[str, ...]:
        """The axes with several values, seed apart, and the label where there are several."""
        labels = (LABEL,) if len({point.label for point in self.plan.points}) > 1 else ()
        return labels + tuple(axis for axis in self.plan.cell_axes if len(self.values(axis)) > 1)

    def values(self, key: str) -> list[Value]:
        """Distinct values of an axis, of any key or of the label, in the order of the points."""
        return list(dict.fromkeys(point.value_of(key) for point in self.plan.points))

    def only(self, filters: Mapping[str, Sequence[Value]]) -> Source:
        """The points that have one of the values, or labels of values, for each key. Raises UserError without any."""
        labels = self.labels
        wanted = as_labelled(filters, labels)
        points = tuple(
            point for point in self.plan.points if all(point.value_of(key) in values for key, values in wanted.items())
        )
        if not points:
            told = [f"{key} is {_told(key, self.values(key), labels)}" for key in filters]
            raise UserError(f"--only leaves no run: {'; '.join(told)}")
        return replace(self, plan=replace(self.plan, points=points), whole=self.whole or self.plan)

    def cells(self) -> list[Cell]:
        """The cells, in the order of their points; the same runs may answer several."""
        return cells(self.plan, self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was asked for; None and empty: as the figure sees fit. `facets` None is not asked, () is one panel."""

    x: str | None = None
    y: str | None = None
    facets: tuple[str, ...] | None = None
    by_fraction: bool = False


def check_axis(source: Source, option: str, key: str) -> str:
    """The key, if it varies in the sweep. Raises UserError that tells what does. No `option`: the figure's own axis."""
    varying = source.varying
    there = f"what varies is {listed(varying)}" if varying else "nothing but the seed varies in it"
    if key in varying:
        return key
    if key == SEED:
        raise UserError(f"{option} seed: a figure is over seeds: {there}")
    if key in KEYS or key == LABEL:
        (value,) = source.values(key)
        only = f"is {source.labels.text(key, value)}" if value != "" else "is empty"
        instead = "" if option or not varying else ": choose one with --x"
        raise UserError(
            f"{f'{option} {key}: it' if option else key} {only} in every run that the figure is of: {there}{instead}"
        )
    raise UserError(f"{option} {key}: no such axis: {nearest(key, varying) if varying else there}")


def checked_facets(source: Source, choice: Choice, *, taken: Sequence[str] = ()) -> tuple[str, ...] | None:
    """The facets that were asked for. Raises UserError where one does not vary, or is `taken` by the panels' axes."""
    for key in choice.facets or ():
        check_axis(source, "--facet", key)
        if key in taken:
            raise UserError(f"--facet {key}: it is an axis of the panels already")
    return choice.facets


def done_cells(source: Source, *, by_label: bool = False) -> Iterator[tuple[Texts, Cell]]:
    """The cells that have a result, with their texts; those that the same runs answer (under one label) are one."""
    varying, labels = source.varying, source.labels
    same: dict[tuple[Value, ...], list[Cell]] = {}
    for cell in source.cells():
        if cell.done:
            label = (cell.values[LABEL],) if by_label else ()
            same.setdefault((*label, *(run["run_id"] for run in cell.runs)), []).append(cell)
    for twins in same.values():
        yield texts_of([cell.values for cell in twins], varying, labels), twins[0]


def texts_of(key_values: Sequence[Mapping[str, Value]], keys: Sequence[str], labels: Labels) -> Texts:
    """The texts of these keys; of several points that are answered together, each value once: `post/pre`."""
    return {key: "/".join(dict.fromkeys(labels.text(key, values[key]) for values in key_values)) for key in keys}


def omitted_note(count: int, total: int, noun: str) -> tuple[str, ...]:
    """A note where lines or panels had no place."""
    return (f"{count} of {plural(total, noun)} not drawn",) if count else ()


def _told(key: str, values: Sequence[Value], labels: Labels) -> str:
    return ", ".join(labels.text(key, value) for value in values[:8]) + (" ..." if len(values) > 8 else "")
