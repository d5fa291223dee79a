"""The table of norms on queries and keys. Axes: b sequences, h heads, t tokens, k features of a head."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn

from normexp.nn.norms import in_precision, make_norm
from normexp.nn.overflow import inverse_root
from normexp.run import RunConfig


class FullWidth(nn.Module):
    """A norm over the features of all heads together: (b, h, t, k) to the same."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x_bhtk: Tensor) -> Tensor:
        b, h, t, k = x_bhtk.shape
        normed_btd = self.norm(x_bhtk.transpose(1, 2).reshape(b, t, h * k))
        return normed_btd.view(b, t, h, k).transpose(1, 2)  # type: ignore[no-any-return]


class UnitLength(nn.Module):
    """x / sqrt(|x|^2 + k eps) over the last axis, times a learned scalar where `start` is given."""

    def __init__(self, width: int, eps: float, start: float | None = None) -> None:
        super().__init__()
        self.floor = width * eps
        self.gain = None if start is None else nn.Parameter(torch.tensor(start))

    def forward(self, x: Tensor) -> Tensor:
        unit = x * inverse_root(x.square().sum(-1, keepdim=True) + self.floor)
        return unit if self.gain is None else self.gain * unit


@dataclass(frozen=True, slots=True)
class QKNorm:
    """A row: modules for queries and keys (b, h, t, k), and the scale of the logits, None for 1 / sqrt(k)."""

    make: Callable[[RunConfig], tuple[nn.Module, nn.Module]]
    scale: float | None = None


def _no_norm(run: RunConfig) -> tuple[nn.Module, nn.Module]:
    return nn.Identity(), nn.Identity()


def _per_head(name: str) -> Callable[[RunConfig], tuple[nn.Module, nn.Module]]:
    def make(run: RunConfig) -> tuple[nn.Module, nn.Module]:
        one, other = (make_norm(name, run.width // run.heads, run) for _ in range(2))
        assert one is not None
        assert other is not None
        return one, other

    return make


def _full(run: RunConfig) -> tuple[nn.Module, nn.Module]:
    one, other = (FullWidth(make_norm("rms", run.width, run) or nn.Identity()) for _ in range(2))
    return one, other


def _cosine(run: RunConfig) -> tuple[nn.Module, nn.Module]:
    """Logits g cos(q, k), g from log2(T^2 - T) for sequences of T tokens. Henry et al. 2020, section 3."""
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
