"""One network in training: its step, its evaluation, and the check that every number is finite."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from normexp.nn.network import Network, build
from normexp.nn.overflow import all_finite
from normexp.nn.precision import logits
from normexp.program.program import Program, works
from normexp.run import RunConfig
from normexp.tasks import Batch, Task
from normexp.training.flat import FlatParameters
from normexp.training.optimizers import make_optimizer, rate
from normexp.training.state import seeded

EVALUATED = 128
"""Sequences of the validation set that pass through the network at a time: few enough for the processor's caches."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step measured. `bad` is None, or what was non-finite first.

    That is loss or grad before the update; param or optimizer (its state) after it.
    """

    number: int
    lr: float
    loss: float
    grad_norm: float
    bad: str | None


class Trainer:
    """Network, parameters, optimizer and task of one config. Steps are counted from 1.

    `network` is one of the config's to go on with; by default, a fresh one. With `plain`, autograd computes every
    gradient; else a program does, with the same result up to rounding.
    """

    def __init__(self, config: RunConfig, network: Network | None = None, *, plain: bool = False) -> None:
        self.config = config
        self._by_program = not plain and config.dtype == "float32" and works()
        self._programs: dict[tuple[int, int], Program] = {}
        self.task = Task(config)
        self.network = network or build(config)
        self._random = torch.get_rng_state()
        self._statistics = tuple(self.network.buffers())
        self.flat = FlatParameters(self.network)
        self.optimizer = make_optimizer(config, self.flat)
        self.validation = self.task.validation
        few = slice(0, config.batch)
        self.signal_batch = Batch(self.validation.inputs_nt[few], self.validation.targets_nt[few])

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy over the targets whose whole context is in view, in nats; NaN for a non-finite logit."""
        return self._loss(logits(self.network, torch.from_numpy(batch.inputs_nt), self.config), batch)

    def _loss(self, logits_btv: Tensor, batch: Batch) -> Tensor:
        counted_btv = logits_btv[:, self.task.first :]
        targets_bt = torch.from_numpy(batch.targets_nt)[:, self.task.first :]
        loss = functional.cross_entropy(counted_btv.flatten(0, 1), targets_bt.flatten())
        hidden = bool(loss.isfinite()) and not all_finite(logits_btv)
        return loss * math.nan if hidden else loss

    def backward(self, batch: Batch) -> float:
        """Loss of the batch; its gradients replace those before."""
        self.flat.grads.zero_()
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    def gradients(self, batch: Batch) -> tuple[float, float]:
        """Loss and gradient norm of a training batch; its gradients replace those before.

        They are non-finite only where autograd finds them so.
        """
        self._random = torch.get_rng_state()
        if not self._by_program:
            return self.backward(batch), self.flat.grad_norm()
        before = [buffer.clone() for buffer in self._statistics]
        found = self._program(batch)(batch), self.flat.grad_norm()
        if all(map(math.isfinite, found)):
            return found
        for buffer, values in zip(self._statistics, before, strict=True):
            buffer.copy_(values)
        return self.again(batch), self.flat.grad_norm()

    def again(self, batch: Batch) -> float:
        """As `backward`, with the random numbers that the last `gradients` drew."""
        torch.set_rng_state(self._random)
        return self.backward(batch)

    def _program(self, batch: Batch) -> Program:
        """The program for batches of this shape."""
        count, tokens = batch.inputs_nt.shape
        if (count, tokens) not in self._programs:
            self._programs[count, tokens] = Program(self.network, count, tokens, self.task.first)
        return self._programs[count, tokens]

    def step(self, number: int, batch: Batch) -> Step:
        """One update, unless the loss or a gradient is non-finite before it."""
        lr = rate(number, self.config)
        loss, grad_norm = self.gradients(batch)
        if not math.isfinite(loss):
            return Step(number, lr, loss, grad_norm, "loss")
        if not math.isfinite(grad_norm):
            return Step(number, lr, loss, grad_norm, "grad")
        finite = self.update(lr, grad_norm)
        bad = "param" if not self.flat.values_finite() else None if finite else "optimizer"
        return Step(number, lr, loss, grad_norm, bad)

    def update(self, lr: float, grad_norm: float) -> bool:
        """Clip the gradients, whose norm is given, and let the optimizer make its step.

        Returns whether the optimizer's state is finite.
        """
        clip = self.config.clip
        if clip and grad_norm > clip:
            # In two steps, since the factor may be too small for a float32, and would make every gradient 0.
            tiny = clip / grad_norm < torch.finfo(torch.float32).tiny
            for factor in (math.sqrt(clip / grad_norm),) * 2 if tiny else (clip / grad_norm,):
                self.flat.grads.mul_(factor)
        self.optimizer.step(lr)
        return self.optimizer.finite(min(grad_norm, clip) if clip else grad_norm)

    @property
    def plain(self) -> bool:
        """Whether autograd makes every step: where that was asked for, in 16 bits, and where programs do not work."""
        return not self._by_program

    @torch.no_grad()
    def evaluate(self) -> float:
        """Validation loss, in nats. Random numbers are drawn as by every other evaluation, and for it alone."""
        self.network.eval()
        parts = torch.split(torch.from_numpy(self.validation.inputs_nt), EVALUATED)
        with seeded(self.config):
            logits_btv = torch.cat([logits(self.network, tokens_bt, self.config) for tokens_bt in parts])
        self.network.train()
        return self._loss(logits_btv, self.validation).item()


def parameter_count(network: nn.Module) -> int:
    """Number of scalars that are trained."""
    return sum(parameter.numel() for parameter in network.parameters())
