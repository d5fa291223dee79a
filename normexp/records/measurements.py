"""Measurements besides training runs: probes of networks, and times of norms and training steps."""

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
        "update": "RMS of the one-step change of {}",
        "relative_update": "Relative one-step change of {}",
        "sgd_update": "RMS of the change of {} by an SGD step (lr 1e-2) on the matrices",
        "attention_entropy": "Attention entropy (nats)",
        "max_logit": "Largest attention logit",
        "leak": "Change of earlier logits due to later tokens",
        "train_mode_loss": "Loss with batch statistics (nats)",
        "eval_mode_loss": "Loss with running statistics (nats)",
    }
)
"""Quantities of `normexp.training.inspection`, and their titles; {} stands for the part of the network."""

BACKWARD = frozenset({"grad_norm"})
"""Quantities computed from the last layer to the first, so that the first one to break is in the highest layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Measurements of one network with one seed. `network` is its name, `asked` its configured axis values."""

    network: str
    config: RunConfig
    rows: Sequence[SignalRow]
    asked: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))


FORWARD, BOTH, STEP = "forward", "forward with backward", "training step"
"""The kinds of call that are timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The time in microseconds per call of a norm at a shape, or of a training step with a norm, over `rounds` rounds.

    `ratio` compares with the reference in the same round; its median and percentiles are over rounds. `share` is the
    part of a step that exceeds a step without norms in the same round (NaN for a norm alone).
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
    """Raw times of one shape or step: seconds per call of each norm in every round, and each norm's parameter count."""

    part: str
    where: str
    threads: int
    seconds: Mapping[str, Sequence[float]]
    parameters: Mapping[str, int]
    machine: str = ""


def timings(rounds: Rounds, reference: str, without: str | None = None) -> list[Timing]:
    """Return a row for each norm, in order. Shares are computed if `without` names the entry without a norm."""
    seconds = {norm: np.asarray(values) for norm, values in rounds.seconds.items()}
    rows = []
    for norm, values in seconds.items():
        us = _spread(values * 1e6)
        ratio = _spread(values / seconds[reference])
        share = _spread(1 - seconds[without] / values) if without is not None else (math.nan,) * 3
        rows.append(
            Timing(
                part=rounds.part,
                where=rounds.where,
                threads=rounds.threads,
                norm=norm,
                parameters=rounds.parameters[norm],
                rounds=len(values),
                **dict(zip(("p10_us", "median_us", "p90_us"), us, strict=True)),
                **dict(zip(("ratio_p10", "ratio", "ratio_p90"), ratio, strict=True)),
                **dict(zip(("share_p10", "share", "share_p90"), share, strict=True)),
                machine=rounds.machine,
            )
        )
    return rows


def _spread(values: np.ndarray) -> tuple[float, float, float]:
    """Return the 10th percentile, the median and the 90th percentile."""
    low, middle, high = np.percentile(values, [10, 50, 90])
    return float(low), float(middle), float(high)
