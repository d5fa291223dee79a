"""Random sources of tokens with known next-token probabilities: the values of the key `task`.

Axes: n sequences, t positions, v vocabulary, c contexts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from normexp.data.streams import stream

if TYPE_CHECKING:
    from normexp.config.run import RunConfig

Tokens = NDArray[np.int64]
Probabilities = NDArray[np.float64]


class Source(Protocol):
    """What a task needs from its source."""

    @property
    def first(self) -> int:
        """The first position, counted from 0, at which the whole context of the next token is visible."""

    def sample(self, random: np.random.Generator, n: int, t: int) -> Tokens:
        """Return n sequences of t tokens."""

    def predictions(self, tokens_nt: Tokens) -> Probabilities:
        """Return the probability of each next token at each position from `first` on: (n, t - first, v)."""

    def likelihood(self, tokens_nt: Tokens, next_nt: Tokens) -> Probabilities:
        """Return the probability of the given next token at each position from `first` on: (n, t - first)."""

    def pairs(self, tokens_nt: Tokens) -> Probabilities:
        """Return the expected count of each (current, next) pair over the positions from `first` on: (v, v)."""


@dataclass(frozen=True)
class TableSource(ABC):
    """p(x_t) ~ exp(logits[last `order` tokens] * sharpness / sqrt(order)); the first `order` tokens are uniform.

    The index of a context is its tokens as digits in base v, the last token as the last digit.
    """

    vocab: int
    order: int
    sharpness: float
    seed: int

    @classmethod
    def of(cls, config: RunConfig) -> Source:
        """Return the source of a run."""
        return cls(config.vocab, config.order, config.sharpness, config.task_seed)

    @abstractmethod
    def logits_cv(self) -> Probabilities:
        """Return the unscaled logits of the next token after each context: sums of `order` terms of variance 1."""

    @property
    def first(self) -> int:
        return self.order - 1

    @cached_property
    def next_cv(self) -> Probabilities:
        """The probability of each next token after each context."""
        logits = self.logits_cv()
        logits *= self.sharpness / math.sqrt(self.order)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: Probabilities = weights / weights.sum(axis=1, keepdims=True)
        return probabilities

    @cached_property
    def _steps(self) -> Probabilities:
        """The cumulative probabilities of context c, shifted to [c, c + 1], so that one sorted array serves all."""
        cumulative = np.cumsum(self.next_cv, axis=1)
        cumulative[:, -1] = 1.0
        return (np.arange(len(cumulative))[:, None] + cumulative).ravel()

    def sample(self, random: np.random.Generator, n: int, t: int) -> Tokens:
        uniform_tn = random.random((t, n))
        tokens_tn = np.empty((t, n), dtype=np.int64)
        tokens_tn[: self.order] = uniform_tn[: self.order] * self.vocab
        for position in range(self.order, t):
            context = self.contexts(tokens_tn[position - self.order : position].T)[:, 0]
            index = np.searchsorted(self._steps, context + uniform_tn[position], side="right")
            tokens_tn[position] = np.clip(index - context * self.vocab, 0, self.vocab - 1)
        return np.ascontiguousarray(tokens_tn.T)

    def contexts(self, tokens_nt: Tokens) -> Tokens:
        """Return the index of the context that ends at each position from order - 1 on: (n, t - order + 1)."""
        last = tokens_nt.shape[1] - self.order + 1
        number = np.zeros((len(tokens_nt), last), dtype=np.int64)
        for lag in range(self.order):
            number = number * self.vocab + tokens_nt[:, lag : lag + last]
        return number

    def predictions(self, tokens_nt: Tokens) -> Probabilities:
        return self.next_cv[self.contexts(tokens_nt)]

    def likelihood(self, tokens_nt: Tokens, next_nt: Tokens) -> Probabilities:
        return self.next_cv[self.contexts(tokens_nt), next_nt]

    def pairs(self, tokens_nt: Tokens) -> Probabilities:
        count_c = np.bincount(self.contexts(tokens_nt).ravel(), minlength=len(self.next_cv))
        pairs_pv: Probabilities = (count_c[:, None] * self.next_cv).reshape(-1, self.vocab, self.vocab).sum(axis=0)
        return pairs_pv


class Markov(TableSource):
    """Logits sum_j A_j[x_{t-j}] over the lags j = 1 … order, all A_j standard normal: each token adds its logits."""

    def logits_cv(self) -> Probabilities:
        logits = np.zeros((1, self.vocab))
        for lag in range(self.order, 0, -1):
            table = stream("markov", self.seed, self.vocab, lag).standard_normal((self.vocab, self.vocab))
            logits = (logits[:, None, :] + table[None, :, :]).reshape(-1, self.vocab)
        return logits


class Lookups(TableSource):
    """Logits sum_j A_j[z_j] over j = 1 … order, z_1 = x_{t-1} and z_j = T_j[z_{j-1}, x_{t-j}]: chained table lookups.

    The A_j are standard normal. Each row of each T_j is a random permutation of the tokens, so z_{j-1} alone carries no
    information about z_j. With order 1 it is a Markov source.
    """

    def logits_cv(self) -> Probabilities:
        z_c = np.arange(self.vocab)
        logits = np.zeros((self.vocab, self.vocab))
        for lag in range(1, self.order + 1):
            random = stream("lookups", self.seed, self.vocab, lag)
            readout_zv = random.standard_normal((self.vocab, self.vocab))
            if lag > 1:
                table_zx = random.permuted(np.tile(np.arange(self.vocab), (self.vocab, 1)), axis=1)
                z_c = table_zx[z_c].T.ravel()  # the new token is the earliest of the context: the first digit
                logits = np.tile(logits, (self.vocab, 1))
            logits += readout_zv[z_c]
        return logits


SOURCES: Mapping[str, Callable[[RunConfig], Source]] = MappingProxyType({"markov": Markov.of, "lookups": Lookups.of})
"""The constructor of each source, by the value of the key `task`."""
