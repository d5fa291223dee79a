"""Seeded sources of tokens whose next-token probabilities are known: the words of the key `task`.

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
    """What a task needs to know of its source."""

    @property
    def first(self) -> int:
        """The first position, from 0, whose next token has its whole context in view."""

    def sample(self, random: np.random.Generator, n: int, t: int) -> Tokens:
        """n sequences of t tokens."""

    def predictions(self, tokens_nt: Tokens) -> Probabilities:
        """Probability of each next token at each position from `first` on: (n, t - first, v)."""

    def likelihood(self, tokens_nt: Tokens, next_nt: Tokens) -> Probabilities:
        """Probability of these next tokens, one for each position from `first` on: (n, t - first)."""

    def pairs(self, tokens_nt: Tokens) -> Probabilities:
        """Expected number of each (latest, next) pair over the positions from `first` on: (v, v)."""


@dataclass(frozen=True)
class TableSource(ABC):
    """p(x_t) ~ exp(logits[the latest `order` tokens] * sharpness / sqrt(order)); the first `order` tokens are uniform.

    The number of a context has its tokens as digits to the base v, the latest last.
    """

    vocab: int
    order: int
    sharpness: float
    seed: int

    @classmethod
    def of(cls, config: RunConfig) -> Source:
        """The source of a run."""
        return cls(config.vocab, config.order, config.sharpness, config.task_seed)

    @abstractmethod
    def logits_cv(self) -> Probabilities:
        """Logits of the next token after each context, before the common factor: order of them, each of variance 1."""

    @property
    def first(self) -> int:
        return self.order - 1

    @cached_property
    def next_cv(self) -> Probabilities:
        """Probability of each next token after each context."""
        logits = self.logits_cv()
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

    def predictions(self, tokens_nt: Tokens) -> Probabilities:
        return self.next_cv[self.contexts(tokens_nt)]

    def likelihood(self, tokens_nt: Tokens, next_nt: Tokens) -> Probabilities:
        return self.next_cv[self.contexts(tokens_nt), next_nt]

    def pairs(self, tokens_nt: Tokens) -> Probabilities:
        count_c = np.bincount(self.contexts(tokens_nt).ravel(), minlength=len(self.next_cv))
        pairs_pv: Probabilities = (count_c[:, None] * self.next_cv).reshape(-1, self.vocab, self.vocab).sum(axis=0)
        return pairs_pv


class Markov(TableSource):
    """Logits sum_j A_j[x_{t-j}] over the lags j = 1 … order, all A_j standard normal: what counts adds up."""

    def logits_cv(self) -> Probabilities:
        logits = np.zeros((1, self.vocab))
        for lag in range(self.order, 0, -1):
            table = stream("markov", self.seed, self.vocab, lag).standard_normal((self.vocab, self.vocab))
            logits = (logits[:, None, :] + table[None, :, :]).reshape(-1, self.vocab)
        return logits


class Lookups(TableSource):
    """Logits sum_j A_j[z_j] over j = 1 … order, z_1 = x_{t-1} and z_j = T_j[z_{j-1}, x_{t-j}]: a chain of tables.

    The A_j are standard normal; each row of each T_j is a random permutation of the tokens, so that z_{j-1} alone tells
    nothing about z_j. With order 1 it is a Markov source.
    """

    def logits_cv(self) -> Probabilities:
        z_c = np.arange(self.vocab)
        logits = np.zeros((self.vocab, self.vocab))
        for lag in range(1, self.order + 1):
            random = stream("lookups", self.seed, self.vocab, lag)
            readout_zv = random.standard_normal((self.vocab, self.vocab))
            if lag > 1:
                table_zx = random.permuted(np.tile(np.arange(self.vocab), (self.vocab, 1)), axis=1)
                z_c = table_zx[z_c].T.ravel()  # one more token, before all others: the first digit
                logits = np.tile(logits, (self.vocab, 1))
            logits += readout_zv[z_c]
        return logits


SOURCES: Mapping[str, Callable[[RunConfig], Source]] = MappingProxyType({"markov": Markov.of, "lookups": Lookups.of})
"""Word of the key `task` to what makes its source."""
