"""What all figures have in common: dashes and markers, the axis of losses, and rendering to bytes."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from normexp.record import Losses

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v")
ON_TOP: Any = {"clip_on": False, "zorder": 5}
"""Of marks at the edge of a panel."""
PNG_COLORS = 256
FORMATS = ("svg", "png")
STYLE: Any = {
    "svg.hashsalt": "normexp",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,
}
BESIDE: Any = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
PLAIN_NUMBERS = FuncFormatter(lambda number, _: f"{number:g}")
LARGEST = 1e100
"""Losses beyond it are drawn out of sight: no axis can hold the largest numbers there are."""
ROOM = 1.5
"""Losses up to this multiple of the guess are drawn on a linear scale, any above on a logarithmic one."""
LINEAR_SHARE = 0.7
"""How much of a split axis the linear part takes."""


def render(figure: Figure, formats: Iterable[str] = FORMATS, *, dpi: int = 150) -> dict[str, bytes]:
    """The figure as SVG, PNG or PDF, without dates and versions: equal data give equal bytes."""
    files = {}
    without: Mapping[str, dict[str, Any]] = {
        "svg": {"Date": None, "Creator": None},
        "png": {"Software": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # such a sign is drawn as a box
        for suffix in formats:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix, metadata=without[suffix], dpi=dpi, facecolor="auto")
            files[suffix] = _with_few_colors(buffer.getvalue()) if suffix == "png" else buffer.getvalue()
    return files


def _with_few_colors(png: bytes) -> bytes:
    """The picture by a palette: lines and words lose nothing that is seen, and it takes a quarter of the room."""
    from PIL import Image
    from PIL.PngImagePlugin import PngImageFile

    buffer = io.BytesIO()
    picture = PngImageFile(io.BytesIO(png)).convert("RGB")
    few = picture.quantize(PNG_COLORS, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.save(buffer, format="png", optimize=True)
    return buffer.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class LossAxis:
    """The y axis of losses that a figure's panels share: linear up to `bend`, logarithmic from there to `rim`."""

    low: float
    bend: float
    rim: float

    @classmethod
    def of(cls, losses: Iterable[float], references: Sequence[Losses]) -> LossAxis:
        """Made to hold every finite loss, be it 1e9, and to show what lies between floor and guess all the same."""
        finite = [max(-LARGEST, min(loss, LARGEST)) for loss in losses if math.isfinite(loss)]
        guess = max((reference.guess for reference in references), default=max(finite, default=1.0))
        floor = min((reference.floor for reference in references), default=0.0)
        low, high, bend = min([*finite, floor]), max([*finite, guess]), ROOM * guess
        split = high > bend
        return cls(
            low=low - 0.05 * (min(high, bend) - low),
            bend=bend if split else math.inf,
            rim=bend * (high / bend) ** 1.1 * 1.05 if split else high + 0.06 * (high - low),
        )

    def apply(self, ax: Axes, *, color: str, size: float, named: bool) -> None:
        """Set an axis up; `named` says beside it where it is logarithmic."""
        if math.isfinite(self.bend):
            decades = math.log10(self.rim / self.bend)
            stretch = LINEAR_SHARE / (1 - LINEAR_SHARE) * self.bend * decades / (self.bend - self.low)
            ax.set_yscale("symlog", linthresh=self.bend, linscale=0.9 * stretch)
            ax.axhline(self.bend, color=color, linewidth=0.5, zorder=0)
            ax.set_yticks(self._ticks())
            ax.yaxis.set_minor_locator(NullLocator())
            ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
            if named:
                beside = BESIDE | {"color": color, "size": size}
                ax.annotate("log above", (1.0, self.bend), xycoords=("axes fraction", "data"), **beside)
        ax.set_ylim(self.low, self.rim)

    def _ticks(self) -> list[float]:
        linear = [
            tick for tick in MaxNLocator(6).tick_values(self.low, self.bend) if self.low <= tick <= self.bend * 0.97
        ]
        first, last = math.ceil(math.log10(self.bend * 1.2)), math.floor(math.log10(self.rim))
        stride = max(1, math.ceil((last - first + 1) / 4))
        return linear + [10.0**power for power in range(first, last + 1, stride)]


def mark_references(ax: Axes, references: Sequence[Losses], *, color: str, size: float, named: bool) -> None:
    """Lines at floor and guess, with their names beside them if `named`."""
    for name in ("floor", "guess"):
        for loss in sorted({getattr(reference, name) for reference in references}):
            ax.axhline(loss, color=color, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
            if named:
                beside = BESIDE | {"color": color, "size": size}
                ax.annotate(name, (1.0, loss), xycoords=("axes fraction", "data"), **beside)
