"""A program beside autograd on the same numbers, with a tape that shows whoever reads what is no longer there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from normexp.config.run import RunConfig
from normexp.data.streams import stream
from normexp.data.tasks import Batch
from normexp.model.network import Network, build
from normexp.training.paths.compiled.table import Table
from normexp.training.paths.program import Program
from normexp.training.paths.tape import Arena, Tape
from normexp.training.trainer import kept_state

FLOAT32_TOLERANCE = 1e-5
"""Of the largest gradient. A rounding is 6e-8 of a number; a gradient here is a sum of some dozen products, through
some dozen operations, which both ways take in other orders: some dozen roundings, and room for numbers that cancel."""
FLOAT64_TOLERANCE = 1e-12
"""Of the largest gradient: the same number of roundings, each of 1e-16, and more room. No fault of a formula hides."""


class _Poison(Tape):
    """Fills a buffer with NaN when it is taken, and once nobody holds it: who reads it then has NaN in the result."""

    def take(self, *shape: int) -> Tensor:
        buffer = super().take(*shape)
        self.call(buffer.fill_, math.nan)
        return buffer

    def put(self, buffer: Tensor) -> None:
        held = buffer in self._holders
        super().put(buffer)
        if held and buffer not in self._holders:
            self.call(buffer.fill_, math.nan)


class Poisoned(_Poison):
    """A tape of ATen calls."""


class PoisonedTable(_Poison, Table):
    """A table of compiled kernels."""


@contextmanager
def poisoned() -> Iterator[None]:
    """Programs have a poisoned tape, or table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("normexp.training.paths.program.Tape", Poisoned)
        patch.setattr("normexp.training.paths.compiled.program.Table", PoisonedTable)
        yield


@contextmanager
def in_float64() -> Iterator[None]:
    """Networks and programs that are made here compute in float64."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Arena, "zeros", lambda arena, *shape: torch.zeros(shape))
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(torch.float32)


def small(**keys: Any) -> RunConfig:
    """Two layers."""
    tiny = {"depth": 2, "width": 8, "hidden": 12, "heads": 2, "vocab": 7, "seq_len": 5, "batch": 3, "order": 1}
    return RunConfig(**{**tiny, **keys})


def network_of(run: RunConfig) -> Network:
    """A network with random numbers in every parameter, and a gradient at hand for each."""
    network = build(run)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    for parameter in network.parameters():
        parameter.grad = torch.full_like(parameter, math.nan)
    return network


def batch_of(run: RunConfig, number: int = 0) -> Batch:
    """Random tokens and targets."""
    random = stream("batch", number)
    return Batch(*(random.integers(0, run.vocab, (run.batch, run.seq_len)) for _ in range(2)))


def by_autograd(network: Network, batch: Batch, first: int) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients by name."""
    logits_btv = network(torch.from_numpy(batch.inputs_nt))[:, first:]
    loss = functional.cross_entropy(logits_btv.flatten(0, 1), torch.from_numpy(batch.targets_nt)[:, first:].flatten())
    learned = {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}
    grads = torch.autograd.grad(loss, list(learned.values()), materialize_grads=True)
    return loss.item(), dict(zip(learned, grads, strict=True))


def check(run: RunConfig, tolerance: float, first: int = 1, make: type[Program] = Program) -> None:
    """Loss, gradients and running statistics agree on two batches in a row, the second in the buffers of the first."""
    network = network_of(run)
    learned = {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}
    program = make(network, run.batch, run.seq_len, first)
    for number in range(2):
        batch = batch_of(run, number)
        with kept_state(network):
            wanted, grads = by_autograd(network, batch, first)
            statistics = [buffer.clone() for buffer in network.buffers()]
        assert program(batch) == pytest.approx(wanted, rel=tolerance)
        largest = max(float(grad.abs().max()) for grad in grads.values())
        errors = {name: float((learned[name].grad - grad).abs().max()) / largest for name, grad in grads.items()}
        assert not {name: error for name, error in errors.items() if not error <= tolerance}
        for one, other in zip(network.buffers(), statistics, strict=True):
            assert torch.allclose(one, other, rtol=tolerance, atol=tolerance)
