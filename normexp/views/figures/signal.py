"""Activation and gradient by layer, as a figure shows them: before training and at the end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from normexp.errors import UserError
from normexp.record import Death, Outcome, RunRecord, Traces, sizes_by_step
from normexp.views.figures.chart import LINEAR, LOG, Axis, Chart, Line, Mark, Spot
from normexp.views.figures.choice import Choice, Source, checked_facets, done_cells, omitted_note
from normexp.views.figures.panels import Placed, place
from normexp.views.summary import Cell

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
