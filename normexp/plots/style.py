"""What all figures have in common: dashes and markers, the axis of losses, and rendering to bytes.

How a figure looks: its theme, light or dark, and its width, that of a column or of a page.

How lines are told apart: by colour, and by marker and dash, so that it reads in grey.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from normexp.analysis.frames import PENDING
from normexp.plots.chart import Texts
from normexp.records.record import FAILED, Losses, Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours of the ground, of what is written, of what stands back, and of lines (Okabe and Ito's palette).

    `ramp` and `shades` are the parts of matplotlib's viridis in which the values of a number are coloured, lowest
    first: of lines, and of squares. `band` is the opacity of bands. `outcomes` colours squares: the worse, the
    further from the ground, in grey, too.
    """

    name: str
    ground: str
    ink: str
    grey: str
    colors: tuple[str, ...]
    ramp: tuple[float, float]
    shades: tuple[float, float]
    band: float
    outcomes: Mapping[str, str]


LIGHT = Theme(
    name="light",
    ground="#FFFFFF",
    ink="#000000",
    grey="#666666",
    colors=("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    ramp=(0.0, 0.82),
    shades=(0.15, 1.0),
    band=0.17,
    outcomes={
        Outcome.LEARNED: "#BFE3F5",
        Outcome.PLATEAU: "#F2D98B",
        Outcome.UNSETTLED: "#E69F00",
        Outcome.DIVERGED: "#C2500A",
        Outcome.NONFINITE: "#4A1030",
        **dict.fromkeys(FAILED, "#B0B0B0"),
        PENDING: "#FFFFFF",
    },
)
DARK = Theme(
    name="dark",
    ground="#14161A",
    ink="#E8E8E8",
    grey="#9A9A9A",
    colors=("#56B4E9", "#E69F00", "#1FC39A", "#E193C0", "#F0E442", "#E8702A", "#FFFFFF"),
    ramp=(0.33, 1.0),
    shades=(0.0, 0.9),
    band=0.22,
    outcomes={
        Outcome.LEARNED: "#0B4A6B",
        Outcome.PLATEAU: "#80641A",
        Outcome.UNSETTLED: "#D08F00",
        Outcome.DIVERGED: "#F08040",
        Outcome.NONFINITE: "#FFD9E8",
        **dict.fromkeys(FAILED, "#707070"),
        PENDING: "#14161A",
    },
)
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """Inches across, font size in points, and the most panels side by side."""

    name: str
    inches: float
    points: float
    columns: int
    dpi: int


WIDTHS = {
    "column": Width(name="column", inches=3.3, points=6.5, columns=2, dpi=300),
    "full": Width(name="full", inches=7.0, points=8.0, columns=4, dpi=180),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A theme at a width."""

    theme: Theme = LIGHT
    width: Width = WIDTHS["full"]

    @property
    def small(self) -> float:
        """Font size of what stands back, in points."""
        return self.width.points * 0.86

    @property
    def cross(self) -> dict[str, Any]:
        """What marks the first value that is not finite, and runs that died."""
        edge = {"markeredgecolor": self.theme.ground, "markeredgewidth": 0.6}
        return {"marker": "X", "markersize": self.width.points * 0.8, "linestyle": "none", **edge}

    @property
    def cross_points(self) -> float:
        """Room above a panel with crosses at its upper edge, in points."""
        return self.width.points * 0.6

    def letters(self, inches: float, points: float) -> int:
        """About how many letters of a size go on a line of a length."""
        return max(8, int(inches * 72 / (0.58 * points)))

    @property
    def style(self) -> Any:
        """matplotlib's settings; user text is never read as mathematics."""
        theme, points = self.theme, self.width.points
        return {
            "svg.hashsalt": "normexp",
            "text.parse_math": False,
            "font.size": points,
            "axes.titlesize": points,
            "axes.labelsize": points,
            "xtick.labelsize": self.small,
            "ytick.labelsize": self.small,
            "legend.fontsize": self.small,
            "legend.title_fontsize": self.small,
            "figure.titlesize": points * 1.2,
            "figure.facecolor": theme.ground,
            "savefig.facecolor": theme.ground,
            "axes.facecolor": theme.ground,
            "text.color": theme.ink,
            "axes.labelcolor": theme.ink,
            "axes.titlecolor": theme.ink,
            "axes.edgecolor": theme.grey,
            "xtick.color": theme.grey,
            "ytick.color": theme.grey,
            "xtick.labelcolor": theme.ink,
            "ytick.labelcolor": theme.ink,
            "axes.linewidth": 0.6,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "xtick.major.size": 2.5,
            "ytick.major.size": 2.5,
            "xtick.minor.width": 0.4,
            "ytick.minor.width": 0.4,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "hatch.linewidth": 0.5,
        }


Style = dict[str, Any]
SEVERAL = 3
"""Values of a number from which on they are coloured from low to high."""


def line_styles(lines: Mapping[str, Texts], theme: Theme) -> dict[str, Style]:
    """Label to colour, marker and dash; `lines` has the keys that tell a label from the others.

    Where two keys do, the one has colours and markers, the other dashes: what goes together looks alike.
    """
    keys = list(dict.fromkeys(key for texts in lines.values() for key in texts))
    values = {key: list(dict.fromkeys(texts[key] for texts in lines.values() if key in texts)) for key in keys}
    varying = [key for key in keys if len(values[key]) > 1]
    by_two = len(varying) == 2 and all(key in texts for texts in lines.values() for key in varying)
    if by_two:
        hue, dash = sorted(varying, key=lambda key: -len(values[key]))
        if len(values[hue]) <= len(theme.colors) and len(values[dash]) <= len(DASHES):
            colors = _colors(values[hue], theme)
            return {
                label: _style(
                    colors[texts[hue]], values[hue].index(texts[hue]), values[dash].index(texts[dash]), many=len(lines)
                )
                for label, texts in lines.items()
            }
    if len(varying) == 1:
        (key,) = varying
        colors = _colors(values[key], theme)
        return {
            label: _style(colors[texts[key]], place, place, many=len(lines))
            for place, (label, texts) in enumerate(lines.items())
        }
    return {
        label: _style(theme.colors[place % len(theme.colors)], place, place, many=len(lines))
        for place, label in enumerate(lines)
    }


def _colors(texts: Sequence[str], theme: Theme) -> dict[str, str]:
    """Of each text: words have the palette, several numbers a ramp."""
    try:
        numbers = sorted(texts, key=float)
    except ValueError:
        numbers = []
    if len(numbers) < SEVERAL:
        return {text: theme.colors[place % len(theme.colors)] for place, text in enumerate(texts)}
    low, high = theme.ramp
    steps = len(numbers) - 1
    ramp = mpl.colormaps["viridis"]
    return {text: to_hex(ramp(low + (high - low) * place / steps)) for place, text in enumerate(numbers)}


def _style(color: str, marker: int, dash: int, *, many: int) -> Style:
    return {
        "color": color,
        "marker": MARKERS[marker % len(MARKERS)],
        "linestyle": DASHES[dash % len(DASHES)],
        "markersize": 3.2 if many <= 6 else 2.8,
        "linewidth": 1.3 if many <= 6 else 1.1,
    }


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
        if layout := figure.get_layout_engine():
            layout.execute(figure)  # once, not once per format
            figure.set_layout_engine(None)
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
