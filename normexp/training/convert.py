"""A network with RMSNorm for LayerNorm or the other way: what it computes, measured beside what it computed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from normexp.errors import UserError
from normexp.matters import attends, block_norm, norms_in_use
from normexp.nn.network import Network
from normexp.nn.precision import logits
from normexp.norms import NORMS
from normexp.run import RunConfig
from normexp.training.fold import Converted, copy_tensors, dropped, folded, to_layer_norm, widened
from normexp.training.threads import thread_count
from normexp.training.trainer import Trainer

REPLACED = {"rms": "ln", "ln": "rms"}
"""The norm that is wanted, to the norm that it replaces."""
NAMES = {"ln": "LayerNorm", "rms": "RMSNorm"}
BEFORE, CALIBRATED = "before", "calibrated"
ROUNDING = 1e-9
"""Largest logit error in float64, over their standard deviation, that is called exact."""
SEQUENCES = 64
"""In one forward pass in float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One set of weights: its validation loss in nats, and how far its logits are from those before.

    `max_error` and `rms_error` are over all validation logits in float64; `run_error` is the largest as the network
    runs, in its dtype. None: not compared.
    """

    name: str
    loss: float
    max_error: float | None = None
    rms_error: float | None = None
    run_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A converted network, by which method, and why it is not exact (no reasons: it is); then what was measured.

    `std` is that of all validation logits before, in float64. `steps`: how long it was calibrated.
    """

    config: RunConfig
    network: Network
    method: str
    measured: tuple[Measured, ...]
    std: float
    reasons: tuple[str, ...] = ()
    remark: str = ""
    steps: int = 0


def convert(network: Network, to: str, *, final_norm: str | None = None, calibrate: int = 0) -> Conversion:
    """The network with norm `to` (rms or ln) in place of the other, then `calibrate` steps of training.

    `final_norm` (rms or ln) decides about a final LayerNorm; None: it goes, unless its bias would be lost. The fold is
    measured beside keeping gains and dropping biases, and the nearer logits win. Raises UserError where there is
    nothing to replace, or where calibration breaks.
    """
    config = network.config
    if REPLACED[to] not in norms_in_use(config):
        named = " and ".join(sorted(norms_in_use(config))) or "no norm"
        raise UserError(
            f"--to {to} replaces {NAMES[REPLACED[to]]}, and this network has {named} in blocks and at its head"
        )
    if to == "rms" and NORMS.origin(block_norm(config)):
        raise UserError(f"--to rms: what norm {config.norm} of a plugin reads is not known, so nothing can be folded")
    with thread_count(1):
        try:
            measure = _Measure(network)
        except MemoryError:
            raise UserError(f"the validation set of seq_len {config.seq_len} does not fit into memory") from None
        made = list(_choices(measure.wide, to, final_norm))
        if made[0].config == measure.wide.config:
            raise UserError(f"nothing to replace: {made[0].remark}: --final-norm rms drops the bias")
        rows = [measure.of(choice) for choice in made]
        at = min(range(len(made)), key=lambda index: _size(rows[index].rms_error))
        chosen, measured = made[at], [measure.before, *rows]
        converted = copy_tensors(chosen.network, Network(replace(chosen.config, dtype=config.dtype)))
        if calibrate:
            loss = _calibrate(converted, calibrate)
            measured.append(Measured(name=f"{CALIBRATED}, {calibrate} steps", loss=loss))
    return Conversion(
        config=converted.config,
        network=converted,
        method=chosen.method,
        measured=tuple(measured),
        std=measure.std,
        reasons=chosen.reasons or _unmet(measured[1 + at], measure.std),
        remark="; ".join(filter(None, (chosen.remark, _kept(config, to)))),
        steps=calibrate,
    )


def _unmet(measured: Measured, std: float) -> tuple[str, ...]:
    """Why a conversion that should be exact is not, by what was measured."""
    error = _size(measured.max_error)
    if error <= ROUNDING * std:
        return ()
    return (f"its largest logit error, {error:.2g}, is more than rounding: are all weights finite and of usual size?",)


def _kept(config: RunConfig, to: str) -> str:
    """What is told of norms of queries and keys, which stay."""
    if not attends(config) or config.qk_norm != REPLACED[to]:
        return ""
    return f"norms of queries and keys stay {NAMES[REPLACED[to]]}: they are over each head"


def _choices(wide: Network, to: str, final_norm: str | None) -> Iterator[Converted]:
    if to == "ln":
        yield to_layer_norm(wide)
        return
    yield folded(wide, final_rms=None if final_norm is None else final_norm == "rms")
    if final_norm != "ln":
        yield dropped(wide)


def _size(error: float | None) -> float:
    return math.inf if error is None or math.isnan(error) else error


def _trainer(network: Network) -> Trainer:
    """A trainer that starts from a copy of these weights."""
    trainer = Trainer(network.config)
    copy_tensors(network, trainer.network)
    return trainer


def _calibrate(network: Network, steps: int) -> float:
    """Train for some steps by the config's rules on batches that no run of it has seen; the validation loss then."""
    config = replace(network.config, steps=steps)
    trainer = Trainer(config)
    copy_tensors(network, trainer.network)
    batches = trainer.task.batches(-1 - config.seed, config.batch)
    for number in range(1, steps + 1):
        step = trainer.step(number, next(batches))
        if step.bad is not None:
            raise UserError(
                f"--calibrate {steps}: the {step.bad} of step {number} is not finite: write fewer steps, or none"
            )
    copy_tensors(trainer.network, network)
    return trainer.evaluate()


class _Measure:
    """The network before, and its logits on the validation set."""

    def __init__(self, network: Network) -> None:
        trainer = _trainer(network)
        self.dtype = network.config.dtype
        self.tokens_nt = torch.from_numpy(trainer.validation.inputs_nt)
        self.wide = widened(network)
        self.before = Measured(name=BEFORE, loss=trainer.evaluate())
        self.exact_ntv = self._exact(self.wide)
        self.run_ntv = self._run(trainer)
        self.std = float(self.exact_ntv.std())

    def of(self, made: Converted) -> Measured:
        """Loss and errors of a converted network."""
        target = Network(replace(made.config, dtype=self.dtype))
        trainer = _trainer(copy_tensors(made.network, target))
        error_ntv = self._exact(made.network) - self.exact_ntv
        return Measured(
            name=made.method,
            loss=trainer.evaluate(),
            max_error=float(error_ntv.abs().max()),
            rms_error=float(error_ntv.square().mean().sqrt()),
            run_error=float((self._run(trainer) - self.run_ntv).abs().max()),
        )

    @torch.no_grad()
    def _exact(self, wide: Network) -> Tensor:
        wide.eval()
        return torch.cat([wide(tokens_nt) for tokens_nt in torch.split(self.tokens_nt, SEQUENCES)])

    @torch.no_grad()
    def _run(self, trainer: Trainer) -> Tensor:
        trainer.network.eval()
        return logits(trainer.network, self.tokens_nt, trainer.config)
