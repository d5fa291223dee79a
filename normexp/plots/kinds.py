"""The kinds of figures of a sweep: their options, which reports include them, and the data of scans and maps.

The data of figures over steps, layers and times is computed in `normexp.plots.runs`.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from normexp.analysis.cells import Cell, Run, final_loss, losses_of, result_word
from normexp.analysis.sensitivity import Scan, ScannedRun, sensitivities
from normexp.config.keys import is_number
from normexp.config.labels import Labels, listed
from normexp.config.plan import LABEL, Plan
from normexp.errors import UserError, at_most
from normexp.plots.chart import (
    LOSS,
    NAMES,
    PANELS,
    SHARE,
    Axis,
    Chart,
    Line,
    Map,
    Spot,
    Square,
    Texts,
    names_axis,
    place,
    value_axis,
)
from normexp.plots.choice import Choice, Source, check_axis, checked_facets, omitted_note, texts_of
from normexp.plots.runs import loss_curves, signal, speed
from normexp.records.record import Outcome, Status
from normexp.schemes.network_config import Value

MEASURES = {
    "loss": Axis(key="val_loss", label="final validation loss (nats)", scale=LOSS),
    "fraction": Axis(key="learned_fraction", label="learned fraction", scale=SHARE),
}
"""The possible y axes of a scan."""
NAMED_LINES = 4
"""A note names at most this many lines without S."""


def scan(source: Source, choice: Choice, *, x: str, with_sensitivity: bool = False) -> Chart:
    """Return the final loss (or learned fraction, 0 for non-finite runs) along an axis, one line per combination.

    Raises UserError if an axis does not vary.
    """
    measure = MEASURES[choice.y or "loss"]
    along = check_axis(source, "--x" if choice.x else "", choice.x or x)
    others = [key for key in source.varying if key != along]
    facets = checked_facets(source, choice, taken=(along,))
    axis = value_axis(along, source.values(along), source.labels)
    items = _lines(source, along, others)
    layout = place(items, facets)
    scans = [_scan_of(placed.item) for placed in layout.placed]
    swept = with_sensitivity and axis.scale != NAMES
    sensitivity_by_line = sensitivities(scans) if swept else [None] * len(scans)
    lines = [
        Line(
            panel=placed.panel,
            label=placed.label,
            keys=placed.keys,
            spots=[_spot(value, cell, measure) for value, cell in placed.item],
            losses=next((losses_of(run) for _, cell in placed.item for run in cell.done), None),
            sensitivity=sensitivity,
        )
        for placed, sensitivity in zip(layout.placed, sensitivity_by_line, strict=True)
    ]
    return Chart(
        title=source.title,
        x=axis,
        y=measure,
        lines=lines,
        axes={},
        columns=layout.columns,
        notes=(
            *_sensitivity_notes(lines, axis, len(axis.values)),
            *omitted_note(layout.omitted, len(items), "line"),
        ),
    )


def _lines(source: Source, along: str, others: Sequence[str]) -> list[tuple[Texts, list[tuple[Value, Cell]]]]:
    """Return the lines with their cells by ascending value. Lines with the same runs are merged under a joint name."""
    labels = source.labels
    cells_by_line: dict[tuple[Value, ...], list[Cell]] = {}
    for cell in source.cells():
        cells_by_line.setdefault(tuple(cell.values[key] for key in others), []).append(cell)
    lines_by_runs: dict[tuple[Value, ...], list[list[Cell]]] = {}
    for line in cells_by_line.values():
        run_ids = [run["run_id"] for cell in line for run in cell.runs]
        lines_by_runs.setdefault((line[0].values.get(LABEL, ""), *run_ids), []).append(line)
    items = []
    for twins in lines_by_runs.values():
        pairs = [(cell.values[along], cell) for cell in twins[0]]
        if all(is_number(value) for value, _ in pairs):
            pairs.sort(key=lambda pair: float(pair[0]))
        items.append((texts_of([line[0].values for line in twins], others, labels), pairs))
    return items


def _spot(value: Value, cell: Cell, measure: Axis) -> Spot:
    if measure.scale == LOSS:
        return Spot.of(value, map(final_loss, cell.done))
    nonfinite = sum(not math.isfinite(final_loss(run)) for run in cell.done)
    return replace(Spot.of(value, [_share(run) for run in cell.done]), nonfinite=nonfinite)


def _share(run: Run) -> float:
    """Return the learned fraction clipped to 0…1; 0 for a non-finite run."""
    return min(1.0, max(0.0, run["learned_fraction"])) if math.isfinite(final_loss(run)) else 0.0


def _scan_of(along: Sequence[tuple[Value, Cell]]) -> Scan:
    """Return the runs of a line by value and seed. A value with a run that is not done has no runs."""
    return {value: {} if len(cell.done) < len(cell.runs) else _scanned(cell.done) for value, cell in along}


def _scanned(done: Sequence[Run]) -> dict[int, ScannedRun]:
    return {
        run["seed"]: ScannedRun(
            run_id=run["run_id"],
            final=final_loss(run),
            initial=run["init_val_loss"],
            learned=run["outcome"] == Outcome.LEARNED,
        )
        for run in done
    }


def _sensitivity_notes(lines: Sequence[Line], axis: Axis, values: int) -> Iterator[str]:
    """Yield notes that define S, and that name the lines without S and the reason. `values` counts the axis values."""
    counts = {line.sensitivity.count for line in lines if line.sensitivity is not None and line.sensitivity.by_seed}
    plural = "learning rates" if axis.key == "lr" else f"values of {axis.key}"
    for count in counts:  # at most one count: all lines have the same values
        covered = f"the {count} {plural}{' that all lines share' if count < values else ''}"
        yield f"S: mean over {covered} of min(final, initial loss), minus the lowest"
    names: dict[str, list[str]] = {}
    for line in lines:
        if line.sensitivity is not None and not line.sensitivity.by_seed:
            name = ", ".join(filter(None, [line.label, line.panel])) or "this line"
            names.setdefault(line.sensitivity.reason, []).append(name)
    for reason, without in names.items():
        yield f"no S for {'; '.join(at_most(without, NAMED_LINES, '{} more'))}: {reason}"


def outcome_map(source: Source, choice: Choice) -> Map:
    """Return the outcomes over two axes. Runs are pooled over axes that do not fit; a note names these axes.

    Raises UserError if an axis does not vary, or if fewer than two do.
    """
    x, y = _axes(source, choice)
    facets, labels = checked_facets(source, choice, taken=(x, y)), source.labels
    others = [key for key in source.varying if key not in (x, y)]
    if facets is None:
        facets = _map_facets(source, others)
    squares: dict[tuple[Value, ...], dict[str, Run]] = {}
    for cell in source.cells():
        where = (*(cell.values[key] for key in facets), cell.values[x], cell.values[y])
        squares.setdefault(where, {}).update({run["run_id"]: run for run in cell.runs})
    names = {key: names_axis(key, source.values(key), labels) for key in (x, y)}
    items = [
        (texts_of([dict(zip(facets, where, strict=False))], facets, labels), (where[-2:], list(runs.values())))
        for where, runs in squares.items()
    ]
    layout = place([(texts, item) for texts, item in items], facets) if facets else None
    panelled = [(p.panel, p.item) for p in layout.placed] if layout else [("", item) for _, item in items]
    pooled = [key for key in others if key not in facets]
    notes = (f"runs in a square also differ in {listed(pooled)}",) if pooled else ()
    return Map(
        title=source.title,
        x=names[x],
        y=names[y],
        squares=[_square(panel, (x, y), values, runs, labels) for panel, (values, runs) in panelled],
        by_fraction=choice.by_fraction,
        columns=layout.columns if layout else None,
        notes=(*notes, *omitted_note(layout.omitted if layout else 0, len(items), "square")),
    )


def _axes(source: Source, choice: Choice) -> tuple[str, str]:
    """Return the axes x and y: the chosen ones, else depth and lr, else the first axes with numbers.

    Axes of words are put on y, where there is more room.
    """
    chosen = [check_axis(source, option, key) for option, key in (("--x", choice.x), ("--y", choice.y)) if key]
    if len(chosen) == 2 and chosen[0] == chosen[1]:
        raise UserError(f"--x and --y are both {chosen[0]}: choose two different axes")
    free = [key for key in source.varying if key not in (*chosen, *(choice.facets or ()), LABEL)]
    if len(chosen) + len(free) < 2:
        besides = " besides its facets" if choice.facets else ""
        varying = f"the axes that vary are {listed(source.varying)}" if source.varying else "only the seed varies"
        raise UserError(f"a map needs two axes that vary{besides}: {varying}")
    ranked = sorted(free, key=lambda key: (key != "lr", key != "depth", not _numeric(source, key)))
    y = choice.y or ranked.pop(0)
    x = choice.x or next(key for key in ranked if key != y)
    if not choice.x and not choice.y and _numeric(source, y) and not _numeric(source, x):
        return y, x
    return x, y


def _numeric(source: Source, key: str) -> bool:
    return all(is_number(value) for value in source.values(key))


def _map_facets(source: Source, others: Sequence[str]) -> tuple[str, ...]:
    """Return the other axes that fit into panels: the label first, then axes with few values."""
    chosen: list[str] = []
    panels = 1
    for key in sorted(others, key=lambda key: (key != LABEL, len(source.values(key)))):
        count = len(source.values(key))
        if key == LABEL or (panels * count <= PANELS and len(chosen) < 2):
            chosen.append(key)
            panels *= count
    return tuple(key for key in others if key in chosen)


def _square(panel: str, keys: tuple[str, str], values: Sequence[Value], runs: Sequence[Run], labels: Labels) -> Square:
    texts = texts_of([dict(zip(keys, values, strict=True))], keys, labels)
    done = [run for run in runs if run["status"] == Status.DONE]
    return Square(
        panel=panel,
        x=texts[keys[0]],
        y=texts[keys[1]],
        counts=Counter(map(result_word, runs)),
        fraction=statistics.median(_share(run) for run in done) if done else None,
    )


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
