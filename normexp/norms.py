"""The table of norms: what each computes, where it is from, and what a network with it may rely on.

The modules of the package's own rows stand in `normexp.nn.norms`; a row of a plugin makes its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from normexp.registry import Registry

if TYPE_CHECKING:
    from normexp.run import RunConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """A row. `causal`: the output at a token depends on that token alone. `uses_eps`: the key `eps` has a meaning.

    `make(width, run)` gives a fresh torch module over the last axis, of `width` features; only plugins set it.
    """

    help: str
    source: str
    causal: bool = True
    uses_eps: bool = True
    make: Callable[[int, RunConfig], Any] | None = None


NORMS: Registry[Norm] = Registry(
    "norm",
    {
        "ln": Norm(
            help="g (x - mean) / sqrt(var + eps) + b, biased variance",
            source="Ba et al. 2016, arXiv 1607.06450, equation 4",
        ),
        "rms": Norm(
            help="g x / sqrt(mean(x^2) + eps)",
            source="Zhang and Sennrich 2019, arXiv 1910.07467, equation 4",
        ),
        "bn": Norm(
            help="per feature over batch and positions, so later tokens too; running statistics in evaluation",
            source="Ioffe and Szegedy 2015, arXiv 1502.03167, algorithms 1 and 2",
            causal=False,
        ),
        "dyt": Norm(
            help="g tanh(a x) + b, one learned a from dyt_alpha; no statistics",
            source="Zhu et al. 2025, arXiv 2503.10622; jiachenzhu/DyT, dynamic_tanh.py",
            uses_eps=False,
        ),
        "scale": Norm(
            help="g x / sqrt(|x|^2 + d eps), one learned scalar g from sqrt(d)",
            source="Nguyen and Salazar 2019, arXiv 1910.05895",
        ),
    },
)
"""Name to row. `none` is no norm at all, and no row."""
