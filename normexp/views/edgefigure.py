"""Borders drawn: a line a cell, where it learns as a bar, each value that was run as a mark."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from normexp.bisection import Finding
from normexp.edge import Edge, Question, Share
from normexp.views.canvas import COLORS, GREY, PLAIN_NUMBERS, STYLE
from normexp.views.edge import ends, number_text
from normexp.views.labels import plural, shown, values_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CELLS = 40
LINE_INCHES = 0.36
LEARNS: dict[str, Any] = {"color": COLORS[0], "marker": "o", "markersize": 6, "linestyle": "none"}
FAILS: dict[str, Any] = {"color": COLORS[1], "marker": "X", "markersize": 7, "linestyle": "none"}
OPEN: dict[str, Any] = {"color": GREY, "marker": "D", "markerfacecolor": "white", "linestyle": "none"}
BAR: dict[str, Any] = {"color": COLORS[0], "linewidth": 7, "alpha": 0.35, "solid_capstyle": "butt"}
BETWEEN: dict[str, Any] = {"color": "black", "linewidth": 1.6}
MARKS = {True: LEARNS, False: FAILS, None: OPEN}


def draw(title: str, question: Question, edges: Sequence[Edge]) -> Figure:
    """A line a cell (the first `MOST_CELLS`), in order from the top; k/n at the ends of each border."""
    drawn = edges[:MOST_CELLS]
    rest = len(edges) - len(drawn)
    names = [values_text({key: value for key, value in edge.values.items() if value != ""}) for edge in drawn]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.5, 1.5 + LINE_INCHES * len(drawn)), layout="constrained")
        figure.suptitle(shown(title) + (f" ({plural(rest, 'cell')} not drawn)" if rest else ""), fontsize=11)
        ax = figure.subplots()
        for line, edge in enumerate(drawn):
            _draw_cell(ax, line, edge, question)
        ax.set(xlabel=question.axis, ylim=(len(drawn) - 0.4, -0.6))
        ax.set_yticks(range(len(drawn)), [shown(name) for name in names])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        if question.span.whole:
            ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        else:
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter(PLAIN_NUMBERS)
        handles = _handles(question, drawn)
        place: Any = "outside lower center"
        figure.legend(handles.values(), handles.keys(), loc=place, ncol=len(handles), frameon=False, fontsize=8)
    return figure


def _draw_cell(ax: Axes, line: int, edge: Edge, question: Question) -> None:
    ax.plot([question.span.low, question.span.high], [line, line], color=GREY, linewidth=0.5, alpha=0.5, zorder=0)
    decided = [share for share in edge.shares if share.verdict is not None]
    for low, high in pairwise(decided):
        if low.verdict and high.verdict:
            ax.plot([low.value, high.value], [line, line], **BAR)
    for low, high in edge.borders:
        ax.plot([low.value, high.value], [line, line], **BETWEEN)
    for share in edge.shares:
        ax.plot([share.value], [line], **MARKS[share.verdict], zorder=4, clip_on=False)
    for low, high in {tuple(sorted(both, key=_value)): None for _, *both in ends(edge)}:
        _count(ax, line, low, "right")
        _count(ax, line, high, "left")
    if not edge.borders:
        for share in {id(share): share for share in (*edge.shares[:1], *edge.shares[-1:])}.values():
            _count(ax, line, share, "center")
    beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "size": 7.5, "annotation_clip": False}
    ax.annotate(_told(edge), (1.0, line), (8, 0), xycoords=("axes fraction", "data"), **beside)


def _value(share: Share) -> float:
    return share.value


def _count(ax: Axes, line: int, share: Share, side: str) -> None:
    """k/n above a mark, on its outer side, so that those of a narrow bracket do not meet."""
    color, shift = MARKS[share.verdict]["color"], {"right": 4, "left": -4, "center": 0}[side]
    where: dict[str, Any] = {"textcoords": "offset points", "ha": side, "size": 7, "color": color}
    ax.annotate(f"{share.learned}/{share.seeds}", (share.value, line), (shift, 5), annotation_clip=False, **where)


def _told(edge: Edge) -> str:
    """`learns up to 0.003, not at 0.005`, in half a line."""
    if edge.finding in (Finding.EVERYWHERE, Finding.NOWHERE):
        return "learns at all" if edge.finding is Finding.EVERYWHERE else "learns nowhere"
    told = [f"{kind} {number_text(good.value)}, not {number_text(bad.value)}" for kind, good, bad in ends(edge)]
    return "\n".join(told) or "open"


def _handles(question: Question, drawn: Sequence[Edge]) -> dict[str, Line2D]:
    shares = [share for edge in drawn for share in edge.shares]
    needed = f" (at least {question.needed} of {plural(len(question.seeds), 'seed')})"
    names = {True: f"learns{needed}", False: "does not", None: "no verdict"}
    looks = {verdict: look for verdict, look in MARKS.items() if any(share.verdict is verdict for share in shares)}
    handles = {names[verdict]: Line2D([], [], **look) for verdict, look in looks.items()}
    if any(edge.borders for edge in drawn):
        handles["a border lies in between"] = Line2D([], [], **BETWEEN)
    return handles
