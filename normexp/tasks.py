"""Next-token tasks whose best possible loss is known: seeded sources, and what they cost a perfect and a poor reader.

Axes: n sequences, t positions, v vocabulary. All losses are in nats, over targets whose whole context is in view.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from normexp.record import Losses
from normexp.run import RunConfig
from normexp.streams import stream

VALIDATION_SEQUENCES = 512
REFERENCE_TOKENS = 2**18
"""Tokens, apart from training and validation, on which the context-free and one-token predictions are estimated."""
BATCHES_A_BLOCK = 64
MIN_GAP = 0.05
"""Smallest guess - floor of a task from which anything can be read, in nats."""

Tokens = NDArray[np.int64]
Probabilities = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences to read (n, t) and the token to predict at each position (n, t)."""

    inputs_nt: Tokens
    targets_nt: Tokens


@dataclass(frozen=True)
class Markov:
    """p(x_t) ~ exp(sum_j A_j[x_{t-j}] * sharpness / sqrt(order)), A_j standard normal; the first tokens are uniform."""

    vocab: int
    order: int
    sharpness: float
    seed: int

    @cached_property
    def next_cv(self) -> Probabilities:
        """Probability of each next token after each context c; the latest token is the last base-v digit of c."""
        logits = np.zeros((1, self.vocab))
        for lag in range(self.order, 0, -1):
            table = stream("markov", self.seed, self.vocab, lag).standard_normal((self.vocab, self.vocab))
            logits = (logits[:, None, :] + table[None, :, :]).reshape(-1, self.vocab)
        logits *= self.sharpness / math.sqrt(self.order)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: Probabilities = weights / weights.sum(axis=1, keepdims=True)
        return probabilities

    @cached_property
    def _steps(self) -> Probabilities:
        """Cumulative probabilities of all contexts end to end, context c in [c, c + 1]: one search serves all."""
        cumulative = np.cumsum(self.next_cv, axis=1)
        cumulative[:, -1] = 1.0
        return (np.arange(len(cumulative))[:, None] + cumulative).ravel()

    def sample(self, random: np.random.Generator, n: int, t: int) -> Tokens:
        """n sequences of t tokens."""
        uniform_tn = random.random((t, n))
        tokens_tn = np.empty((t, n), dtype=np.int64)
        tokens_tn[: self.order] = uniform_tn[: self.order] * self.vocab
        for at in range(self.order, t):
            context = self.contexts(tokens_tn[at - self.order : at].T)[:, 0]
            found = np.searchsorted(self._steps, context + uniform_tn[at], side="right") - context * self.vocab
            tokens_tn[at] = np.clip(found, 0, self.vocab - 1)
        return np.ascontiguousarray(tokens_tn.T)

    def contexts(self, tokens_nt: Tokens) -> Tokens:
        """Number of the context that ends at each position from order - 1 on: (n, t - order + 1)."""
        last = tokens_nt.shape[1] - self.order + 1
        number = np.zeros((len(tokens_nt), last), dtype=np.int64)
        for lag in range(self.order):
            number = number * self.vocab + tokens_nt[:, lag : lag + last]
        return number


class Task:
    """A source with its label noise, its validation set, its reference losses and its training batches."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.source = Markov(config.vocab, config.order, config.sharpness, config.task_seed)
        source = (config.task, config.vocab, config.order, config.sharpness, config.task_seed)
        self.name = ("task", *source, config.label_noise, config.seq_len)

    @property
    def first(self) -> int:
        """The first position whose target has its whole context in view; losses are means from here on."""
        return self.config.order - 1

    def _draw(self, random: np.random.Generator, n: int) -> Batch:
        tokens = self.source.sample(random, n, self.config.seq_len + 1)
        targets = tokens[:, 1:]
        if self.config.label_noise > 0:
            noisy = random.random(targets.shape) < self.config.label_noise
            targets = np.where(noisy, random.integers(0, self.config.vocab, targets.shape), targets)
        return Batch(tokens[:, :-1], targets)

    @cached_property
    def validation(self) -> Batch:
        """The same sequences for every run of the task."""
        return self._draw(stream(*self.name, "validation"), VALIDATION_SEQUENCES)

    def batches(self, seed: int, size: int) -> Iterator[Batch]:
        """Training batches 1, 2, … without end: batch k depends on task, seed, size and k alone."""
        for block in itertools.count():
            drawn = self._draw(stream(*self.name, "train", seed, size, block), BATCHES_A_BLOCK * size)
            for start in range(0, len(drawn.inputs_nt), size):
                rows = slice(start, start + size)
                yield Batch(drawn.inputs_nt[rows], drawn.targets_nt[rows])

    def predictions(self, inputs_nt: Tokens) -> Probabilities:
        """What a perfect reader predicts at each position from `first` on: (n, t - first, v), label noise included."""
        return self._noisy(self.source.next_cv[self.source.contexts(inputs_nt)])

    @cached_property
    def losses(self) -> Losses:
        """Floor, guess and bigram, all on the targets of the validation set."""
        vocab, targets = self.config.vocab, self.validation.targets_nt[:, self.first :]
        contexts = self.source.contexts(self.validation.inputs_nt)
        per_sequence = self.config.seq_len - self.first
        others = self.source.sample(
            stream(*self.name, "reference"), -(-REFERENCE_TOKENS // per_sequence), self.config.seq_len
        )
        count_c = np.bincount(self.source.contexts(others).ravel(), minlength=len(self.source.next_cv))
        joint_pv = (count_c[:, None] * self.source.next_cv).reshape(-1, vocab, vocab).sum(axis=0)
        marginal_v = joint_pv.sum(axis=0) / joint_pv.sum()
        seen = joint_pv.sum(axis=1, keepdims=True)
        bigram_pv = np.where(seen > 0, joint_pv / np.maximum(seen, 1), marginal_v)
        return Losses(
            floor=_cross_entropy(self._noisy(self.source.next_cv[contexts, targets])),
            guess=_cross_entropy(self._noisy(marginal_v[targets])),
            bigram=_cross_entropy(self._noisy(bigram_pv[contexts % vocab, targets])),
        )

    def check(self) -> None:
        """Raise ValueError where the task has nothing to learn."""
        losses = self.losses
        if losses.guess - losses.floor < MIN_GAP:
            raise ValueError(
                f"the task has nothing to learn: its best loss is {losses.floor:.3f}, a context-free guess has "
                f"{losses.guess:.3f}, and they must differ by {MIN_GAP}: raise sharpness or lower label_noise"
            )

    def _noisy(self, probabilities: Probabilities) -> Probabilities:
        noise = self.config.label_noise
        return (1 - noise) * probabilities + noise / self.config.vocab


def _cross_entropy(probabilities: Probabilities) -> float:
    return float(-np.log(probabilities).mean())
