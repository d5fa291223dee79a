"""Made-up plans and run records for tests of storing and showing: nothing here has been trained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd

from normexp.analysis import frames
from normexp.config.plan import Pivot, Plan, Point, Published
from normexp.config.run import RunConfig
from normexp.records.outcome import judge
from normexp.records.record import CurveRow, Death, Losses, Result, RunRecord, SignalRow, Status, Traces

LOSSES = Losses(floor=1.5, guess=4.07, bigram=3.0)
VOCAB = 64
STEPS = 100
ENVIRONMENT = {
    "python": "3.11.7",
    "torch": "2.13.0",
    "numpy": "2.4.0",
    "normexp": "0.1.0",
    "platform": "Linux-6.1-x86_64",
    "cpu_capability": "AVX2",
    "processor": "a processor",
    "step": "compiled",
    "compiler": "c++ 12",
    "compiler_flags": "-O3",
    "torch_threads": 1,
}


def plan(
    axes: Mapping[str, Sequence[Any]],
    *,
    label: str = "",
    name: str = "made_up",
    title: str = "A made-up sweep",
    pivot: Pivot | None = None,
    published: Sequence[Published] = (),
    **base: Any,
) -> Plan:
    """The full product of the axes, the last one fastest."""
    points = []
    for combination in product(*axes.values()):
        values = dict(zip(axes, combination, strict=True))
        config = RunConfig(**({"steps": STEPS, "eval_every": 25} | base | values)).canonical()
        points.append(Point(label=label, values=values, config=config))
    return Plan(
        name=name,
        title=title,
        folder=name,
        axes=tuple(axes),
        points=tuple(points),
        source=f"name: {name}\n",
        pivot=pivot,
        published=tuple(published),
    )


def curve(start: float, end: float, *, steps: int = STEPS, every: int = 25) -> list[CurveRow]:
    """A loss that falls or rises exponentially from start to end."""
    losses = [end + (start - end) * math.exp(-4 * step / STEPS) for step in range(steps + 1)]
    return [
        CurveRow(
            step=step,
            lr=1e-3 if step else None,
            train_loss=loss * (1 + 0.02 * math.sin(7 * step)) if step else None,
            grad_norm=1.0 if step else None,
            val_loss=loss if step % every == 0 or step == STEPS else None,
        )
        for step, loss in enumerate(losses)
    ]


def layers(steps: Sequence[int], depth: int, growth: float) -> list[SignalRow]:
    """RMS of the stream that grows with depth and step."""
    return [
        SignalRow(step=step, layer=layer, part=part, quantity=quantity, value=growth ** (layer * (1 + step / 50)))
        for step in steps
        for layer in range(depth + 2)
        for part, quantity in (("stream", "rms"), ("mixer", "rms"), ("stream", "grad_norm"))
    ]


def done(config: RunConfig, final: float, *, initial: float = 4.3, **rest: Any) -> RunRecord:
    """A run that reached its last step with this validation loss; the outcome follows from the rules."""
    rows = curve(initial, final)
    rows[-1] = CurveRow(step=STEPS, lr=1e-3, train_loss=final, grad_norm=1.0, val_loss=final)
    traces = Traces(curve=rows, layers=layers([0, 25, 50, 100], min(config.depth, 8), 1.05), death_layers=[])
    result = Result(
        steps_done=STEPS,
        losses=LOSSES,
        init_val_loss=initial,
        best_val_loss=min(loss for _, loss in traces.evaluations),
        final_val_loss=final,
        peak_lr=config.lr,
        parameters=123_456,
    )
    return _record(config, result, traces, **rest)


def dead(config: RunConfig, step: int, *, kind: str = "nan", **rest: Any) -> RunRecord:
    """A run whose loss or gradient became non-finite at this step."""
    rows = curve(30.0, 400.0, steps=step)
    rows[-1] = CurveRow(step=step, lr=1e-3, train_loss=float(kind), grad_norm=math.nan, val_loss=None)
    last = range(max(1, step - 31), step + 1)
    down = layers(last, min(config.depth, 8), 1.5)
    if down:
        down[-3:] = [
            SignalRow(step=step, layer=row.layer, part="stream", quantity="rms", value=math.inf) for row in down[-1:]
        ]
    result = Result(
        steps_done=step - 1,
        losses=LOSSES,
        init_val_loss=30.0,
        best_val_loss=30.0,
        final_val_loss=None,
        peak_lr=config.lr,
        parameters=123_456,
        death=Death(step=step, kind=kind, where="loss", tensor="blocks.3.ffn.fc1", layer=4),
    )
    traces = Traces(curve=rows, layers=layers([0], min(config.depth, 8), 1.5), death_layers=down)
    return _record(config, result, traces, **rest)


def failed(config: RunConfig, status: Status = Status.FAILED) -> RunRecord:
    """A run whose process did not come to a result."""
    return RunRecord(
        config=config, status=status, error="Traceback: it broke", traces=Traces(curve=()), log="started\n"
    )


def torn(plan: Plan) -> dict[str, RunRecord]:
    """With a norm: learned. Without: at 1e-3 one loss of 1e9 in three, at 1e-2 two dead of three."""
    found = {}
    for run_id, config in plan.configs.items():
        if config.norm == "ln":
            found[run_id] = done(config, 1.8 + 0.1 * config.seed)
        elif config.lr < 5e-3:
            found[run_id] = done(config, 1e9 if config.seed == 1 else 100.0 + config.seed, initial=50.0)
        else:
            found[run_id] = dead(config, 3 + config.seed) if config.seed < 2 else done(config, 3.0)
    return found


def end(config: RunConfig, how: str) -> RunRecord | None:
    """A record of this kind: a loss, nan@step, a status, `slow` (a falling plateau), or pending."""
    if how == "pending":
        return None
    if how in {status.value for status in Status}:
        return failed(config, Status(how))
    if "@" in how:
        kind, step = how.split("@")
        return dead(config, int(step), kind=kind)
    initial = {"unsettled": 150.0, "slow": 12.0}.get(how, 4.3)
    losses = {"learned": 1.9, "plateau": 4.065, "slow": 4.065, "unsettled": 100.0, "diverged": 1e9}
    return done(config, losses[how] if how in losses else float(how), initial=initial)


def ended(plan: Plan, ends: Sequence[str]) -> dict[str, RunRecord]:
    """Return the records of a plan's runs with these ends, in order; pending runs have none."""
    ways = zip(plan.configs.items(), ends, strict=True)
    return {run_id: record for (run_id, config), how in ways if (record := end(config, how)) is not None}


def runs_of(made: Plan, ends: list[str]) -> pd.DataFrame:
    """The plan's runs with these ends, in order."""
    return frames.runs(made, ended(made, ends))


def seeds(*ends: str) -> tuple[Plan, pd.DataFrame]:
    """One cell, a seed for each end."""
    made = plan({"lr": [1e-3], "seed": list(range(len(ends)))})
    return made, runs_of(made, list(ends))


def _record(config: RunConfig, result: Result, traces: Traces, **rest: Any) -> RunRecord:
    defaults: dict[str, Any] = {
        "log": "loss fell\n",
        "seconds": {"data": 0.2, "steps": 3.25, "eval": 0.1, "replay": 0.0, "total": 3.75},
        "environment": ENVIRONMENT,
    }
    return RunRecord(
        config=config,
        status=Status.DONE,
        result=result,
        verdict=judge(result, traces.evaluations, vocab=VOCAB, steps=STEPS),
        traces=traces,
        **(defaults | rest),
    )
