"""What an executor reports: execute(configs) is an iterator of these."""

from __future__ import annotations

from dataclasses import dataclass

from normexp.config.run import RunConfig
from normexp.records.record import RunRecord


@dataclass(frozen=True, slots=True)
class Started:
    """A run has a process (or its turn)."""

    config: RunConfig


@dataclass(frozen=True, slots=True)
class Progress:
    """A running run has made `step` updates; loss in nats, before that update."""

    config: RunConfig
    step: int
    loss: float
    grad_norm: float
    rms_by_layer: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """A run has ended, in whatever way its record says."""

    record: RunRecord


Event = Started | Progress | Finished
