"""Overflow inside a norm, made visible.

A statistic beyond the largest float is infinite, and x / inf is 0: a network whose stream has overflowed would go on
with zeros, and look alive. So a norm whose statistic has overflowed gives NaN, which reaches the loss.

Where nothing overflows, everything here returns its argument, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

MOMENT = 4
"""The highest power of its input that a plugin's norm is expected to compute."""
INVERSE_ROOTS: Mapping[str, int] = MappingProxyType(
    {
        "aten::native_layer_norm": 2,
        "aten::native_batch_norm": 2,
        "aten::_native_batch_norm_legit": 2,
        "aten::native_group_norm": 2,
        "aten::_fused_rms_norm": 1,
    }
)
"""Kernels of torch that compute a statistic and its inverse root at once, to the place of the latter among outputs."""


def checked(statistic: Tensor) -> Tensor:
    """The statistic, NaN where it is infinite."""
    return torch.add(statistic, statistic.detach(), alpha=0)


def inverse_root(square: Tensor) -> Tensor:
    """1 / sqrt(square), NaN where the square is infinite."""
    return torch.add(square.rsqrt(), square.detach(), alpha=0)


def checked_by(y: Tensor, inverse: Tensor) -> Tensor:
    """A norm's output y, NaN where the inverse root of its statistic is 0; it has as many axes as y, or sizes 1."""
    inverse = inverse.detach()
    if not inverse.numel() or float(inverse.amin()) > 0:
        return y
    return y + 0 * inverse.reciprocal()


def all_finite(x: Tensor) -> bool:
    """Whether every element is finite. The sum of squares says so at once, unless it overflows by itself."""
    return math.isfinite(_sum_of_squares(x)) or bool(x.detach().isfinite().all())


def _sum_of_squares(x: Tensor) -> float:
    flat = x.detach().reshape(-1)
    return float(torch.dot(flat, flat))


def guarded(norm: nn.Module) -> nn.Module:
    """The same module, which from now on gives NaN where a number overflows inside it: for norms of plugins.

    Inputs of a usual size pass as they are. Where an element's fourth power would overflow, the module is called
    a second time, and each operation watched: one that makes a non-finite number of finite ones has overflowed.
    """
    norm.register_forward_hook(_guard)
    return norm


def _guard(norm: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
    x = inputs[0]
    if _usual(x) or (all_finite(x) and not _overflows(norm, x.detach())):
        return None
    return output * math.nan


def _usual(x: Tensor) -> bool:
    largest = torch.finfo(x.dtype).max ** (1 / MOMENT)
    return _sum_of_squares(x) <= largest**2 or (x.numel() > 0 and float(x.detach().abs().amax()) <= largest)


def _overflows(norm: nn.Module, x: Tensor) -> bool:
    """Whether a number overflows in a call of the module, which leaves it and the random state as they were."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        found = False

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            self.found = self.found or _overflowed(function.name().partition(".")[0], (args, kwargs), result)
            return result

    with _as_before(norm):
        with Watch() as watch:  # type: ignore[no-untyped-call]
            norm.forward(x)
        return watch.found or not all(map(all_finite, norm.buffers()))


def _overflowed(kernel: str, given: Any, result: Any) -> bool:
    if kernel in INVERSE_ROOTS:
        inverse = list(_tensors(result))[INVERSE_ROOTS[kernel]]
        return inverse.numel() > 0 and not float(inverse.amin()) > 0
    return not _finite(result) and _finite(given) and "empty" not in kernel  # whose memory holds anything


def _finite(values: Any) -> bool:
    numbers = (value for value in _leaves(values) if isinstance(value, float))
    return all(map(math.isfinite, numbers)) and all(bool(tensor.isfinite().all()) for tensor in _tensors(values))


def _tensors(values: Any) -> Iterator[Tensor]:
    return (value for value in _leaves(values) if isinstance(value, Tensor))


def _leaves(values: Any) -> Iterator[Any]:
    if isinstance(values, Mapping):
        values = list(values.values())
    if isinstance(values, list | tuple):
        for value in values:
            yield from _leaves(value)
    else:
        yield values


@contextmanager
def _as_before(norm: nn.Module) -> Iterator[None]:
    """While open, buffers are copies: those of the module may be kept for a backward pass, and must stay untouched."""
    buffers = [(module._buffers, dict(module._buffers)) for module in norm.modules()]
    try:
        for mine, kept in buffers:
            mine.update({name: buffer if buffer is None else buffer.clone() for name, buffer in kept.items()})
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for mine, kept in buffers:
            mine.update(kept)
