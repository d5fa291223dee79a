"""A sweep as it runs: a live view on a terminal, and a plain line a run elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from normexp.execute.events import Event, Finished
from normexp.plan import Plan
from normexp.record import RunRecord, Status
from normexp.run import RunConfig
from normexp.views.console import encodable
from normexp.views.labels import loss_text, values_text
from normexp.views.tally import Tally

HEARTBEAT_SECONDS = 60.0
"""How often a sweep that is not watched says that it is alive."""
BARS = "▁▂▃▄▅▆▇█"
DECADES = 6.0
"""Range of the bars: an activation RMS from 0.1 to 10^5, in powers of ten."""


def result_line(record: RunRecord) -> str:
    """What became of a run, in half a line."""
    result = record.result
    if result is None:
        return f"{record.status}: {record.error}"
    if result.death is not None:
        death = result.death
        return f"nonfinite: {death.kind} in {death.where} {death.tensor} at step {death.step}"
    return f"{record.result_word}: loss {loss_text(result.final_val_loss or math.nan)}"


def ended_text(done: int, failed: int, reused: int = 0) -> str:
    """`4 done (1 from other sweeps), 2 failed (--retry-failed runs them again)`."""
    copied = f" ({reused} from other sweeps)" if reused else ""
    broken = f", {failed} failed (--retry-failed runs {'it' if failed == 1 else 'them'} again)" if failed else ""
    return f"{done} done{copied}{broken}"


def duration(seconds: float) -> str:
    """1:05, 2:03:04."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def layer_bars(rms_by_layer: Sequence[float]) -> str:
    """One bar a layer, log scale, from 0.1 to 10^5; `!` where it is not finite."""
    bars = []
    for rms in rms_by_layer:
        height = (math.log10(max(rms, 1e-9)) + 1) / DECADES if math.isfinite(rms) else math.nan
        bars.append("!" if math.isnan(height) else BARS[min(len(BARS) - 1, max(0, int(height * len(BARS))))])
    return "".join(bars)


class View:
    """The listener of a sweep on a console. `names` tells each run in the words of the sweep's axes."""

    def __init__(self, console: Console, names: Mapping[str, str]) -> None:
        self.console = console
        self.names = names
        self.tally = Tally()
        self._live: Live | None = None
        self._spoke = time.monotonic()

    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None:
        """Say what there is to do, and open the live view on a terminal."""
        self.tally = Tally(todo=todo)
        rest = f"{len(todo)} to do" if todo else "nothing to do"
        self._say(f"{ended_text(done + reused, failed, reused)}, {rest}")
        if todo and self.console.file.isatty() and not self.console.is_dumb_terminal:
            self._live = Live(self, console=self.console, refresh_per_second=5, transient=True)
            self._live.start()

    def event(self, event: Event) -> None:
        """Follow; a run that has ended is told in a line."""
        self.tally.update(event)
        if isinstance(event, Finished):
            record = event.record
            seconds = duration(record.seconds.get("total", 0.0))
            position = f"[{len(self.tally.finished)}/{len(self.tally.todo)}]"
            log = f" (log: runs/{record.run_id}/log.txt)" if record.status is not Status.DONE else ""
            self._say(
                f"{position} {self.names.get(record.run_id, record.run_id)}: {result_line(record)}, {seconds}{log}"
            )
        elif self._live is None and time.monotonic() - self._spoke > HEARTBEAT_SECONDS:
            ended, running = len(self.tally.finished), len(self.tally.running)
            self._say(f"{ended} of {len(self.tally.todo)} ended, {running} under way")

    def end(self) -> None:
        """Close the live view."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _say(self, line: str) -> None:
        self._spoke = time.monotonic()
        self.console.print(Text(encodable(line, self.console.encoding)), soft_wrap=True)

    def __rich__(self) -> RenderableType:
        tally = self.tally
        left = tally.seconds_left
        head = Table.grid(padding=(0, 1))
        head.add_row(
            f"{len(tally.finished)}/{len(tally.todo)}",
            ProgressBar(total=len(tally.todo), completed=len(tally.finished), width=20),
            f"{duration(left)} left" if left is not None else "",
            Text(tally.words),
        )
        return Group(head, self._running_table())

    def _running_table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        unicode = self.console.encoding.lower().startswith("utf")
        configs = {config.run_id: config for config in self.tally.todo}
        for run_id, run in self.tally.running.items():
            steps = configs[run_id].steps
            bars = layer_bars(run.rms_by_layer) if unicode else ""
            table.add_row(
                Text(self.names.get(run_id, run_id), overflow="ellipsis", no_wrap=True),
                f"{run.step}/{steps}",
                Text(f"loss {loss_text(run.loss)}", no_wrap=True),
                Text(f"grad {run.grad_norm:.2g}", no_wrap=True),
                Text(bars, no_wrap=True, overflow="crop"),
            )
        return table


def names_of(plan: Plan) -> dict[str, str]:
    """Run id to the first point that it answers: `position post, lr 0.003`; the id itself where nothing varies."""
    names: dict[str, str] = {}
    for point in plan.points:
        run_id = point.config.run_id
        names.setdefault(run_id, values_text({"label": point.label, **point.values}) or run_id)
    return names
