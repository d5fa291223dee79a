"""Compute figures of single runs: losses by step, activations and gradients by layer, and the time of a step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from normexp.analysis.cells import Cell
from normexp.analysis.differences import thinned
from normexp.analysis.frames import frame
from normexp.config.labels import listed
from normexp.config.plan import LABEL
from normexp.config.run import KEYS
from normexp.errors import UserError
from normexp.plots.chart import (
    LINEAR,
    LOG,
    LOSS,
    NAMES,
    TRAINING,
    Axis,
    Chart,
    Line,
    Mark,
    Placed,
    Spot,
    Texts,
    place,
    value_axis,
)
from normexp.plots.choice import Choice, Source, check_axis, checked_facets, done_cells, omitted_note, texts_of
from normexp.records.record import Death, Outcome, RunRecord, Traces, sizes_by_step
from normexp.schemes.network_config import Value

if TYPE_CHECKING:
    import pandas as pd

POINTS = 400
"""Longer lines are thinned to about this many spots, keeping extremes and the last spot of each run."""
ENDS_MARKED = (Outcome.DIVERGED, Outcome.UNSETTLED)
"""Outcomes of finite runs whose last evaluation is marked."""
ACTIVATION, GRADIENT = ("stream", "rms"), ("ffn", "grad_norm")
QUANTITIES = {
    ACTIVATION: Axis(key="rms", label="activation RMS", scale=LOG),
    GRADIENT: Axis(key="grad_norm", label="gradient norm (FFN)", scale=LOG),
}
"""The y axes of the figure of layers, by (part, quantity)."""
BEFORE, LAST = "before training", "at the end"
MOMENTS = (BEFORE, LAST)
FACETS = 3
"""Maximum number of facets in the figure of layers: each takes a row of four panels."""
TRAINING_ONLY = frozenset(name for name, key in KEYS.items() if not key.changes_step)
"""Keys that do not change the work of a step: runs that differ only in these are one line in the figure of times."""
Y = Axis(key="step_ms", label="time of a step (ms)", scale=LINEAR)
KNOWN = {"platform": "{}", "cpu_capability": "{}", "torch": "torch {}", "torch_threads": "threads per run: {}"}
"""The parts of the environment shown with times."""


def loss_curves(source: Source, choice: Choice) -> Chart:
    """Return the training and validation loss by step: medians over finite seeds.

    Marks show where runs became non-finite, and the end of diverged and unsettled runs. A run has one line under each
    label, even if it answers several points. Raises UserError if a facet does not vary.
    """
    items = list(done_cells(source, by_label=True))
    layout = place(items, checked_facets(source, choice))
    return Chart(
        title=source.title,
        x=Axis(key="step", label="step"),
        y=Axis(key="loss", label="loss (nats)", scale=LOSS),
        lines=[line for placed in layout.placed for line in _cell_lines(placed, source)],
        axes={},
        columns=layout.columns,
        notes=omitted_note(layout.omitted, len(items), "line"),
    )


def _cell_lines(placed: Placed[Cell], source: Source) -> Iterator[Line]:
    """Yield the line of the training loss, and that of the validation loss with the marks."""
    records = [source.records[run["run_id"]] for run in placed.item.done]
    traces = [source.traces(record.run_id) for record in records]
    train = [{row.step: row.train_loss for row in t.curve if row.train_loss is not None} for t in traces]
    result = records[0].result
    losses = result.losses if result is not None else None
    for series, by_step in ((TRAINING, train), ("validation", [dict(t.evaluations) for t in traces])):
        yield Line(
            panel=placed.panel,
            label=placed.label,
            keys=placed.keys,
            series=series,
            spots=_over_runs(by_step),
            marks=[] if series == TRAINING else list(_marks(records, traces)),
            losses=losses,
        )


def _over_runs(curves: Sequence[Mapping[int, float]]) -> list[Spot]:
    """Return the thinned spots of several curves. A run counts up to its last step, even if that is non-finite."""
    steps = sorted({step for curve in curves for step in curve})
    spots = [Spot.of(step, [curve[step] for curve in curves if step in curve], finite_only=True) for step in steps]
    if len(spots) <= POINTS:
        return spots
    ends = {max(curve) for curve in curves if curve}
    kept = set(thinned([_numbers(spot) for spot in spots], POINTS // 2 - 1))
    return [spot for index, spot in enumerate(spots) if index in kept or spot.x in ends]


def _numbers(spot: Spot) -> tuple[float, float, float]:
    """Return the lowest, median and highest value, or NaN if a run is non-finite."""
    if spot.nonfinite or spot.low is None or spot.high is None:
        return math.nan, math.nan, math.nan
    return spot.low, spot.middle, spot.high


def _marks(records: Sequence[RunRecord], traces_by_run: Sequence[Traces]) -> Iterator[Mark]:
    for record, traces in zip(records, traces_by_run, strict=True):
        assert record.result is not None
        assert record.verdict is not None
        death, evaluations = record.result.death, traces.evaluations
        if death is not None:
            trained = [row.train_loss for row in traces.curve if row.train_loss is not None]
            finite = [loss for loss in (*(loss for _, loss in evaluations[:1]), *trained) if math.isfinite(loss)]
            height = finite[-1] if finite else record.result.losses.guess
            yield Mark(x=death.step, y=height, outcome=Outcome.NONFINITE, text=f"{death.kind} @{death.step}")
        elif record.verdict.outcome in ENDS_MARKED and evaluations:
            step, loss = evaluations[-1]
            yield Mark(x=step, y=loss, outcome=record.verdict.outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLine:
    """RMS of the residual stream after each layer at one step; `dying` marks the last steps of a non-finite run."""

    panel: str
    step: int
    dying: bool
    rms_by_layer: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSignal:
    """Layer lines with one panel per network; `deaths` holds the first non-finite values of those that have one."""

    title: str
    lines: Sequence[LayerLine]
    deaths: Mapping[str, Death]

    @property
    def data(self) -> pd.DataFrame:
        """One row per layer and step."""
        rows = (
            {"panel": line.panel, "step": line.step, "phase": "dying" if line.dying else "training"}
            | {"layer": layer, "rms": repr(float(rms))}
            for line in self.lines
            for layer, rms in line.rms_by_layer
        )
        return frame(rows, ["panel", "phase", "step", "layer", "rms"])


def layer_signal(records: Mapping[str, RunRecord], *, title: str, training: int = 4, dying: int = 5) -> LayerSignal:
    """Return the RMS of the residual stream by layer for each record with traces, by panel name.

    Up to `training` of the evaluations are shown, starting with the first, and up to `dying` of the last steps of a
    non-finite run, evenly spaced.
    """
    lines, deaths = [], {}
    for panel, record in records.items():
        if record.result is not None and record.result.death is not None:
            deaths[panel] = record.result.death
        traces = record.traces or Traces(curve=())
        for dies, rows, count in ((False, traces.layers, training), (True, traces.death_layers, dying)):
            by_step = sizes_by_step(rows, "stream", "rms")
            for step in _spread(sorted(by_step), count):
                sizes = sorted(by_step[step].items())
                lines.append(LayerLine(panel=panel, step=step, dying=dies, rms_by_layer=sizes))
    return LayerSignal(title=title, lines=lines, deaths=deaths)


def _spread(steps: Sequence[int], count: int) -> list[int]:
    """Return at most `count` steps, evenly spaced, including the first and the last."""
    if len(steps) <= count:
        return list(steps)
    return [steps[round(index * (len(steps) - 1) / (count - 1))] for index in range(count)]


def signal(source: Source, choice: Choice) -> Chart:
    """Return activations and gradients by layer, before training and at the end, with one line per cell.

    Values are medians over seeds; non-finite ones count as infinite. The first non-finite layer is taken from the
    records. If no record has it for a moment, it is the lowest non-finite layer of activations and the highest of
    gradients, since the backward pass runs from the top down. Each facet has separate y axes: otherwise a network that
    blows up would flatten all others.

    Raises UserError if a facet does not vary, or if no layer was measured.
    """
    items = list(done_cells(source))
    layout = place(items, checked_facets(source, choice), panels=FACETS)
    facets = list(dict.fromkeys(placed.panel for placed in layout.placed))
    measured = [
        (placed, [(source.records[run["run_id"]], source.traces(run["run_id"])) for run in placed.item.done])
        for placed in layout.placed
    ]
    lines: list[Line] = []
    axes: dict[str, Axis] = {}
    for facet, (quantity, axis), moment in product(facets, QUANTITIES.items(), MOMENTS):
        panel = ": ".join(filter(None, (facet, f"{axis.label.split()[0]} {moment}")))
        panel_lines = [_line(cell, panel, runs, quantity, moment) for cell, runs in measured if cell.panel == facet]
        if panel_lines := [line for line in panel_lines if line.spots or line.marks]:
            axes[panel] = replace(axis, group=facet)
            lines += panel_lines
    if not lines:
        raise UserError("no layer of these runs was measured: layers are measured at evaluations")
    nonfinite = any(traces.death_layers for _, runs in measured for _, traces in runs)
    end_note = ("at the end: the last evaluation, or the last step of a non-finite run",) if nonfinite else ()
    return Chart(
        title=source.title,
        x=Axis(key="layer", label="layer", scale=LINEAR),
        y=QUANTITIES[ACTIVATION],
        lines=lines,
        axes=axes,
        columns=len(MOMENTS) if len(facets) == 1 else len(QUANTITIES) * len(MOMENTS),
        notes=(*end_note, *omitted_note(layout.omitted, len(items), "line")),
    )


def _line(
    cell: Placed[Cell], panel: str, runs: Sequence[tuple[RunRecord, Traces]], quantity: tuple[str, str], moment: str
) -> Line:
    by_run = [by_layer for _, traces in runs if (by_layer := _by_layer(traces, quantity, moment))]
    layers = sorted({layer for by_layer in by_run for layer in by_layer})
    spots = [Spot.of(layer, [by_layer[layer] for by_layer in by_run if layer in by_layer]) for layer in layers]
    deaths = [record.result.death for record, _ in runs if record.result and record.result.death]
    counts = Counter(death.layer for death in deaths if (quantity_of(death), moment_of(death)) == (quantity, moment))
    if all(moment_of(death) != moment for death in deaths):
        nonfinite = [spot for spot in spots if not math.isfinite(spot.middle)]
        first = nonfinite[-1:] if quantity == GRADIENT else nonfinite[:1]
        counts = Counter({int(spot.x): len(runs) for spot in first})
    marks = [
        Mark(x=layer, y=math.inf, outcome=Outcome.NONFINITE, text=f"{count}/{len(runs)}" if count < len(runs) else "")
        for layer, count in sorted(counts.items())
    ]
    return Line(panel=panel, label=cell.label, keys=cell.keys, spots=spots, marks=marks)


def quantity_of(death: Death) -> tuple[str, str]:
    """Return the quantity whose panel shows the first non-finite layer: gradients for a gradient, else activations."""
    return GRADIENT if death.where == "grad" else ACTIVATION


def moment_of(death: Death) -> str:
    """Return whether a run became non-finite in the evaluation before training, or at its last step."""
    return LAST if death.step else BEFORE


def _by_layer(traces: Traces, quantity: tuple[str, str], moment: str) -> Mapping[int, float]:
    """Return the values of one run by layer, empty if they were not measured."""
    evaluated = sizes_by_step(traces.layers, *quantity)
    if moment == BEFORE:
        return evaluated.get(0, {})
    later = {step: sizes for step, sizes in evaluated.items() if step} | sizes_by_step(traces.death_layers, *quantity)
    return later[max(later)] if later else {}


def speed(source: Source, choice: Choice) -> Chart:
    """Return the milliseconds of a training step along depth or another axis: medians over runs, with their range.

    Raises UserError if no run has a time, or if an axis does not vary.
    """
    timed = {run_id: ms for run_id, record in source.records.items() if (ms := step_ms(record)) is not None}
    if not timed:
        raise UserError("no run has a step time: no run has made a step")
    along = check_axis(source, "--x", choice.x) if choice.x else _along(source)
    facets = checked_facets(source, choice)
    others = [key for key in source.varying if key != along and (key not in TRAINING_ONLY or key in (facets or ()))]
    items = list(_items(source, along, others, timed))
    layout = place(items, facets)
    lines = [
        Line(
            panel=placed.panel,
            label=placed.label,
            keys=placed.keys,
            spots=[Spot.of(value, times) for value, times in placed.item.items()],
        )
        for placed in layout.placed
    ]
    values = list(dict.fromkeys(spot.x for line in lines for spot in line.spots))
    records = [source.records[run_id] for run_id in source.plan.configs if run_id in timed]
    return Chart(
        title=source.title,
        x=_linear(value_axis(along, values, source.labels))
        if along
        else Axis(key="runs", label="", scale=NAMES, values=("all runs",), names=("all runs",)),
        y=Y,
        lines=lines,
        axes={},
        columns=layout.columns,
        notes=(machine_note(records), *omitted_note(layout.omitted, len(items), "line")),
    )


def _linear(axis: Axis) -> Axis:
    """Return the axis with a linear scale: the time of a step is proportional to the depth."""
    return replace(axis, scale=LINEAR) if axis.scale != NAMES else axis


def _along(source: Source) -> str:
    """Return depth if it varies, else the key that changes a step and has the most values, else an empty string."""
    keys = [key for key in source.varying if key not in TRAINING_ONLY]
    return max(keys, key=lambda key: (key == "depth", key != LABEL, len(source.values(key))), default="")


def _items(
    source: Source, along: str, others: Sequence[str], timed: Mapping[str, float]
) -> Iterator[tuple[Texts, dict[Value, list[float]]]]:
    labels = source.labels
    times_by_line: dict[tuple[Value, ...], dict[Value, dict[str, float]]] = {}
    for cell in source.cells():
        where: Value = cell.values[along] if along else "all runs"
        times = {run["run_id"]: timed[run["run_id"]] for run in cell.runs if run["run_id"] in timed}
        if times:
            line = times_by_line.setdefault(tuple(cell.values[key] for key in others), {})
            line.setdefault(where, {}).update(times)
    for names, by_value in times_by_line.items():
        ordered = sorted(by_value, key=list(source.values(along)).index) if along else list(by_value)
        numeric = along and value_axis(along, ordered, labels).scale != NAMES
        if numeric:
            ordered.sort(key=float)
        texts = texts_of([dict(zip(others, names, strict=True))], others, labels)
        yield texts, {value: list(by_value[value].values()) for value in ordered}


def step_ms(record: RunRecord) -> float | None:
    """Return the milliseconds per training step of a run, or None if it made no step or was not timed."""
    seconds = record.seconds.get("steps")
    steps = record.result.steps_done if record.result is not None else 0
    return None if seconds is None or steps < 1 else 1000 * seconds / steps


def machine_note(records: Sequence[RunRecord]) -> str:
    """Return a note on the environment in which times were measured."""
    environments = [record.environment for record in records]
    values = {name: sorted({str(env[name]) for env in environments if name in env}) for name in KNOWN}
    known = "; ".join(KNOWN[name].format(listed(texts)) for name, texts in values.items() if texts)
    return "Times depend on the machine and its load" + (f": {known}" if known else "")
