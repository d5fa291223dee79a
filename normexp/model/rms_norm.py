"""RMSNorm with a hand-written backward pass: the same numbers as nn.RMSNorm, up to rounding, but faster on a CPU.

torch has no CPU kernel for RMSNorm: it composes one from operations and differentiates each of them. LayerNorm's
backward kernel, called with mean 0 and RMSNorm's 1 / rms, computes RMSNorm's gradient except that it subtracts
mean(gain * grad) / rms. That term is added back here.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from normexp.model.overflow import all_finite, inverse_root

FAST_DTYPES = (torch.float32, torch.float64)
"""The dtypes that use the kernel. Others are composed by torch, with statistics in float32."""


class RMSNorm(nn.RMSNorm):
    """gain * x / sqrt(mean(x^2) + eps) over the last axis, of `width` features; any leading shape.

    The output is NaN where the mean square overflows, where torch's RMSNorm returns 0. Forward-mode differentiation and
    torch.func are not supported. Parameter and state are those of nn.RMSNorm.
    """

    weight: nn.Parameter
    eps: float

    def __init__(self, width: int, eps: float) -> None:
        super().__init__(width, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the input's shape and dtype. Raises RuntimeError if the last axis is not `width` long."""
        return rms_norm(x, self.weight, self.eps)


def rms_norm(x: Tensor, weight_d: Tensor, eps: float) -> Tensor:
    """Return RMSNorm by the fast kernel if it supports this input, else by torch."""
    fast = x.is_cpu and x.dtype in FAST_DTYPES and x.dtype == weight_d.dtype
    if fast and x.numel() and x.shape[-1] == weight_d.shape[0] and works(x.dtype):
        return _Fast.apply(x, weight_d, eps)  # type: ignore[no-any-return, no-untyped-call]
    return plain(x, weight_d, eps)


def plain(x: Tensor, weight_d: Tensor, eps: float) -> Tensor:
    """Return torch's RMSNorm, but with NaN where the mean square overflows."""
    y = functional.rms_norm(x, weight_d.shape, weight_d, eps)
    wide = x.detach().to(torch.promote_types(x.dtype, torch.float32))
    square = wide.square().mean(-1, keepdim=True)
    return y if all_finite(square) else y + (0 * square).to(y.dtype)


@functools.cache
def works(dtype: torch.dtype) -> bool:
    """Return whether torch has the kernel, and it agrees with torch's RMSNorm on a small example."""
    eps, tolerance = 0.1, 1e3 * torch.finfo(dtype).eps
    with torch.inference_mode(False), torch.enable_grad():
        x = torch.linspace(-1, 2, 15, dtype=dtype).view(3, 5).requires_grad_()
        weight = torch.linspace(0.5, 2, 5, dtype=dtype).requires_grad_()
        upstream = torch.linspace(1, -3, 15, dtype=dtype).view(3, 5).cos()
        try:
            y, expected = _Fast.apply(x, weight, eps), plain(x, weight, eps)  # type: ignore[no-untyped-call]
            # Differentiate scalars: given a gradient, torch would import sympy.
            actual = (y, *torch.autograd.grad((y * upstream).sum(), (x, weight)))
            wanted = (expected, *torch.autograd.grad((expected * upstream).sum(), (x, weight)))
            return all(
                torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(actual, wanted, strict=True)
            )
        except (AttributeError, RuntimeError, TypeError, ValueError):
            return False


@functools.cache
def _constant(value: float, dtype: torch.dtype) -> Tensor:
    return torch.tensor(value, dtype=dtype)


class _Fast(torch.autograd.Function):
    """RMSNorm of x of shape (..., d) with gain (d,)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_d: Tensor, eps: float) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        inverse_rms = inverse_root(torch.addcmul(_constant(eps, x.dtype), norm, norm, value=1 / x.shape[-1]))
        ctx.eps = eps
        ctx.save_for_backward(x, weight_d, inverse_rms)
        return (x * inverse_rms).mul_(weight_d)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        x, weight_d, inverse_rms = ctx.saved_tensors
        if torch.is_grad_enabled():
            # The gradient is itself differentiated: use torch's differentiable operations.
            again, wanted = plain(x, weight_d, ctx.eps), ctx.needs_input_grad[:2]
            inputs = [tensor for tensor, needed in zip((x, weight_d), wanted, strict=True) if needed]
            grads = iter(torch.autograd.grad(again, inputs, upstream, create_graph=True))
            return *(next(grads) if needed else None for needed in wanted), None
        (grad,) = upstream
        grad, d = grad.contiguous(), x.shape[-1]
        zero = torch.zeros_like(inverse_rms)
        x_grad, weight_grad, _ = torch.ops.aten.native_layer_norm_backward.default(
            grad, x, [d], zero, inverse_rms, weight_d, None, [True, True, False]
        )
        subtracted = torch.mv(grad.view(-1, d), weight_d).view_as(inverse_rms).mul_(inverse_rms)
        return x_grad.add_(subtracted, alpha=1 / d), weight_grad, None
