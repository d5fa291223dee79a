"""The tape: forward and then backward calls on fixed buffers, built once and run at every step.

Buffers live as long as the program. They are contiguous and in large pages where the system supports them: a step
accesses tens of megabytes in small pieces, and with 4 KiB pages, address translation takes a noticeable part of it.
"""

from __future__ import annotations

import contextlib
import math
import mmap
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

CHUNK_BYTES = 2**25
"""Bytes requested from the system at a time. A chunk starts at a large page; untouched memory costs nothing."""
ALIGNED_BYTES = 64
"""Alignment of buffers: a cache line."""
PAGE_BYTES = 2**21
ROOTS = 2**14
"""Number of inverse roots that are checked together."""

Call = Callable[[], object]
Write = Callable[[Tensor], object]
"""Adds the calls that write something into a buffer or, for a node, the calls that read its gradient."""


class Arena:
    """Allocates float32 tensors filled with zeros, and never frees them."""

    def __init__(self) -> None:
        self._map(CHUNK_BYTES)

    def zeros(self, *shape: int) -> Tensor:
        """Return a float32 tensor with separate storage, by which autograd distinguishes tensors."""
        count = math.prod(shape)
        size = -(-4 * count // ALIGNED_BYTES) * ALIGNED_BYTES
        if self._start + size > self._stop:
            self._map(max(size, CHUNK_BYTES))
        tensor = torch.frombuffer(self._chunk, dtype=torch.float32, count=count, offset=self._start).view(shape)
        self._start += size
        return tensor

    def _map(self, size: int) -> None:
        """Map fresh zeroed memory, starting at the boundary of a large page."""
        self._chunk = mmap.mmap(-1, size + PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # the kernel does not support large pages
                self._chunk.madvise(mmap.MADV_HUGEPAGE)
        self._start = -torch.frombuffer(self._chunk, dtype=torch.uint8).data_ptr() % PAGE_BYTES
        self._stop = self._start + size


class Value:
    """A buffer that forward calls fill, and the buffer of its gradient once a node contributes to it.

    `target` returns where the gradient must be written; by default, into a buffer of the tape. `base` is the value
    whose buffer contains this one.
    """

    def __init__(self, data: Tensor, target: Callable[[], Tensor] | None = None, base: Value | None = None) -> None:
        self.data = data
        self.target = target
        self.base = base
        self.grad: Tensor | None = None
        self.kept = False

    def keep(self) -> Tensor:
        """Return the buffer and reserve it for a backward call: it is not overwritten within the step."""
        self.kept = True
        if self.base is not None:
            self.base.keep()
        return self.data


class Tape:
    """Records calls. Nodes add their forward calls at once, and register in `backward` how to add their backward calls.

    Gradient and scratch buffers come from a pool. They return to it when the last call that reads them is on the tape;
    since calls run in order, later calls may overwrite them. Several values may share one gradient buffer, as after a
    sum. Each user of a buffer counts as a holder, and only a sole holder may overwrite it. Tensors are hashed by
    identity.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.arena = Arena()
        self._backward: list[tuple[Value, Write]] = []
        self._free: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
        self._holders: Counter[Tensor] = Counter()
        self._parameters: dict[Tensor, Value] = {}
        self._roots: list[Tensor] = []
        self._roots_left = 0

    def call(self, function: Callable[..., object], *args: object, **options: object) -> None:
        """Add one call."""
        self.calls.append(partial(function, *args, **options))

    def inverse_root(self, *shape: int) -> Tensor:
        """Return a reserved buffer for the inverse root of a norm's statistic, which is 0 only after overflow."""
        count = math.prod(shape)
        if self._roots_left < count:
            self._roots_left = max(count, ROOTS)
            self._roots.append(torch.ones(self._roots_left))
        start = len(self._roots[-1]) - self._roots_left
        self._roots_left -= count
        return self._roots[-1][start : start + count].view(shape)

    def overflowed(self) -> bool:
        """Return whether a statistic overflowed in the last run."""
        return not all(float(roots.amin()) > 0 for roots in self._roots)

    def value(self, *shape: int) -> Value:
        """Return a value with a buffer from the pool."""
        return Value(self.take(*shape))

    def drop(self, value: Value) -> None:
        """Declare that no later forward call reads the value. Its buffer is freed unless a backward call reads it."""
        if not value.kept:
            self.put(value.data)

    def parameter(self, parameter: Tensor) -> Value:
        """Return the value of a parameter, always the same one. Its gradient is written to the parameter's `grad`."""
        grad = parameter.grad
        assert grad is not None
        return self._parameters.setdefault(parameter, Value(parameter.data, lambda: grad))

    def backward(self, output: Value, write: Write) -> None:
        """Register `write`, which adds the backward calls of a node, given the gradient of its output.

        After `give_changed`, it must not read that gradient again.
        """
        self._backward.append((output, write))

    def give(self, value: Value, write: Write) -> None:
        """Add what `write` writes into a buffer to the gradient of a value."""
        if value.grad is None:
            value.grad = value.target() if value.target else self.take(*value.data.shape)
            write(value.grad)
            return
        part = self.take(*value.data.shape)
        write(part)
        if self._shared(value.grad):
            self.add(part, value.grad)
            self.put(value.grad)
            value.grad = part
        else:
            self.add(value.grad, part)
            self.put(part)

    def add(self, total: Tensor, part: Tensor) -> None:
        """Add `part` to `total` in place."""
        self.call(total.add_, part)

    def give_late(self, value: Value, read: Callable[[], Tensor]) -> None:
        """Add a tensor to the gradient of a value; `read` returns a different tensor at every step."""
        if value.grad is None or self._shared(value.grad):
            self.give(value, lambda part: self.call(_late, part.copy_, read))
        else:
            self.call(_late, value.grad.add_, read)

    def give_same(self, value: Value, grad: Tensor) -> None:
        """Add a gradient in a buffer of the tape to that of a value. The first one is shared instead of copied."""
        if value.grad is None and value.target is None:
            value.grad = grad
            self._holders[grad] += 1
        else:
            self.give(value, lambda part: self.call(part.copy_, grad))

    def give_changed(self, value: Value, grad: Tensor, write: Write) -> None:
        """Do the same as `give`, but `write` may overwrite the gradient that it reads, element by element."""
        if value.grad is None and value.target is None and self._holders[grad] == 1:
            write(grad)
            self.give_same(value, grad)
        else:
            self.give(value, write)

    def take(self, *shape: int) -> Tensor:
        """Return a buffer from the pool, with arbitrary content."""
        free = self._free[shape]
        buffer = free.pop() if free else self.arena.zeros(*shape)
        self._holders[buffer] = 1
        return buffer

    def put(self, buffer: Tensor) -> None:
        """Release a buffer that was taken. It is free once it has no holder. Other tensors are ignored."""
        if buffer not in self._holders:
            return
        self._holders[buffer] -= 1
        if not self._holders[buffer]:
            del self._holders[buffer]
            self._free[tuple(buffer.shape)].append(buffer)

    def finish(self) -> None:
        """Add all backward calls, from the last node to the first."""
        for output, write in reversed(self._backward):
            if output.grad is not None:
                write(output.grad)
                self.put(output.grad)
                output.grad = None
        self._backward.clear()

    @torch.no_grad()
    def run(self) -> None:
        """Run all calls."""
        for call in self.calls:
            call()

    def _shared(self, grad: Tensor) -> bool:
        """Return whether a buffer has several holders. A gradient outside the pool has at most one."""
        return self._holders[grad] > 1


def _late(function: Callable[[Tensor], object], read: Callable[[], Tensor]) -> None:
    function(read())
