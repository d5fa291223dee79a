"""Make overflow inside a norm visible.

A statistic above the largest float is infinite, and x / inf is 0. A network whose residual stream overflows would then
continue with zeros and look finite. Therefore a norm whose statistic overflows returns NaN, which reaches the loss.

If nothing overflows, the functions here return their argument unchanged, to the last bit.
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
"""torch kernels that compute a statistic and its inverse root at once, with the index of the latter in their output."""


def checked(statistic: Tensor) -> Tensor:
    """Return the statistic, with NaN where it is infinite."""
    return torch.add(statistic, statistic.detach(), alpha=0)


def inverse_root(square: Tensor) -> Tensor:
    """Return 1 / sqrt(square), with NaN where the square is infinite."""
    return torch.add(square.rsqrt(), square.detach(), alpha=0)


def checked_by(y: Tensor, inverse: Tensor) -> Tensor:
    """Return a norm's output y, with NaN where the inverse root of its statistic is 0. Both must broadcast."""
    inverse = inverse.detach()
    if not inverse.numel() or float(inverse.amin()) > 0:
        return y
    return y + 0 * inverse.reciprocal()


def all_finite(x: Tensor) -> bool:
    """Return whether every element is finite. A finite sum of squares proves it without a second pass."""
    return math.isfinite(_sum_of_squares(x)) or bool(x.detach().isfinite().all())


def _sum_of_squares(x: Tensor) -> float:
    flat = x.detach().reshape(-1)
    return float(torch.dot(flat, flat))


def guarded(norm: nn.Module) -> nn.Module:
    """Register a hook on a plugin's norm that turns its output into NaN where a number overflows inside it.

    Inputs of normal size pass unchanged. If the fourth power of an element would overflow, the module is called a
    second time and each operation is checked: if finite inputs give a non-finite output, it has overflowed.
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
    """Return whether a number overflows in a call of the module. Its state and the random state stay unchanged."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        overflowed = False

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            self.overflowed = self.overflowed or _overflowed(function.name().partition(".")[0], (args, kwargs), result)
            return result

    with _preserved(norm):
        with Watch() as watch:  # type: ignore[no-untyped-call]
            norm.forward(x)
        return watch.overflowed or not all(map(all_finite, norm.buffers()))


def _overflowed(kernel: str, arguments: Any, result: Any) -> bool:
    if kernel in INVERSE_ROOTS:
        inverse = list(_tensors(result))[INVERSE_ROOTS[kernel]]
        return inverse.numel() > 0 and not float(inverse.amin()) > 0
    return not _finite(result) and _finite(arguments) and "empty" not in kernel  # `empty` returns uninitialized memory


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
def _preserved(norm: nn.Module) -> Iterator[None]:
    """Replace all buffers by copies while open: a backward pass may need the originals, so they must not change."""
    buffers = [(module._buffers, dict(module._buffers)) for module in norm.modules()]
    try:
        for current, originals in buffers:
            current.update({name: buffer if buffer is None else buffer.clone() for name, buffer in originals.items()})
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for current, originals in buffers:
            current.update(originals)
