"""Draw figures from precomputed data: charts of lines, and maps, whose squares show outcomes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize, to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from normexp.analysis.frames import PENDING
from normexp.config.labels import shown
from normexp.plots.chart import Chart, Map, Square
from normexp.plots.lines import draw_chart, name_ticks
from normexp.plots.panels import columns_of, panel_grid
from normexp.plots.runs import LayerLine, LayerSignal
from normexp.plots.style import MARKERS, ON_TOP, PLAIN_NUMBERS, Look, render
from normexp.records.record import FAILED, Death, Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


ORDER = (*Outcome, *FAILED, PENDING)
"""Order of the strips in a square, from left to right."""
SIGNS: Mapping[str, str] = {
    Outcome.PLATEAU: "_",
    Outcome.UNSETTLED: "v",
    Outcome.DIVERGED: "^",
    Outcome.NONFINITE: "X",
}
"""Markers that distinguish outcomes without colour. A square without a marker learned."""
NAMES = {Outcome.NONFINITE: "non-finite"}
RAMP = (0.0, 1.0)
LIGHT_FROM = 0.45
"""Text is black on colours of at least this luminance."""
ROW_INCHES = 0.3


def draw_map(data: Map, look: Look) -> Figure:
    """Draw the squares of each panel. A y axis of numbers increases upwards."""
    panels = list(dict.fromkeys(square.panel for square in data.squares)) or [""]
    across = columns_of(len(panels), look, data.columns)
    inches = look.width.inches / across
    margin = max(map(len, data.y.names)) * look.small * 0.55 / 72 + 0.45
    square_points = (inches - margin) / len(data.x.names) * 72
    height = min(1.1, max(0.4, (len(data.y.names) * ROW_INCHES + 0.2) / inches))
    named = square_points > look.small * 2

    def draw(ax: Axes, panel: str) -> None:
        _axes(ax, data, look, square_points)
        for square in data.squares:
            if square.panel == panel:
                _draw_square(ax, data, square, look, named=named, seam=look.small * 1.2 / square_points)

    notes = ["k/n in a square: k of n runs learned"] if named else []
    notes += ["colour: median learned fraction over runs; non-finite runs count as 0"] if data.by_fraction else []
    figure = panel_grid(
        look,
        data.title,
        panels,
        draw,
        handles=_handles(data, look),
        notes=(*notes, *data.notes),
        columns=data.columns,
        height=height,
    )
    if data.by_fraction:
        shades = ScalarMappable(Normalize(*RAMP), _ramp(look))
        with mpl.rc_context(look.style):
            bar = figure.colorbar(shades, ax=[ax for ax in figure.axes if ax.axison], pad=0.02, aspect=30)
            bar.set_label("learned fraction")
            bar.outline.set_visible(False)
    return figure


def _axes(ax: Axes, data: Map, look: Look, square_points: float) -> None:
    columns, rows = len(data.x.names), len(data.y.names)
    ax.set(xlabel=data.x.label, ylabel=data.y.label, xlim=(0, columns), ylim=_upwards(data, rows))
    name_ticks(ax, [index + 0.5 for index in range(columns)], data.x.names, look, square_points * columns)
    ax.set_yticks([index + 0.5 for index in range(rows)], [shown(name) for name in data.y.names])
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)


def _upwards(data: Map, rows: int) -> tuple[float, float]:
    try:
        [float(name) for name in data.y.names]
    except ValueError:
        return rows, 0
    return 0, rows


def _draw_square(ax: Axes, data: Map, square: Square, look: Look, *, named: bool, seam: float) -> None:
    """Draw a square as strips, each as wide as its outcome's share of the runs; or in one colour, by learned fraction.

    The text gets a background if a border between strips is nearer to the middle than `seam`.
    """
    left, low = data.x.names.index(square.x), data.y.names.index(square.y)
    done = sum(square.counts.get(word, 0) for word in Outcome)
    start, fills = float(left), []
    words = [word for word in ORDER if square.counts.get(word)]
    for word in words:
        share = square.counts[word] / square.runs
        fill = look.theme.outcomes[word]
        if data.by_fraction and word in [*Outcome]:
            assert square.fraction is not None
            fill = _hex(_ramp(look)(square.fraction))
        _strip(ax, (start, low), share, fill, look, hatched=word not in [*Outcome])
        fills.append((start, share, fill, word))
        start += share
    edge: dict[str, Any] = {"edgecolor": look.theme.ground, "linewidth": 1.2}
    ax.add_patch(Rectangle((left, low), 1, 1, facecolor="none", zorder=3, **edge))
    upright = ax.get_ylim()[1] > ax.get_ylim()[0]
    for begin, share, fill, word in fills:
        if word in SIGNS and (not data.by_fraction or word == Outcome.NONFINITE):
            height = 0.24 if upright else 0.76
            position = (begin + share / 2, low + (height if named else 0.5))
            ax.plot(*[[coordinate] for coordinate in position], **_sign(word, look, _on(fill)), zorder=4)
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
    """Return the strip in the middle of the square."""
    return next(fill for fill in fills if fill[0] + fill[1] >= left + 0.5)


def _sign(word: str, look: Look, color: str) -> dict[str, Any]:
    size = look.width.points * (0.62 if word != Outcome.PLATEAU else 0.8)
    edge = {"markeredgewidth": 1.2} if word == Outcome.PLATEAU else {"markeredgewidth": 0}
    return {"marker": SIGNS[word], "markersize": size, "color": color, "linestyle": "none", **edge}


def _handles(data: Map, look: Look) -> dict[str, Any]:
    words = [word for word in ORDER if any(square.counts.get(word) for square in data.squares)]
    handles: dict[str, Any] = {}
    for word in words:
        name = NAMES.get(word, str(word))
        ended = word in [*Outcome]
        if data.by_fraction and ended:
            if word == Outcome.NONFINITE:
                handles[name] = Line2D([], [], **_sign(word, look, look.theme.ink))
        elif word in SIGNS:
            fill = look.theme.outcomes[word]
            handles[name] = (Patch(facecolor=fill, linewidth=0), Line2D([], [], **_sign(word, look, _on(fill))))
        else:
            pattern: dict[str, Any] = {} if ended else {"hatch": "////", "edgecolor": look.theme.grey}
            handles[name] = Patch(facecolor=look.theme.outcomes[word], linewidth=0, **pattern)
    return handles


def _ramp(look: Look) -> ListedColormap:
    low, high = look.theme.shades
    shades = mpl.colormaps["viridis"]
    return ListedColormap([shades(low + (high - low) * step / 255) for step in range(256)])


def _on(fill: str) -> str:
    """Return black or white, whichever is readable on a colour."""
    red, green, blue = to_rgb(fill)
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > LIGHT_FROM else "#FFFFFF"


def _hex(color: Any) -> str:
    return str(mpl.colors.to_hex(color))


__all__ = ["draw", "draw_layer_signal", "render"]

LAYER_HEIGHT = 0.3
"""Height of a panel over its width. The panels are stacked, with the legends beside them."""


def draw(data: Chart | Map, look: Look | None = None) -> Figure:
    """Draw a chart or a map. The default look is that of reports: light, full width."""
    look = look or Look()
    return draw_map(data, look) if isinstance(data, Map) else draw_chart(data, look)


def draw_layer_signal(signal: LayerSignal, look: Look | None = None) -> Figure:
    """Draw the RMS of the residual stream by layer, one panel per network.

    Lines of training are blue, and those of the last steps before a run became non-finite orange and dashed.
    """
    look = look or Look()
    panels: dict[str, list[LayerLine]] = {}
    for line in signal.lines:
        panels.setdefault(line.panel, []).append(line)

    head = max((layer for line in signal.lines for layer, _ in line.rms_by_layer), default=0)

    def draw_panel(ax: Axes, name: str) -> None:
        for line, style in zip(panels[name], _layer_styles(panels[name], look), strict=True):
            finite = {layer: rms for layer, rms in line.rms_by_layer if math.isfinite(rms) and rms > 0}
            ax.plot(list(finite), list(finite.values()), **style)
        if name in signal.deaths:
            _mark_death(ax, signal.deaths[name], style["color"], look)
        ax.set(xlabel=f"layer (0: embedding; {head}: LM head input)", ylabel="RMS", yscale="log")
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)

    cross = Line2D([], [], color=look.theme.grey, **look.cross)
    handles = {"first non-finite layer": cross} if signal.deaths else {}
    margin = look.cross_points if signal.deaths else 0.0
    return panel_grid(
        look,
        signal.title,
        list(panels),
        draw_panel,
        handles=handles,
        columns=1,
        top_margin=lambda name: margin,
        height=LAYER_HEIGHT,
    )


def _mark_death(ax: Axes, death: Death, color: Any, look: Look) -> None:
    """Draw a cross above the first non-finite layer, labelled with the fault, the layer and the step."""
    ax.plot([death.layer], [1.0], color=color, transform=ax.get_xaxis_transform(), **ON_TOP, **look.cross)
    beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "size": look.small, "color": color}
    on_the_left = death.layer > sum(ax.get_xlim()) / 2
    beside |= {"ha": "right" if on_the_left else "left", "annotation_clip": False}
    text = f"{death.fault}, layer {death.layer}, step {death.step}"
    shift = look.cross["markersize"] * (-1 if on_the_left else 1)
    ax.annotate(text, (death.layer, 1.0), (shift, 0), xycoords=("data", "axes fraction"), **beside)


def _layer_styles(panel: Sequence[LayerLine], look: Look) -> list[dict[str, Any]]:
    styles: list[dict[str, Any]] = []
    for dying, colormap, dash in ((False, "Blues", "-"), (True, "Oranges", "--")):
        lines = [line for line in panel if line.dying is dying]
        for index, line in enumerate(lines):
            first = line.step == 0
            shade = mpl.colormaps[colormap](0.45 + 0.5 * index / max(1, len(lines) - 1))
            styles.append(
                {
                    "color": look.theme.ink if first else shade,
                    "label": "before training" if first else f"step {line.step}",
                    "linestyle": dash,
                    "linewidth": 1.3,
                    "marker": MARKERS[index % len(MARKERS)],
                    "markersize": 3,
                }
            )
    return styles
