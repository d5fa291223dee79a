"""Networks side by side as they train: loss, the stream's size by layer as bars that grow, and the moment of death."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from normexp.execute.events import Event, Finished
from normexp.labels import loss_text
from normexp.record import Death, RunRecord, sizes_by_step
from normexp.run import RunConfig
from normexp.views.bars import BROKEN, bar, drawable, sparkline
from normexp.views.collapse import NORM_NAMES
from normexp.views.live import View
from normexp.views.runlines import QUIETEST
from normexp.views.tally import Running

HOLD_SECONDS = 4.0
"""How long a network that died stays in view while the next one trains."""
NARROWEST = 18
"""Characters of a network's column; where fewer are left, networks come as lines."""
DIED = "died"
LEGEND = "RMS of the stream by layer, 0.1 to 1e10; the head is at the top"
LOUDEST = 1e10
"""RMS of the longest bar."""
AROUND = 11
"""Lines of the screen that are not layers."""
SIZES = ((1e2, "green"), (1e4, "yellow"), (math.inf, "red"))
"""A bar's colour up to this RMS."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A network as last seen; `death` once it has died."""

    config: RunConfig
    run: Running
    death: Death | None = None
    until: float = math.inf
    """When it gives way to the next, in monotonic seconds."""


class CollapseView(View):
    """The listener of a collapse: one column a norm, in it the run that trains now, or that died just before."""

    def event(self, event: Event) -> None:
        """Keep what a run looked like when it ended."""
        if isinstance(event, Finished):
            record = event.record
            run = self.tally.running.get(record.run_id)
            death = record.result.death if record.result is not None else None
            if run is not None:
                run.rms_by_layer = _at_the_end(record) or run.rms_by_layer
                until = time.monotonic() + HOLD_SECONDS if death is not None else 0.0
                self._last[record.config.norm] = Seen(record.config, run, death, until)
        super().event(event)

    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None:
        """Columns in the order of the norms."""
        self._last: dict[str, Seen] = {}
        super().begin(todo, done=done, failed=failed, reused=reused)

    def body(self) -> RenderableType:
        """The columns, where they fit; lines otherwise."""
        norms = list(dict.fromkeys(config.norm for config in self.tally.todo))
        columns = [Column(norm, self._seen(norm), self._fates(norm)) for norm in norms]
        return SideBySide(columns, super().body())

    def _seen(self, norm: str) -> Seen | None:
        last = self._last.get(norm)
        if last is not None and last.death is not None and time.monotonic() < last.until:
            return last
        configs = {config.run_id: config for config in self.tally.todo}
        for run_id, run in list(self.tally.running.items()):
            if configs[run_id].norm == norm:
                return Seen(configs[run_id], run)
        return last

    def _fates(self, norm: str) -> dict[int, str]:
        """Seed to what became of it."""
        seeds = {config.run_id: config.seed for config in self.tally.todo if config.norm == norm}
        ended = {record.run_id: _fate(record) for record in list(self.tally.finished)}
        running = set(self.tally.running)
        return {seed: ended.get(run_id, "training" if run_id in running else "waits") for run_id, seed in seeds.items()}


def _at_the_end(record: RunRecord) -> tuple[float, ...]:
    """RMS of the stream by layer at the step at which a run died; empty for any other."""
    steps = sizes_by_step(record.traces.death_layers, "stream", "rms") if record.traces is not None else {}
    return tuple(size for _, size in sorted(steps[max(steps)].items())) if steps else ()


def _fate(record: RunRecord) -> str:
    result = record.result
    if result is None:
        return str(record.status)
    if result.death is not None:
        return f"{DIED} at step {result.death.step}"
    return f"{record.result_word} {loss_text(result.final_val_loss or math.nan)}"


@dataclass(frozen=True, slots=True)
class Column:
    """A norm's column: `fates` by seed."""

    norm: str
    seen: Seen | None
    fates: Mapping[int, str]

    def lines(self, width: int, layers: int, *, unicode: bool) -> Iterator[Text]:
        """At most `layers` of them tell a layer's RMS."""
        yield Text(NORM_NAMES.get(self.norm, self.norm), style="bold")
        if self.seen is not None:
            yield from self._head(self.seen, width, unicode=unicode)
            yield from self._layers(self.seen, width, layers, unicode=unicode)

    def ends(self) -> Iterator[Text]:
        """What became of each seed."""
        for seed, fate in self.fates.items():
            yield Text(f"seed {seed}: {fate}", style="red" if fate.startswith(DIED) else "dim")

    def _head(self, seen: Seen, width: int, *, unicode: bool) -> Iterator[Text]:
        run, config = seen.run, seen.config
        if seen.death is not None:
            mark = "✝" if unicode else "x"
            yield Text(f"{mark} step {seen.death.step}: {seen.death.fault}", style="bold red")
        elif run.broke:
            yield Text(f"step {run.step}: broke; where?", style="bold red")
        else:
            yield Text(f"seed {config.seed}, step {run.step}/{config.steps}")
        loss = f"loss {loss_text(run.loss)}" if run.step else "loss"
        curve = sparkline(run.losses, width - len(loss) - 2, unicode=unicode)
        yield Text.assemble(loss, " ", (curve, "cyan"))

    def _layers(self, seen: Seen, width: int, most: int, *, unicode: bool) -> Iterator[Text]:
        sizes = dict(enumerate(seen.run.rms_by_layer))
        every = max(1, math.ceil(len(sizes) / max(1, most)))
        shown = sorted({*list(sizes)[::every], *list(sizes)[-1:]})
        broken = seen.death.layer if seen.death is not None else None
        if broken is not None and broken in sizes and broken not in shown:
            by_distance = sorted(shown, key=lambda layer: abs(layer - broken))
            shown = sorted([broken, *by_distance[1:]])
        for layer in reversed(shown):  # the head above, as a network is drawn
            size = sizes[layer]
            told = f"{size:7.1e}" if math.isfinite(size) else BROKEN * 3
            room = max(1, width - 3 - 1 - 8)
            drawn = bar(size, QUIETEST, LOUDEST, room, unicode=unicode).ljust(room)
            colour = next((name for most, name in SIZES if size <= most), "red")
            mark = f"{layer:3}" if layer != broken else f"{'✗' if unicode else 'x'}{layer:2}"
            style = "bold red" if layer == broken else "dim"
            yield Text.assemble((mark, style), " ", (drawn, colour), f"{told:>8}", no_wrap=True)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Columns of one width, as high as the terminal lets them be, or `narrow` where they do not fit."""

    columns: Sequence[Column]
    narrow: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width = (options.max_width - 2 * (len(self.columns) - 1)) // max(1, len(self.columns))
        layers = console.height - AROUND
        if width < NARROWEST or layers < 3:
            yield self.narrow
            return
        table = Table.grid(padding=(0, 2, 0, 0))
        for _ in self.columns:
            table.add_column(width=min(width, 40), no_wrap=True, overflow="crop")
        unicode = drawable(options.encoding)
        table.add_row(*(_stack(column.lines(min(width, 40), layers, unicode=unicode)) for column in self.columns))
        table.add_row(*(_stack(column.ends()) for column in self.columns))
        yield table
        yield Text(LEGEND, style="dim", no_wrap=True, overflow="crop")


def _stack(lines: Iterator[Text]) -> Text:
    return Text("\n", no_wrap=True, overflow="crop").join(lines)
