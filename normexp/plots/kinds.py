"""The kinds of figures of a sweep: their data, their options, and the sweeps whose reports include them."""

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
"""A report has a figure of layers only for sweeps of at most this many cells: each has its own line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of figure: the name of its files, its title in reports, its help text, and the function for its data.

    `x` says whether the option --x applies, and `ys` holds the values of --y: names of measures, or None for any axis.
    `fits` decides whether the report of a sweep includes it.
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
    """Return whether a map fits. It does not for several labels, which may have different axes."""
    if len({point.label for point in plan.points}) > 1:
        return False
    varying = [axis for axis in plan.cell_axes if _varies(plan, axis)]
    return len(varying) > 1 and any(_is_swept_number(plan, axis) for axis in varying)


def _is_swept_number(plan: Plan, axis: str) -> bool:
    """Return whether an axis has at least three values, all of them numbers."""
    values: list[Value] = [point.values[axis] for point in plan.points]
    return _varies(plan, axis, 3) and all(map(is_number, values))


def _few_cells(plan: Plan) -> bool:
    cells = {(p.label, *(p.values[axis] for axis in plan.cell_axes)) for p in plan.points}
    return len(cells) <= FEW


KINDS: Mapping[str, Kind] = {
    "curves": Kind(
        file="curves",
        title="Losses by step",
        help="loss by step, with bands over seeds and a cross where a run became non-finite",
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
        help="outcomes over two axes, with the number of runs that learned in each square",
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
        title="Activations and gradients by layer",
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
"""Kinds by name. Reports leave out times, so that the same runs give the same files."""
OTHER_TITLES = {"layer_signal": "RMS by layer", "edge": "Stability limit"}
"""Titles of the figures of `normexp collapse` and `normexp edge`, by file name."""


def title_of(file: str) -> str:
    """Return the title of a figure in reports, by the name of its file."""
    titles = OTHER_TITLES | {kind.file: kind.title for kind in KINDS.values()}
    return titles.get(file, file.replace("_", " "))


def kind_of(name: str) -> Kind:
    """Return the kind of this name. Raises UserError with a list of all kinds if there is none."""
    if name not in KINDS:
        kinds = [f"  {known}: {kind.help}" for known, kind in KINDS.items()]
        raise UserError(f"--kind {name}: unknown kind of figure; choose one of:", *kinds)
    return KINDS[name]


def compute(name: str, source: Source, choice: Choice) -> Chart | Map:
    """Return the data of a figure. Raises UserError if an option does not apply to it, or an axis does not vary."""
    kind = kind_of(name)
    complaints = []
    if choice.x and not kind.x:
        complaints.append(f"--x {choice.x}: the x axis of {name} is fixed: remove --x, or use --facet")
    if choice.y and kind.ys is not None and choice.y not in kind.ys:
        advice = f"choose {' or '.join(kind.ys)}" if kind.ys else "remove --y"
        complaints.append(f"--y {choice.y}: {name} has no such y axis: {advice}")
    if choice.by_fraction and kind.ys is not None:
        complaints.append(f"--color: {name} does not colour outcomes: remove --color, or use --kind map")
    if complaints:
        raise UserError(*complaints)
    return kind.data(source, choice)


def fitting(source: Source) -> Iterator[tuple[str, Kind, Chart | Map]]:
    """Yield the name, kind and data of each figure in the report of a sweep."""
    for name, kind in KINDS.items():
        if kind.fits(source.plan):
            try:
                yield name, kind, kind.data(source, Choice())
            except UserError:  # there is no data yet
                continue
