"""Measured times of norms, and of training steps with them: median, spread, and ratio to LayerNorm round by round.

One network as it was measured, and the words for what can be measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from normexp.config.run import RunConfig
from normexp.records.record import SignalRow
from normexp.schemes.network_config import Value

QUANTITIES: Mapping[str, str] = MappingProxyType(
    {
        "rms": "RMS of {}",
        "mean_square": "Mean square of {}",
        "token_cosine": "Mean cosine between tokens of {}",
        "grad_norm": "Gradient norm of {}",
        "update": "RMS of one step's change of {}",
        "relative_update": "Relative change of {} by one step",
        "sgd_update": "RMS of the change of {} by SGD 1e-2 on matrices",
        "attention_entropy": "Attention entropy (nats)",
        "max_logit": "Largest attention logit",
        "leak": "Change of earlier logits by later tokens",
        "train_mode_loss": "Loss with batch statistics (nats)",
        "eval_mode_loss": "Loss with running statistics (nats)",
    }
)
"""Quantities of `normexp.training.inspection`, and what they are called; {} stands for the part."""

BACKWARD = frozenset({"grad_norm"})
"""Quantities that go from the last layer to the first: where one of them breaks first is the highest layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """A network and one seed: `network` is its name beside the others, `asked` its axes as they were asked for."""

    network: str
    config: RunConfig
    rows: Sequence[SignalRow]
    asked: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))


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
