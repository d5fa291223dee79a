"""Time of a training step, as a figure shows it. It tells of the machine as much as of the network.

What figures of single runs show, as numbers: losses by step, and the stream by layer on the way to a death.

Activation and gradient by layer, as a figure shows them: before training and at the end.
"""

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
"""Spots of a longer line from which on it is thinned: those with an extreme stay, and the last one of each run."""
RESTLESS = (Outcome.DIVERGED, Outcome.UNSETTLED)


def loss_curves(source: Source, choice: Choice) -> Chart:
    """Training and validation loss by step: medians over the seeds that are alive, with marks where they died.

    A run has its line once under each label, whichever points it answers. Raises UserError where a facet does not vary.
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
    """Its training loss, behind, and its validation loss, with the marks."""
    records = [source.records[run["run_id"]] for run in placed.item.done]
    read = [source.traces(record.run_id) for record in records]
    train = [{row.step: row.train_loss for row in one.curve if row.train_loss is not None} for one in read]
    result = records[0].result
    losses = result.losses if result is not None else None
    for series, by_step in ((TRAINING, train), ("validation", [dict(one.evaluations) for one in read])):
        yield Line(
            panel=placed.panel,
            label=placed.label,
            keys=placed.keys,
            series=series,
            spots=_over_runs(by_step),
            marks=[] if series == TRAINING else list(_marks(records, read)),
            losses=losses,
        )


def _over_runs(by_step: Sequence[Mapping[int, float]]) -> list[Spot]:
    """Thinned; a run counts at a step as long as it goes on, with its death among the steps."""
    steps = sorted({step for one in by_step for step in one})
    spots = [Spot.of(step, [one[step] for one in by_step if step in one], alive=True) for step in steps]
    if len(spots) <= POINTS:
        return spots
    ends = {max(one) for one in by_step if one}
    kept = set(thinned([_numbers(spot) for spot in spots], POINTS // 2 - 1))
    return [spot for place, spot in enumerate(spots) if place in kept or spot.x in ends]


def _numbers(spot: Spot) -> tuple[float, float, float]:
    """Lowest, median and highest; NaN where a run of these died."""
    if spot.dead or spot.low is None or spot.high is None:
        return math.nan, math.nan, math.nan
    return spot.low, spot.middle, spot.high


def _marks(records: Sequence[RunRecord], read: Sequence[Traces]) -> Iterator[Mark]:
    for record, traces in zip(records, read, strict=True):
        assert record.result is not None
        assert record.verdict is not None
        death, evaluations = record.result.death, traces.evaluations
        if death is not None:
            trained = [row.train_loss for row in traces.curve if row.train_loss is not None]
            finite = [loss for loss in (*(loss for _, loss in evaluations[:1]), *trained) if math.isfinite(loss)]
            height = finite[-1] if finite else record.result.losses.guess
            yield Mark(x=death.step, y=height, outcome=Outcome.NONFINITE, text=f"{death.kind} @{death.step}")
        elif record.verdict.outcome in RESTLESS and evaluations:
            step, loss = evaluations[-1]
            yield Mark(x=step, y=loss, outcome=record.verdict.outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLine:
    """Activation RMS of the stream after each layer, at one step; `dying` within the last steps before a death."""

    panel: str
    step: int
    dying: bool
    rms_by_layer: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSignal:
    """Layer lines by panel, one panel a network; `deaths` by panel are those of the networks that died."""

    title: str
    lines: Sequence[LayerLine]
    deaths: Mapping[str, Death]

    @property
    def data(self) -> pd.DataFrame:
        """One row a layer and step."""
        rows = (
            {"panel": line.panel, "step": line.step, "phase": "dying" if line.dying else "training"}
            | {"layer": layer, "rms": repr(float(rms))}
            for line in self.lines
            for layer, rms in line.rms_by_layer
        )
        return frame(rows, ["panel", "phase", "step", "layer", "rms"])


def layer_signal(records: Mapping[str, RunRecord], *, title: str, training: int = 4, dying: int = 5) -> LayerSignal:
    """Stream RMS by layer of each network (panel name to record with traces).

    Shows the first of the recorded evaluations and up to `training` in all, and for a dead run up to `dying` of its
    last steps, evenly spread.
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
    """At most `count` of the steps, evenly spread, with the first and the last."""
    if len(steps) <= count:
        return list(steps)
    return [steps[round(index * (len(steps) - 1) / (count - 1))] for index in range(count)]


ACTIVATION, GRADIENT = ("stream", "rms"), ("ffn", "grad_norm")
QUANTITIES = {
    ACTIVATION: Axis(key="rms", label="activation RMS", scale=LOG),
    GRADIENT: Axis(key="grad_norm", label="gradient norm (FFN)", scale=LOG),
}
"""Part and quantity, and the axis that they stand on."""
BEFORE, LAST = "before training", "at the end"
MOMENTS = (BEFORE, LAST)
FACETS = 3
"""Values of facets at most: each takes a row of four panels."""


def signal(source: Source, choice: Choice) -> Chart:
    """A line a cell in each panel of a quantity and a moment; medians over seeds, not finite ones as infinite.

    Where a run became non-finite is what its record says. At a moment of which no record tells, it is the lowest layer
    of activations and the highest of gradients, which go from the top down.

    Each facet has y axes of its own: one network that blows up would flatten all others.

    Raises UserError where a facet does not vary, or where no layer was measured.
    """
    items = list(done_cells(source))
    layout = place(items, checked_facets(source, choice), panels=FACETS)
    facets = list(dict.fromkeys(one.panel for one in layout.placed))
    measured = [
        (one, [(source.records[run["run_id"]], source.traces(run["run_id"])) for run in one.item.done])
        for one in layout.placed
    ]
    lines: list[Line] = []
    axes: dict[str, Axis] = {}
    for facet, (of, axis), moment in product(facets, QUANTITIES.items(), MOMENTS):
        panel = ": ".join(filter(None, (facet, f"{axis.label.split()[0]} {moment}")))
        found = [_line(one, panel, runs, of, moment) for one, runs in measured if one.panel == facet]
        if found := [line for line in found if line.spots or line.marks]:
            axes[panel] = replace(axis, group=facet)
            lines += found
    if not lines:
        raise UserError("no layer of these runs was measured: a run measures them where it evaluates")
    dead = any(traces.death_layers for _, runs in measured for _, traces in runs)
    told = ("at the end: at the last evaluation; of a run that died, at its last step",) if dead else ()
    return Chart(
        title=source.title,
        x=Axis(key="layer", label="layer", scale=LINEAR),
        y=QUANTITIES[ACTIVATION],
        lines=lines,
        axes=axes,
        columns=len(MOMENTS) if len(facets) == 1 else len(QUANTITIES) * len(MOMENTS),
        notes=(*told, *omitted_note(layout.omitted, len(items), "line")),
    )


def _line(
    one: Placed[Cell], panel: str, runs: Sequence[tuple[RunRecord, Traces]], of: tuple[str, str], moment: str
) -> Line:
    sizes = [found for _, traces in runs if (found := _sizes(traces, of, moment))]
    layers = sorted({layer for found in sizes for layer in found})
    spots = [Spot.of(layer, [found[layer] for found in sizes if layer in found]) for layer in layers]
    deaths = [record.result.death for record, _ in runs if record.result and record.result.death]
    broken = Counter(death.layer for death in deaths if (quantity_of(death), moment_of(death)) == (of, moment))
    if all(moment_of(death) != moment for death in deaths):
        lost = [spot for spot in spots if not math.isfinite(spot.middle)]
        first = lost[-1:] if of == GRADIENT else lost[:1]
        broken = Counter({int(spot.x): len(runs) for spot in first})
    marks = [
        Mark(x=layer, y=math.inf, outcome=Outcome.NONFINITE, text=f"{count}/{len(runs)}" if count < len(runs) else "")
        for layer, count in sorted(broken.items())
    ]
    return Line(panel=panel, label=one.label, keys=one.keys, spots=spots, marks=marks)


def quantity_of(death: Death) -> tuple[str, str]:
    """The quantity whose panel shows where a run became non-finite: of gradients theirs, else the activations'."""
    return GRADIENT if death.where == "grad" else ACTIVATION


def moment_of(death: Death) -> str:
    """When it did: in the evaluation before training, or at its last step."""
    return LAST if death.step else BEFORE


def _sizes(traces: Traces, of: tuple[str, str], moment: str) -> Mapping[int, float]:
    """Of one run by layer; empty where it was not measured."""
    evaluated = sizes_by_step(traces.layers, *of)
    if moment == BEFORE:
        return evaluated.get(0, {})
    later = {**{step: sizes for step, sizes in evaluated.items() if step}, **sizes_by_step(traces.death_layers, *of)}
    return later[max(later)] if later else {}


TRAINING_ONLY = frozenset(
    [
        "lr",
        "warmup",
        "schedule",
        "init",
        "init_gain",
        "task_seed",
        "sharpness",
        "label_noise",
        "beta1",
        "beta2",
        "weight_decay",
        "eps",
        "dyt_alpha",
        "steps",
        "eval_every",
        "post_share",
    ]
)
"""Keys that leave the work of a step as it is: runs that differ in them alone are one line."""
Y = Axis(key="step_ms", label="time of a step (ms)", scale=LINEAR)


def speed(source: Source, choice: Choice) -> Chart:
    """Milliseconds a training step along depth, or along what else varies; medians over runs, with their range.

    Raises UserError where no run has a time, or where an axis does not vary.
    """
    timed = {run_id: ms for run_id, record in source.records.items() if (ms := step_ms(record)) is not None}
    if not timed:
        raise UserError("no run has a time: none of them made a step")
    along = check_axis(source, "--x", choice.x) if choice.x else _along(source)
    facets = checked_facets(source, choice)
    others = [key for key in source.varying if key != along and (key not in TRAINING_ONLY or key in (facets or ()))]
    items = list(_items(source, along, others, timed))
    layout = place(items, facets)
    lines = [
        Line(
            panel=one.panel,
            label=one.label,
            keys=one.keys,
            spots=[Spot.of(value, times) for value, times in one.item.items()],
        )
        for one in layout.placed
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
    """Time rises with the number of blocks, so that a line is straight."""
    return replace(axis, scale=LINEAR) if axis.scale != NAMES else axis


def _along(source: Source) -> str:
    """Depth if it varies, else what changes a step and has the most values; none where nothing does."""
    keys = [key for key in source.varying if key not in TRAINING_ONLY]
    return max(keys, key=lambda key: (key == "depth", key != LABEL, len(source.values(key))), default="")


def _items(
    source: Source, along: str, others: Sequence[str], timed: Mapping[str, float]
) -> Iterator[tuple[Texts, dict[Value, list[float]]]]:
    labels = source.labels
    found: dict[tuple[Value, ...], dict[Value, dict[str, float]]] = {}
    for cell in source.cells():
        where: Value = cell.values[along] if along else "all runs"
        times = {run["run_id"]: timed[run["run_id"]] for run in cell.runs if run["run_id"] in timed}
        if times:
            line = found.setdefault(tuple(cell.values[key] for key in others), {})
            line.setdefault(where, {}).update(times)
    for names, by_value in found.items():
        ordered = sorted(by_value, key=list(source.values(along)).index) if along else list(by_value)
        numeric = along and value_axis(along, ordered, labels).scale != NAMES
        if numeric:
            ordered.sort(key=float)
        texts = texts_of([dict(zip(others, names, strict=True))], others, labels)
        yield texts, {value: list(by_value[value].values()) for value in ordered}


def step_ms(record: RunRecord) -> float | None:
    """Milliseconds that a training step of a run took; None where it made none, or was not timed."""
    seconds = record.seconds.get("steps")
    steps = record.result.steps_done if record.result is not None else 0
    return None if seconds is None or steps < 1 else 1000 * seconds / steps


def machine_note(records: Sequence[RunRecord]) -> str:
    """What the times depend on, in words: they are no property of the networks alone."""
    found = {name: sorted({str(one.environment[name]) for one in records if name in one.environment}) for name in KNOWN}
    known = "; ".join(KNOWN[name].format(listed(values)) for name, values in found.items() if values)
    return "Times depend on the machine and on what ran beside" + (f": {known}" if known else "")


KNOWN = {"platform": "{}", "cpu_capability": "{}", "torch": "torch {}", "torch_threads": "threads a run: {}"}
"""What of an environment is told with times."""
