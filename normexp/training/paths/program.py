"""Compute loss and gradients of a batch with one tape."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from normexp.config.run import RunConfig
from normexp.data.tasks import Batch
from normexp.model.network import Network, build
from normexp.model.overflow import all_finite
from normexp.training.paths.lower import Lowering
from normexp.training.paths.tape import Tape, Value

SMALL = RunConfig(
    depth=1, width=8, hidden=8, vocab=8, heads=2, seq_len=4, order=1, batch=2, norm="ln", position="hybrid"
)
CHECKED = (
    replace(SMALL, final_norm="rms"),
    replace(SMALL, norm="none", final_norm="dyt", position="rezero", mixer="mean", activation="relu"),
    replace(SMALL, norm="none", final_norm="none", position="residual_scaled", mixer="linear"),
)
"""Small networks that together contain every node."""


class Program:
    """Computes a network's forward and backward pass, equal up to rounding, for batches of one shape.

    It reads the parameters in place and overwrites their `grad`. `first` is the position of the first target that
    counts for the loss.
    """

    def __init__(self, network: Network, batch: int, tokens: int, first: int) -> None:
        self.first = first
        self.tokens_bt = torch.zeros(batch, tokens, dtype=torch.long)
        self.targets_n1 = torch.zeros(batch * (tokens - first), 1, dtype=torch.long)
        to = self._begin(batch, tokens)
        x = self._embed(network)
        for block in network.blocks.values():
            x = to.block(block, x)  # type: ignore[arg-type]
        x = self._counted(to.module(network.final_norm, x))
        logits = to.linear(network.head, x)
        self.logits_nv = logits.keep()
        self._cross_entropy(logits)
        self.tape.finish()

    def __call__(self, batch: Batch) -> float:
        """Return the loss of the batch in nats, and set the gradients of all parameters.

        The loss is NaN if a statistic of a norm or a logit overflowed.
        """
        self._read(batch)
        self.tape.run()
        return self._checked_loss()

    def _begin(self, batch: int, tokens: int) -> Lowering:
        self.tape = Tape()
        self.loss = torch.zeros(1)
        return Lowering(self.tape, batch, tokens)

    def _read(self, batch: Batch) -> None:
        self.tokens_bt.copy_(torch.from_numpy(batch.inputs_nt))
        targets_bt = torch.from_numpy(batch.targets_nt)[:, self.first :]
        self.targets_n1.view(targets_bt.shape).copy_(targets_bt)

    def _checked_loss(self) -> float:
        """Return the loss of the last run, or NaN if a statistic or a logit overflowed, which the loss can hide."""
        if self.tape.overflowed() or not all_finite(self.logits_nv):
            return math.nan
        return self.loss.item()

    def _embed(self, network: Network) -> Value:
        tape = self.tape
        table = tape.parameter(network.embedding.weight)
        (batch, tokens), width = self.tokens_bt.shape, network.embedding.embedding_dim
        x, tokens_n = tape.value(batch * tokens, width), self.tokens_bt.view(-1)
        shape = (batch, tokens, width)
        tape.call(torch.index_select, table.data, 0, tokens_n, out=x.data)
        positions = None if network.positions is None else tape.parameter(network.positions.weight)
        if positions is not None:
            tape.call(x.data.view(shape).add_, positions.data[:tokens])

        def backward(grad_nd: Tensor) -> None:
            def into_positions(part: Tensor) -> None:
                tape.call(torch.sum, grad_nd.view(shape), 0, out=part[:tokens])
                if tokens < len(part):
                    tape.call(part[tokens:].zero_)

            def into_rows(part: Tensor) -> None:
                tape.call(part.zero_)
                tape.call(part.index_add_, 0, tokens_n, grad_nd)

            if positions is not None:
                tape.give(positions, into_positions)
            tape.give(table, into_rows)

        tape.backward(x, backward)
        return x

    def _counted(self, x: Value) -> Value:
        """Add the selection of the tokens whose targets count."""
        tape = self.tape
        batch, tokens = self.tokens_bt.shape
        width = x.data.shape[-1]
        shape = (batch, tokens, width)
        y = tape.value(self.targets_n1.shape[0], width)
        rest = (batch, tokens - self.first, width)
        tape.call(y.data.view(rest).copy_, x.data.view(shape)[:, self.first :])

        def backward(grad: Tensor) -> None:
            def spread(part: Tensor) -> None:
                tape.call(part.view(shape)[:, : self.first].zero_)
                tape.call(part.view(shape)[:, self.first :].copy_, grad.view(rest))

            tape.give(x, spread)

        tape.backward(y, backward)
        return y

    def _cross_entropy(self, logits: Value) -> None:
        """Add the mean over the targets. Its gradient is (softmax - one-hot) / n."""
        tape = self.tape
        count = logits.data.shape[0]
        logs, picked = torch.zeros_like(logits.data), torch.zeros(count, 1)
        minus = torch.full((count, 1), -1.0)
        tape.call(torch.ops.aten._log_softmax.out, logits.data, -1, False, out=logs)
        tape.call(torch.gather, logs, 1, self.targets_n1, out=picked)
        tape.call(torch.mean, picked, 0, out=self.loss)
        tape.call(self.loss.neg_)
        grad = tape.take(*logs.shape)
        tape.call(torch.exp, logs, out=grad)
        tape.call(grad.scatter_add_, 1, self.targets_n1, minus)
        tape.call(grad.mul_, 1 / count)
        logits.grad = grad


_known: bool | None = None


def settle(answer: bool) -> None:
    """Make `works` return this answer in this process and its forks."""
    global _known
    _known = answer


def works() -> bool:
    """Return whether this torch has the operators of programs, and they agree with autograd on small networks."""
    return _works() if _known is None else _known


@functools.cache
def _works() -> bool:
    try:
        return all(map(agrees, CHECKED))
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return False


def agrees(run: RunConfig, make: Callable[[Network, int, int, int], Program] = Program) -> bool:
    """Return whether loss and gradients of the run's network equal those of autograd, up to rounding."""
    network = build(run)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1)  # a learned factor of 0 would hide the gradients of everything before it
    tokens_bt = torch.arange(run.batch * run.seq_len).view(run.batch, run.seq_len) % run.vocab
    targets_bt = (3 * tokens_bt + 1) % run.vocab
    with torch.enable_grad():
        logits_btv = network(tokens_bt)[:, run.order :]
        loss = functional.cross_entropy(logits_btv.flatten(0, 1), targets_bt[:, run.order :].flatten())
        grads = torch.autograd.grad(loss, list(network.parameters()))
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    actual = make(network, run.batch, run.seq_len, run.order)(Batch(tokens_bt.numpy(), targets_bt.numpy()))
    pairs = [(parameter.grad, grad) for parameter, grad in zip(network.parameters(), grads, strict=True)]
    close = (torch.allclose(own, grad, rtol=1e-3, atol=1e-6) for own, grad in pairs if own is not None)
    return abs(actual - loss.item()) < 1e-4 and all(close)
