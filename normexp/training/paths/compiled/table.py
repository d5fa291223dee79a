"""A tape whose calls may be rows of a table: a kernel and its slots. Adjacent rows are executed in one call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from normexp.training.paths.compiled.library import load
from normexp.training.paths.tape import Call, Tape, Value

SLOTS = 24
"""As in vector.h."""
Argument = Tensor | int | float | None


class _Slot(ctypes.Union):
    _fields_ = (("pointer", ctypes.c_void_p), ("count", ctypes.c_int64), ("number", ctypes.c_double))


class _Struct(ctypes.Structure):
    _fields_ = (("kernel", ctypes.c_void_p), ("slots", _Slot * SLOTS))


@dataclass(eq=False)
class Row:
    """A call of a kernel: a tensor is passed by its address, a number by its value, None as null."""

    kernel: str
    slots: list[Argument]

    def __call__(self) -> None:
        """Call this kernel alone."""
        joined([self])()

    def struct(self) -> _Struct:
        """The row as the kernels read it."""
        struct = _Struct(load().address(self.kernel))
        for slot, argument in zip(struct.slots, self.slots, strict=False):
            match argument:
                case Tensor():
                    slot.pointer = argument.data_ptr()
                case int():
                    slot.count = argument
                case float():
                    slot.number = argument
        return struct


def joined(rows: list[Row]) -> JoinedRows:
    """One call for all rows, which keeps their buffers alive."""
    array = (_Struct * len(rows))(*(row.struct() for row in rows))
    call = partial(load().functions.run, ctypes.addressof(array), len(rows))
    return JoinedRows(call, array, rows)


@dataclass(frozen=True)
class JoinedRows:
    """One call for rows that follow each other, with what keeps their buffers alive."""

    call: Callable[[], object]
    array: object
    rows: list[Row]

    def __call__(self) -> None:
        self.call()


class Table(Tape):
    """A tape with rows, and with calls of ATen where a module has no kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.forward_calls: list[Call] = []
        self.kernels: set[str] = set()
        self.rows_only = False

    def row(self, kernel: str, *slots: Argument) -> Row:
        """Add a row. Its slots may be changed until the tape is finished."""
        row = Row(kernel, list(slots))
        self.calls.append(row)
        return row

    def add(self, total: Tensor, part: Tensor) -> None:
        """Add a buffer to another one, by a row where both are without gaps."""
        if total.is_contiguous() and part.is_contiguous():
            self.row("scaled", total.numel(), part, total, total, 1.0)
        else:
            super().add(total, part)

    def give_same(self, value: Value, grad: Tensor) -> None:
        """Add a gradient as it is; where there is one already, by one row."""
        new = value.grad is None and value.target is None
        if new or not (value.data.is_contiguous() and grad.is_contiguous()):
            super().give_same(value, grad)
        else:
            self.give_added(value, lambda part, skip: self.row("scaled", grad.numel(), grad, skip, part, 1.0))

    def give_added(self, value: Value, write: Callable[[Tensor, Tensor | None], object]) -> None:
        """Add to a value's gradient, as `give` does, where `write` adds a second buffer, or None, to what it writes."""
        if value.grad is None:
            value.grad = value.target() if value.target else self.take(*value.data.shape)
            write(value.grad, None)
        elif self._shared(value.grad):
            part = self.take(*value.data.shape)
            write(part, value.grad)
            self.put(value.grad)
            value.grad = part
        else:
            write(value.grad, value.grad)

    def give_changed_added(self, value: Value, grad: Tensor, write: Callable[[Tensor, Tensor | None], object]) -> None:
        """The same, where `write` may write over the gradient that it reads, element by element."""
        if value.grad is None and value.target is None:
            self.give_changed(value, grad, lambda part: write(part, None))
        else:
            self.give_added(value, write)

    def give_together(self, values: list[Value], write: Callable[[list[Tensor]], object]) -> None:
        """Add to the gradients of several values what `write` writes into as many buffers."""
        buffers, later = [], []
        for value in values:
            if value.grad is None:
                value.grad = value.target() if value.target else self.take(*value.data.shape)
                buffers.append(value.grad)
            else:
                buffers.append(self.take(*value.data.shape))
                later.append((value, buffers[-1]))
        write(buffers)
        for value, part in later:
            self.give(value, lambda target, part=part: self.call(target.copy_, part))  # type: ignore[misc]
            self.put(part)

    def finish(self) -> None:
        """Add all backward calls, and join rows that follow each other."""
        forward = len(self.calls)
        super().finish()
        self.kernels = {call.kernel for call in self.calls if isinstance(call, Row)}
        self.rows_only = all(isinstance(call, Row) for call in self.calls[:forward])
        self.forward_calls, backward = _shortened(self.calls[:forward]), _shortened(self.calls[forward:])
        self.calls = [*self.forward_calls, *backward]


def _shortened(calls: list[Call]) -> list[Call]:
    """The same calls, with one for rows that follow each other."""
    calls_made: list[Call] = []
    rows: list[Row] = []
    for call in [*calls, None]:
        if isinstance(call, Row):
            rows.append(call)
            continue
        if rows:
            calls_made.append(joined(rows))
            rows = []
        if call is not None:
            calls_made.append(call)
    return calls_made
