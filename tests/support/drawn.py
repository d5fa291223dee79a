"""What to look for in a drawn figure: crosses, the legend, and text that is cut off."""

from __future__ import annotations

import records as made
from matplotlib.figure import Figure
from matplotlib.text import Text

from normexp.config.plan import Plan


def torn_plan() -> Plan:
    """Return a plan for `torn` runs, with a title that is hard to draw."""
    axes = {"norm": ["ln", "none"], "lr": [1e-3, 1e-2], "seed": [0, 1, 2]}
    return made.plan(axes, depth=4, title=r"$dépth^_ \frac$ & <x>: a title that does not fit on one line of a column")


def crosses(figure: Figure) -> list[tuple[float, float]]:
    """Return the positions of the crosses in all panels."""
    lines = [line for ax in figure.axes for line in ax.lines if line.get_marker() == "X"]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in lines]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def cut_off(figure: Figure) -> list[str]:
    """Return texts that reach beyond the figure, and titles that overlap."""
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    found = []
    unseen = [
        tick.label1
        for ax in figure.axes
        for axis, (low, high) in ((ax.xaxis, sorted(ax.get_xlim())), (ax.yaxis, sorted(ax.get_ylim())))
        for tick in axis.get_major_ticks()
        if not low <= tick.get_loc() <= high
    ]
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible() and text not in unseen:
            box = text.get_window_extent()
            if box.x0 < -2 or box.y0 < -2 or box.x1 > width + 2 or box.y1 > height + 2:
                found.append(text.get_text())
    boxes = [ax.title.get_window_extent() for ax in figure.axes if ax.title.get_text()]
    found += ["titles" for one in boxes for other in boxes if one is not other and one.overlaps(other)]
    return found
