"""The tape: calls on fixed buffers, built once and run at every step; first forward ones, then backward ones.

Memory for buffers that live as long as a program: side by side, in large pages where the system has them.

A step writes and reads tens of megabytes in small pieces; in pages of 4 KiB, part of its time goes into finding them.
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
"""What is asked of the system at a time; a chunk begins at a large page, and what is not touched costs nothing."""
ALIGNED_BYTES = 64
"""A buffer begins at a cache line."""
PAGE_BYTES = 2**21


class Arena:
    """Gives out float32 tensors filled with zeros, and never takes them back."""

    def __init__(self) -> None:
        self._map(CHUNK_BYTES)

    def zeros(self, *shape: int) -> Tensor:
        """A tensor of float32, with a storage of its own: autograd tells tensors apart by it."""
        count = math.prod(shape)
        size = -(-4 * count // ALIGNED_BYTES) * ALIGNED_BYTES
        if self._start + size > self._stop:
            self._map(max(size, CHUNK_BYTES))
        tensor = torch.frombuffer(self._chunk, dtype=torch.float32, count=count, offset=self._start).view(shape)
        self._start += size
        return tensor

    def _map(self, size: int) -> None:
        """Take fresh zeros from the system, from the border of a large page on."""
        self._chunk = mmap.mmap(-1, size + PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without large pages
                self._chunk.madvise(mmap.MADV_HUGEPAGE)
        self._start = -torch.frombuffer(self._chunk, dtype=torch.uint8).data_ptr() % PAGE_BYTES
        self._stop = self._start + size


ROOTS = 2**14
"""Inverse roots that are looked at together."""

Call = Callable[[], object]
Write = Callable[[Tensor], object]
"""Adds the calls that write something into a buffer; or, of a node, those that read the gradient in it."""


class Value:
    """A buffer that the forward calls fill, and where its gradient is collected once a node gives it one.

    `target` says where the gradient shall be written; by default, in a buffer of the tape's. `base` is the value
    whose buffer this one is a part of.
    """

    def __init__(self, data: Tensor, target: Callable[[], Tensor] | None = None, base: Value | None = None) -> None:
        self.data = data
        self.target = target
        self.base = base
        self.grad: Tensor | None = None
        self.kept = False

    def keep(self) -> Tensor:
        """The buffer, for a backward call to read: it will not be written again in the step."""
        self.kept = True
        if self.base is not None:
            self.base.keep()
        return self.data


class Tape:
    """Nodes add their forward calls at once, and say in `backward` how to add their backward calls later.

    Buffers of gradients, and scratch ones, are taken from a pool and put back when the last call that reads them is
    on the tape: the calls run in order, so that the next ones may write there. A gradient may be that of several
    values at once, as behind a sum; whoever takes a buffer or shares it holds it, and it is written over only by one
    who holds it alone. (Tensors are keys by identity.)
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
        """A buffer of its own for the inverse root of a norm's statistic, which is 0 only where that overflowed."""
        count = math.prod(shape)
        if self._roots_left < count:
            self._roots_left = max(count, ROOTS)
            self._roots.append(torch.ones(self._roots_left))
        start = len(self._roots[-1]) - self._roots_left
        self._roots_left -= count
        return self._roots[-1][start : start + count].view(shape)

    def overflowed(self) -> bool:
        """Whether a statistic overflowed in the last run."""
        return not all(float(roots.amin()) > 0 for roots in self._roots)

    def value(self, *shape: int) -> Value:
        """A value with a buffer from the pool."""
        return Value(self.take(*shape))

    def drop(self, value: Value) -> None:
        """Say that no forward call to come reads the value: unless a backward one does, its buffer is free."""
        if not value.kept:
            self.put(value.data)

    def parameter(self, parameter: Tensor) -> Value:
        """The value of a parameter, the same one each time; its gradient goes where the parameter's does."""
        grad = parameter.grad
        assert grad is not None
        return self._parameters.setdefault(parameter, Value(parameter.data, lambda: grad))

    def backward(self, output: Value, write: Write) -> None:
        """Have `write` add the backward calls of a node, given the gradient of its output.

        After `give_changed` it must not read that gradient any more.
        """
        self._backward.append((output, write))

    def give(self, value: Value, write: Write) -> None:
        """Add to a value's gradient what `write` writes into a buffer."""
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
        """Add a buffer to another one."""
        self.call(total.add_, part)

    def give_late(self, value: Value, read: Callable[[], Tensor]) -> None:
        """Add to a value's gradient a tensor that is another one at every step."""
        if value.grad is None or self._shared(value.grad):
            self.give(value, lambda part: self.call(_late, part.copy_, read))
        else:
            self.call(_late, value.grad.add_, read)

    def give_same(self, value: Value, grad: Tensor) -> None:
        """Add a gradient, which is the tape's own buffer, to a value's as it is; the first one is not even copied."""
        if value.grad is None and value.target is None:
            value.grad = grad
            self._holders[grad] += 1
        else:
            self.give(value, lambda part: self.call(part.copy_, grad))

    def give_changed(self, value: Value, grad: Tensor, write: Write) -> None:
        """The same as `give`, where `write` may write over the gradient that it reads, element by element."""
        if value.grad is None and value.target is None and self._holders[grad] == 1:
            write(grad)
            self.give_same(value, grad)
        else:
            self.give(value, write)

    def take(self, *shape: int) -> Tensor:
        """A buffer from the pool, with any numbers in it."""
        free = self._free[shape]
        buffer = free.pop() if free else self.arena.zeros(*shape)
        self._holders[buffer] = 1
        return buffer

    def put(self, buffer: Tensor) -> None:
        """Give up a buffer that was taken; when nobody holds it, it is free. One that was not taken stays as it is."""
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
        """Make all calls."""
        for call in self.calls:
            call()

    def _shared(self, grad: Tensor) -> bool:
        """Whether another one holds it, too. A gradient outside of the pool has one place alone."""
        return self._holders[grad] > 1


def _late(function: Callable[[Tensor], object], read: Callable[[], Tensor]) -> None:
    function(read())
