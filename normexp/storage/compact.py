"""Short forms of curve.csv and layers.csv for packs, from which the files are restored exactly.

Only the gradient norms of curves are lost: no table, figure or check reads them, and `normexp repro` then compares the
other columns. Numbers that single precision represents exactly are written with the fewest digits that identify them
there, and an `s`. In a curve, an empty step means the previous step plus 1, an empty learning rate means the previous
one, and `-` means no value.
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
"""Ends of numbers: in any cell of a curve, but only in the last cell of a layer row, whose other cells are words."""
SINGLE = struct.Struct("<f")


def from_curve(text: str) -> str:
    """Return the short form of curve.csv. Raises ValueError with the line number."""
    return re.sub(rf"(?<=,){NUMBER}{CELL}", _short, "".join(_implied(text)))


def to_curve(text: str) -> str:
    """Return curve.csv from its short form, without gradient norms. Raises ValueError with the line number."""
    return "".join(_explicit(re.sub(rf"(?<=,)({NUMBER}){MARK}{CELL}", _long, text)))


def without_norms(curve: bytes) -> bytes:
    """Return curve.csv with empty gradient norms, as restored from a pack."""
    column = CURVE_COLUMNS.index("grad_norm")
    header, *lines = curve.split(b"\n")
    for index, line in enumerate(lines):
        cells = line.split(b",")
        if len(cells) == len(CURVE_COLUMNS):
            cells[column] = b""
            lines[index] = b",".join(cells)
    return b"\n".join([header, *lines])


def from_layers(text: str) -> str:
    """Return the short form of layers.csv or death.csv. Raises ValueError with the line number."""
    lines = (f"{','.join(cells)}\n" for _, cells in _lines(text, SIGNAL))
    return re.sub(rf"(?<=,){NUMBER}{LAST}", _short, "".join(lines))


def to_layers(text: str) -> str:
    """Return layers.csv or death.csv from its short form. Raises ValueError with the line number."""
    restored = re.sub(rf"(?<=,)({NUMBER}){MARK}{LAST}", _long, text)
    return "".join(f"{','.join(cells)}\n" for _, cells in _lines(restored, SIGNAL))


def _lines(text: str, header: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """Yield number and cells of each line, starting with the header."""
    lines = text.split("\n")
    if lines[0] != ",".join(header):
        raise ValueError(f"line 1 is not {','.join(header)}")
    if lines.pop():
        raise ValueError(f"line {len(lines) + 1} is incomplete: the file is truncated")
    for number, line in enumerate(lines, start=1):
        cells = line.split(",")
        if len(cells) != len(header):
            raise ValueError(f"line {number} has {len(cells)} cells, not {len(header)}")
        yield number, cells


def _implied(text: str) -> Iterator[str]:
    """Yield the lines of a curve without the steps and learning rates that follow from the line before."""
    before, rate, column = "", "", CURVE_COLUMNS.index("grad_norm")
    for number, cells in _lines(text, CURVE_COLUMNS):
        if number > 1:
            step, lr = cells[:2]
            cells[0] = "" if before and step == _next(before, number) else step
            cells[1] = "" if lr == rate else lr or NONE
            cells[column] = ""
            before, rate = step, lr
        yield f"{','.join(cells)}\n"


def _explicit(text: str) -> Iterator[str]:
    """Yield the lines of a curve with all steps and learning rates."""
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
        raise ValueError(f"line {number} has no step, and the line before has no valid one") from None


def _short(match: re.Match[str]) -> str:
    """Return the single-precision text of a number if it is exact and shorter, else the number unchanged."""
    exact = match[0]
    value = float(exact)
    if _single(value) == value and repr(value) == exact:
        for digits in range(6, 10):
            text = f"{value:.{digits}g}"
            if len(text) + len(MARK) < len(exact) and _single(float(text)) == value:
                return text + MARK
    return exact


def _long(match: re.Match[str]) -> str:
    return repr(_single(float(match[1])))


def _single(value: float) -> float:
    """Return the nearest single-precision number, or the value itself if it is out of range."""
    try:
        nearest: float = SINGLE.unpack(SINGLE.pack(value))[0]
    except OverflowError:
        return value
    return nearest
