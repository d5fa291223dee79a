"""Build the plan of a stability-limit search. Each round adds values chosen from the results so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from normexp.analysis import stability_edges
from normexp.analysis.stability_edges import Edge, Question, Share
from normexp.config import grid
from normexp.config.axes import listed
from normexp.config.plan import SEED, Pivot, Plan, Point
from normexp.config.presets import EDGE_AXES, Number
from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.records.record import Outcome, RunRecord
from normexp.schemes.network_config import Value

Place = tuple[Value, ...]
"""The key of a cell: its label, and its value of each axis but the searched one and the seed."""
Cells = Mapping[Place, Sequence[Point]]
"""The points of each cell at one value of the searched axis, one per seed."""


class Search:
    """The growing plan of a search: call `first`, then `grow` with the records until it returns None.

    The next values depend on the records alone, so an interrupted search continues where it stopped.
    """

    def __init__(self, question: Question, *, max_runs: int = grid.MAX_RUNS) -> None:
        """Raise UserError for incompatible values, or if the search may need more than `max_runs` runs."""
        self.question = question
        self._max_runs = max_runs
        self._cells: dict[Number, Cells] = {}
        low, high = self._at(question.span.low), self._at(question.span.high)
        self._warnings = tuple(dict.fromkeys((*low.warnings, *high.warnings)))
        self.excluded = low.excluded
        self._alike = {_without(question.axis, point.config) for point in high.points}
        self.axes = tuple(axis for axis in high.axes if axis not in (question.axis, SEED))
        self._asked: dict[Place, set[Number]] = {place: set() for place in self._cells_at(question.span.low)}
        self.most_runs = len(low.configs) * question.span.most_values
        self.grid_runs = len(low.configs) * question.span.grid_values
        if self.most_runs > max_runs:
            raise UserError(
                f"{question.sweep.origin}: up to {self.most_runs} runs ({len(self._asked)} cells, {len(question.seeds)}"
                f" seeds), more than {max_runs}: make the grid smaller, or allow it with --max-runs {self.most_runs}"
            )

    @property
    def folder(self) -> str:
        """The name of the results folder."""
        return f"{self.question.sweep.folder}+edge-{self.question.axis}"

    @property
    def title(self) -> str:
        """The title of tables, figures and reports."""
        return f"Stability limit along {self.question.axis}: {self.question.sweep.title}"

    def first(self, stored: Mapping[str, RunRecord], own: Iterable[str] = ()) -> Plan:
        """Return the first plan: the values that `stored` runs already cover, and the next values to run.

        A value is covered in a cell if the runs of all seeds are done. Beyond the span, only the sweep's `own` run ids
        count.
        """
        usable = {run_id: r for run_id, r in stored.items() if r.usable}
        for value in self._values_of(usable, set(own)):
            for place, points in self._cells_at(value).items():
                if all(point.config.run_id in usable for point in points):
                    self._asked[place].add(value)
        self._extend(usable)
        return self._plan()

    def grow(self, records: Mapping[str, RunRecord]) -> Plan | None:
        """Return the plan with the next values of every cell, or None if the search is finished."""
        return self._plan() if self._extend(records) else None

    def edges(self, records: Mapping[str, RunRecord]) -> list[Edge]:
        """Return the result of each cell so far."""
        return [self._edge(place, records) for place in self._asked]

    def ended(self, records: Mapping[str, RunRecord]) -> set[str]:
        """Return the ids of the runs within the span that have ended."""
        span = self.question.span
        return {
            point.config.run_id
            for place, values in self._asked.items()
            for value in values
            if span.low <= value <= span.high
            for point in self._cells_at(value)[place]
        } & set(records)

    def _values_of(self, usable: Mapping[str, RunRecord], own: set[str]) -> list[Number]:
        """Return the axis values of usable runs that differ from the plan's runs only in the axis and the seed."""
        axis, span = self.question.axis, self.question.span
        values: set[Number] = set()
        for run_id, record in usable.items():
            value: Number = getattr(record.config, axis)
            possible = span.low <= value <= span.high or (run_id in own and value >= EDGE_AXES[axis].least)
            if possible and value not in values and _without(axis, record.config) in self._alike:
                values.add(value)
        return sorted(values)

    def _extend(self, records: Mapping[str, RunRecord]) -> bool:
        grown = False
        for place, values in self._asked.items():
            new = set(stability_edges.wanted(self.question.span, _verdicts(self._shares(place, records)))) - values
            values |= new
            grown = grown or bool(new)
        return grown

    def _edge(self, place: Place, records: Mapping[str, RunRecord]) -> Edge:
        shares, span = self._shares(place, records), self.question.span
        seen, by_value = _verdicts(shares), {share.value: share for share in shares}
        return Edge(
            values=dict(zip(("label", *self.axes), place, strict=True)),
            shares=tuple(shares),
            finding=stability_edges.finding(span, seen),
            borders=tuple((by_value[low], by_value[high]) for low, high in stability_edges.borders(seen)),
            finished=not stability_edges.wanted(span, seen),
            run_ids=frozenset(point.config.run_id for share in shares for point in self._cells_at(share.value)[place]),
        )

    def _shares(self, place: Place, records: Mapping[str, RunRecord]) -> list[Share]:
        """Return the shares of a cell's values in the span, in order, omitting values with pending or outdated runs."""
        span, shares = self.question.span, []
        for value in sorted(value for value in self._asked[place] if span.low <= value <= span.high):
            points = self._cells_at(value)[place]
            ended = (records.get(point.config.run_id) for point in points)
            current = [record for record in ended if record is not None and not record.outdated]
            if len(current) == len(points):
                results = [record.result_word for record in current]
                learned, failed = results.count(Outcome.LEARNED), sum(record.verdict is None for record in current)
                needed = self.question.needed
                shares.append(Share(value=value, learned=learned, seeds=len(current), failed=failed, needed=needed))
        return shares

    def _plan(self) -> Plan:
        """Return the plan of all values chosen so far, ordered by value and then by cell."""
        sweep, axis = self.question.sweep, self.question.axis
        points = [
            point
            for value in sorted({value for values in self._asked.values() for value in values})
            for place, cell_points in self._cells_at(value).items()
            if value in self._asked[place]
            for point in cell_points
        ]
        return Plan(
            name=f"{sweep.name}+edge-{axis}",
            title=self.title,
            folder=self.folder,
            axes=(*self.axes, axis, SEED),
            points=tuple(points),
            source=sweep.source,
            pivot=Pivot(rows=(axis,), columns=self.axes) if self.axes else None,
            warnings=self._warnings,
            plugins=sweep.plugins,
        )

    def _cells_at(self, value: Number) -> Cells:
        if value not in self._cells:
            cells: dict[Place, list[Point]] = {}
            for point in self._at(value).points:
                cells.setdefault((point.label, *(point.values[axis] for axis in self.axes)), []).append(point)
            self._cells[value] = cells
        return self._cells[value]

    def _at(self, value: Number) -> Plan:
        """Return the plan of the sweep at one value of the axis, with all seeds. Raise UserError for invalid values."""
        fixed_axes = {self.question.axis: listed([value]), SEED: listed(self.question.seeds)}
        groups = tuple(
            replace(
                group,
                base={name: fixed for name, fixed in group.base.items() if name not in fixed_axes},
                grid={name: axis for name, axis in group.grid.items() if name not in fixed_axes} | fixed_axes,
            )
            for group in self.question.sweep.groups
        )
        return grid.plan(replace(self.question.sweep, groups=groups, pivot=None, published=()), max_runs=self._max_runs)


def _verdicts(shares: Sequence[Share]) -> dict[Number, bool | None]:
    return {share.value: share.verdict for share in shares}


def _without(axis: str, config: RunConfig) -> tuple[Value, ...]:
    """Return the values of all keys but the axis and the seed."""
    return tuple(value for name, value in config.to_dict().items() if name not in (axis, SEED))
