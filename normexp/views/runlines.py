"""The runs under way, a line each, as much of it as the terminal is wide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from normexp.labels import duration, loss_text
from normexp.views.bars import drawable, levels, sparkline
from normexp.views.console import encodable
from normexp.views.tally import Running, Tally

CURVE = 16
"""Characters of a curve."""
QUIETEST, LOUDEST = 0.1, 1e5
"""Ends of the bars of a stream's RMS."""
LEAST_NAME = 18
WIDTHS = {"grad": 72, "curve": 56, "loss": 36, "layers": 130}
"""The terminal's columns from which on a part of the line is shown."""


@dataclass(frozen=True, slots=True)
class RunLines:
    """Name, step, loss and its curve, gradient norm, and RMS by layer where there is room; or how long it is silent."""

    tally: Tally
    names: Mapping[str, str]
    silent: Mapping[str, float]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width, unicode = options.max_width, drawable(options.encoding)
        configs = {config.run_id: config for config in self.tally.todo}
        runs = dict(self.tally.running)  # events come from another thread
        told = {
            run_id: _quiet(self.silent[run_id])
            if run_id in self.silent
            else _news(run, configs[run_id].steps, width, unicode=unicode)
            for run_id, run in runs.items()
        }
        names = {run_id: encodable(self.names.get(run_id, run_id), options.encoding) for run_id in runs}
        rest = max((text.cell_len for text in told.values()), default=0)
        longest = max(map(len, names.values()), default=0)
        room = min(longest, max(LEAST_NAME, width - rest - 3))
        for run_id, name in names.items():
            line = Text("  ", no_wrap=True, overflow="crop")
            line.append(elided(name, room, "…" if unicode else "~").ljust(room) + " ")
            yield line.append_text(told[run_id])


def _news(run: Running, steps: int, width: int, *, unicode: bool) -> Text:
    if run.broke:
        return Text(f"broke at step {run.step}: looking where", style="red")
    step = f"{run.step}/{steps}".rjust(2 * len(str(steps)) + 1)
    shown = max(1, round(CURVE * run.step / steps))
    parts = [
        ("curve", sparkline(run.losses, shown, unicode=unicode).ljust(CURVE), "cyan"),
        ("loss", f"loss {loss_text(run.loss)}".ljust(10) if run.step else "", "bold"),
        ("grad", f"grad {run.grad_norm:.2g}".ljust(12) if run.step else "", "dim"),
        ("layers", levels(run.rms_by_layer, QUIETEST, LOUDEST) if unicode else "", "magenta"),
    ]
    text = Text(step, style="dim")
    for name, told, style in parts:
        if width >= WIDTHS[name]:
            text.append(" ").append(told, style=style)
    return text


def _quiet(seconds: float) -> Text:
    return Text(f"no step for {duration(seconds)}", style="yellow")


def elided(name: str, room: int, mark: str = "…") -> str:
    """A name in at most `room` characters: what goes is in its middle, since what tells runs apart is at its ends."""
    if len(name) <= room:
        return name
    head = (room - 1) // 3
    return name[:head] + mark + name[len(name) - (room - 1 - head) :]
