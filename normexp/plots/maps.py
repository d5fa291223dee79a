"""A map, drawn: a square for each place, in it what its runs came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize, to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from normexp.analysis.frames import PENDING
from normexp.config.labels import shown
from normexp.plots.chart import Map, Square
from normexp.plots.lines import name_ticks
from normexp.plots.panels import columns_of, panel_grid
from normexp.plots.style import Look
from normexp.records.record import FAILED, Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORDER = (*Outcome, *FAILED, PENDING)
"""From left to right in a square."""
SIGNS: Mapping[str, str] = {
    Outcome.PLATEAU: "_",
    Outcome.UNSETTLED: "v",
    Outcome.DIVERGED: "^",
    Outcome.NONFINITE: "X",
}
"""Markers that tell outcomes apart in grey; a square without one learned."""
NAMES = {Outcome.NONFINITE: "non-finite"}
RAMP = (0.0, 1.0)
LIGHT_FROM = 0.45
"""Luminance from which on what stands on a colour is black."""
ROW_INCHES = 0.3


def draw_map(made: Map, look: Look) -> Figure:
    """Squares by panel; y rises upwards where it is of numbers."""
    panels = list(dict.fromkeys(square.panel for square in made.squares)) or [""]
    across = columns_of(len(panels), look, made.columns)
    inches = look.width.inches / across
    margin = max(map(len, made.y.names)) * look.small * 0.55 / 72 + 0.45
    square_points = (inches - margin) / len(made.x.names) * 72
    height = min(1.1, max(0.4, (len(made.y.names) * ROW_INCHES + 0.2) / inches))
    named = square_points > look.small * 2

    def draw(ax: Axes, panel: str) -> None:
        _axes(ax, made, look, square_points)
        for square in made.squares:
            if square.panel == panel:
                _draw_square(ax, made, square, look, named=named, seam=look.small * 1.2 / square_points)

    notes = ["in a square: k/n, k of n runs learned"] if named else []
    notes += ["colour: the median over its runs, of which those that died have 0"] if made.by_fraction else []
    figure = panel_grid(
        look,
        made.title,
        panels,
        draw,
        handles=_handles(made, look),
        notes=(*notes, *made.notes),
        columns=made.columns,
        height=height,
    )
    if made.by_fraction:
        shades = ScalarMappable(Normalize(*RAMP), _ramp(look))
        with mpl.rc_context(look.style):
            bar = figure.colorbar(shades, ax=[ax for ax in figure.axes if ax.axison], pad=0.02, aspect=30)
            bar.set_label("learned fraction")
            bar.outline.set_visible(False)
    return figure


def _axes(ax: Axes, made: Map, look: Look, square_points: float) -> None:
    columns, rows = len(made.x.names), len(made.y.names)
    ax.set(xlabel=made.x.label, ylabel=made.y.label, xlim=(0, columns), ylim=_upwards(made, rows))
    name_ticks(ax, [place + 0.5 for place in range(columns)], made.x.names, look, square_points * columns)
    ax.set_yticks([place + 0.5 for place in range(rows)], [shown(name) for name in made.y.names])
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)


def _upwards(made: Map, rows: int) -> tuple[float, float]:
    try:
        [float(name) for name in made.y.names]
    except ValueError:
        return rows, 0
    return 0, rows


def _draw_square(ax: Axes, made: Map, square: Square, look: Look, *, named: bool, seam: float) -> None:
    """Strips as wide as their share of the runs; or one colour, with crosses for the dead.

    What is written has a ground of its own where a seam is nearer to the middle than `seam`.
    """
    left, low = made.x.names.index(square.x), made.y.names.index(square.y)
    done = sum(square.counts.get(word, 0) for word in Outcome)
    start, fills = float(left), []
    words = [word for word in ORDER if square.counts.get(word)]
    for word in words:
        share = square.counts[word] / square.runs
        fill = look.theme.outcomes[word]
        if made.by_fraction and word in [*Outcome]:
            assert square.fraction is not None
            fill = _hex(_ramp(look)(square.fraction))
        _strip(ax, (start, low), share, fill, look, hatched=word not in [*Outcome])
        fills.append((start, share, fill, word))
        start += share
    edge: dict[str, Any] = {"edgecolor": look.theme.ground, "linewidth": 1.2}
    ax.add_patch(Rectangle((left, low), 1, 1, facecolor="none", zorder=3, **edge))
    upright = ax.get_ylim()[1] > ax.get_ylim()[0]
    for begin, share, fill, word in fills:
        if word in SIGNS and (not made.by_fraction or word == Outcome.NONFINITE):
            height = 0.24 if upright else 0.76
            place = (begin + share / 2, low + (height if named else 0.5))
            ax.plot(*[[at] for at in place], **_sign(word, look, _on(fill)), zorder=4)
    if named and done:
        _, _, fill, _ = fills[0] if len(fills) == 1 else _under(fills, left)
        middle = low + ((0.62 if upright else 0.38) if any(word in SIGNS for word in words) else 0.5)
        text = f"{square.learned}/{square.runs}"
        crossed = any(abs(begin - left) > 0 and abs(begin - left - 0.5) < seam for begin, *_ in fills[1:])
        where: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 5, "size": look.small}
        box = {"facecolor": look.theme.ground, "alpha": 0.75, "edgecolor": "none", "pad": 0.6} if crossed else {}
        color = look.theme.ink if box else _on(fill)
        ax.text(left + 0.5, middle, text, color=color, bbox=box or None, **where)


def _strip(ax: Axes, at: tuple[float, float], share: float, fill: str, look: Look, *, hatched: bool) -> None:
    pattern: dict[str, Any] = {"hatch": "////", "edgecolor": look.theme.grey} if hatched else {}
    ax.add_patch(Rectangle(at, share, 1, facecolor=fill, linewidth=0, zorder=2, **pattern))


def _under(fills: Sequence[tuple[float, float, str, str]], left: float) -> tuple[float, float, str, str]:
    """The strip below the middle."""
    return next(fill for fill in fills if fill[0] + fill[1] >= left + 0.5)


def _sign(word: str, look: Look, color: str) -> dict[str, Any]:
    size = look.width.points * (0.62 if word != Outcome.PLATEAU else 0.8)
    edge = {"markeredgewidth": 1.2} if word == Outcome.PLATEAU else {"markeredgewidth": 0}
    return {"marker": SIGNS[word], "markersize": size, "color": color, "linestyle": "none", **edge}


def _handles(made: Map, look: Look) -> dict[str, Any]:
    words = [word for word in ORDER if any(square.counts.get(word) for square in made.squares)]
    found: dict[str, Any] = {}
    for word in words:
        name = NAMES.get(word, str(word))
        ended = word in [*Outcome]
        if made.by_fraction and ended:
            if word == Outcome.NONFINITE:
                found[name] = Line2D([], [], **_sign(word, look, look.theme.ink))
        elif word in SIGNS:
            fill = look.theme.outcomes[word]
            found[name] = (Patch(facecolor=fill, linewidth=0), Line2D([], [], **_sign(word, look, _on(fill))))
        else:
            pattern: dict[str, Any] = {} if ended else {"hatch": "////", "edgecolor": look.theme.grey}
            found[name] = Patch(facecolor=look.theme.outcomes[word], linewidth=0, **pattern)
    return found


def _ramp(look: Look) -> ListedColormap:
    low, high = look.theme.shades
    shades = mpl.colormaps["viridis"]
    return ListedColormap([shades(low + (high - low) * step / 255) for step in range(256)])


def _on(fill: str) -> str:
    """Black or white, whichever is seen on a colour."""
    red, green, blue = to_rgb(fill)
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > LIGHT_FROM else "#FFFFFF"


def _hex(color: Any) -> str:
    return str(mpl.colors.to_hex(color))
