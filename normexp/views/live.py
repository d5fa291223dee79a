"""A sweep as it runs: a live view on a terminal, and a plain line a run elsewhere."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from normexp.execute.events import Event, Finished
from normexp.labels import duration, loss_text, values_text
from normexp.plan import Plan
from normexp.record import Outcome, RunRecord, Status
from normexp.run import RunConfig
from normexp.views.console import encodable
from normexp.views.runlines import RunLines
from normexp.views.tally import Tally

HEARTBEAT_SECONDS = 60.0
"""How often a sweep that is not watched says that it is alive."""
SILENT_SECONDS = 300.0
"""A run that has made no step for so long is named: it may hang."""
LOOK_SECONDS = 5.0
BAR_FROM = 48
"""The terminal's columns from which on there is room for a bar."""
STYLES: Mapping[str, str] = {
    Outcome.LEARNED: "green",
    Outcome.PLATEAU: "yellow",
    Outcome.UNSETTLED: "magenta",
    Outcome.DIVERGED: "magenta",
    Outcome.NONFINITE: "red",
}
"""Of outcomes; a run that came to none is in reverse."""


def result_line(record: RunRecord) -> str:
    """What became of a run, in half a line."""
    result = record.result
    if result is None:
        return f"{record.status}: {record.error}"
    if result.death is not None:
        death = result.death
        return f"nonfinite: {death.fault} {death.tensor} at step {death.step}"
    return f"{record.result_word}: loss {loss_text(result.final_val_loss or math.nan)}"


def ended_text(done: int, failed: int, reused: int = 0) -> str:
    """`4 done (1 from other sweeps), 2 failed (--retry-failed runs them again)`."""
    copied = f" ({reused} from other sweeps)" if reused else ""
    broken = f", {failed} failed (--retry-failed runs {'it' if failed == 1 else 'them'} again)" if failed else ""
    return f"{done} done{copied}{broken}"


class View:
    """The listener of a sweep on a console. `names` tells each run in the words of the sweep's axes.

    `folder` is that of the sweep, where logs lie. It may begin again after its end; `names` may grow.
    """

    def __init__(self, console: Console, names: Mapping[str, str], folder: Path = Path()) -> None:
        self.console = console
        self.names = dict(names)
        self.folder = folder
        self.tally = Tally()
        self._live: Live | None = None
        self._spoke = time.monotonic()
        self._over = threading.Event()

    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None:
        """Say what there is to do, and open the live view on a terminal."""
        self.tally = Tally(todo=todo)
        self._over = threading.Event()
        rest = f"{len(todo)} to do" if todo else "nothing to do"
        self._say(f"{ended_text(done + reused, failed, reused)}, {rest}")
        if todo and self.console.file.isatty() and not self.console.is_dumb_terminal:
            self._live = Live(self, console=self.console, refresh_per_second=5, transient=True)
            self._live.start()
        elif todo:
            threading.Thread(target=self._watch, args=(self._over,), daemon=True).start()

    def event(self, event: Event) -> None:
        """Follow; a run that has ended is told in a line."""
        self.tally.update(event)
        if isinstance(event, Finished):
            record = event.record
            seconds = duration(record.seconds.get("total", 0.0))
            position = f"[{len(self.tally.finished)}/{len(self.tally.todo)}]"
            log = (
                f" (log: {self.folder / 'runs' / record.run_id / 'log.txt'})"
                if record.status is not Status.DONE
                else ""
            )
            self._say(
                f"{position} {self.names.get(record.run_id, record.run_id)}: {result_line(record)}, {seconds}{log}"
            )
        elif self._live is None:
            self._beat()

    def _watch(self, over: threading.Event) -> None:
        """Where no event comes, since every run hangs, say so all the same."""
        with suppress(OSError, ValueError):  # the stream has gone
            while not over.wait(LOOK_SECONDS):
                self._beat()

    def _beat(self) -> None:
        if time.monotonic() - self._spoke > HEARTBEAT_SECONDS:
            ended, running = len(self.tally.finished), len(self.tally.running)
            self._say(f"{ended} of {len(self.tally.todo)} ended, {running} under way")
            for run_id, seconds in self.tally.silent(SILENT_SECONDS).items():
                name, since = self.names.get(run_id, run_id), duration(seconds)
                told = "it replays its death, or hangs (--timeout SECONDS ends such runs)"
                self._say(f"{name}: no step for {since}: {told}")

    def end(self) -> None:
        """Close the live view."""
        self._over.set()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _say(self, line: str) -> None:
        self._spoke = time.monotonic()
        self.console.print(Text(encodable(line, self.console.encoding)), soft_wrap=True)

    def __rich__(self) -> RenderableType:
        return Group(*self._head(), self.body())

    def body(self) -> RenderableType:
        """What stands under the progress: the runs under way."""
        return RunLines(self.tally, self.names, self.tally.silent(SILENT_SECONDS))

    def _head(self) -> Iterator[RenderableType]:
        """How much is done and how long the rest takes; what became of those that ended."""
        tally, left = self.tally, self.tally.seconds_left
        head = Table.grid(padding=(0, 1))
        shown: list[RenderableType] = [f"{len(tally.finished)}/{len(tally.todo)}"]
        if self.console.width >= BAR_FROM:
            shown.append(ProgressBar(total=len(tally.todo), completed=len(tally.finished), width=24))
        shown.append(Text(f"about {duration(left)} left" if left is not None else "", "dim", no_wrap=True))
        head.add_row(*shown)
        yield head
        counts = [Text(f"{n} {word}", STYLES.get(word, "reverse")) for word, n in tally.counts.most_common()]
        if counts:
            yield Text("  ").join(counts)


def names_of(plan: Plan) -> dict[str, str]:
    """Run id to the first point that it answers: `position post, lr 0.003`; the id itself where nothing varies."""
    names, labels = dict[str, str](), plan.labels
    for point in plan.points:
        run_id = point.config.run_id
        names.setdefault(run_id, values_text({"label": point.label, **point.values}, labels) or run_id)
    return names
