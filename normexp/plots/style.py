"""The style of figures: themes, widths, line styles, the axis of losses, and rendering to bytes.

Lines differ by marker and dash as well as by colour, so that figures are readable in grey.
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


Style = dict[str, Any]
SEVERAL = 3
"""At least this many numbers are coloured by a ramp from low to high."""
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v")
ON_TOP: Any = {"clip_on": False, "zorder": 5}
"""Style of marks at the edge of a panel."""
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
"""Larger losses are drawn at this value: axes cannot hold the largest floats."""
ROOM = 1.5
"""Losses up to this multiple of the unigram loss are on a linear scale, and higher ones on a logarithmic scale."""
LINEAR_SHARE = 0.7
"""The share of a split axis that the linear part takes."""
REFERENCE_LABELS = {"floor": "floor", "guess": "unigram"}
"""Reference losses drawn as lines, and their labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours of background, text, secondary elements, and lines (the palette of Okabe and Ito).

    `ramp` and `shades` are the parts of matplotlib's viridis used for numbers, lowest first: for lines, and for
    squares. `band` is the opacity of bands. `outcomes` colours squares: worse outcomes contrast more with the
    background, in grey too.
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
    """The width of a figure in inches, its font size in points, and the maximum number of panels side by side."""

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
        """Font size of secondary text in points."""
        return self.width.points * 0.86

    @property
    def cross(self) -> dict[str, Any]:
        """Style of the mark for non-finite runs and first non-finite values."""
        edge = {"markeredgecolor": self.theme.ground, "markeredgewidth": 0.6}
        return {"marker": "X", "markersize": self.width.points * 0.8, "linestyle": "none", **edge}

    @property
    def cross_points(self) -> float:
        """Room in points above a panel with crosses at its upper edge."""
        return self.width.points * 0.6

    def letters(self, inches: float, points: float) -> int:
        """Return about how many letters of this font size fit on a line of this length."""
        return max(8, int(inches * 72 / (0.58 * points)))

    @property
    def style(self) -> Any:
        """The settings of matplotlib. Dollar signs in user text do not start a formula."""
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


def line_styles(lines: Mapping[str, Texts], theme: Theme) -> dict[str, Style]:
    """Return colour, marker and dash by label. `lines` maps labels to the values that distinguish them.

    If two keys vary, one determines colour and marker and the other the dash, so that related lines look alike.
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
            label: _style(colors[texts[key]], index, index, many=len(lines))
            for index, (label, texts) in enumerate(lines.items())
        }
    return {
        label: _style(theme.colors[index % len(theme.colors)], index, index, many=len(lines))
        for index, label in enumerate(lines)
    }


def _colors(texts: Sequence[str], theme: Theme) -> dict[str, str]:
    """Return the colour of each text: words use the palette, several numbers a ramp."""
    try:
        numbers = sorted(texts, key=float)
    except ValueError:
        numbers = []
    if len(numbers) < SEVERAL:
        return {text: theme.colors[index % len(theme.colors)] for index, text in enumerate(texts)}
    low, high = theme.ramp
    steps = len(numbers) - 1
    ramp = mpl.colormaps["viridis"]
    return {text: to_hex(ramp(low + (high - low) * index / steps)) for index, text in enumerate(numbers)}


def _style(color: str, marker: int, dash: int, *, many: int) -> Style:
    return {
        "color": color,
        "marker": MARKERS[marker % len(MARKERS)],
        "linestyle": DASHES[dash % len(DASHES)],
        "markersize": 3.2 if many <= 6 else 2.8,
        "linewidth": 1.3 if many <= 6 else 1.1,
    }


def render(figure: Figure, formats: Iterable[str] = FORMATS, *, dpi: int = 150) -> dict[str, bytes]:
    """Render a figure as SVG, PNG or PDF without dates and versions, so that equal data give equal bytes."""
    files = {}
    without: Mapping[str, dict[str, Any]] = {
        "svg": {"Date": None, "Creator": None},
        "png": {"Software": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # drawn as a box
        if layout := figure.get_layout_engine():
            layout.execute(figure)  # once, not once per format
            figure.set_layout_engine(None)
        for suffix in formats:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix, metadata=without[suffix], dpi=dpi, facecolor="auto")
            files[suffix] = _with_few_colors(buffer.getvalue()) if suffix == "png" else buffer.getvalue()
    return files


def _with_few_colors(png: bytes) -> bytes:
    """Reduce a PNG to a palette: no visible loss for lines and text, at a quarter of the size."""
    from PIL import Image
    from PIL.PngImagePlugin import PngImageFile

    buffer = io.BytesIO()
    picture = PngImageFile(io.BytesIO(png)).convert("RGB")
    few = picture.quantize(PNG_COLORS, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.save(buffer, format="png", optimize=True)
    return buffer.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class LossAxis:
    """The shared y axis of losses: linear up to `bend`, logarithmic from there to `top`."""

    low: float
    bend: float
    top: float

    @classmethod
    def of(cls, losses: Iterable[float], references: Sequence[Losses]) -> LossAxis:
        """Return an axis that holds every finite loss, and resolves the range from entropy floor to unigram loss."""
        finite = [max(-LARGEST, min(loss, LARGEST)) for loss in losses if math.isfinite(loss)]
        guess = max((reference.guess for reference in references), default=max(finite, default=1.0))
        floor = min((reference.floor for reference in references), default=0.0)
        low, high, bend = min([*finite, floor]), max([*finite, guess]), ROOM * guess
        split = high > bend
        return cls(
            low=low - 0.05 * (min(high, bend) - low),
            bend=bend if split else math.inf,
            top=bend * (high / bend) ** 1.1 * 1.05 if split else high + 0.06 * (high - low),
        )

    def apply(self, ax: Axes, *, color: str, size: float, named: bool) -> None:
        """Set up an axis. With `named`, its logarithmic part is labelled."""
        if math.isfinite(self.bend):
            decades = math.log10(self.top / self.bend)
            stretch = LINEAR_SHARE / (1 - LINEAR_SHARE) * self.bend * decades / (self.bend - self.low)
            ax.set_yscale("symlog", linthresh=self.bend, linscale=0.9 * stretch)
            ax.axhline(self.bend, color=color, linewidth=0.5, zorder=0)
            ax.set_yticks(self._ticks())
            ax.yaxis.set_minor_locator(NullLocator())
            ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
            if named:
                beside = BESIDE | {"color": color, "size": size}
                ax.annotate("log above", (1.0, self.bend), xycoords=("axes fraction", "data"), **beside)
        ax.set_ylim(self.low, self.top)

    def _ticks(self) -> list[float]:
        linear = [
            tick for tick in MaxNLocator(6).tick_values(self.low, self.bend) if self.low <= tick <= self.bend * 0.97
        ]
        first, last = math.ceil(math.log10(self.bend * 1.2)), math.floor(math.log10(self.top))
        stride = max(1, math.ceil((last - first + 1) / 4))
        return linear + [10.0**power for power in range(first, last + 1, stride)]


def mark_references(ax: Axes, references: Sequence[Losses], *, color: str, size: float, named: bool) -> None:
    """Draw lines at the entropy floor and the unigram loss, labelled if `named`."""
    for name, label in REFERENCE_LABELS.items():
        for loss in sorted({getattr(reference, name) for reference in references}):
            ax.axhline(loss, color=color, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
            if named:
                beside = BESIDE | {"color": color, "size": size}
                ax.annotate(label, (1.0, loss), xycoords=("axes fraction", "data"), **beside)
