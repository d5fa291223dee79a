"""The functions f inside the branches of a block: three token mixers and the FFN, and norms on queries and keys.

Axes: b sequences, t tokens, d features, h heads, k features of a head. Every f maps (b, t, d) to (b, t, d) and has a
norm site `within`, before its last matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional

from normexp.config.run import RunConfig
from normexp.model.norms import in_precision, make_norm
from normexp.model.overflow import inverse_root


class FullWidth(nn.Module):
    """A norm over the features of all heads together: (b, h, t, k) to (b, h, t, k)."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x_bhtk: Tensor) -> Tensor:
        b, h, t, k = x_bhtk.shape
        normed_btd = self.norm(x_bhtk.transpose(1, 2).reshape(b, t, h * k))
        return normed_btd.view(b, t, h, k).transpose(1, 2)  # type: ignore[no-any-return]


class UnitLength(nn.Module):
    """x / sqrt(|x|^2 + k eps) over the last axis, times a learned scalar that starts at `start`, if given."""

    def __init__(self, width: int, eps: float, start: float | None = None) -> None:
        super().__init__()
        self.floor = width * eps
        self.gain = None if start is None else nn.Parameter(torch.tensor(start))

    def forward(self, x: Tensor) -> Tensor:
        unit = x * inverse_root(x.square().sum(-1, keepdim=True) + self.floor)
        return unit if self.gain is None else self.gain * unit


@dataclass(frozen=True, slots=True)
class QKNorm:
    """Modules for queries and keys (b, h, t, k), and the scale of the logits, None for 1 / sqrt(k)."""

    make: Callable[[RunConfig], tuple[nn.Module, nn.Module]]
    scale: float | None = None


def _no_norm(run: RunConfig) -> tuple[nn.Module, nn.Module]:
    return nn.Identity(), nn.Identity()


def _per_head(name: str) -> Callable[[RunConfig], tuple[nn.Module, nn.Module]]:
    def make(run: RunConfig) -> tuple[nn.Module, nn.Module]:
        q_norm, k_norm = (make_norm(name, run.width // run.heads, run) for _ in range(2))
        assert q_norm is not None
        assert k_norm is not None
        return q_norm, k_norm

    return make


def _full(run: RunConfig) -> tuple[nn.Module, nn.Module]:
    q_norm, k_norm = (FullWidth(make_norm("rms", run.width, run) or nn.Identity()) for _ in range(2))
    return q_norm, k_norm


def _cosine(run: RunConfig) -> tuple[nn.Module, nn.Module]:
    """Logits g cos(q, k), where g starts at log2(T^2 - T) for sequences of T tokens. Henry et al. 2020, section 3."""
    tokens, features = max(2, run.seq_len), run.width // run.heads
    queries = UnitLength(features, run.eps, math.log2(tokens * tokens - tokens))
    return in_precision(queries, run), in_precision(UnitLength(features, run.eps), run)


QK_NORMS: Mapping[str, QKNorm] = MappingProxyType(
    {
        "none": QKNorm(_no_norm),
        "rms": QKNorm(_per_head("rms")),  # Qwen3, Gemma 3
        "ln": QKNorm(_per_head("ln")),  # Wortsman et al. 2023, arXiv 2309.14322, section 3.1.1
        "full": QKNorm(_full),  # OLMo 2
        "l2": QKNorm(_cosine, scale=1.0),  # Henry et al. 2020, arXiv 2010.04245
    }
)


MakeNorm = Callable[[str, int], nn.Module]
"""Creates the norm (or identity) of a norm site of this branch, given the site's name and its number of features."""


LONGEST = 64
"""Sequences of up to this many tokens use the formula of attention, which stores all attention weights."""


def attend(q_bhtk: Tensor, k_bhtk: Tensor, v_bhtk: Tensor, scale: float | None) -> Tensor:
    """Return softmax(scale q k^T) v, (b, h, t, k), with a causal mask; scale None is 1 / sqrt(k).

    Longer sequences and 16-bit inputs use torch's fused kernel. In its backward pass, a difference that should vanish
    leaves its rounding times the size of the logits, which exceeds the gradient itself from logits of about 1e7 on
    (docs/fused-attention.md). The kernel also returns 0 for some tokens with NaN or overflowed logits; as in the
    formula, they become NaN here.
    """
    tokens, features = q_bhtk.shape[-2:]
    factor = 1 / math.sqrt(features) if scale is None else scale
    if tokens > LONGEST or q_bhtk.dtype.itemsize < 4:
        y_bhtk = functional.scaled_dot_product_attention(q_bhtk, k_bhtk, v_bhtk, is_causal=True, scale=scale)
        return y_bhtk if _logits_bounded(q_bhtk, k_bhtk, factor) else y_bhtk + _nan_where_hidden(q_bhtk, k_bhtk, factor)
    return _masked_logits(q_bhtk, k_bhtk, factor).softmax(-1) @ v_bhtk


def _masked_logits(q_bhtk: Tensor, k_bhtk: Tensor, factor: float) -> Tensor:
    """Return logits (b, h, t, t), -inf for later tokens."""
    tokens = q_bhtk.shape[-2]
    later_tt = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    return (q_bhtk @ k_bhtk.transpose(-2, -1) * factor).masked_fill(later_tt, -math.inf)


def _logits_bounded(q_bhtk: Tensor, k_bhtk: Tensor, factor: float) -> bool:
    """Return whether the magnitudes of all queries and all keys rule out that a logit overflows."""
    wide = torch.promote_types(q_bhtk.dtype, torch.float32)
    queries, keys = (float(torch.linalg.vector_norm(x.detach(), dtype=wide)) for x in (q_bhtk, k_bhtk))
    return queries * keys * max(1.0, abs(factor)) < torch.finfo(wide).max


@torch.no_grad()
def _nan_where_hidden(q_bhtk: Tensor, k_bhtk: Tensor, factor: float) -> Tensor:
    """Return a summand per token (b, h, t, 1): NaN if its largest logit is not finite, else 0."""
    wide = torch.promote_types(q_bhtk.dtype, torch.float32)
    largest_bht1 = _masked_logits(q_bhtk.to(wide), k_bhtk.to(wide), factor).amax(-1, keepdim=True)
    return (0 * largest_bht1).to(q_bhtk.dtype)


class Attention(nn.Module):
    """Causal multi-head attention with one stacked matrix for queries, keys and values (Vaswani 2017, section 3.2).

    The norm sites `qkv` are on queries, keys and values, over all heads together.
    """

    def __init__(self, config: RunConfig, norm: MakeNorm) -> None:
        super().__init__()
        qk = QK_NORMS[config.qk_norm]
        self.heads, self.scale = config.heads, qk.scale
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.qkv_norms = nn.ModuleList(norm("qkv", config.width) for _ in range(3))
        self.q_norm, self.k_norm = qk.make(config)
        self.within = norm("within", config.width)
        self.out = nn.Linear(config.width, config.width)

    def queries_keys_values(self, x_btd: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return normalized queries, normalized keys, and values, each (b, h, t, k)."""
        b, t, _ = x_btd.shape
        parts_btd = (norm(part) for norm, part in zip(self.qkv_norms, self.qkv(x_btd).chunk(3, dim=-1), strict=True))
        q_bhtk, k_bhtk, v_bhtk = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in parts_btd)
        return self.q_norm(q_bhtk), self.k_norm(k_bhtk), v_bhtk

    def forward(self, x_btd: Tensor) -> Tensor:
        q_bhtk, k_bhtk, v_bhtk = self.queries_keys_values(x_btd)
        y_btd = attend(q_bhtk, k_bhtk, v_bhtk, self.scale).transpose(1, 2).reshape(x_btd.shape)
        return self.out(self.within(y_btd))  # type: ignore[no-any-return]


class RunningMean(nn.Module):
    """The mean of all tokens so far, then a matrix: uniform causal attention."""

    def __init__(self, config: RunConfig, norm: MakeNorm) -> None:
        super().__init__()
        self.within = norm("within", config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x_btd: Tensor) -> Tensor:
        count_t1 = torch.arange(1, x_btd.shape[1] + 1)[:, None]
        mean_btd = x_btd.cumsum(dim=1) / count_t1
        return self.out(self.within(mean_btd))  # type: ignore[no-any-return]


class PerToken(nn.Module):
    """A matrix applied to each token; tokens do not interact."""

    def __init__(self, config: RunConfig, norm: MakeNorm) -> None:
        super().__init__()
        self.within = norm("within", config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x_btd: Tensor) -> Tensor:
        return self.out(self.within(x_btd))  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """fc2(activation(fc1(x))), applied to each token."""

    def __init__(self, config: RunConfig, norm: MakeNorm) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.width, config.hidden)
        self.activation = nn.GELU() if config.activation == "gelu" else nn.ReLU()
        self.within = norm("within", config.hidden)
        self.fc2 = nn.Linear(config.hidden, config.width)

    def forward(self, x_btd: Tensor) -> Tensor:
        return self.fc2(self.within(self.activation(self.fc1(x_btd))))  # type: ignore[no-any-return]


MIXERS: Mapping[str, Callable[[RunConfig, MakeNorm], nn.Module]] = MappingProxyType(
    {"attention": Attention, "mean": RunningMean, "linear": PerToken}
)
