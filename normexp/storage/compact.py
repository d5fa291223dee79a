"""curve.csv and layers.csv as shorter text that gives them back, to the last digit.

The gradient norm of each update is left out of curves, which no table, figure or check reads; `normexp repro` then
compares the other columns. A number that single precision holds is written with the digits that tell it from its
neighbours there, and an `s`. In a curve, an empty step is the one before plus 1, an empty rate is the one before, and
`-` stands for none.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from normexp.storage.codec import CURVE_COLUMNS, SIGNAL

NONE = "-"
MARK = "s"
NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
CELL, LAST = r"(?=[,\n])", r"(?=\n)"
"""Where a number ends: in any cell of a curve, in the last of a layer's row, whose others are words."""
SINGLE = struct.Struct("<f")


def from_curve(text: str) -> str:
    """The short form of curve.csv. Raises ValueError with the line at fault."""
    return re.sub(rf"(?<=,){NUMBER}{CELL}", _short, "".join(_implied(text)))


def to_curve(text: str) -> str:
    """curve.csv from its short form, the cells of gradient norms empty. Raises ValueError with the line at fault."""
    return "".join(_told(re.sub(rf"(?<=,)({NUMBER}){MARK}{CELL}", _long, text)))


def without_norms(curve: bytes) -> bytes:
    """curve.csv with the cells of its gradient norms empty, as a pack gives it back."""
    column = CURVE_COLUMNS.index("grad_norm")
    header, *lines = curve.split(b"\n")
    for index, line in enumerate(lines):
        cells = line.split(b",")
        if len(cells) == len(CURVE_COLUMNS):
            cells[column] = b""
            lines[index] = b",".join(cells)
    return b"\n".join([header, *lines])


def from_layers(text: str) -> str:
    """The short form of layers.csv or death.csv. Raises ValueError with the line at fault."""
    lines = (f"{','.join(cells)}\n" for _, cells in _lines(text, SIGNAL))
    return re.sub(rf"(?<=,){NUMBER}{LAST}", _short, "".join(lines))


def to_layers(text: str) -> str:
    """layers.csv from its short form. Raises ValueError with the line at fault."""
    told = re.sub(rf"(?<=,)({NUMBER}){MARK}{LAST}", _long, text)
    return "".join(f"{','.join(cells)}\n" for _, cells in _lines(told, SIGNAL))


def _lines(text: str, header: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """Each line's number and cells, the header's first."""
    lines = text.split("\n")
    if lines[0] != ",".join(header):
        raise ValueError(f"line 1 is not {','.join(header)}")
    if lines.pop():
        raise ValueError(f"line {len(lines) + 1} has no end")
    for number, line in enumerate(lines, start=1):
        cells = line.split(",")
        if len(cells) != len(header):
            raise ValueError(f"line {number} has {len(cells)} cells, not {len(header)}")
        yield number, cells


def _implied(text: str) -> Iterator[str]:
    before, rate, column = "", "", CURVE_COLUMNS.index("grad_norm")
    for number, cells in _lines(text, CURVE_COLUMNS):
        if number > 1:
            step, lr = cells[:2]
            cells[0] = "" if before and step == _next(before, number) else step
            cells[1] = "" if lr == rate else lr or NONE
            cells[column] = ""
            before, rate = step, lr
        yield f"{','.join(cells)}\n"


def _told(text: str) -> Iterator[str]:
    before, rate = "", ""
    for number, cells in _lines(text, CURVE_COLUMNS):
        if number > 1:
            before = cells[0] = cells[0] or _next(before, number)
            rate = cells[1] = "" if cells[1] == NONE else cells[1] or rate
        yield f"{','.join(cells)}\n"


def _next(step: str, number: int) -> str:
    try:
        return str(int(step) + 1)
    except ValueError:
        raise ValueError(f"line {number} follows no step") from None


def _short(found: re.Match[str]) -> str:
    """The text of a number in single precision, if it is one, and shorter."""
    exact = found[0]
    value = float(exact)
    if _single(value) == value and repr(value) == exact:
        for digits in range(6, 10):
            text = f"{value:.{digits}g}"
            if len(text) + len(MARK) < len(exact) and _single(float(text)) == value:
                return text + MARK
    return exact


def _long(found: re.Match[str]) -> str:
    return repr(_single(float(found[1])))


def _single(value: float) -> float:
    """The nearest number of single precision; one beyond its range as it is."""
    try:
        nearest: float = SINGLE.unpack(SINGLE.pack(value))[0]
    except OverflowError:
        return value
    return nearest
