"""Norms computed in 16 bits throughout (sections 3.3 and 7.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from normexp.claims.claim import Finding
from normexp.config.run import RunConfig
from normexp.model.norms import make_norm
from normexp.texts.figures import by_condition, one_seed

WIDTH = 512
SIZES = [float(2**power) for power in range(16)]


def _in_half(name: str) -> nn.Module:
    return (make_norm(name, WIDTH, RunConfig(dtype="float16", norm_dtype="same")) or nn.Identity()).half()


def _widest(norm: nn.Module, inputs: dict[float, Tensor]) -> float:
    """Return the largest input size up to which the float16 output is within 10 % of the float32 output."""
    right = 0.0
    for size, x_d in inputs.items():
        wanted, output = norm.float()(x_d.float()), norm.half()(x_d).float()
        if not torch.allclose(output, wanted, rtol=0.1, atol=0.05):
            break
        right = size
    return right


@torch.no_grad()
def rms_range_is_wider(seed: int, name: str = "rms", other: str = "ln") -> Finding:
    """Check that in float16, RMSNorm has larger outputs by 1 %, or larger valid inputs, than LayerNorm."""
    signs = torch.where(torch.arange(WIDTH) % 2 == 0, 1.0, -1.0)
    plus_minus = {size: (signs * size).half() for size in SIZES}
    with_offset = {size: (signs + size).half() for size in SIZES[:11]}
    spike = nn.functional.one_hot(torch.tensor(0), WIDTH).half() * 100
    one, two = (
        (float(norm(spike).abs().max()), _widest(norm, plus_minus), _widest(norm, with_offset))
        for norm in map(_in_half, (name, other))
    )
    holds = one[0] > 1.01 * two[0] or one[1] > two[1] or one[2] > two[2]
    measured = (
        f"largest output {one[0]:.2f} against {two[0]:.2f}, largest input {one[1]:g} against {two[1]:g}, "
        f"largest mean of an input {one[2]:g} against {two[2]:g}"
    )
    return one_seed(holds, measured, f"RMSNorm against LayerNorm in float16 at d = {WIDTH}: {measured}")


def variance_underflows(seed: int, std: float = 1e-4) -> Finding:
    """Check that the variance of features with standard deviation 1e-4 is 0 in 16 bits."""
    torch.manual_seed(seed)
    x_d = torch.randn(WIDTH) * std
    own = {}
    for dtype in (torch.float16, torch.bfloat16):
        x = x_d.to(dtype)
        variance = float((x - x.mean()).square().mean())
        own[str(dtype).removeprefix("torch.")] = (variance == 0, f"{variance:.2g}")
    return by_condition(own, {}, f"variance of features of std {std:g}, {std**2:g} or so")


@torch.no_grad()
def eps_must_fit(seed: int, stds: Sequence[float] = (1.0, 1e-2, 1e-4), eps: Sequence[float] = (1e-8, 1e-5)) -> Finding:
    """Check that in 16 bits, RMSNorm is off by over 10 % for some features with the first eps, never with the second.

    The error is the largest one, relative to the largest output of the same formula in float64. Non-finite outputs
    count as an infinite error.
    """
    torch.manual_seed(seed)
    x_d = torch.randn(WIDTH)
    own = {}
    for dtype in ("float16", "bfloat16"):
        worst = {value: max(_rms_error(x_d * std, dtype, value) for std in stds) for value in eps}
        text = ", ".join(f"{error:.1g} with eps {value:g}" for value, error in worst.items())
        own[f"in {dtype}"] = (worst[eps[0]] > 0.1 > worst[eps[1]], text)
    return by_condition(own, {}, f"largest relative error for features of std {', '.join(map(str, stds))}, seed {seed}")


def _rms_error(x_d: Tensor, dtype: str, eps: float) -> float:
    """Return the largest error of RMSNorm in a 16-bit dtype, relative to the largest output in float64."""
    rounded = x_d.to(getattr(torch, dtype))
    norm = make_norm("rms", WIDTH, RunConfig(dtype=dtype, norm_dtype="same", eps=eps))
    assert norm is not None
    output, exact = norm.to(rounded.dtype)(rounded).double(), rounded.double()
    wanted = exact / (exact.square().mean() + eps).sqrt()
    error = float((output - wanted).abs().max() / wanted.abs().max())
    return error if math.isfinite(error) else math.inf
