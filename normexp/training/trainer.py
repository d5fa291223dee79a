"""One network in training: its step, its evaluation, and the check that every number is finite."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from normexp.config.run import RunConfig
from normexp.data.streams import seed_of
from normexp.data.tasks import Batch, Task
from normexp.model.network import Network, build
from normexp.model.overflow import all_finite
from normexp.model.precision import logits
from normexp.records.execution_path import ExecutionPath
from normexp.training.compiled_optimizers import COMPILED_OPTIMIZERS, compiled_grad_norm
from normexp.training.optimizers import OPTIMIZERS, FlatParameters, make_optimizer, rate
from normexp.training.paths.choice import Choice, choose, chosen
from normexp.training.paths.compiled.program import CompiledProgram
from normexp.training.paths.program import Program


@contextmanager
def thread_count(threads: int) -> Iterator[None]:
    """Run torch with this number of threads, and restore the previous number on exit."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def alone() -> Iterator[None]:
    """Run torch with one thread, and restore the number of threads and the random state on exit."""
    with thread_count(1), torch.random.fork_rng(devices=[]):
        yield


@contextmanager
def seeded(config: RunConfig) -> Iterator[None]:
    """Seed torch's random numbers from the config, and restore the random state on exit."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("torch", config.seed))
        yield


@contextmanager
def kept_state(network: nn.Module) -> Iterator[None]:
    """Restore all buffers and torch's random state on exit, so that measuring does not affect the training.

    The program itself draws no random numbers from torch, but the norm of a plugin may.
    """
    before = [(buffer, buffer.clone()) for buffer in network.buffers()]
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for buffer, values in before:
            buffer.copy_(values)


EVALUATED = 128
"""Validation sequences per forward pass: few enough for the caches of the processor."""
SUSPECT = 1e15
"""A loss or gradient norm of this size or more is recomputed by autograd, since only programs may overflow there."""


@dataclass(frozen=True, slots=True)
class Step:
    """The measurements of one step. `bad` names what first became non-finite, or is None.

    It is loss or grad before the update, param or optimizer (the optimizer state) after it.
    """

    number: int
    lr: float
    loss: float
    grad_norm: float
    bad: str | None


class Trainer:
    """The network, parameters, optimizer and task of one config. Steps are counted from 1.

    `network` is a network of the config to continue with; by default, a new one. `path` computes the gradients, by
    default the fastest path that works here. With `autograd`, and in 16 bits, autograd computes them. All paths give
    the same result up to rounding.
    """

    def __init__(
        self,
        config: RunConfig,
        network: Network | None = None,
        *,
        autograd: bool = False,
        path: ExecutionPath | None = None,
    ) -> None:
        self.config = config
        self.choice = _choice(config, ExecutionPath.AUTOGRAD if autograd else path)
        self._by_program = self.choice.path is not ExecutionPath.AUTOGRAD
        self._compiled = self.choice.path is ExecutionPath.COMPILED
        self._programs: dict[tuple[int, int], Program] = {}
        self.task = Task(config)
        self.network = network or build(config)
        self._random = torch.get_rng_state()
        self._statistics = tuple(self.network.buffers())
        self.flat = FlatParameters(self.network)
        self.optimizer = make_optimizer(config, self.flat, COMPILED_OPTIMIZERS if self._compiled else OPTIMIZERS)
        self.validation = self.task.validation
        few = slice(0, config.batch)
        self.signal_batch = Batch(self.validation.inputs_nt[few], self.validation.targets_nt[few])

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean cross-entropy in nats over targets with a visible context; NaN if a logit is not finite."""
        return self._loss(logits(self.network, torch.from_numpy(batch.inputs_nt), self.config), batch)

    def _loss(self, logits_btv: Tensor, batch: Batch) -> Tensor:
        counted_btv = logits_btv[:, self.task.first :]
        targets_bt = torch.from_numpy(batch.targets_nt)[:, self.task.first :]
        loss = functional.cross_entropy(counted_btv.flatten(0, 1), targets_bt.flatten())
        hidden = bool(loss.isfinite()) and not all_finite(logits_btv)
        return loss * math.nan if hidden else loss

    def backward(self, batch: Batch) -> float:
        """Return the loss of the batch, and replace the gradients by those of the batch."""
        self.flat.grads.zero_()
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    def gradients(self, batch: Batch) -> tuple[float, float]:
        """Return loss and gradient norm of a training batch, and replace the gradients by those of the batch.

        They are non-finite only if they are so by autograd.
        """
        self._random = torch.get_rng_state()
        if not self._by_program:
            return self.backward(batch), self.flat.grad_norm()
        before = [buffer.clone() for buffer in self._statistics]
        sizes = self._program(batch)(batch), self._grad_norm()
        if all(abs(size) < SUSPECT for size in sizes):
            return sizes
        for buffer, values in zip(self._statistics, before, strict=True):
            buffer.copy_(values)
        return self.again(batch), self.flat.grad_norm()

    def _grad_norm(self) -> float:
        return compiled_grad_norm(self.flat) if self._compiled else self.flat.grad_norm()

    def pass_through(self, batch: Batch) -> None:
        """Make a forward pass through the modules, whose hooks see it, and compute the gradients of the batch."""
        if self._compiled:
            program = self._program(batch)
            if isinstance(program, CompiledProgram) and program.tape.rows_only:
                with torch.no_grad():
                    self.loss(batch)
                if all(abs(value) < SUSPECT for value in (program(batch), self._grad_norm())):
                    return
        self.backward(batch)

    def again(self, batch: Batch) -> float:
        """Do the same as `backward`, with the random numbers that the last `gradients` drew."""
        torch.set_rng_state(self._random)
        return self.backward(batch)

    def _program(self, batch: Batch) -> Program:
        """Return the program for batches of this shape."""
        count, tokens = batch.inputs_nt.shape
        if (count, tokens) not in self._programs:
            make = CompiledProgram if self._compiled else Program
            self._programs[count, tokens] = make(self.network, count, tokens, self.task.first)
        return self._programs[count, tokens]

    def step(self, number: int, batch: Batch) -> Step:
        """Make one update, unless the loss or a gradient is non-finite before it."""
        lr = rate(number, self.config)
        loss, grad_norm = self.gradients(batch)
        if not math.isfinite(loss):
            return Step(number, lr, loss, grad_norm, "loss")
        if not math.isfinite(grad_norm):
            return Step(number, lr, loss, grad_norm, "grad")
        values_finite, state_finite = self.update(lr, grad_norm)
        bad = "param" if not values_finite else None if state_finite else "optimizer"
        return Step(number, lr, loss, grad_norm, bad)

    def update(self, lr: float, grad_norm: float) -> tuple[bool, bool]:
        """Clip the gradients, whose norm is given, and make the optimizer step.

        Return whether every parameter is finite, and whether the optimizer state is.
        """
        clip = self.config.clip
        if clip and grad_norm > clip:
            # Tiny factors are applied in two steps, since they would underflow in float32 and zero every gradient.
            tiny = clip / grad_norm < torch.finfo(torch.float32).tiny
            for factor in (math.sqrt(clip / grad_norm),) * 2 if tiny else (clip / grad_norm,):
                self.flat.grads.mul_(factor)
        values_finite = self.optimizer.step(lr)
        if values_finite is None:
            values_finite = self.flat.values_finite()
        return values_finite, self.optimizer.finite(min(grad_norm, clip) if clip else grad_norm)

    def evaluate(self) -> float:
        """Return the validation loss in nats. Every evaluation draws the same random numbers, and affects no others."""
        if self._compiled:
            loss = self._evaluate_compiled()
            if loss is not None and abs(loss) < SUSPECT:
                return loss
        return self._evaluate_modules()

    def _evaluate_compiled(self) -> float | None:
        """Evaluate with the forward calls of the training program; None if it computes evaluations differently."""
        inputs_nt, targets_nt, size = self.validation.inputs_nt, self.validation.targets_nt, self.config.batch
        if len(inputs_nt) % size:
            return None
        losses = []
        for start in range(0, len(inputs_nt), size):
            batch = Batch(inputs_nt[start : start + size], targets_nt[start : start + size])
            program = self._program(batch)
            if not isinstance(program, CompiledProgram) or not program.evaluates:
                return None
            losses.append(program.loss_alone(batch))
        return math.fsum(losses) / len(losses)

    @torch.no_grad()
    def _evaluate_modules(self) -> float:
        self.network.eval()
        parts = torch.split(torch.from_numpy(self.validation.inputs_nt), EVALUATED)
        with seeded(self.config):
            logits_btv = torch.cat([logits(self.network, tokens_bt, self.config) for tokens_bt in parts])
        self.network.train()
        return self._loss(logits_btv, self.validation).item()


def _choice(config: RunConfig, path: ExecutionPath | None) -> Choice:
    """Return the path of a run's steps. Programs only compute in float32."""
    if config.dtype != "float32":
        return Choice(ExecutionPath.AUTOGRAD, f"programs compute in float32, not in {config.dtype}")
    return choose() if path is None else chosen(path)


def parameter_count(network: nn.Module) -> int:
    """Return the number of trained scalars."""
    return sum(parameter.numel() for parameter in network.parameters())
