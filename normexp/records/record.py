"""RunRecord: what is known of one run once its process has ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum

from normexp.config.run import RunConfig
from normexp.records.execution_path import ExecutionPath
from normexp.records.numerics import numerics

STEP, PLAIN = "step", "plain"
"""The entry of an environment that names the path of every step; `plain` is autograd. Older runs without the entry
were made by the tape."""
COMPARED = (
    "normexp", "torch", "numpy", "cpu_capability", "torch_threads", STEP, "compiler", "compiler_flags", "processor",
)  # fmt: skip
"""What of a run's environment must agree for losses to be comparable bit by bit."""
TODAY = -1
"""As the numerics of a record: those of this program."""


def step_word(path: ExecutionPath) -> str:
    """A path as an environment has it."""
    return PLAIN if path is ExecutionPath.AUTOGRAD else str(path)


def path_of(environment: Mapping[str, str | int]) -> ExecutionPath:
    """The path that an environment tells."""
    word = environment.get(STEP)
    return next((path for path in ExecutionPath if step_word(path) == word), ExecutionPath.TAPE)


class Status(StrEnum):
    """What happened to the process. A run without a record is pending."""

    DONE = "done"
    FAILED = "failed"
    KILLED = "killed"
    TIMEOUT = "timeout"


FAILED = (Status.FAILED, Status.KILLED, Status.TIMEOUT)
"""Of runs that came to no result, and are not made again unless asked for."""


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
    """The first non-finite step: 1-based; `kind` nan or inf.

    `where` is activation, loss, grad, param, optimizer (a second moment of Adam) or validation.
    `tensor` names the first bad tensor (forward order; backward order for gradients), `layer` its block
    counted from 1 (0: the embedding, depth + 1: final norm and head).
    """

    step: int
    kind: str
    where: str
    tensor: str
    layer: int

    @property
    def fault(self) -> str:
        """`nan in loss`."""
        return f"{self.kind} in {self.where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveRow:
    """One update: the rate it used, the loss and gradient norm before it; `val_loss` after it, where evaluated.

    Row 0 holds the validation loss before training. None is "not measured"; NaN and Inf are results.
    """

    step: int
    lr: float | None
    train_loss: float | None
    grad_norm: float | None
    val_loss: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRow:
    """A measurement inside the network: `layer` as in Death.

    Parts and their quantities: stream rms; mixer and ffn rms and grad_norm; a mixer that attends attention_entropy
    (nats) and max_logit; logits, where a norm looks at other tokens, leak, train_mode_loss and eval_mode_loss.
    `normexp.training.inspection` has more.
    """

    step: int
    layer: int
    part: str
    quantity: str
    value: float


def sizes_by_step(rows: Iterable[SignalRow], part: str, quantity: str) -> dict[int, dict[int, float]]:
    """Step to layer to value, of one quantity of one part."""
    found: dict[int, dict[int, float]] = {}
    for row in rows:
        if (row.part, row.quantity) == (part, quantity):
            found.setdefault(row.step, {})[row.layer] = row.value
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The reference losses of a task, all over the same validation targets, in nats."""

    floor: float
    guess: float
    bigram: float

    def learned_fraction(self, loss: float) -> float:
        """(guess - loss) / (guess - floor): 0 nothing, 1 all there is. Never clipped; -inf for a non-finite loss.

        The only definition: who draws it may clip what is drawn.
        """
        if not math.isfinite(loss):
            return -math.inf
        return (self.guess - loss) / (self.guess - self.floor)

    def agrees(self, other: Losses) -> bool:
        """Whether both are those of one task, up to rounding."""
        return all(math.isclose(getattr(self, name), getattr(other, name), rel_tol=1e-6) for name in REFERENCES)


REFERENCES = tuple(field.name for field in fields(Losses))
"""Names of the reference losses, in tables too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a training came to, in plain numbers; losses in nats over the validation targets.

    `final_val_loss` is that of the last step, None where a run died before it; `best_val_loss` is the lowest finite
    one, None if there is none. `peak_lr` is the highest rate that an update used.
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
        """That of the final validation loss; -inf for a run that died, whose loss counts as infinite."""
        final = math.inf if self.death is not None or self.final_val_loss is None else self.final_val_loss
        return self.losses.learned_fraction(final)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What a training left step by step: the long part of a record, kept in files of its own."""

    curve: Sequence[CurveRow]
    layers: Sequence[SignalRow] = ()
    death_layers: Sequence[SignalRow] = ()

    @property
    def evaluations(self) -> list[tuple[int, float]]:
        """(step, validation loss) of each evaluation."""
        return [(row.step, row.val_loss) for row in self.curve if row.val_loss is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome, the rule that decided it with its numbers, and the trend (falling, flat, rising; None: unknown)."""

    outcome: Outcome
    rule: str
    trend: str | None
    thresholds: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Config and status; result and verdict of a done run; the error text of any other.

    `traces` and `log` are None where the record was read without them; `weights`, the bytes of a safetensors file, are
    there only on their way from a worker to the store. `seconds` by part (data, steps, eval, replay,
    total) and `environment` (versions, threads, processor) say how the numbers were made, not what they are.
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
    numerics: int = TODAY
    reused_from: str | None = None

    def __post_init__(self) -> None:
        if self.numerics == TODAY:
            object.__setattr__(self, "numerics", numerics(self.config))

    @property
    def run_id(self) -> str:
        """The id of the config."""
        return self.config.run_id

    @property
    def result_word(self) -> str:
        """The outcome of a done run, the status of any other."""
        return str(self.status if self.verdict is None else self.verdict.outcome)

    @property
    def usable(self) -> bool:
        """Whether it came to a result, by a program with the numerics of today."""
        return self.status is Status.DONE and not self.outdated

    @property
    def by_autograd(self) -> bool:
        """Whether autograd made every step."""
        return self.environment.get(STEP) == PLAIN

    @property
    def path(self) -> ExecutionPath:
        """The path that made every step."""
        return path_of(self.environment)

    @property
    def repeated_by(self) -> ExecutionPath | None:
        """The path that makes the run again: the same one, or None for the fastest, which compiled kernels are."""
        return None if self.path is ExecutionPath.COMPILED else self.path

    @property
    def made_with(self) -> Mapping[str, str | int]:
        """The environment, in which the path is always told."""
        return {**self.environment, STEP: step_word(self.path)} if self.environment else {}

    @property
    def outdated(self) -> bool:
        """Made by a program whose numbers differ from today's."""
        return self.numerics < numerics(self.config)
