"""What all figures have in common: palette, grid of panels, loss axis, legend, and rendering to bytes."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from normexp.record import Losses
from normexp.views.labels import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette without its yellow, which vanishes on white."""
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v")
GREY = "#666666"
PNG_COLORS = 128
FORMATS = ("svg", "png")
STYLE: Any = {
    "svg.hashsalt": "normexp",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,
}
BESIDE: Any = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "size": 7.5, "color": GREY}
PLAIN_NUMBERS = FuncFormatter(lambda number, _: f"{number:g}")
LARGEST = 1e100
"""Losses beyond it are drawn out of sight: no axis can hold the largest numbers there are."""
ROOM = 1.5
"""Losses up to this multiple of the guess are drawn on a linear scale, any above on a logarithmic one."""
LINEAR_SHARE = 0.7
"""How much of a split axis the linear part takes."""


class _Panelled(Protocol):
    @property
    def panel(self) -> str: ...


Panelled = TypeVar("Panelled", bound=_Panelled)


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
    few = picture.quantize(PNG_COLORS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def line_styles(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Colour, dash and marker of each distinct label; the first 28 differ in colour and dash, so in grey too."""
    return {
        label: {
            "color": COLORS[index % len(COLORS)],
            "linestyle": DASHES[index % len(DASHES)],
            "marker": MARKERS[index % len(MARKERS)],
            "markersize": 4,
            "linewidth": 1.5,
        }
        for index, label in enumerate(dict.fromkeys(labels))
    }


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

    def apply(self, ax: Axes, *, color: str = GREY, size: float = 7.5, named: bool = True) -> None:
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


def mark_references(
    ax: Axes, references: Sequence[Losses], *, color: str = GREY, size: float = 7.5, named: bool = True
) -> None:
    """Lines at floor and guess, with their names beside them if `named`."""
    for name in ("floor", "guess"):
        for loss in sorted({getattr(reference, name) for reference in references}):
            ax.axhline(loss, color=color, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
            if named:
                beside = BESIDE | {"color": color, "size": size}
                ax.annotate(name, (1.0, loss), xycoords=("axes fraction", "data"), **beside)


def panel_figure(
    title: str,
    lines: Sequence[Panelled],
    draw: Callable[[Axes, Sequence[Panelled]], None],
    handles: Mapping[str, Line2D],
    width_inches: float = 3.9,
    *,
    share_y: bool = True,
) -> Figure:
    """A grid of panels in the order in which they come, with one y axis (unless told) and one legend below."""
    panels: dict[str, list[Panelled]] = {}
    for line in lines:
        panels.setdefault(line.panel, []).append(line)
    columns, rows = min(3, max(1, len(panels))), max(1, math.ceil(len(panels) / 3))
    single = len(panels) <= 1
    width = width_inches * columns * (1.7 if single else 1)
    longest = max(map(len, handles), default=0)
    legend_columns = max(1, min(len(handles), int(width * 13.5 / (longest + 5))))
    legend_inches = 0.18 * math.ceil(len(handles) / legend_columns)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, (3.8 if single else 2.8) * rows + 0.5 + legend_inches), layout="constrained")
        figure.suptitle(shown(title), fontsize=11)
        axes = list(figure.subplots(rows, columns, sharey=share_y, squeeze=False).flat)
        for ax, (name, found) in zip(axes, panels.items(), strict=False):
            ax.set_title(shown(name), pad=18)
            draw(ax, found)
        for index, ax in enumerate(axes):
            ax.set_axis_on() if index < len(panels) else ax.set_axis_off()
            if index % columns:
                ax.set_ylabel("")
        if handles:
            place: Any = "outside lower center"
            names = [shown(name) for name in handles]
            figure.legend(handles.values(), names, loc=place, ncol=legend_columns, frameon=False, fontsize=8)
    return figure
