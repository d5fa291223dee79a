"""The kinds of figures of a sweep: what each shows, its data, and for which sweeps a report has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from normexp.config.keys import is_number
from normexp.config.plan import Plan
from normexp.errors import UserError
from normexp.plots.cells import MEASURES, outcome_map, scan
from normexp.plots.chart import Chart, Map
from normexp.plots.choice import Choice, Source
from normexp.plots.runs import loss_curves, signal, speed
from normexp.schemes.network_config import Value

FEW = 12
"""Cells up to which a report draws their layers: every one has its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A row: `file` names its files, `title` stands above it in documents, `help` says more; `data` computes it.

    `x` tells whether it takes an axis for x, `ys` what it takes for y: names of measures, None for any axis. `fits`
    decides whether a report has it.
    """

    file: str
    title: str
    help: str
    data: Callable[[Source, Choice], Chart | Map]
    fits: Callable[[Plan], bool]
    x: bool = True
    ys: tuple[str, ...] | None = ()


def _varies(plan: Plan, key: str, least: int = 2) -> bool:
    return len({point.values.get(key) for point in plan.points}) >= least


def _two_axes(plan: Plan) -> bool:
    """Of one grid: under several labels, each has axes of its own, which one pair does not fit."""
    if len({point.label for point in plan.points}) > 1:
        return False
    varying = [axis for axis in plan.cell_axes if _varies(plan, axis)]
    return len(varying) > 1 and any(_is_scanned(plan, axis) for axis in varying)


def _is_scanned(plan: Plan, axis: str) -> bool:
    """A number with more values than two."""
    values: list[Value] = [point.values[axis] for point in plan.points]
    return _varies(plan, axis, 3) and all(map(is_number, values))


def _few_cells(plan: Plan) -> bool:
    cells = {(p.label, *(p.values[axis] for axis in plan.cell_axes)) for p in plan.points}
    return len(cells) <= FEW


KINDS: Mapping[str, Kind] = {
    "curves": Kind(
        file="curves",
        title="Losses by step",
        help="loss by step, with seed bands and a cross where a run died",
        data=loss_curves,
        fits=lambda plan: True,
        x=False,
    ),
    "sensitivity": Kind(
        file="lr_sensitivity",
        title="Final loss by learning rate",
        help="final loss by learning rate (or --x), with the sensitivity S of each line",
        data=lambda source, choice: scan(source, choice, x="lr", with_sensitivity=True),
        fits=lambda plan: _varies(plan, "lr"),
        ys=tuple(MEASURES),
    ),
    "map": Kind(
        file="outcome_map",
        title="Outcomes by two axes",
        help="outcomes over two axes, k of n learned in each square",
        data=outcome_map,
        fits=_two_axes,
        ys=None,
    ),
    "depth": Kind(
        file="depth",
        title="Final loss by depth",
        help="final loss or learned fraction by depth",
        data=lambda source, choice: scan(source, choice, x="depth"),
        fits=lambda plan: _varies(plan, "depth"),
        ys=tuple(MEASURES),
    ),
    "signal": Kind(
        file="signal",
        title="Layers at the start and at the end",
        help="activation and gradient by layer, before training and at the end",
        data=signal,
        fits=_few_cells,
        x=False,
    ),
    "speed": Kind(
        file="speed",
        title="Time of a step",
        help="time of a training step, which depends on the machine",
        data=speed,
        fits=lambda plan: False,
    ),
}
"""Name to kind. A report never has times: the same runs must give the same files."""


OTHER_TITLES = {"layer_signal": "RMS by layer", "edge": "Where it ceases to learn"}
"""Of figures that collapse and edge draw, by their files."""


def title_of(file: str) -> str:
    """What stands above a figure's file in documents."""
    titles = OTHER_TITLES | {kind.file: kind.title for kind in KINDS.values()}
    return titles.get(file, file.replace("_", " "))


def kind_of(name: str) -> Kind:
    """The kind of this name. Raises UserError that lists them."""
    if name not in KINDS:
        raise UserError(
            f"--kind {name}: no such figure; there are:", *(f"  {one}: {row.help}" for one, row in KINDS.items())
        )
    return KINDS[name]


def compute(name: str, source: Source, choice: Choice) -> Chart | Map:
    """A figure's data. Raises UserError where the kind has no such option, or an axis does not vary."""
    kind = kind_of(name)
    complaints = []
    if choice.x and not kind.x:
        complaints.append(f"--x {choice.x}: the x axis of {name} is fixed: leave it out, or choose --facet")
    if choice.y and kind.ys is not None and choice.y not in kind.ys:
        there = f"choose {' or '.join(kind.ys)}" if kind.ys else "leave it out"
        complaints.append(f"--y {choice.y}: no y axis of {name}: {there}")
    if choice.by_fraction and kind.ys is not None:
        complaints.append(f"--color: {name} has no colour for outcomes: leave it out, or choose --kind map")
    if complaints:
        raise UserError(*complaints)
    return kind.data(source, choice)


def fitting(source: Source) -> Iterator[tuple[str, Kind, Chart | Map]]:
    """The figures that a sweep's report has, computed: name, kind and data."""
    for name, kind in KINDS.items():
        if kind.fits(source.plan):
            try:
                yield name, kind, kind.data(source, Choice())
            except UserError:  # nothing to draw yet
                continue
