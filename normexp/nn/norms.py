"""The table of norms: name to a module over the last axis. `none` is no module at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from torch import nn


def layer_norm(width: int, eps: float) -> nn.Module:
    """g (x - mean) / sqrt(var + eps) + b, biased variance. Ba et al. 2016, arXiv 1607.06450, equation 4."""
    return nn.LayerNorm(width, eps=eps)


def rms_norm(width: int, eps: float) -> nn.Module:
    """g x / sqrt(mean(x^2) + eps), eps inside the root. Zhang and Sennrich 2019, arXiv 1910.07467, equation 4."""
    return nn.RMSNorm(width, eps=eps)


NormFactory = Callable[[int, float], nn.Module]

NORMS: Mapping[str, NormFactory] = MappingProxyType({"ln": layer_norm, "rms": rms_norm})


def make_norm(name: str, width: int, eps: float) -> nn.Module | None:
    """A norm over `width` features, or None for `none`."""
    return None if name == "none" else NORMS[name](width, eps)
