"""The modules that the article prints, built with this program's norms, and its network in three settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from normexp.claims.claim import NOTHING, Finding
from normexp.config import presets
from normexp.config.run import RunConfig
from normexp.model.norms import make_norm
from normexp.schemes.network_config import Value
from normexp.texts.figures import Observed, by_condition

SETTINGS: Mapping[str, Mapping[str, Value]] = MappingProxyType(
    {setting.label: setting.keys for setting in reversed(list(presets.SETTINGS.values()))}
)


def norm(name: str, width: int) -> nn.Module:
    """Return this program's norm with eps 1e-5, or the identity for none."""
    return make_norm(name, width, RunConfig()) or nn.Identity()


Make = Callable[..., RunConfig]
"""A config of one setting, from more keys."""


def in_settings(
    look: Callable[[Make], Observed], sentence: str, elsewhere: Mapping[str, Observed] = NOTHING
) -> Finding:
    """Return a finding over the settings, and over the conditions in `elsewhere`."""
    return by_condition({name: look(setting(name)) for name in SETTINGS}, elsewhere, sentence)


def setting(name: str) -> Make:
    """Return a function that makes configs of a setting."""
    base: Mapping[str, Any] = SETTINGS[name]
    return lambda **keys: RunConfig(**{**base, **keys})


class PostLNBlock(nn.Module):
    """The Post-LN block of section 2.1: (b, t, d) to (b, t, d)."""

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__()
        self.sub = nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, d))
        self.ln = norm("ln", d)

    def forward(self, x: Tensor) -> Tensor:
        return self.ln(x + self.sub(x))  # type: ignore[no-any-return]


class PreLNBlock(nn.Module):
    """The Pre-LN block of section 2.1: (b, t, d) to (b, t, d)."""

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__()
        self.ln = norm("ln", d)
        self.sub = nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, d))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.sub(self.ln(x))  # type: ignore[no-any-return]


class QKNormAttention(nn.Module):
    """The attention of section 5.1: (b, t, d) to (b, t, d). It has neither a causal mask nor an output projection.

    With `causal` and `projected`, it has them.
    """

    def __init__(self, d: int, heads: int, *, causal: bool = False, projected: bool = False) -> None:
        super().__init__()
        self.h, self.dk, self.causal = heads, d // heads, causal
        self.wq, self.wk, self.wv = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.q_norm, self.k_norm = norm("rms", self.dk), norm("rms", self.dk)
        self.out = nn.Linear(d, d, bias=False) if projected else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (w(x).unflatten(-1, (self.h, self.dk)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        weighted = functional.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, is_causal=self.causal)
        return self.out(weighted.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class ToyBlock(nn.Module):
    """The block of section 6.1: (b, t, d) to (b, t, d)."""

    def __init__(self, d: int, hidden: int, name: str, pos: str) -> None:
        super().__init__()
        self.pos = pos
        self.n1, self.n2 = norm(name, d), norm(name, d)
        self.mix = nn.Linear(d, d)
        self.ffn = nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, d))

    def forward(self, x: Tensor) -> Tensor:
        if self.pos == "pre":
            x = x + self.mix(self.n1(x))
            return x + self.ffn(self.n2(x))  # type: ignore[no-any-return]
        x = self.n1(x + self.mix(x))
        return self.n2(x + self.ffn(x))  # type: ignore[no-any-return]


class ToyDeepNet(nn.Module):
    """The network of section 6.1: tokens (b, t) to logits (b, t, v)."""

    def __init__(self, name: str, pos: str, d: int = 64, hidden: int = 128, layers: int = 20, vocab: int = 64) -> None:
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList([ToyBlock(d, hidden, name, pos) for _ in range(layers)])
        self.final = norm("ln", d) if pos == "pre" else nn.Identity()
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.emb(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.final(x))  # type: ignore[no-any-return]
