"""A run's losses by step, thinned to what a page needs: no spike is smoothed away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from normexp import curves
from normexp.record import RunRecord, Traces

MOST_POINTS = 200
Points = list[tuple[int, float | None]]
"""(step, loss in nats), None where it is not finite."""


def run_curve(record: RunRecord, traces: Traces, story: str) -> dict[str, Any]:
    """What a page draws of a run that came to a result: training losses thinned, validation losses, its task's levels.

    `story` is the text beside it. Raises ValueError for any other run.
    """
    result = record.result
    if result is None:
        raise ValueError(f"{record.run_id} came to no result")
    train = [(row.step, row.train_loss) for row in traces.curve if row.train_loss is not None]
    return {
        "steps": record.config.steps,
        "train": thinned(train),
        "val": thinned(traces.evaluations),
        "death": result.death.step if result.death is not None else None,
        "guides": {"floor": _short(result.losses.floor), "guess": _short(result.losses.guess)},
        "story": story,
    }


def thinned(points: Sequence[tuple[int, float]], most: int = MOST_POINTS) -> Points:
    """At most so many finite points, with the lowest and the highest of each stretch; all that are not finite."""
    kept = range(len(points)) if len(points) <= most else curves.thinned([(loss,) for _, loss in points], most // 2 - 1)
    return [(points[place][0], _short(points[place][1])) for place in kept]


def _short(loss: float) -> float | None:
    """Four significant digits: a page shows no more."""
    return float(f"{loss:.4g}") if math.isfinite(loss) else None
