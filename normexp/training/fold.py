"""LayerNorm folded away: RMSNorm networks that compute the same, as far as the scheme lets them.

LN(x) = g RMS(C x) + b, where C subtracts the mean over features. So RMSNorm can stand for LayerNorm where C can be
multiplied into every matrix that writes what the norm reads, and W b added to the bias of the matrix W that reads what
it writes: the fold. Jiang et al. 2023, arXiv 2305.14858, do so for Pre. Where it can be done follows here from the
doors, matrices and scales of the blocks; scales, learned ones too, are linear, so that C passes through them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from normexp.nn.block import Block, Branch, Constant, Scaling
from normexp.nn.branches import Attention, FeedForward
from normexp.nn.network import Network, build
from normexp.nn.norms import LayerNorm
from normexp.run import RunConfig
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
