"""Measured times of norms, and of training steps with them: median, spread, and ratio to LayerNorm round by round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

FORWARD, BOTH, STEP = "forward", "forward with backward", "training step"
"""What is timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A norm at a shape, or a training step with a norm: microseconds a call, over `rounds` measurements.

    `ratio` is to the reference in the same round; its median and percentiles are those of the rounds' ratios. `share`
    is the part of a step that it takes more than one without norms in the same round (nan for a norm alone).
    """

    part: str
    where: str
    threads: int
    norm: str
    parameters: int
    rounds: int
    median_us: float
    p10_us: float
    p90_us: float
    ratio: float
    ratio_p10: float
    ratio_p90: float
    share: float = math.nan
    share_p10: float = math.nan
    share_p90: float = math.nan
    machine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """What was measured at one place: seconds a call of each norm in every round, and each norm's parameters."""

    part: str
    where: str
    threads: int
    seconds: Mapping[str, Sequence[float]]
    parameters: Mapping[str, int]
    machine: str = ""


def timings(rounds: Rounds, reference: str, without: str | None = None) -> list[Timing]:
    """A row for each norm, in order; shares where `without` names what has no norm."""
    seconds = {norm: np.asarray(found) for norm, found in rounds.seconds.items()}
    rows = []
    for norm, found in seconds.items():
        us = _spread(found * 1e6)
        ratio = _spread(found / seconds[reference])
        share = _spread(1 - seconds[without] / found) if without is not None else (math.nan,) * 3
        rows.append(
            Timing(
                part=rounds.part,
                where=rounds.where,
                threads=rounds.threads,
                norm=norm,
                parameters=rounds.parameters[norm],
                rounds=len(found),
                **dict(zip(("p10_us", "median_us", "p90_us"), us, strict=True)),
                **dict(zip(("ratio_p10", "ratio", "ratio_p90"), ratio, strict=True)),
                **dict(zip(("share_p10", "share", "share_p90"), share, strict=True)),
                machine=rounds.machine,
            )
        )
    return rows


def _spread(values: np.ndarray) -> tuple[float, float, float]:
    """10th percentile, median, 90th percentile."""
    low, middle, high = np.percentile(values, [10, 50, 90])
    return float(low), float(middle), float(high)
