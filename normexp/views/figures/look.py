"""How a figure looks: its theme, light or dark, and its width, that of a column or of a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from normexp.record import FAILED, Outcome
from normexp.views.tables import PENDING


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
