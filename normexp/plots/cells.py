"""Figures over the cells of a sweep: final loss along an axis, and the map of outcomes over two."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from normexp.analysis.cells import Cell, Run, final_loss, losses_of, result_word
from normexp.analysis.sensitivity import Scan, ScannedRun, sensitivities
from normexp.config.keys import is_number
from normexp.config.labels import Labels, listed
from normexp.config.plan import LABEL
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
from normexp.records.record import Outcome, Status
from normexp.schemes.network_config import Value

MEASURES = {
    "loss": Axis(key="val_loss", label="final validation loss (nats)", scale=LOSS),
    "fraction": Axis(key="learned_fraction", label="learned fraction", scale=SHARE),
}
"""What may stand on the y axis of a scan."""
NAMED_LINES = 4
"""Lines without S that a note names."""


def scan(source: Source, choice: Choice, *, x: str, with_sensitivity: bool = False) -> Chart:
    """Final loss (or learned fraction, the dead as 0) along an axis: a line for each combination of the others.

    Raises UserError where an axis does not vary.
    """
    measure = MEASURES[choice.y or "loss"]
    along = check_axis(source, "--x" if choice.x else "", choice.x or x)
    others = [key for key in source.varying if key != along]
    facets = checked_facets(source, choice, taken=(along,))
    axis = value_axis(along, source.values(along), source.labels)
    scanned = with_sensitivity and axis.scale != NAMES
    items = _lines(source, along, others)
    layout = place(items, facets)
    found = sensitivities([_scan_of(one.item) for one in layout.placed]) if scanned else [None] * len(layout.placed)
    lines = [
        Line(
            panel=one.panel,
            label=one.label,
            keys=one.keys,
            spots=[_spot(value, cell, measure) for value, cell in one.item],
            losses=next((losses_of(run) for _, cell in one.item for run in cell.done), None),
            sensitivity=sensitivity,
        )
        for one, sensitivity in zip(layout.placed, found, strict=True)
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
    """Each line once, with its cells by rising value; lines that the same runs answer are one, named by both."""
    labels = source.labels
    found: dict[tuple[Value, ...], list[Cell]] = {}
    for cell in source.cells():
        found.setdefault(tuple(cell.values[key] for key in others), []).append(cell)
    same: dict[tuple[Value, ...], list[list[Cell]]] = {}
    for line in found.values():
        run_ids = [run["run_id"] for cell in line for run in cell.runs]
        same.setdefault((line[0].values.get(LABEL, ""), *run_ids), []).append(line)
    items = []
    for twins in same.values():
        pairs = [(cell.values[along], cell) for cell in twins[0]]
        if all(is_number(value) for value, _ in pairs):
            pairs.sort(key=lambda pair: float(pair[0]))
        items.append((texts_of([line[0].values for line in twins], others, labels), pairs))
    return items


def _spot(value: Value, cell: Cell, measure: Axis) -> Spot:
    if measure.scale == LOSS:
        return Spot.of(value, map(final_loss, cell.done))
    dead = sum(not math.isfinite(final_loss(run)) for run in cell.done)
    shares = Spot.of(value, [_share(run) for run in cell.done])
    return Spot(x=value, middle=shares.middle, low=shares.low, high=shares.high, runs=shares.runs, dead=dead)


def _share(run: Run) -> float:
    """Learned fraction within 0 and 1; of a run that died, 0."""
    return min(1.0, max(0.0, run["learned_fraction"])) if math.isfinite(final_loss(run)) else 0.0


def _scan_of(along: Sequence[tuple[Value, Cell]]) -> Scan:
    """A line's runs by value and seed; at a value where not all are done, none."""
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
    """What S is and which values it covers, of how many that the figure has; and which lines have none, and why."""
    found = [line.sensitivity for line in lines if line.sensitivity is not None]
    counts = {one.count for one in found if one.by_seed}
    plural = "learning rates" if axis.key == "lr" else f"values of {axis.key}"
    for count in counts:  # one at most: all lines have the same values
        covered = f"the {count} {plural}{' that these lines share' if count < values else ''}"
        yield f"S: mean over {covered} of the loss (at most that before training), less the lowest"
    names: dict[str, list[str]] = {}
    for line in lines:
        if line.sensitivity is not None and not line.sensitivity.by_seed:
            name = ", ".join(filter(None, [line.label, line.panel])) or "this line"
            names.setdefault(line.sensitivity.reason, []).append(name)
    for reason, without in names.items():
        yield f"S — for {'; '.join(at_most(without, NAMED_LINES, '{} more'))}: {reason}"


def outcome_map(source: Source, choice: Choice) -> Map:
    """Outcomes over two axes. What has no place in the figure is pooled, and told.

    Raises UserError where an axis does not vary, or where fewer than two do.
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
    panelled = [(one.panel, one.item) for one in layout.placed] if layout else [("", item) for _, item in items]
    pooled = [key for key in others if key not in facets]
    notes = (f"each square is over {listed(pooled)} as well",) if pooled else ()
    return Map(
        title=source.title,
        x=names[x],
        y=names[y],
        squares=[_square(panel, (x, y), place, runs, labels) for panel, (place, runs) in panelled],
        by_fraction=choice.by_fraction,
        columns=layout.columns if layout else None,
        notes=(*notes, *omitted_note(layout.omitted if layout else 0, len(items), "square")),
    )


def _axes(source: Source, choice: Choice) -> tuple[str, str]:
    """As asked; else depth and lr, or the first axes of numbers; words stand along y, where there is room for them."""
    asked = [check_axis(source, option, key) for option, key in (("--x", choice.x), ("--y", choice.y)) if key]
    if len(asked) == 2 and asked[0] == asked[1]:
        raise UserError(f"--x and --y are both {asked[0]}: choose two axes")
    free = [key for key in source.varying if key not in (*asked, *(choice.facets or ()), LABEL)]
    if len(asked) + len(free) < 2:
        beside = " beside its facets" if choice.facets else ""
        there = f"what varies is {listed(source.varying)}" if source.varying else "nothing but the seed varies"
        raise UserError(f"a map needs two axes that vary{beside}: {there}")
    ranked = sorted(free, key=lambda key: (key != "lr", key != "depth", not _numeric(source, key)))
    y = choice.y or ranked.pop(0)
    x = choice.x or next(key for key in ranked if key != y)
    if not choice.x and not choice.y and _numeric(source, y) and not _numeric(source, x):
        return y, x
    return x, y


def _numeric(source: Source, key: str) -> bool:
    return all(is_number(value) for value in source.values(key))


def _map_facets(source: Source, others: Sequence[str]) -> tuple[str, ...]:
    """As many of the other axes as panels allow, the label first, then those with few values."""
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
