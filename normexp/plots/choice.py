"""The choices for a figure of a sweep (axes, facets, runs), checked against the axes that vary."""

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
    """A sweep with its records so far; `traces` reads the traces of a run.

    If only some points are shown, `whole` is the plan of all of them.
    """

    plan: Plan
    records: Mapping[str, RunRecord]
    runs: pd.DataFrame
    traces: Callable[[str], Traces]
    whole: Plan | None = None

    @property
    def labels(self) -> Labels:
        """The labels of values, the same as in the sweep's tables."""
        return (self.whole or self.plan).labels

    @property
    def title(self) -> str:
        """The title of the sweep, or its name."""
        return self.plan.title or self.plan.name

    @property
    def varying(self) -> tuple[str, ...]:
        """The axes with several values, without the seed; the label comes first if there are several."""
        labels = (LABEL,) if len({point.label for point in self.plan.points}) > 1 else ()
        return labels + tuple(axis for axis in self.plan.cell_axes if len(self.values(axis)) > 1)

    def values(self, key: str) -> list[Value]:
        """Return the distinct values of a key or of the label, in the order of the points."""
        return list(dict.fromkeys(point.value_of(key) for point in self.plan.points))

    def only(self, filters: Mapping[str, Sequence[Value]]) -> Source:
        """Keep the points that have, for each key, one of the values (or their labels). Raises UserError for none."""
        labels = self.labels
        wanted = as_labelled(filters, labels)
        points = tuple(
            point for point in self.plan.points if all(point.value_of(key) in values for key, values in wanted.items())
        )
        if not points:
            known = [f"{key} is {_values_text(key, self.values(key), labels)}" for key in filters]
            raise UserError(f"--only matches no run: {'; '.join(known)}")
        return replace(self, plan=replace(self.plan, points=points), whole=self.whole or self.plan)

    def cells(self) -> list[Cell]:
        """Return the cells, in the order of their points. A run may belong to several."""
        return cells(self.plan, self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The options of a figure. None stands for the default; empty `facets` put everything into one panel."""

    x: str | None = None
    y: str | None = None
    facets: tuple[str, ...] | None = None
    by_fraction: bool = False


def check_axis(source: Source, option: str, key: str) -> str:
    """Return the key if it varies. Otherwise raise UserError with the keys that do.

    `option` is the command-line option that named the key, or empty for the default axis of the figure.
    """
    varying = source.varying
    choices = f"the axes that vary are {listed(varying)}" if varying else "only the seed varies"
    if key in varying:
        return key
    if key == SEED:
        raise UserError(f"{option} seed: figures summarize over seeds: {choices}")
    if key in KEYS or key == LABEL:
        (value,) = source.values(key)
        only = f"is {source.labels.text(key, value)}" if value != "" else "is empty"
        advice = "" if option or not varying else ": choose one with --x"
        subject = f"{option} {key}: it" if option else key
        raise UserError(f"{subject} {only} in all runs of the figure: {choices}{advice}")
    raise UserError(f"{option} {key}: unknown axis: {nearest(key, varying) if varying else choices}")


def checked_facets(source: Source, choice: Choice, *, taken: Sequence[str] = ()) -> tuple[str, ...] | None:
    """Return the chosen facets. Raises UserError if one does not vary, or is `taken` as an axis of the panels."""
    for key in choice.facets or ():
        check_axis(source, "--facet", key)
        if key in taken:
            raise UserError(f"--facet {key}: it is already an axis of the panels")
    return choice.facets


def done_cells(source: Source, *, by_label: bool = False) -> Iterator[tuple[Texts, Cell]]:
    """Yield each cell that has a done run, with its texts. Cells with the same runs (and label) are merged."""
    varying, labels = source.varying, source.labels
    by_runs: dict[tuple[Value, ...], list[Cell]] = {}
    for cell in source.cells():
        if cell.done:
            label = (cell.values[LABEL],) if by_label else ()
            by_runs.setdefault((*label, *(run["run_id"] for run in cell.runs)), []).append(cell)
    for twins in by_runs.values():
        yield texts_of([cell.values for cell in twins], varying, labels), twins[0]


def texts_of(key_values: Sequence[Mapping[str, Value]], keys: Sequence[str], labels: Labels) -> Texts:
    """Return the texts of these keys. For several points with the same runs, values are joined: `post/pre`."""
    return {key: "/".join(dict.fromkeys(labels.text(key, values[key]) for values in key_values)) for key in keys}


def omitted_note(count: int, total: int, noun: str) -> tuple[str, ...]:
    """Return a note on lines or panels that did not fit, if any."""
    return (f"{count} of {plural(total, noun)} not drawn",) if count else ()


def _values_text(key: str, values: Sequence[Value], labels: Labels) -> str:
    return ", ".join(labels.text(key, value) for value in values[:8]) + (" ..." if len(values) > 8 else "")
