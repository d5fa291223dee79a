"""Next-token tasks with a known best loss: batches, the validation set and reference losses.

Axes: n sequences, t positions, v vocabulary. All losses are in nats, over targets whose whole context is visible.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from normexp.config.feasibility import BATCHES_PER_BLOCK
from normexp.config.run import RunConfig
from normexp.data.sources import SOURCES, Probabilities, Tokens
from normexp.data.streams import stream
from normexp.records.record import REFERENCES, Losses

VALIDATION_SEQUENCES = 512
REFERENCE_TOKENS = 2**18
"""Tokens, separate from training and validation, used to estimate the unigram and bigram predictions."""
MIN_GAP = 0.05
"""Minimum learnable gap (unigram loss minus entropy floor) of a task, in nats."""

TaskName = tuple[str | int | float, ...]
"""Everything that a task's source, noise, validation set and reference losses depend on."""
_known: dict[TaskName, Losses] = {}


def remember(losses: Mapping[TaskName, Losses]) -> None:
    """Reuse known reference losses in this process: estimating them can take longer than a short run."""
    _known.clear()
    _known.update(losses)


@dataclass(frozen=True, slots=True)
class Batch:
    """Input sequences (n, t) and the token to predict at each position (n, t)."""

    inputs_nt: Tokens
    targets_nt: Tokens


class Task:
    """A source with label noise, and its validation set, reference losses and training batches."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.source = SOURCES[config.task](config)
        source = (config.task, config.vocab, config.order, config.sharpness, config.task_seed)
        self.name: TaskName = ("task", *source, config.label_noise, config.seq_len)

    @property
    def first(self) -> int:
        """The first position whose target's whole context is visible. Losses are means from this position on."""
        return self.source.first

    def _draw(self, random: np.random.Generator, n: int) -> Batch:
        tokens = self.source.sample(random, n, self.config.seq_len + 1)
        targets = tokens[:, 1:]
        if self.config.label_noise > 0:
            noisy = random.random(targets.shape) < self.config.label_noise
            targets = np.where(noisy, random.integers(0, self.config.vocab, targets.shape), targets)
        return Batch(tokens[:, :-1], targets)

    @cached_property
    def validation(self) -> Batch:
        """The validation set, the same for every run of the task."""
        return self._draw(stream(*self.name, "validation"), VALIDATION_SEQUENCES)

    def batches(self, seed: int, size: int) -> Iterator[Batch]:
        """Yield training batches 1, 2, … without end. Batch k depends only on task, seed, size and k."""
        for block in itertools.count():
            drawn = self._draw(stream(*self.name, "train", seed, size, block), BATCHES_PER_BLOCK * size)
            for start in range(0, len(drawn.inputs_nt), size):
                rows = slice(start, start + size)
                yield Batch(drawn.inputs_nt[rows], drawn.targets_nt[rows])

    def predictions(self, inputs_nt: Tokens) -> Probabilities:
        """Return the best predictions at each position from `first` on, with label noise: (n, t - first, v)."""
        return self._noisy(self.source.predictions(inputs_nt))

    @cached_property
    def losses(self) -> Losses:
        """The entropy floor, unigram loss and bigram loss, all on the targets of the validation set."""
        return _known.get(self.name) or self._estimate()

    def _estimate(self) -> Losses:
        inputs, targets = self.validation.inputs_nt, self.validation.targets_nt[:, self.first :]
        per_sequence = self.config.seq_len - self.first
        others = self.source.sample(
            stream(*self.name, "reference"), -(-REFERENCE_TOKENS // per_sequence), self.config.seq_len
        )
        joint_pv = self.source.pairs(others)
        marginal_v = joint_pv.sum(axis=0) / joint_pv.sum()
        seen = joint_pv.sum(axis=1, keepdims=True)
        bigram_pv = np.where(seen > 0, joint_pv / np.maximum(seen, 1), marginal_v)
        return Losses(
            floor=_cross_entropy(self._noisy(self.source.likelihood(inputs, targets))),
            guess=_cross_entropy(self._noisy(marginal_v[targets])),
            bigram=_cross_entropy(self._noisy(bigram_pv[inputs[:, self.first :], targets])),
        )

    def check(self) -> Losses:
        """Return the reference losses. Raises ValueError if one is infinite or the learnable gap is too small."""
        losses = self.losses
        if infinite := [name for name in REFERENCES if not math.isfinite(getattr(losses, name))]:
            raise ValueError(
                f"the {' and '.join(infinite)} loss of the task is infinite, because the validation set has "
                "transitions that the reference sample lacks: "
                f"lower sharpness ({self.config.sharpness:g}), or set label_noise above 0"
            )
        if losses.guess - losses.floor < MIN_GAP:
            raise ValueError(
                f"the task has nothing to learn: its entropy floor is {losses.floor:.3f} and its unigram loss "
                f"{losses.guess:.3f} nats, which differ by less than {MIN_GAP}: raise sharpness or lower label_noise"
            )
        return losses

    def _noisy(self, probabilities: Probabilities) -> Probabilities:
        noise = self.config.label_noise
        return (1 - noise) * probabilities + noise / self.config.vocab


def _cross_entropy(probabilities: Probabilities) -> float:
    with np.errstate(divide="ignore"):  # log(0) gives an infinite loss, which `Task.check` rejects
        return float(-np.log(probabilities).mean())
