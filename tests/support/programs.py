"""Compare programs with autograd, on tapes that reveal reads of released buffers."""

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
from normexp.training.paths.compiled.program import CompiledProgram
from normexp.training.paths.compiled.table import Table
from normexp.training.paths.program import Program
from normexp.training.paths.tape import Arena, Tape
from normexp.training.trainer import kept_state

FLOAT32_TOLERANCE = 1e-5
"""Relative to the largest gradient. A rounding is 6e-8 of a number. A gradient here is a sum of some dozen products,
through some dozen operations in different orders: some dozen roundings, with room for cancellation."""
FLOAT64_TOLERANCE = 1e-12
"""Relative to the largest gradient: as many roundings of 1e-16, and more room. No wrong formula can hide."""


class _Poison(Tape):
    """Fills buffers with NaN when they are taken or released, so that reading them then gives NaN."""

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
    """Give programs a poisoned tape or table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("normexp.training.paths.program.Tape", Poisoned)
        patch.setattr("normexp.training.paths.compiled.program.Table", PoisonedTable)
        yield


@contextmanager
def in_float64() -> Iterator[None]:
    """Make networks and programs compute in float64."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Arena, "zeros", lambda arena, *shape: torch.zeros(shape))
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(torch.float32)


def small(**keys: Any) -> RunConfig:
    """Return the config of a small network of two layers."""
    tiny = {"depth": 2, "width": 8, "hidden": 12, "heads": 2, "vocab": 7, "seq_len": 5, "batch": 3, "order": 1}
    return RunConfig(**{**tiny, **keys})


def network_of(run: RunConfig) -> Network:
    """Return a network with random numbers in every parameter, and with gradients of NaN."""
    network = build(run)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    for parameter in network.parameters():
        parameter.grad = torch.full_like(parameter, math.nan)
    return network


def batch_of(run: RunConfig, number: int = 0) -> Batch:
    """Return random tokens and targets."""
    random = stream("batch", number)
    return Batch(*(random.integers(0, run.vocab, (run.batch, run.seq_len)) for _ in range(2)))


def by_autograd(network: Network, batch: Batch, first: int) -> tuple[float, dict[str, Tensor]]:
    """Return the loss, and the gradients by name."""
    logits_btv = network(torch.from_numpy(batch.inputs_nt))[:, first:]
    loss = functional.cross_entropy(logits_btv.flatten(0, 1), torch.from_numpy(batch.targets_nt)[:, first:].flatten())
    learned = {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}
    grads = torch.autograd.grad(loss, list(learned.values()), materialize_grads=True)
    return loss.item(), dict(zip(learned, grads, strict=True))


def check(run: RunConfig, tolerance: float, first: int = 1, make: type[Program] = Program) -> None:
    """Compare loss, gradients and running statistics with autograd, on two batches in the same buffers."""
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
        for buffer, expected in zip(network.buffers(), statistics, strict=True):
            assert torch.allclose(buffer, expected, rtol=tolerance, atol=tolerance)


def check_tape(run: RunConfig) -> None:
    """Check the tape in float32, as in training, and in float64 with poisoned buffers."""
    check(run, FLOAT32_TOLERANCE)
    with in_float64(), poisoned():
        check(run, FLOAT64_TOLERANCE)


def check_compiled(run: RunConfig, first: int = 1) -> None:
    """Check the compiled kernels, with ordinary and with poisoned buffers."""
    check(run, FLOAT32_TOLERANCE, first, CompiledProgram)
    with poisoned():
        check(run, FLOAT32_TOLERANCE, first, CompiledProgram)
