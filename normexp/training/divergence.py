"""Locate where a run became non-finite: the first non-finite tensor of a step, and the signal of the steps before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig
from normexp.data.tasks import Batch
from normexp.model.network import layer_of
from normexp.records.record import Death, SignalRow
from normexp.training.layer_signal import forward_signal, gradient_sizes, hooked, mode_signal, signal_rows
from normexp.training.trainer import Trainer, kept_state, seeded

REPLAYED_STEPS = 32
"""Number of steps up to the non-finite one whose layers are recorded."""


def kind_of(values: Tensor) -> str | None:
    """Return nan or inf, or None if every element is finite."""
    if bool(torch.isfinite(values).all()):
        return None
    return "nan" if bool(torch.isnan(values).any()) else "inf"


class _Witness:
    """Remembers the first non-finite tensor that it sees."""

    def __init__(self) -> None:
        self.first: tuple[str, str, str] | None = None

    def see(self, where: str, name: str, values: Tensor) -> None:
        kind = kind_of(values.detach()) if self.first is None else None
        if kind is not None:
            self.first = (kind, where, name)


@contextmanager
def _watched(network: nn.Module, witness: _Witness, *, gradients: bool) -> Iterator[None]:
    """Show the witness each module's output in forward order, then the gradients in backward order, while open."""

    def forward(name: str, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        witness.see("activation", name, output)
        if gradients and output.requires_grad:
            output.register_hook(partial(witness.see, "grad", name))  # type: ignore[no-untyped-call]

    def accumulated(name: str, parameter: Tensor) -> None:
        if parameter.grad is not None:
            witness.see("grad", name, parameter.grad)

    handles = [module.register_forward_hook(partial(forward, name)) for name, module in network.named_modules() if name]
    for name, parameter in network.named_parameters():
        if gradients:
            hook = partial(accumulated, name)
            handles.append(parameter.register_post_accumulate_grad_hook(hook))  # type: ignore[no-untyped-call]
    with hooked(handles):
        yield


def _death(trainer: Trainer, step: int, fault: tuple[str, str, str]) -> Death:
    kind, where, tensor = fault
    return Death(step=step, kind=kind, where=where, tensor=tensor, layer=layer_of(tensor, trainer.config.depth))


def locate_step(trainer: Trainer, step: int, batch: Batch, bad: str, loss: float) -> Death:
    """Find the first non-finite tensor of a step that ended in `bad`, by repeating it with hooks.

    Parameters and optimizer must be as the step left them: it only made an update if `bad` is param or optimizer.
    """
    witness = _Witness()
    state = trainer.optimizer.state()
    if bad == "param":
        for name, parameter in trainer.network.named_parameters():
            witness.see("param", name, parameter)
    elif bad == "optimizer" and state is not None:
        parts = trainer.flat.split(state)
        for name, _ in trainer.network.named_parameters():
            witness.see("optimizer", name, parts[name])
    else:
        with kept_state(trainer.network), _watched(trainer.network, witness, gradients=bad == "grad"):
            trainer.again(batch)
    fallback = ("nan" if loss != loss else "inf", bad, bad)
    return _death(trainer, step, witness.first or fallback)


@torch.no_grad()
def locate_validation(trainer: Trainer, step: int, loss: float) -> Death:
    """Find the first non-finite tensor of an evaluation whose loss was non-finite."""
    witness = _Witness()
    with _watched(trainer.network, witness, gradients=False):
        trainer.evaluate()
    kind, _, tensor = witness.first or ("nan" if loss != loss else "inf", "", "loss")
    return _death(trainer, step, (kind, "validation", tensor))


def replay(config: RunConfig, death: Death, make: Callable[[RunConfig], Trainer] = Trainer) -> list[SignalRow]:
    """Repeat the training up to the non-finite step, and return the signal of the last 32 steps."""
    rows: list[SignalRow] = []
    with seeded(config):
        trainer = make(config)
        batches = trainer.task.batches(config.seed, config.batch)
        for number, batch in enumerate(islice(batches, death.step), start=1):
            if number > death.step - REPLAYED_STEPS:
                rows += training_signal(trainer, number, batch)
            trainer.step(number, batch)
    return rows


def training_signal(trainer: Trainer, step: int, batch: Batch) -> list[SignalRow]:
    """Return the signal of a training step on the batch, without changing the random numbers that follow."""
    with kept_state(trainer.network), forward_signal(trainer.network) as signal:
        trainer.pass_through(batch)
    return signal_rows(step, signal | {"grad_norm": gradient_sizes(trainer.network), **mode_signal(trainer, batch)})
