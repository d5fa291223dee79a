"""Convert between LayerNorm and RMSNorm, and measure how the converted network differs from the original.

LN(x) = g RMS(C x) + b, where C subtracts the mean over features. RMSNorm can therefore replace LayerNorm exactly if C
can be multiplied into every matrix that writes the norm's input, and W b can be added to the bias of the matrix W that
reads its output. This is called the fold; Jiang et al. 2023, arXiv 2305.14858, describe it for Pre-LN. Where it is
possible follows from the norm sites, matrices and scales of the blocks; C passes through scales, since they are linear.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from normexp.config.conditions import attends, block_norm, norms_in_use
from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.model.block import Block, Branch, Constant, Scaling
from normexp.model.branches import Attention, FeedForward
from normexp.model.network import Network, build
from normexp.model.norms import LayerNorm
from normexp.model.precision import logits
from normexp.schemes.norms import NORMS
from normexp.training.trainer import Trainer, thread_count
from normexp.training.weights import tensors_of

MEAN = "the input of a norm at `{}` has a mean that no weights can remove"
BIAS = "the bias of a norm at `{}` feeds no matrix and is dropped"
HEAD = "the bias of the final norm is dropped, because the LM head has no bias"
ARTICLE = "gains are kept and biases dropped, regardless of the mean that LayerNorm subtracts"
SUBTRACTS = "LayerNorm subtracts the mean over features, which the RMSNorm network uses, and no weights restore it"
REPLACED = {"rms": "ln", "ln": "rms"}
"""The norm that each target norm replaces."""
NAMES = {"ln": "LayerNorm", "rms": "RMSNorm"}
BEFORE, CALIBRATED = "before", "calibrated"
ROUNDING = 1e-9
"""Maximum logit error in float64, relative to the standard deviation of the logits, of an exact conversion."""
SEQUENCES = 64
"""Sequences per forward pass in float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A network with other norms, in float64, and the method of conversion.

    `reasons` explain why it computes something else; without reasons it is exact. `remark` names what is unchanged.
    """

    method: str
    network: Network
    reasons: tuple[str, ...] = ()
    remark: str = ""

    @property
    def config(self) -> RunConfig:
        """The config with the network's current norms."""
        return self.network.config


def widened(network: Network) -> Network:
    """Return a copy in float64 whose norms are not wrapped, whatever the dtype of its run."""
    return copy_tensors(network, build(replace(network.config, dtype="float32")).double())


@torch.no_grad()
def copy_tensors(source: nn.Module, target: Network) -> Network:
    """Copy weights and running statistics into a network of the same config, except its dtype, and return it."""
    for old, new in zip(tensors_of(source).values(), tensors_of(target).values(), strict=True):
        new.copy_(old)
    return target


def with_norms(network: Network, old: str, new: str, *, keep_final: bool = False) -> Network:
    """Return the network with norm `new` for every `old`. Tensors with the same name are copied; new biases are 0."""
    config = network.config
    norm = new if config.norm == old else config.norm
    final_norm = new if config.final_norm == old and not keep_final else config.final_norm
    converted = build(replace(config, norm=norm, final_norm=final_norm)).double()
    known = tensors_of(network)
    with torch.no_grad():
        for name, tensor in tensors_of(converted).items():
            if name in known:
                tensor.copy_(known[name])
    return converted


def dropped(network: Network) -> Converted:
    """Replace LayerNorm by RMSNorm with the same gains, dropping the biases."""
    return Converted(method="biases dropped", network=with_norms(network, "ln", "rms"), reasons=(ARTICLE,))


def to_layer_norm(network: Network) -> Converted:
    """Replace RMSNorm by LayerNorm with the same gains and zero biases."""
    return Converted(method="gains kept", network=with_norms(network, "rms", "ln"), reasons=(SUBTRACTS,))


def folded(network: Network, *, final_rms: bool | None = None) -> Converted:
    """Replace LayerNorm by RMSNorm and fold every mean and bias that can be folded.

    A final LayerNorm with a nonzero bias stays unless `final_rms`, since the LM head has no bias to absorb it.
    """
    fold = _Fold(copy_tensors(network, build(network.config).double()))
    final = fold.network.final_norm if network.config.final_norm == "ln" else None
    biased = isinstance(final, nn.LayerNorm) and bool(final.bias.any())
    keep = final is not None and (biased if final_rms is None else not final_rms)
    with torch.no_grad():
        fold.biases()
        fold.means(final_stays=keep)
    if biased and not keep:
        fold.reasons[HEAD] = None
    converted = with_norms(fold.network, "ln", "rms", keep_final=keep)
    remark = "the final norm stays LayerNorm, because the LM head has no bias to absorb its bias" if keep else ""
    return Converted(method="fold", network=converted, reasons=tuple(fold.reasons), remark=remark)


def _is_ln(module: nn.Module) -> bool:
    return type(module) is LayerNorm


def _bias(norm: nn.Module, like: Tensor) -> Tensor:
    """Return the bias of a LayerNorm, or zeros for any other module."""
    return norm.bias if isinstance(norm, nn.LayerNorm) else torch.zeros_like(like)


def _factor(module: nn.Module | None) -> float:
    if module is None:
        return 0.0
    return float(module.factor) if isinstance(module, Constant | Scaling) else 1.0


def _even(norm: nn.Module) -> bool:
    """Return whether the norm has the same gain for all features, so that a zero mean stays zero."""
    return isinstance(norm, nn.LayerNorm) and bool((norm.weight == norm.weight[0]).all())


def _ends(f: nn.Module) -> tuple[nn.Linear, nn.Linear]:
    """Return the first and the last matrix of a branch."""
    if isinstance(f, FeedForward):
        return f.fc1, f.fc2
    last = cast(nn.Linear, f.out)
    return (f.qkv if isinstance(f, Attention) else last), last


def _centre(matrix: nn.Linear, parts: int = 1) -> None:
    """Subtract the mean over output features from what a matrix writes, separately for each of its parts."""
    for weight, bias in zip(matrix.weight.chunk(parts), matrix.bias.chunk(parts), strict=True):
        weight -= weight.mean(0)
        bias -= bias.mean()


class _Fold:
    """Folds one network in place. `reasons` collects why the result is not exact."""

    def __init__(self, network: Network) -> None:
        self.network = network
        blocks = cast(Mapping[str, Block], network.blocks)
        self.branches: list[Branch] = [branch for block in blocks.values() for branch in (block.mixer, block.ffn)]
        self.reasons: dict[str, None] = {}

    def _note(self, why: str, door: str, fault: bool = True) -> None:
        if fault:
            self.reasons[why.format(door)] = None

    def biases(self) -> None:
        """Move the bias of every norm to the next matrix. `offset` is what the residual stream lacks until then."""
        offset = torch.zeros(self.network.config.width, dtype=torch.float64)
        block_offset = offset
        for index, branch in enumerate(self.branches):
            if index % 2 == 0:
                block_offset = offset
            first, last = _ends(branch.f)
            if _is_ln(branch.before):
                self._note(BIAS, "after", bool(offset.any()))
            read = _factor(branch.branch_in) * (_bias(branch.before, offset) if _is_ln(branch.before) else offset)
            if first is last and _is_ln(cast(nn.Module, branch.f.within)):
                self._note(BIAS, "before", bool(read.any()))
            else:
                first.bias.add_(first.weight @ read)
            self._inside(branch, last)
            self._note(BIAS, "output", bool(_bias(branch.output, offset).any()))
            carried = _factor(branch.skip) * offset + _factor(branch.bottom) * block_offset
            if not _is_ln(branch.output) and _factor(branch.branch_out):
                last.bias.add_(carried / _factor(branch.branch_out))
            else:
                self._note(BIAS, "after", bool(carried.any()))
            offset = _bias(branch.after, offset)
        self._note(BIAS, "after", bool(offset.any()))

    def _inside(self, branch: Branch, last: nn.Linear) -> None:
        """Move the biases of norms inside f.

        The bias of values passes through attention, whose weights sum to 1. The bias of keys adds the same number to
        all logits of a query, which the softmax ignores.
        """
        f = branch.f
        within = cast(nn.Module, f.within)
        last.bias.add_(last.weight @ _bias(within, last.weight[0]))
        if not isinstance(f, Attention):
            return
        queries, keys, values = (_bias(norm, last.bias) for norm in f.qkv_norms)
        keys_ignored = isinstance(f.k_norm, nn.Identity)
        lost = queries.any() or (keys.any() and not keys_ignored) or (values.any() and _is_ln(within))
        self._note(BIAS, "qkv", bool(lost))
        if not _is_ln(within):
            last.bias.add_(last.weight @ values)

    def means(self, *, final_stays: bool) -> None:
        """Centre every matrix whose output only LayerNorms read, and note norms whose input still has a mean."""
        centred = block_centred = self._only_norms_read(0)
        if centred:
            for table in filter(None, (self.network.embedding, self.network.positions)):
                table.weight -= table.weight.mean(1, keepdim=True)
        for index, branch in enumerate(self.branches):
            if index % 2 == 0:
                block_centred = centred
            f, (_, last) = branch.f, _ends(branch.f)
            self._note(MEAN, "before", _is_ln(branch.before) and not centred)
            self._note(MEAN, "within", _is_ln(cast(nn.Module, f.within)))
            if isinstance(f, Attention) and any(map(_is_ln, f.qkv_norms)):
                _centre(f.qkv, parts=3)
            writes = _is_ln(branch.output) or _is_ln(branch.after) or self._only_norms_read(index + 1)
            if writes:
                _centre(last)
            branch_centred = writes and (not _is_ln(branch.output) or _even(branch.output))
            centred = branch_centred and (branch.skip is None or centred) and (branch.bottom is None or block_centred)
            if _is_ln(branch.after):
                self._note(MEAN, "after", not centred)
                centred = centred and _even(branch.after)
        self._note(MEAN, "final_norm", _is_ln(self.network.final_norm) and not centred and not final_stays)

    def _only_norms_read(self, start: int) -> bool:
        """Return whether only LayerNorms read the residual stream from branch `start` on, until a norm ends it."""
        for number, branch in enumerate(self.branches[start:], start=start):
            if not _is_ln(branch.before):
                return False
            if _is_ln(branch.after) or branch.skip is None:
                ffn = self.branches[number + 1 - number % 2]
                bypassed = number % 2 == 0 and ffn.bottom is not None
                return not bypassed or _is_ln(ffn.after) or self._only_norms_read(number + 2)
        return _is_ln(self.network.final_norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The validation loss in nats of one set of weights, and how far its logits are from the original ones.

    `max_error` and `rms_error` are over all validation logits in float64. `run_error` is the maximum error in the dtype
    of the run. None means not compared.
    """

    name: str
    loss: float
    max_error: float | None = None
    rms_error: float | None = None
    run_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A converted network, the method, the reasons why it is not exact (none if it is), and the measurements.

    `std` is the standard deviation of the original validation logits in float64. `steps` is the number of calibration
    steps.
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
    """Replace the other norm by `to` (rms or ln), then calibrate the network with `calibrate` training steps.

    `final_norm` (rms or ln) decides whether a final LayerNorm stays; None keeps it if its bias would be lost. The fold
    is compared with keeping gains and dropping biases; the method with the smaller logit error is used. Raises
    UserError if there is nothing to replace or calibration becomes non-finite.
    """
    config = network.config
    if REPLACED[to] not in norms_in_use(config):
        present = " and ".join(sorted(norms_in_use(config))) or "no norm"
        raise UserError(f"--to {to} replaces {NAMES[REPLACED[to]]}, but this network uses {present}")
    if to == "rms" and NORMS.origin(block_norm(config)):
        raise UserError(f"--to {to}: norm {config.norm} comes from a plugin, so nothing can be folded into its input")
    with thread_count(1):
        try:
            measure = _Measure(network)
        except MemoryError:
            raise UserError(f"the validation set of seq_len {config.seq_len} does not fit into memory") from None
        choices = list(_choices(measure.wide, to, final_norm))
        if choices[0].config == measure.wide.config:
            raise UserError(f"nothing to replace: {choices[0].remark}: --final-norm rms drops the bias")
        rows = [measure.of(choice) for choice in choices]
        best = min(range(len(choices)), key=lambda index: _error_size(rows[index].rms_error))
        chosen, measured = choices[best], [measure.before, *rows]
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
        reasons=chosen.reasons or _inexact(rows[best], measure.std),
        remark="; ".join(filter(None, (chosen.remark, _kept(config, to)))),
        steps=calibrate,
    )


def _inexact(measured: Measured, std: float) -> tuple[str, ...]:
    """Return why a conversion that should be exact is not, judging by its measured error."""
    error = _error_size(measured.max_error)
    if error <= ROUNDING * std:
        return ()
    return (f"the largest logit error, {error:.2g}, exceeds rounding: check that all weights are finite and not huge",)


def _kept(config: RunConfig, to: str) -> str:
    """Return a remark about norms of queries and keys, which are not converted."""
    if not attends(config) or config.qk_norm != REPLACED[to]:
        return ""
    return f"norms of queries and keys stay {NAMES[REPLACED[to]]}, since they are per head"


def _choices(wide: Network, to: str, final_norm: str | None) -> Iterator[Converted]:
    if to == "ln":
        yield to_layer_norm(wide)
        return
    yield folded(wide, final_rms=None if final_norm is None else final_norm == "rms")
    if final_norm != "ln":
        yield dropped(wide)


def _error_size(error: float | None) -> float:
    return math.inf if error is None or math.isnan(error) else error


def _trainer(network: Network) -> Trainer:
    """Return a trainer that starts from a copy of these weights."""
    trainer = Trainer(network.config)
    copy_tensors(network, trainer.network)
    return trainer


def _calibrate(network: Network, steps: int) -> float:
    """Train the network in place on batches that its run has not seen, and return its validation loss."""
    config = replace(network.config, steps=steps)
    trainer = Trainer(config)
    copy_tensors(network, trainer.network)
    batches = trainer.task.batches(-1 - config.seed, config.batch)
    for number in range(1, steps + 1):
        step = trainer.step(number, next(batches))
        if step.bad is not None:
            raise UserError(
                f"--calibrate {steps}: the {step.bad} of step {number} is non-finite: use fewer steps, or none"
            )
    copy_tensors(trainer.network, network)
    return trainer.evaluate()


class _Measure:
    """The original network and its logits on the validation set."""

    def __init__(self, network: Network) -> None:
        trainer = _trainer(network)
        self.dtype = network.config.dtype
        self.tokens_nt = torch.from_numpy(trainer.validation.inputs_nt)
        self.wide = widened(network)
        self.before = Measured(name=BEFORE, loss=trainer.evaluate())
        self.exact_ntv = self._exact(self.wide)
        self.run_ntv = self._run(trainer)
        self.std = float(self.exact_ntv.std())

    def of(self, converted: Converted) -> Measured:
        """Return loss and errors of a converted network."""
        target = Network(replace(converted.config, dtype=self.dtype))
        trainer = _trainer(copy_tensors(converted.network, target))
        error_ntv = self._exact(converted.network) - self.exact_ntv
        return Measured(
            name=converted.method,
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
