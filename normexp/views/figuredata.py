"""What each figure shows, as numbers: computed here, drawn in figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from normexp.keys import Value
from normexp.plan import Plan
from normexp.record import Death, Losses, Outcome, RunRecord, SignalRow, Traces
from normexp.views.labels import value_text
from normexp.views.panels import Texts, place
from normexp.views.summary import Cell, cells, final_loss
from normexp.views.tables import frame

if TYPE_CHECKING:
    import pandas as pd

POINTS = 400
"""Training losses drawn of a curve, about; the evaluations and the last step are always among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A run's losses in nats against its step; `train`, `validation`: (step, loss) pairs, NaN and Inf too."""

    panel: str
    label: str
    run_id: str
    train: Sequence[tuple[int, float]]
    validation: Sequence[tuple[int, float]]
    losses: Losses
    outcome: Outcome
    death: Death | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Curves by panel. `omitted` runs had no place."""

    title: str
    curves: Sequence[Curve]
    omitted: int

    @property
    def data(self) -> pd.DataFrame:
        """One row a loss drawn; loss_of is train or validation; nan and inf are written out."""
        rows = (
            {"panel": curve.panel, "line": curve.label, "run_id": curve.run_id, "outcome": curve.outcome.value}
            | {"step": step, "loss_of": kind, "loss": repr(float(loss))}
            | {"death_step": curve.death and curve.death.step}
            for curve in self.curves
            for kind, pairs in (("train", curve.train), ("validation", curve.validation))
            for step, loss in pairs
        )
        return frame(rows, ["panel", "line", "run_id", "outcome", "death_step", "loss_of", "step", "loss"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """One line: final loss by learning rate. `cells` are (lr, cell), by lr."""

    panel: str
    label: str
    cells: Sequence[tuple[float, Cell]]

    @property
    def losses(self) -> Losses | None:
        """The reference losses of the line's task; None before any run of it is done."""
        done = [run for _, cell in self.cells for run in cell.done]
        return Losses(**{name: done[0][name] for name in ("floor", "guess", "bigram")}) if done else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivities:
    """Lines by panel. `omitted` ones had no place."""

    title: str
    lines: Sequence[Sensitivity]
    omitted: int

    @property
    def data(self) -> pd.DataFrame:
        """One row a rate and line: median with the dead as infinity, lowest and highest finite loss, counts."""
        rows = []
        for line in self.lines:
            for lr, cell in line.cells:
                low, high = finite_range(cell)
                row: dict[str, Any] = {"panel": line.panel, "line": line.label, "lr": lr, "planned": len(cell.runs)}
                row |= {"done": len(cell.done), "nonfinite": deaths(cell), "median_val_loss": cell.median}
                rows.append(row | {"lowest_val_loss": low, "highest_val_loss": high})
        counts = ["planned", "done", "nonfinite"]
        return frame(rows, ["panel", "line", "lr", *counts, "median_val_loss", "lowest_val_loss", "highest_val_loss"])


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLine:
    """Activation RMS of the stream after each layer, at one step; `dying` within the last steps before a death."""

    panel: str
    step: int
    dying: bool
    rms_by_layer: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSignal:
    """Layer lines by panel, one panel a network."""

    title: str
    lines: Sequence[LayerLine]

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


def curves(plan: Plan, records: Mapping[str, RunRecord], traces: Callable[[str], Traces]) -> Curves:
    """The curve of each done run once under each label, whichever points it answers. `traces` reads those of a run."""
    asked: dict[tuple[str, str], list[Mapping[str, Value]]] = {}
    for point in plan.points:
        run_id = point.config.run_id
        if run_id in records and records[run_id].result is not None:
            asked.setdefault((point.label, run_id), []).append({"label": point.label, **point.values})
    placed = place([(_merged(values), run_id) for (_, run_id), values in asked.items()])
    found = [_curve(panel, label, records[run_id], traces(run_id)) for panel, label, run_id in placed]
    return Curves(title=plan.title or plan.name, curves=found, omitted=len(asked) - len(found))


def _curve(panel: str, label: str, record: RunRecord, traces: Traces) -> Curve:
    assert record.result is not None
    assert record.verdict is not None
    train = [(row.step, row.train_loss) for row in traces.curve if row.train_loss is not None]
    stride = math.ceil(len(train) / POINTS) if train else 1
    return Curve(
        panel=panel,
        label=label,
        run_id=record.run_id,
        train=[pair for index, pair in enumerate(train) if index % stride == 0 or index == len(train) - 1],
        validation=traces.evaluations,
        losses=record.result.losses,
        outcome=record.verdict.outcome,
        death=record.result.death,
    )


def lr_sensitivity(plan: Plan, runs: pd.DataFrame) -> Sensitivities | None:
    """Final loss against lr, a line for each combination of the other axes; None where lr does not vary."""
    if len({point.values.get("lr") for point in plan.points}) < 2:
        return None
    lines: dict[tuple[Value, ...], list[Cell]] = {}
    for cell in cells(plan, runs):
        lines.setdefault(tuple(value for key, value in cell.values.items() if key != "lr"), []).append(cell)
    same: dict[tuple[Value, ...], list[list[Cell]]] = {}
    for line in lines.values():
        label, run_ids = line[0].values.get("label", ""), [run["run_id"] for cell in line for run in cell.runs]
        same.setdefault((label, *run_ids), []).append(line)
    items = []
    for twins in same.values():
        others = [{key: value for key, value in line[0].values.items() if key != "lr"} for line in twins]
        by_lr = sorted(((float(cell.values["lr"]), cell) for cell in twins[0]), key=lambda pair: pair[0])
        items.append((_merged(others), by_lr))
    placed = [Sensitivity(panel=panel, label=label, cells=by_lr) for panel, label, by_lr in place(items)]
    return Sensitivities(title=plan.title or plan.name, lines=placed, omitted=len(items) - len(placed))


def deaths(cell: Cell) -> int:
    """Runs of a cell that ended non-finite."""
    return sum(run["outcome"] == Outcome.NONFINITE for run in cell.done)


def finite_range(cell: Cell) -> tuple[float | None, float | None]:
    """Lowest and highest finite final loss of a cell."""
    losses = [loss for loss in map(final_loss, cell.done) if math.isfinite(loss)]
    return min(losses, default=None), max(losses, default=None)


def layer_signal(records: Mapping[str, RunRecord], *, title: str, training: int = 4, dying: int = 5) -> LayerSignal:
    """Stream RMS by layer of each network (panel name to record with traces).

    Shows the first of the recorded evaluations and up to `training` in all, and for a dead run up to `dying` of its
    last steps, evenly spread.
    """
    lines = []
    for panel, record in records.items():
        traces = record.traces or Traces(curve=())
        for dies, rows, count in ((False, traces.layers, training), (True, traces.death_layers, dying)):
            by_step = _rms_by_step(rows)
            for step in _spread(sorted(by_step), count):
                lines.append(LayerLine(panel=panel, step=step, dying=dies, rms_by_layer=sorted(by_step[step])))
    return LayerSignal(title=title, lines=lines)


def _rms_by_step(rows: Iterable[SignalRow]) -> dict[int, list[tuple[int, float]]]:
    by_step: dict[int, list[tuple[int, float]]] = {}
    for row in rows:
        if row.quantity == "rms" and row.part == "stream":
            by_step.setdefault(row.step, []).append((row.layer, row.value))
    return by_step


def _spread(steps: Sequence[int], count: int) -> list[int]:
    """At most `count` of the steps, evenly spread, with the first and the last."""
    if len(steps) <= count:
        return list(steps)
    return [steps[round(index * (len(steps) - 1) / (count - 1))] for index in range(count)]


def _merged(asked: Sequence[Mapping[str, Value]]) -> Texts:
    """The values of points that are answered together, as one text for each key."""
    return {key: "/".join(dict.fromkeys(value_text(key, values[key]) for values in asked)) for key in asked[0]}
