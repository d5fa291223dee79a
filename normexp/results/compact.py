"""Curves and layers of runs as shorter text that gives every number back, to the last digit.

The text is the CSV of `normexp.results.codec` but for this: a number that single precision holds is written with the
digits that tell it from its neighbours there, and an `s`; in a curve an empty step is the one before plus 1, an empty
rate is the one before, and `-` stands for none.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from normexp.record import CurveRow, SignalRow
from normexp.results import codec

NONE = "-"
MARK = "s"
NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
CELL, LAST = r"(?=[,\n])", r"(?=\n)"
"""Where a number ends: in any cell of a curve, in the last of a layer's row, whose others are words."""
SINGLE = struct.Struct("<f")
LEFT_OUT = "grad_norm"


def curve_to_text(curve: Iterable[CurveRow]) -> str:
    """A curve without its gradient norms."""
    text = codec.curve_to_csv(replace(row, grad_norm=None) for row in curve)
    return _shortened("\n".join(_implied(text.splitlines())) + "\n", CELL)


def curve_from_text(text: str) -> list[CurveRow]:
    """Raises ValueError."""
    return codec.curve_from_csv("\n".join(_told(_lengthened(text, CELL).splitlines())) + "\n")


def signal_to_text(rows: Iterable[SignalRow]) -> str:
    """Layers without the gradient norms of their parts."""
    return _shortened(codec.signal_to_csv(row for row in rows if row.quantity != LEFT_OUT), LAST)


def signal_from_text(text: str) -> list[SignalRow]:
    """Raises ValueError."""
    return codec.signal_from_csv(_lengthened(text, LAST))


def _implied(lines: Sequence[str]) -> Iterator[str]:
    yield lines[0]
    before, rate = "", ""
    for line in lines[1:]:
        step, lr, rest = line.split(",", 2)
        next_one = before and str(int(before) + 1)
        yield f"{'' if step == next_one else step},{'' if lr == rate else lr or NONE},{rest}"
        before, rate = step, lr


def _told(lines: Sequence[str]) -> Iterator[str]:
    yield lines[0] if lines else ""
    before, rate = "", ""
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split(",", 2)
        if len(cells) < 3 or not (cells[0] or before):
            raise ValueError(f"line {number} is not a row of a curve")
        before = cells[0] or str(int(before) + 1)
        rate = "" if cells[1] == NONE else cells[1] or rate
        yield f"{before},{rate},{cells[2]}"


def _shortened(text: str, end: str) -> str:
    return re.sub(rf"(?<=,){NUMBER}{end}", lambda found: _short(found[0]), text)


def _lengthened(text: str, end: str) -> str:
    return re.sub(rf"(?<=,)({NUMBER}){MARK}{end}", lambda found: repr(_single(float(found[1]))), text)


def _short(exact: str) -> str:
    """The text of a number in single precision, if it is one, and shorter."""
    value = float(exact)
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        if len(text) + len(MARK) < len(exact) and _single(float(text)) == value:
            return text + MARK
    return exact


def _single(value: float) -> float:
    """The nearest number of single precision; one beyond its range as it is."""
    try:
        found: float = SINGLE.unpack(SINGLE.pack(value))[0]
    except OverflowError:
        return value
    return found
