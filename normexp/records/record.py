"""RunRecord: everything known about a run whose process has ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum

from normexp.config.run import RunConfig
from normexp.records.execution_path import ExecutionPath
from normexp.records.numerics import numerics

STEP, PLAIN = "step", "plain"
"""The environment entry that names the execution path, and its word for autograd. Older runs lack the entry; they used
the tape."""
COMPARED = (
    "normexp", "torch", "numpy", "cpu_capability", "torch_threads", STEP, "compiler", "compiler_flags", "processor",
)  # fmt: skip
"""Environment entries that must agree for losses to be comparable bit by bit."""
CURRENT = -1
"""Placeholder for the numerics of this version of the program."""


def step_word(path: ExecutionPath) -> str:
    """Return the word for a path in an environment."""
    return PLAIN if path is ExecutionPath.AUTOGRAD else str(path)


def path_of(environment: Mapping[str, str | int]) -> ExecutionPath:
    """Return the execution path named in an environment."""
    word = environment.get(STEP)
    return next((path for path in ExecutionPath if step_word(path) == word), ExecutionPath.TAPE)


class Status(StrEnum):
    """How the process of a run ended. A run without a record is pending."""

    DONE = "done"
    FAILED = "failed"
    KILLED = "killed"
    TIMEOUT = "timeout"


FAILED = (Status.FAILED, Status.KILLED, Status.TIMEOUT)
"""Statuses without a result. Such runs are not repeated unless the user asks for it."""


class Outcome(StrEnum):
    """How the training of a done run ended. Every outcome is a result, not a failure."""

    LEARNED = "learned"
    PLATEAU = "plateau"
    UNSETTLED = "unsettled"
    DIVERGED = "diverged"
    NONFINITE = "nonfinite"


SURVIVED = (Outcome.LEARNED, Outcome.PLATEAU)
"""Outcomes whose final losses are averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The first step with a non-finite value, counted from 1; `kind` is nan or inf.

    `where` is activation, loss, grad, param, optimizer (a second moment of Adam) or validation. `tensor` names the
    first non-finite tensor, in forward order, or backward order for gradients. `layer` is its block, counted from 1
    (0: the embedding, depth + 1: final norm and LM head).
    """

    step: int
    kind: str
    where: str
    tensor: str
    layer: int

    @property
    def fault(self) -> str:
        """The fault in words, such as `nan in loss`."""
        return f"{self.kind} in {self.where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveRow:
    """One update: its learning rate, the training loss and gradient norm before it, the validation loss after it.

    Row 0 holds the validation loss before training. None means not measured; NaN and Inf are results.
    """

    step: int
    lr: float | None
    train_loss: float | None
    grad_norm: float | None
    val_loss: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRow:
    """A measurement inside the network; `layer` is counted as in Death.

    Parts and their quantities: stream rms; mixer and ffn rms and grad_norm; for attention, attention_entropy (nats) and
    max_logit; for logits, with a norm that sees other tokens, leak, train_mode_loss and eval_mode_loss.
    `normexp.training.inspection` has more.
    """

    step: int
    layer: int
    part: str
    quantity: str
    value: float


def sizes_by_step(rows: Iterable[SignalRow], part: str, quantity: str) -> dict[int, dict[int, float]]:
    """Return one quantity of one part as a mapping from step to layer to value."""
    values: dict[int, dict[int, float]] = {}
    for row in rows:
        if (row.part, row.quantity) == (part, quantity):
            values.setdefault(row.step, {})[row.layer] = row.value
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The reference losses of a task in nats, over the validation targets: entropy floor, unigram and bigram loss."""

    floor: float
    guess: float
    bigram: float

    def learned_fraction(self, loss: float) -> float:
        """Return (guess - loss) / (guess - floor), the share of the learnable gap that a loss closes.

        It is not clipped, so it may be negative; it is -inf for a non-finite loss.
        """
        if not math.isfinite(loss):
            return -math.inf
        return (self.guess - loss) / (self.guess - self.floor)

    def agrees(self, other: Losses) -> bool:
        """Return whether both belong to the same task, up to rounding."""
        return all(math.isclose(getattr(self, name), getattr(other, name), rel_tol=1e-6) for name in REFERENCES)


REFERENCES = tuple(field.name for field in fields(Losses))
"""Names of the reference losses, also used in tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a training run; losses in nats over the validation targets.

    `final_val_loss` is that of the last step, or None if the run became non-finite before it. `best_val_loss` is the
    lowest finite one, or None. `peak_lr` is the highest learning rate that an update used.
    """

    steps_done: int
    losses: Losses
    init_val_loss: float
    best_val_loss: float | None
    final_val_loss: float | None
    peak_lr: float
    parameters: int
    death: Death | None = None

    @property
    def learned_fraction(self) -> float:
        """The learned fraction of the final validation loss; -inf for a run that became non-finite."""
        final = math.inf if self.death is not None or self.final_val_loss is None else self.final_val_loss
        return self.losses.learned_fraction(final)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What a training run recorded step by step: the large part of a record, stored in separate files."""

    curve: Sequence[CurveRow]
    layers: Sequence[SignalRow] = ()
    death_layers: Sequence[SignalRow] = ()

    @property
    def evaluations(self) -> list[tuple[int, float]]:
        """The (step, validation loss) pairs of all evaluations."""
        return [(row.step, row.val_loss) for row in self.curve if row.val_loss is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome, the rule that decided it, and the trend of the loss (falling, flat, rising; None if unknown)."""

    outcome: Outcome
    rule: str
    trend: str | None
    thresholds: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The config and status of a run, with result and verdict if it is done, else with the error text.

    `traces` and `log` are None if the record was read without them. `weights`, the bytes of a safetensors file, are
    only present on the way from a worker to the store. `seconds` (by part: data, steps, eval, replay, total) and
    `environment` (versions, threads, processor) describe how the numbers were computed.
    """

    config: RunConfig
    status: Status
    result: Result | None = None
    verdict: Verdict | None = None
    traces: Traces | None = None
    error: str | None = None
    log: str | None = None
    weights: bytes | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, str | int] = field(default_factory=dict)
    numerics: int = CURRENT
    reused_from: str | None = None

    def __post_init__(self) -> None:
        if self.numerics == CURRENT:
            object.__setattr__(self, "numerics", numerics(self.config))

    @property
    def run_id(self) -> str:
        """The run id of the config."""
        return self.config.run_id

    @property
    def result_word(self) -> str:
        """The outcome of a done run, or the status of any other."""
        return str(self.status if self.verdict is None else self.verdict.outcome)

    @property
    def usable(self) -> bool:
        """Whether the run has a result, computed with the current numerics."""
        return self.status is Status.DONE and not self.outdated

    @property
    def by_autograd(self) -> bool:
        """Whether autograd computed every step."""
        return self.environment.get(STEP) == PLAIN

    @property
    def path(self) -> ExecutionPath:
        """The path that computed every step."""
        return path_of(self.environment)

    @property
    def repeated_by(self) -> ExecutionPath | None:
        """The path to request to repeat the run, or None for the default, which prefers compiled kernels."""
        return None if self.path is ExecutionPath.COMPILED else self.path

    @property
    def made_with(self) -> Mapping[str, str | int]:
        """The environment, with the execution path always included."""
        return {**self.environment, STEP: step_word(self.path)} if self.environment else {}

    @property
    def outdated(self) -> bool:
        """Whether a later change of the program altered the numbers of this run."""
        return self.numerics < numerics(self.config)
