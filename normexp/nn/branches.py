"""The functions f inside a block's branches: three mixers and the FFN.

Axes: b sequences, t tokens, d features, h heads, k features of a head. Every f maps (b, t, d) to (b, t, d), and has
a door `within`, before its last matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional

from normexp.nn.norms import make_norm
from normexp.run import RunConfig


def _door(norm: nn.Module | None) -> nn.Module:
    return nn.Identity() if norm is None else norm


class Attention(nn.Module):
    """Causal multi-head attention with one stacked matrix for queries, keys and values (Vaswani 2017, section 3.2)."""

    def __init__(self, config: RunConfig, within: nn.Module | None) -> None:
        super().__init__()
        self.heads = config.heads
        head_width = config.width // config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.q_norm = _door(make_norm(config.qk_norm, head_width, config.eps))
        self.k_norm = _door(make_norm(config.qk_norm, head_width, config.eps))
        self.within = _door(within)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x_btd: Tensor) -> Tensor:
        b, t, d = x_btd.shape
        q_bhtk, k_bhtk, v_bhtk = self.qkv(x_btd).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q_bhtk, k_bhtk = self.q_norm(q_bhtk), self.k_norm(k_bhtk)
        y_bhtk = functional.scaled_dot_product_attention(q_bhtk, k_bhtk, v_bhtk, is_causal=True)
        y_btd = y_bhtk.transpose(1, 2).reshape(b, t, d)
        return self.out(self.within(y_btd))  # type: ignore[no-any-return]


class RunningMean(nn.Module):
    """The mean of the tokens so far, then a matrix: uniform causal attention."""

    count_t1: Tensor

    def __init__(self, config: RunConfig, within: nn.Module | None) -> None:
        super().__init__()
        self.register_buffer("count_t1", torch.arange(1, config.seq_len + 1)[:, None], persistent=False)
        self.within = _door(within)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x_btd: Tensor) -> Tensor:
        mean_btd = x_btd.cumsum(dim=1) / self.count_t1[: x_btd.shape[1]]
        return self.out(self.within(mean_btd))  # type: ignore[no-any-return]


class PerToken(nn.Module):
    """A matrix on each token by itself: no token sees another."""

    def __init__(self, config: RunConfig, within: nn.Module | None) -> None:
        super().__init__()
        self.within = _door(within)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x_btd: Tensor) -> Tensor:
        return self.out(self.within(x_btd))  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """fc2(activation(fc1(x))) on each token."""

    def __init__(self, config: RunConfig, within: nn.Module | None) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.width, config.hidden)
        self.activation = nn.GELU() if config.activation == "gelu" else nn.ReLU()
        self.within = _door(within)
        self.fc2 = nn.Linear(config.hidden, config.width)

    def forward(self, x_btd: Tensor) -> Tensor:
        return self.fc2(self.within(self.activation(self.fc1(x_btd))))  # type: ignore[no-any-return]


MIXERS: Mapping[str, Callable[[RunConfig, nn.Module | None], nn.Module]] = MappingProxyType(
    {"attention": Attention, "mean": RunningMean, "linear": PerToken}
)
