"""The events that executors yield."""

from __future__ import annotations

from dataclasses import dataclass

from normexp.config.run import RunConfig
from normexp.records.record import RunRecord


@dataclass(frozen=True, slots=True)
class Started:
    """A run has started."""

    config: RunConfig


@dataclass(frozen=True, slots=True)
class Progress:
    """A run has made `step` steps. `loss` (in nats) and `grad_norm` are those of the last step, before its update."""

    config: RunConfig
    step: int
    loss: float
    grad_norm: float
    rms_by_layer: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """A run has ended. Its record says how."""

    record: RunRecord


Event = Started | Progress | Finished
