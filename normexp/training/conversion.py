"""A network with RMSNorm for LayerNorm or the other way: what it computes, measured beside what it computed.

LayerNorm folded away: RMSNorm networks that compute the same, as far as the scheme lets them.

LN(x) = g RMS(C x) + b, where C subtracts the mean over features. So RMSNorm can stand for LayerNorm where C can be
multiplied into every matrix that writes what the norm reads, and W b added to the bias of the matrix W that reads what
it writes: the fold. Jiang et al. 2023, arXiv 2305.14858, do so for Pre. Where it can be done follows here from the
doors, matrices and scales of the blocks; scales, learned ones too, are linear, so that C passes through them.
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

MEAN = "what a norm at `{}` reads has a mean that no matrix can take out"
BIAS = "the bias of a norm at `{}` reaches no matrix, and is dropped"
HEAD = "the final norm's bias would need a bias of the head, which has none, and is dropped"
ARTICLE = "gains are kept and biases dropped: LayerNorm's mean goes unheeded"
SUBTRACTS = "LayerNorm subtracts the mean over features, which RMSNorm's network uses: no weights bring it back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A network with other norms, in float64, and by which method.

    `reasons` tell why it does not compute the same: without any, it does. `remark` tells what stayed as it was.
    """

    method: str
    network: Network
    reasons: tuple[str, ...] = ()
    remark: str = ""

    @property
    def config(self) -> RunConfig:
        """With the norms that the network has now."""
        return self.network.config


def widened(network: Network) -> Network:
    """A copy in float64 whose norms are bare modules, whatever the dtype of its run."""
    return copy_tensors(network, build(replace(network.config, dtype="float32")).double())


@torch.no_grad()
def copy_tensors(source: nn.Module, target: Network) -> Network:
    """Weights and statistics into a network of the same config (but dtype), which is returned."""
    for old, new in zip(tensors_of(source).values(), tensors_of(target).values(), strict=True):
        new.copy_(old)
    return target


def with_norms(network: Network, old: str, new: str, *, keep_final: bool = False) -> Network:
    """The network with norm `new` for every `old`; what both have by the same name is copied, biases start from 0."""
    config = network.config
    norm = new if config.norm == old else config.norm
    final_norm = new if config.final_norm == old and not keep_final else config.final_norm
    made = build(replace(config, norm=norm, final_norm=final_norm)).double()
    known = tensors_of(network)
    with torch.no_grad():
        for name, tensor in tensors_of(made).items():
            if name in known:
                tensor.copy_(known[name])
    return made


def dropped(network: Network) -> Converted:
    """RMSNorm with LayerNorm's gains and nothing for its biases."""
    made = with_norms(network, "ln", "rms")
    return Converted(method="biases dropped", network=made, reasons=(ARTICLE,))


def to_layer_norm(network: Network) -> Converted:
    """LayerNorm with RMSNorm's gains and biases of 0."""
    made = with_norms(network, "rms", "ln")
    return Converted(method="gains kept", network=made, reasons=(SUBTRACTS,))


def folded(network: Network, *, final_rms: bool | None = None) -> Converted:
    """RMSNorm for LayerNorm with every mean and bias folded that can be.

    A final LayerNorm whose bias is not zero stays, since the head has no bias to take it, unless `final_rms`.
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
    made = with_norms(fold.network, "ln", "rms", keep_final=keep)
    remark = "the final norm stays LayerNorm: its bias reaches the head, which has no bias to take it" if keep else ""
    return Converted(method="fold", network=made, reasons=tuple(fold.reasons), remark=remark)


def _is_ln(module: nn.Module) -> bool:
    return type(module) is LayerNorm


def _bias(norm: nn.Module, like: Tensor) -> Tensor:
    """A LayerNorm's bias, zero for anything else."""
    return norm.bias if isinstance(norm, nn.LayerNorm) else torch.zeros_like(like)


def _factor(module: nn.Module | None) -> float:
    if module is None:
        return 0.0
    return float(module.factor) if isinstance(module, Constant | Scaling) else 1.0


def _even(norm: nn.Module) -> bool:
    """Whether the norm multiplies all features alike, so that what has no mean keeps none."""
    return isinstance(norm, nn.LayerNorm) and bool((norm.weight == norm.weight[0]).all())


def _ends(f: nn.Module) -> tuple[nn.Linear, nn.Linear]:
    """A branch's first and last matrix."""
    if isinstance(f, FeedForward):
        return f.fc1, f.fc2
    last = cast(nn.Linear, f.out)
    return (f.qkv if isinstance(f, Attention) else last), last


def _centre(matrix: nn.Linear, parts: int = 1) -> None:
    """Take the mean over output features out of what a matrix writes; of each of its parts by itself."""
    for weight, bias in zip(matrix.weight.chunk(parts), matrix.bias.chunk(parts), strict=True):
        weight -= weight.mean(0)
        bias -= bias.mean()


class _Fold:
    """The fold of one network, in place. `reasons` fills with what keeps it from being exact."""

    def __init__(self, network: Network) -> None:
        self.network = network
        blocks = cast(Mapping[str, Block], network.blocks)
        self.branches: list[Branch] = [branch for block in blocks.values() for branch in (block.mixer, block.ffn)]
        self.reasons: dict[str, None] = {}

    def _tell(self, why: str, door: str, fault: bool = True) -> None:
        if fault:
            self.reasons[why.format(door)] = None

    def biases(self) -> None:
        """Move the bias of every norm to the next matrix. `offset` is what the stream lacks until then."""
        offset = torch.zeros(self.network.config.width, dtype=torch.float64)
        block_offset = offset
        for at, branch in enumerate(self.branches):
            if at % 2 == 0:
                block_offset = offset
            first, last = _ends(branch.f)
            if _is_ln(branch.before):
                self._tell(BIAS, "after", bool(offset.any()))
            read = _factor(branch.branch_in) * (_bias(branch.before, offset) if _is_ln(branch.before) else offset)
            if first is last and _is_ln(cast(nn.Module, branch.f.within)):
                self._tell(BIAS, "before", bool(read.any()))
            else:
                first.bias.add_(first.weight @ read)
            self._inside(branch, last)
            self._tell(BIAS, "output", bool(_bias(branch.output, offset).any()))
            carried = _factor(branch.skip) * offset + _factor(branch.bottom) * block_offset
            if not _is_ln(branch.output) and _factor(branch.branch_out):
                last.bias.add_(carried / _factor(branch.branch_out))
            else:
                self._tell(BIAS, "after", bool(carried.any()))
            offset = _bias(branch.after, offset)
        self._tell(BIAS, "after", bool(offset.any()))

    def _inside(self, branch: Branch, last: nn.Linear) -> None:
        """Biases of norms within f. That of values passes through attention, whose weights add up to 1; that of keys
        adds the same to all logits of a query, which the softmax does not see."""
        f = branch.f
        within = cast(nn.Module, f.within)
        last.bias.add_(last.weight @ _bias(within, last.weight[0]))
        if not isinstance(f, Attention):
            return
        queries, keys, values = (_bias(norm, last.bias) for norm in f.qkv_norms)
        blind = isinstance(f.k_norm, nn.Identity)
        self._tell(BIAS, "qkv", bool(queries.any() or (keys.any() and not blind) or (values.any() and _is_ln(within))))
        if not _is_ln(within):
            last.bias.add_(last.weight @ values)

    def means(self, *, final_stays: bool) -> None:
        """Centre every matrix that writes for LayerNorms alone, and tell of norms that still read a mean."""
        centred = block_centred = self._only_norms_read(0)
        if centred:
            for table in filter(None, (self.network.embedding, self.network.positions)):
                table.weight -= table.weight.mean(1, keepdim=True)
        for at, branch in enumerate(self.branches):
            if at % 2 == 0:
                block_centred = centred
            f, (_, last) = branch.f, _ends(branch.f)
            self._tell(MEAN, "before", _is_ln(branch.before) and not centred)
            self._tell(MEAN, "within", _is_ln(cast(nn.Module, f.within)))
            if isinstance(f, Attention) and any(map(_is_ln, f.qkv_norms)):
                _centre(f.qkv, parts=3)
            writes = _is_ln(branch.output) or _is_ln(branch.after) or self._only_norms_read(at + 1)
            if writes:
                _centre(last)
            branch_centred = writes and (not _is_ln(branch.output) or _even(branch.output))
            centred = branch_centred and (branch.skip is None or centred) and (branch.bottom is None or block_centred)
            if _is_ln(branch.after):
                self._tell(MEAN, "after", not centred)
                centred = centred and _even(branch.after)
        self._tell(MEAN, "final_norm", _is_ln(self.network.final_norm) and not centred and not final_stays)

    def _only_norms_read(self, at: int) -> bool:
        """Whether LayerNorms alone read the stream that reaches branch number `at`, for as long as it lasts."""
        for number, branch in enumerate(self.branches[at:], start=at):
            if not _is_ln(branch.before):
                return False
            if _is_ln(branch.after) or branch.skip is None:
                ffn = self.branches[number + 1 - number % 2]
                bypassed = number % 2 == 0 and ffn.bottom is not None
                return not bypassed or _is_ln(ffn.after) or self._only_norms_read(number + 2)
        return _is_ln(self.network.final_norm)


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
