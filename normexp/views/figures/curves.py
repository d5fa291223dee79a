"""What figures of single runs show, as numbers: losses by step, and the stream by layer on the way to a death."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from normexp.curves import thinned
from normexp.record import Death, Outcome, RunRecord, Traces, sizes_by_step
from normexp.views.figures.chart import LOSS, TRAINING, Axis, Chart, Line, Mark, Spot
from normexp.views.figures.choice import Choice, Source, checked_facets, done_cells, omitted_note
from normexp.views.figures.panels import Placed, place
from normexp.views.summary import Cell
from normexp.views.tables import frame

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
