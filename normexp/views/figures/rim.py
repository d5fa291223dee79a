"""Crosses above a panel, where no value is drawn: each line that died at a value has its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.transforms import ScaledTranslation

from normexp.views.figures.canvas import ON_TOP
from normexp.views.figures.look import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cross = tuple[float, str, str]
"""Its place along x, its colour, and how many of how many died, empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rim:
    """Crosses that stand side by side at a value, in several rows where there is no room."""

    crosses: Sequence[Cross]
    step_points: float
    per_row: int
    look: Look

    @classmethod
    def of(cls, crosses: Sequence[Cross], room_points: float, look: Look) -> Rim:
        """`room_points` is the room that a value has along x."""
        size = look.width.points * 0.8
        wide = size + 1 if not any(share for *_, share in crosses) else max(size + 1, look.small * 1.7)
        per_row = max(1, int(room_points / wide))
        return cls(crosses=crosses, step_points=wide, per_row=per_row, look=look)

    @property
    def shares(self) -> bool:
        """Whether a cross says how many."""
        return any(share for *_, share in self.crosses)

    @property
    def row_points(self) -> float:
        """Height of a row: of a cross, and of what stands above it."""
        return self.look.width.points * 0.95 + (self.look.small * 1.05 if self.shares else 0)

    @property
    def height(self) -> float:
        """Points above the panel."""
        places = [x for x, *_ in self.crosses]
        most = max((places.count(x) for x in places), default=0)
        return -(-most // self.per_row) * self.row_points

    def draw(self, ax: Axes) -> None:
        """Each cross above its value."""
        by_place: dict[float, list[Cross]] = {}
        for cross in self.crosses:
            by_place.setdefault(cross[0], []).append(cross)
        for found in by_place.values():
            for start in range(0, len(found), self.per_row):
                row = found[start : start + self.per_row]
                for index, cross in enumerate(row):
                    right = (index - (len(row) - 1) / 2) * self.step_points
                    self._draw_cross(ax, cross, right, start // self.per_row * self.row_points)

    def _draw_cross(self, ax: Axes, cross: Cross, right: float, up: float) -> None:
        x, color, share = cross
        size = self.look.width.points * 0.8
        figure: Any = ax.figure
        up += size * 0.6
        moved = ax.get_xaxis_transform() + ScaledTranslation(right / 72, up / 72, figure.dpi_scale_trans)
        ax.plot([x], [1.0], transform=moved, color=color, **ON_TOP, **self.look.cross)
        if share:
            where: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom"}
            above = (right, up + size * 0.5)
            ax.annotate(
                share, (x, 1.0), above, xycoords=("data", "axes fraction"), size=self.look.small, color=color, **where
            )
