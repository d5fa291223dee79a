"""Draw stability limits: one line per cell, a bar where it learns, and a mark at each value that was run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from normexp.analysis.edge_tables import ends, labels_of, name_of, number_text
from normexp.analysis.stability_edges import Edge, Finding, Question, Share
from normexp.config.labels import Labels, plural
from normexp.plots.panels import wrapped
from normexp.plots.style import PLAIN_NUMBERS, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CELLS = 40
CELL_INCHES = 0.34
NAME_SHARE = 0.26
"""The share of the width that the names of cells may take."""


def draw(title: str, question: Question, edges: Sequence[Edge], look: Look | None = None) -> Figure:
    """Draw one line per cell for the first `MOST_CELLS` cells, with k/n seeds at both ends of each border."""
    look = look or Look()
    drawn, rest = edges[:MOST_CELLS], max(0, len(edges) - MOST_CELLS)
    headline = title + (f" ({plural(rest, 'cell')} not drawn)" if rest else "")
    labels = labels_of(edges, [question.span.low, question.span.high])
    names = [wrapped(name_of(edge, labels), look.letters(look.width.inches * NAME_SHARE, look.small)) for edge in drawn]
    rows = sum(max(1, name.count("\n") + 1, len(ends(edge))) for name, edge in zip(names, drawn, strict=True))
    with mpl.rc_context(look.style):
        figure = Figure(figsize=(look.width.inches, 1.1 + CELL_INCHES * rows), layout="constrained")
        figure.suptitle(wrapped(headline, look.letters(look.width.inches, look.width.points * 1.2)))
        ax = figure.subplots()
        marks = _marks(look)
        for line, edge in enumerate(drawn):
            _draw_cell(ax, line, edge, question, look, labels)
        ax.set(xlabel=question.axis, ylim=(len(drawn) - 0.4, -0.6))
        ax.set_yticks(range(len(drawn)), names)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        if question.span.whole:
            ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        else:
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter(PLAIN_NUMBERS)
        handles = _handles(question, drawn, look, marks)
        place: Any = "outside lower center"
        figure.legend(handles.values(), handles.keys(), loc=place, ncols=len(handles), frameon=False)
    return figure


def _marks(look: Look) -> dict[bool | None, dict[str, Any]]:
    """Return the style of a mark by its verdict."""
    learns, fails, *_ = look.theme.colors
    size = look.width.points * 0.7
    shared = {"linestyle": "none", "markeredgecolor": look.theme.ground, "markeredgewidth": 0.4}
    return {
        True: {"color": learns, "marker": "o", "markersize": size, **shared},
        False: {"color": fails, "marker": "X", "markersize": size * 1.15, **shared},
        None: {
            "color": look.theme.grey,
            "marker": "D",
            "markersize": size * 0.8,
            "linestyle": "none",
            "fillstyle": "none",
        },
    }


def _draw_cell(ax: Axes, line: int, edge: Edge, question: Question, look: Look, labels: Labels) -> None:
    marks, theme, points = _marks(look), look.theme, look.width.points
    ax.plot([question.span.low, question.span.high], [line, line], color=theme.grey, linewidth=0.4, zorder=0)
    decided = [share for share in edge.shares if share.verdict is not None]
    bar: dict[str, Any] = {"color": theme.colors[0], "linewidth": points, "alpha": 0.3, "solid_capstyle": "butt"}
    for low, high in pairwise(decided):
        if low.verdict and high.verdict:
            ax.plot([low.value, high.value], [line, line], **bar)
    for low, high in edge.borders:
        ax.plot([low.value, high.value], [line, line], **_between(look))
    for share in edge.shares:
        ax.plot([share.value], [line], **marks[share.verdict], zorder=4, clip_on=False)
    for share, side, up in _counted(edge):
        shift = {"right": -0.5, "left": 0.5, "center": 0.0}[side]
        where: dict[str, Any] = {"textcoords": "offset points", "ha": side, "va": "bottom" if up else "top"}
        where |= {"size": look.small, "color": marks[share.verdict]["color"], "annotation_clip": False}
        height = points * (0.55 if up else -0.55)
        ax.annotate(f"{share.learned}/{share.seeds}", (share.value, line), (shift, height), **where)
    beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "size": look.small}
    ax.annotate(
        _limits_text(edge, labels),
        (1.0, line),
        (8, 0),
        xycoords=("axes fraction", "data"),
        annotation_clip=False,
        **beside,
    )


def _between(look: Look) -> dict[str, Any]:
    return {"color": look.theme.ink, "linewidth": 1.4}


def _counted(edge: Edge) -> list[tuple[Share, str, bool]]:
    """Return the marks labelled with k/n, the alignment of each label, and whether it is above the line.

    Labels are on the outer side of their bracket, and those of a second bracket below the line, so that they do not
    overlap however narrow the bracket is.
    """
    if not edge.borders:
        return [(share, "center", True) for share in dict.fromkeys((*edge.shares[:1], *edge.shares[-1:]))]
    return [
        (share, side, index == 0)
        for index, (_, *both) in enumerate(ends(edge))
        for share, side in zip(sorted(both, key=lambda share: share.value), ("right", "left"), strict=True)
    ]


def _limits_text(edge: Edge, labels: Labels) -> str:
    """Return the limits of a cell, one per line: `up to 0.003, not 0.005`."""
    if edge.finding in (Finding.EVERYWHERE, Finding.NOWHERE):
        return "at every value run" if edge.finding is Finding.EVERYWHERE else "at no value run"
    limits = [
        f"{kind} {number_text(good.value, labels)}, not {number_text(bad.value, labels)}"
        for kind, good, bad in ends(edge)
    ]
    return "\n".join(limits) or "open"


def _handles(
    question: Question, drawn: Sequence[Edge], look: Look, marks: dict[bool | None, dict[str, Any]]
) -> dict[str, Line2D]:
    shares = [share for edge in drawn for share in edge.shares]
    names = {
        True: f"learns (k/n: at least {question.needed} of {plural(len(question.seeds), 'seed')})",
        False: "does not learn",
        None: "no verdict",
    }
    shown = [verdict for verdict in marks if any(share.verdict is verdict for share in shares)]
    handles = {names[verdict]: Line2D([], [], **marks[verdict]) for verdict in shown}
    if any(edge.borders for edge in drawn):
        handles["limit in between (not run)"] = Line2D([], [], **_between(look))
    return handles
