"""The torch modules of the built-in norms, for inputs whose last axis holds the features.

A norm whose statistic overflows returns NaN, see `normexp.model.overflow`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig
from normexp.model.overflow import all_finite, checked, checked_by, guarded, inverse_root
from normexp.model.precision import InFloat32
from normexp.model.rms_norm import RMSNorm
from normexp.schemes.norms import NORMS, Reading


class LayerNorm(nn.LayerNorm):
    """torch's LayerNorm, but with NaN where the variance overflows."""

    def forward(self, x: Tensor) -> Tensor:
        y, _, inverse = torch.native_layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return checked_by(y, inverse)


class RoundedLayerNorm(nn.LayerNorm):
    """LayerNorm by formula, with each operation rounded to the dtype of the input."""

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        root = checked((centred.square().mean(-1, keepdim=True) + self.eps).sqrt())
        return self.weight * (centred / root) + self.bias


class RoundedRMSNorm(nn.RMSNorm):
    """RMSNorm by formula, with each operation rounded to the dtype of the input."""

    eps: float

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x / checked((x.square().mean(-1, keepdim=True) + self.eps).sqrt()))


class BatchNorm(nn.BatchNorm1d):
    """Normalizes each feature over all other axes in training, and by running statistics in evaluation.

    In training, the output at a token depends on later tokens and other sequences. If a variance overflows, the running
    statistics stay non-finite, so all later outputs are NaN, in training and in evaluation.
    """

    running_mean: Tensor
    running_var: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return self.checked(super().forward(x.reshape(-1, x.shape[-1])).view_as(x))

    def checked(self, y: Tensor) -> Tensor:
        """Return the output, or NaN once a running statistic is not finite."""
        mean, var = self.running_mean, self.running_var
        finite = math.isfinite(float(torch.dot(mean, var))) or (all_finite(mean) and all_finite(var))
        return y if finite else y * math.nan


class RoundedBatchNorm(BatchNorm):
    """BatchNorm by formula, with each operation rounded to the dtype of the input; running statistics in float32."""

    def forward(self, x: Tensor) -> Tensor:
        axes = tuple(range(x.dim() - 1))
        if self.training:
            mean, var = x.mean(axes), (x - x.mean(axes)).square().mean(axes)
            self._update_running(mean.detach(), var.detach(), x.numel() // x.shape[-1])
        else:
            mean, var = self.running_mean.to(x.dtype), self.running_var.to(x.dtype)
        return self.checked(self.weight * ((x - mean) / checked((var + self.eps).sqrt())) + self.bias)

    @torch.no_grad()
    def _update_running(self, mean: Tensor, var: Tensor, count: int) -> None:
        unbiased = var.float() * (count / max(1, count - 1))
        for running, batch in ((self.running_mean, mean.float()), (self.running_var, unbiased)):
            running.lerp_(batch, self.momentum)  # type: ignore[arg-type]


class DyT(nn.Module):
    """g tanh(a x) + b, with one scalar a. Zhu et al. 2025, arXiv 2503.10622.

    It has no statistics, but a x can overflow, which the tanh would hide.
    """

    def __init__(self, width: int, start: float) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(start))
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        scaled = self.alpha * x
        return self.weight * torch.tanh(scaled if all_finite(scaled) else checked(scaled)) + self.bias


class ScaleNorm(nn.Module):
    """g x / sqrt(|x|^2 + d eps), with one scalar g that starts at sqrt(d). Nguyen and Salazar 2019, arXiv 1910.05895.

    Since eps is added to the mean square, as in the other norms, it equals RMSNorm with one gain for all features.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(math.sqrt(width)))
        self.floor = width * eps

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * x * inverse_root(x.square().sum(-1, keepdim=True) + self.floor)


def rounds(run: RunConfig) -> bool:
    """Return whether norms compute in 16 bits."""
    return run.dtype != "float32" and run.norm_dtype == "same"


def in_precision(norm: nn.Module, run: RunConfig) -> nn.Module:
    """Return a norm that computes in the precision given by `norm_dtype`."""
    return norm if run.dtype == "float32" or rounds(run) else InFloat32(norm)


def layer_norm(width: int, run: RunConfig) -> nn.Module:
    """Return a LayerNorm with gain and bias."""
    return RoundedLayerNorm(width, eps=run.eps) if rounds(run) else LayerNorm(width, eps=run.eps)


def rms_norm(width: int, run: RunConfig) -> nn.Module:
    """Return an RMSNorm with a gain, eps inside the root."""
    return RoundedRMSNorm(width, eps=run.eps) if rounds(run) else RMSNorm(width, run.eps)


def batch_norm(width: int, run: RunConfig) -> nn.Module:
    """Return a BatchNorm with gain, bias and running statistics of momentum 0.1."""
    return RoundedBatchNorm(width, eps=run.eps) if rounds(run) else BatchNorm(width, eps=run.eps)


def dyt(width: int, run: RunConfig) -> nn.Module:
    """Return a DyT that starts at `dyt_alpha`."""
    return DyT(width, run.dyt_alpha)


def scale_norm(width: int, run: RunConfig) -> nn.Module:
    """Return a ScaleNorm that starts at sqrt(width)."""
    return ScaleNorm(width, run.eps)


MODULES: Mapping[str, Callable[[int, RunConfig], nn.Module]] = MappingProxyType(
    {"ln": layer_norm, "rms": rms_norm, "bn": batch_norm, "dyt": dyt, "scale": scale_norm}
)


def make_norm(name: str, width: int, run: RunConfig) -> nn.Module | None:
    """Return a new norm over `width` features, or None for `none`. 16-bit runs use the precision `norm_dtype`."""
    if name == "none":
        return None
    row = NORMS[name]
    norm = MODULES[name](width, run) if row.make is None else guarded(row.make(width, Reading(run, row.keys)))
    return in_precision(norm, run)
