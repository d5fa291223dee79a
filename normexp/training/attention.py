"""What attention does with its tokens: how widely it looks, and how large its logits are."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from normexp.nn.branches import Attention


@torch.no_grad()
def attention_sizes(q_bhtk: Tensor, k_bhtk: Tensor, scale: float | None) -> tuple[float, float]:
    """Mean entropy of the attention weights in nats, and the largest absolute logit of causal attention.

    `scale` is the factor on q · k, None for 1 / sqrt(k). The entropy is a mean over sequences, heads and positions
    from the second on: the first sees itself alone, and its entropy of 0 is left out. Uniform attention over t tokens
    has ln(t!) / (t - 1). The logit is the largest over pairs that are not masked. 16-bit values are widened to
    float32, as attention accumulates them; NaN where a logit is NaN.
    """
    factor = 1 / math.sqrt(q_bhtk.shape[-1]) if scale is None else scale
    wide = torch.promote_types(q_bhtk.dtype, torch.float32)
    logits_bhts = q_bhtk.to(wide) @ k_bhtk.to(wide).transpose(-1, -2) * factor
    t = logits_bhts.shape[-1]
    masked_ts = torch.ones(t, t, dtype=torch.bool).triu(1)
    largest = float(logits_bhts.masked_fill(masked_ts, 0.0).abs().max())
    weights_bhts = logits_bhts.masked_fill_(masked_ts, -math.inf).softmax(dim=-1)[..., 1:, :]
    entropy_bht = torch.special.entr(weights_bhts).sum(dim=-1, dtype=torch.float64)
    return float(entropy_bht.mean()) if t > 1 else 0.0, largest


def watch_attention(attention: Attention, report: Callable[[float, float], None]) -> list[RemovableHandle]:
    """At each forward pass of the module, report entropy and largest logit of the queries and keys that it uses."""
    queries: list[Tensor] = []

    def see_queries(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        queries[:] = [output.detach()]

    def see_keys(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        report(*attention_sizes(queries.pop(), output.detach(), attention.scale))

    return [
        attention.q_norm.register_forward_hook(see_queries),
        attention.k_norm.register_forward_hook(see_keys),
    ]
