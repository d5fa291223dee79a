"""RunRecord: what is known of one run once its process has ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from normexp.run import RunConfig

NUMERICS = 1
"""Raised when the same config gives other numbers than before; older records are then stale."""


class Status(StrEnum):
    """What happened to the process. A run without a record is pending."""

    DONE = "done"
    FAILED = "failed"
    KILLED = "killed"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"


class Outcome(StrEnum):
    """What the training of a done run came to: each a result, none a failure."""

    LEARNED = "learned"
    PLATEAU = "plateau"
    UNSETTLED = "unsettled"
    DIVERGED = "diverged"
    NONFINITE = "nonfinite"


SURVIVED = (Outcome.LEARNED, Outcome.PLATEAU)
"""Outcomes whose final loss is averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The first non-finite step: 1-based; `kind` nan or inf; `where` activation, loss, grad, param or validation.

    `tensor` names the first bad tensor (forward order; backward order for gradients), `layer` its block
    counted from 1 (0: the embedding, depth + 1: final norm and head).
    """

    step: int
    kind: str
    where: str
    tensor: str
    layer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveRow:
    """One update: the rate it used, the loss and gradient norm before it; `val_loss` after it, where evaluated.

    Row 0 holds the validation loss before training. NaN stands for "not measured" in every field but `val_loss`
    and `train_loss`, where None does, since NaN can be their result.
    """

    step: int
    lr: float | None
    train_loss: float | None
    grad_norm: float | None
    val_loss: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRow:
    """A measurement inside the network: `layer` as in Death; `part` stream, mixer, ffn, …; `quantity` rms, grad_norm."""

    step: int
    layer: int
    part: str
    quantity: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The reference losses of a task, all over the same validation targets, in nats."""

    floor: float
    guess: float
    bigram: float

    def learned_fraction(self, loss: float) -> float:
        """(guess - loss) / (guess - floor): 0 nothing, 1 all there is. Not clipped; -inf for a non-finite loss."""
        if not math.isfinite(loss):
            return -math.inf
        return (self.guess - loss) / (self.guess - self.floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What a training measured, in plain numbers. `seconds` by part: data, steps, eval, replay."""

    steps_done: int
    losses: Losses
    curve: Sequence[CurveRow]
    layers: Sequence[SignalRow]
    death: Death | None
    death_layers: Sequence[SignalRow]
    parameters: int
    seconds: dict[str, float]
    environment: dict[str, str | int]

    @property
    def evaluations(self) -> list[tuple[int, float]]:
        """(step, validation loss) of each evaluation."""
        return [(row.step, row.val_loss) for row in self.curve if row.val_loss is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome, the rule that decided it with its numbers, and the trend (falling, flat, rising; None if unknown)."""

    outcome: Outcome
    rule: str
    trend: str | None
    thresholds: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Config and status; training and verdict of a done run; the error text of any other."""

    config: RunConfig
    status: Status
    training: Training | None = None
    verdict: Verdict | None = None
    error: str | None = None
    seconds: float = 0.0
    log: str = ""
    numerics: int = NUMERICS
    reused_from: str | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        return self.config.run_id

    @property
    def stale(self) -> bool:
        """Made by a program whose numbers differ from today's."""
        return self.numerics < NUMERICS
