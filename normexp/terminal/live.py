"""The live view of a sweep on a terminal, and one plain line per finished run elsewhere.

`Tally` follows the events of the sweep and estimates the time left. `View` shows one line per active run;
`CollapseView` shows networks side by side, with the RMS of the residual stream by layer as bars.
"""

from __future__ import annotations

import itertools
import math
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from normexp.analysis.collapse import NORM_NAMES
from normexp.config.labels import duration, loss_text, values_text
from normexp.config.plan import Plan
from normexp.config.run import RunConfig
from normexp.execution.events import Event, Finished, Progress, Started
from normexp.records.record import Death, Outcome, RunRecord, Status, sizes_by_step
from normexp.runner.time_left import work
from normexp.terminal.console import encodable

LEVELS = "▁▂▃▄▅▆▇█"
EIGHTHS = " ▏▎▍▌▋▊▉█"
ASCII_LEVELS = "_.-=+*%#"
BROKEN = "!"
"""Shown in place of a non-finite number."""
MOST_LOSSES = 512
EVIDENCE_SECONDS = 3.0
"""Seconds of training, summed over runs, before the time left is estimated."""
CURVE = 16
"""Characters of a loss curve."""
QUIETEST, LOUDEST = 0.1, 1e5
"""RMS of the residual stream at the ends of the scale of one-line bars."""
LEAST_NAME = 18
WIDTHS = {"grad": 72, "curve": 56, "loss": 36, "layers": 130}
"""Terminal width in columns from which each part of a line is shown."""
HEARTBEAT_SECONDS = 60.0
"""Time between progress lines when there is no live view."""
SILENT_SECONDS = 300.0
"""A run without a step for this long is reported: it may hang."""
LOOK_SECONDS = 5.0
BAR_FROM = 48
"""Terminal width in columns from which the progress bar is shown."""
STYLES: Mapping[str, str] = {
    Outcome.LEARNED: "green",
    Outcome.PLATEAU: "yellow",
    Outcome.UNSETTLED: "magenta",
    Outcome.DIVERGED: "magenta",
    Outcome.NONFINITE: "red",
}
"""Styles of outcomes. Runs without an outcome are shown in reverse."""
HOLD_SECONDS = 4.0
"""How long a network that became non-finite stays in view while the next one trains."""
NARROWEST = 18
"""Smallest column width in characters. Below it, networks are shown as lines."""
NONFINITE = "non-finite"
LEGEND = "RMS of the residual stream by layer, 0.1 to 1e10; LM head at the top"
LOUDEST_BAR = 1e10
"""RMS of the longest bar in a column."""
AROUND = 11
"""Lines of the screen that do not show layers."""
SIZES = ((1e2, "green"), (1e4, "yellow"), (math.inf, "red"))
"""Colours of bars by the largest RMS that has them."""


def drawable(encoding: str) -> bool:
    """Return whether an output encoding has block characters."""
    return encoding.lower().startswith("utf")


def sparkline(values: Sequence[float], width: int, *, unicode: bool = True) -> str:
    """Return a curve of at most `width` characters, scaled to its range. Each character shows the mean of its part.

    Positive values that span more than two powers of ten are drawn on a logarithmic scale.
    """
    if not values or width < 1:
        return ""
    parts = min(width, len(values))
    edges = [round(part * len(values) / parts) for part in range(parts + 1)]
    means = [_mean(values[start:end]) for start, end in itertools.pairwise(edges)]
    finite = [value for value in means if math.isfinite(value)]
    if finite and max(finite) > 100 * min(finite) > 0:
        means = [math.log(value) if math.isfinite(value) else value for value in means]
        finite = [value for value in means if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    return "".join(_level((value - low) / (high - low) if high > low else 0.0, unicode=unicode) for value in means)


def levels(values: Sequence[float], low: float, high: float) -> str:
    """Return one character per value, on a logarithmic scale from `low` to `high`."""
    return "".join(_level(_share(value, low, high)) for value in values)


def bar(value: float, low: float, high: float, width: int, *, unicode: bool = True) -> str:
    """Return a bar of up to `width` characters on a logarithmic scale, or all `!` for a non-finite value."""
    share = _share(value, low, high)
    if math.isnan(share):
        return BROKEN * width
    filled = min(max(share, 0.0), 1.0) * width
    if not unicode:
        return "#" * round(filled)
    whole = int(filled)
    return EIGHTHS[-1] * whole + EIGHTHS[int((filled - whole) * 8)].strip()


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if all(map(math.isfinite, values)) else math.nan


def _share(value: float, low: float, high: float) -> float:
    """Return the logarithmic position of a value between `low` (0) and `high` (1); NaN if it is not finite."""
    if not math.isfinite(value):
        return math.nan
    return math.log(max(value, low) / low) / math.log(high / low)


def _level(share: float, *, unicode: bool = True) -> str:
    if math.isnan(share):
        return BROKEN
    shown = LEVELS if unicode else ASCII_LEVELS
    return shown[min(len(shown) - 1, max(0, int(share * len(shown))))]


@dataclass
class Running:
    """The state of an active run at its last event. Times are monotonic seconds."""

    started: float
    heard: float
    """Time of the last event."""
    step: int = 0
    measured: float = math.nan
    """Time of the first reported step, `from_step`. The time before it says nothing about the speed."""
    from_step: int = 0
    prompt: bool = False
    """Whether workers were running when it started. The first runs wait for them."""
    loss: float = math.nan
    grad_norm: float = math.nan
    rms_by_layer: tuple[float, ...] = ()
    losses: list[float] = field(default_factory=list)
    """Losses of reported steps, thinned out by half whenever there are more than `MOST_LOSSES`."""

    @property
    def broke(self) -> bool:
        """Whether the last step was non-finite. Such a run is replayed to find the first non-finite tensor."""
        return self.step > 0 and not (math.isfinite(self.loss) and math.isfinite(self.grad_norm))


@dataclass
class Tally:
    """The state of a sweep, updated by events."""

    todo: Sequence[RunConfig] = ()
    started: float = field(default_factory=time.monotonic)
    running: dict[str, Running] = field(default_factory=dict)
    finished: list[RunRecord] = field(default_factory=list)
    _spans: list[tuple[float, float]] = field(default_factory=list)
    """Measured training seconds and guessed work of each finished run."""
    _beside: list[float] = field(default_factory=list)
    """Seconds that each finished run spent outside training."""
    _most_running: int = 0

    def update(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, Started):
            now = time.monotonic()
            self.running[event.config.run_id] = Running(now, now, measured=now, prompt=bool(self.finished))
            self._most_running = max(self._most_running, len(self.running))
        elif isinstance(event, Progress):
            run = self.running[event.config.run_id]
            run.heard = time.monotonic()
            if not run.step:
                run.measured, run.from_step = run.heard, event.step
            run.step, run.loss, run.grad_norm = event.step, event.loss, event.grad_norm
            run.rms_by_layer = event.rms_by_layer
            run.losses.append(event.loss)
            if len(run.losses) > MOST_LOSSES:
                del run.losses[::2]
        else:
            self._measure(event.record, self.running.pop(event.record.run_id, None))
            self.finished.append(replace(event.record, traces=None))

    def _measure(self, record: RunRecord, run: Running | None) -> None:
        """Record the time of a finished run: steps with evaluations, and everything else."""
        trained = record.seconds.get("steps", 0.0) + record.seconds.get("eval", 0.0)
        if record.result is not None and trained > 0:
            self._spans.append((trained, work(record.config, 0, record.result.steps_done)))
            if run is not None and run.prompt:
                self._beside.append(max(0.0, time.monotonic() - run.started - trained))

    def silent(self, seconds: float) -> dict[str, float]:
        """Return active runs without a step for at least `seconds`: run id to the seconds since the last event."""
        now = time.monotonic()
        silences = {run_id: now - run.heard for run_id, run in list(self.running.items())}
        return {run_id: silence for run_id, silence in silences.items() if silence >= seconds}

    @property
    def counts(self) -> Counter[str]:
        """Numbers of finished runs by outcome, or by status if they have no outcome."""
        return Counter(record.result_word for record in list(self.finished))

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds left, from the pace so far; None before `EVIDENCE_SECONDS` of training.

        At least the time left of the longest run. Time outside training counts once per remaining run.
        """
        configs = {config.run_id: config for config in self.todo}
        running = [(configs[run_id], run) for run_id, run in list(self.running.items())]
        ended, spans = list(self.finished), list(self._spans)
        spans += [(run.heard - run.measured, work(config, run.from_step, run.step)) for config, run in running]
        seconds, work_done = (sum(part) for part in zip(*spans, strict=True)) if spans else (0.0, 0.0)
        if seconds < EVIDENCE_SECONDS or not work_done:
            return None
        pace, beside = seconds / work_done, statistics.median(self._beside) if self._beside else 0.0
        now = time.monotonic()
        active = [max(0.0, pace * _work_left(config, run) - (now - run.heard)) for config, run in running]
        begun = {record.run_id for record in ended} | {config.run_id for config, _ in running}
        waiting = [pace * work(config) + beside for config in self.todo if config.run_id not in begun]
        if not active and not waiting:
            return 0.0
        return max((sum(active) + sum(waiting)) / max(1, self._most_running), *active, *waiting)


def _work_left(config: RunConfig, run: Running) -> float:
    """Guess the remaining work of an active run. A run that became non-finite is replayed up to that step."""
    return work(config, 0, run.step) if run.broke else work(config, run.step)


@dataclass(frozen=True, slots=True)
class RunLines:
    """One line per active run: name, step, loss with its curve, gradient norm and RMS by layer, as the width allows.

    For runs in `silent`, the time since the last step instead.
    """

    tally: Tally
    names: Mapping[str, str]
    silent: Mapping[str, float]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width, unicode = options.max_width, drawable(options.encoding)
        configs = {config.run_id: config for config in self.tally.todo}
        runs = dict(self.tally.running)  # events come from another thread
        states = {
            run_id: _silence(self.silent[run_id])
            if run_id in self.silent
            else _state(run, configs[run_id].steps, width, unicode=unicode)
            for run_id, run in runs.items()
        }
        names = {run_id: encodable(self.names.get(run_id, run_id), options.encoding) for run_id in runs}
        rest = max((text.cell_len for text in states.values()), default=0)
        longest = max(map(len, names.values()), default=0)
        room = min(longest, max(LEAST_NAME, width - rest - 3))
        for run_id, name in names.items():
            line = Text("  ", no_wrap=True, overflow="crop")
            line.append(elided(name, room, "…" if unicode else "~").ljust(room) + " ")
            yield line.append_text(states[run_id])


def _state(run: Running, steps: int, width: int, *, unicode: bool) -> Text:
    if run.broke:
        return Text(f"non-finite at step {run.step}: replaying to find where", style="red")
    step = f"{run.step}/{steps}".rjust(2 * len(str(steps)) + 1)
    shown = max(1, round(CURVE * run.step / steps))
    parts = [
        ("curve", sparkline(run.losses, shown, unicode=unicode).ljust(CURVE), "cyan"),
        ("loss", f"loss {loss_text(run.loss)}".ljust(10) if run.step else "", "bold"),
        ("grad", f"grad {run.grad_norm:.2g}".ljust(12) if run.step else "", "dim"),
        ("layers", levels(run.rms_by_layer, QUIETEST, LOUDEST) if unicode else "", "magenta"),
    ]
    text = Text(step, style="dim")
    for name, part, style in parts:
        if width >= WIDTHS[name]:
            text.append(" ").append(part, style=style)
    return text


def _silence(seconds: float) -> Text:
    return Text(f"no step for {duration(seconds)}", style="yellow")


def elided(name: str, room: int, mark: str = "…") -> str:
    """Shorten a name to `room` characters by cutting its middle. The ends distinguish runs."""
    if len(name) <= room:
        return name
    head = (room - 1) // 3
    return name[:head] + mark + name[len(name) - (room - 1 - head) :]


def result_line(record: RunRecord) -> str:
    """Return the result of a run in a few words."""
    result = record.result
    if result is None:
        return f"{record.status}: {record.error}"
    if result.death is not None:
        death = result.death
        return f"nonfinite: {death.fault} {death.tensor} at step {death.step}"
    return f"{record.result_word}: loss {loss_text(result.final_val_loss or math.nan)}"


def ended_text(done: int, failed: int, reused: int = 0) -> str:
    """Return text such as `4 done (1 from other sweeps), 2 failed (--retry-failed reruns them)`."""
    copied = f" ({reused} from other sweeps)" if reused else ""
    broken = f", {failed} failed (--retry-failed reruns {'it' if failed == 1 else 'them'})" if failed else ""
    return f"{done} done{copied}{broken}"


class View:
    """A listener that shows a sweep on a console.

    `names` maps run ids to names in terms of the sweep's axes and may grow. `folder` is the sweep's folder, for the
    paths of logs. A view may begin again after its end.
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
        """Print the number of runs to do, and open the live view on a terminal."""
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
        """Update the view, and print a line for each finished run."""
        self.tally.update(event)
        if isinstance(event, Finished):
            record = event.record
            name, seconds = self.names.get(record.run_id, record.run_id), duration(record.seconds.get("total", 0.0))
            count = f"[{len(self.tally.finished)}/{len(self.tally.todo)}]"
            path = self.folder / "runs" / record.run_id / "log.txt"
            log = f" (log: {path})" if record.status is not Status.DONE else ""
            self._say(f"{count} {name}: {result_line(record)}, {seconds}{log}")
        elif self._live is None:
            self._beat()

    def _watch(self, over: threading.Event) -> None:
        """Print progress lines even if no events arrive because every run hangs."""
        with suppress(OSError, ValueError):  # the stream is closed
            while not over.wait(LOOK_SECONDS):
                self._beat()

    def _beat(self) -> None:
        if time.monotonic() - self._spoke > HEARTBEAT_SECONDS:
            ended, running = len(self.tally.finished), len(self.tally.running)
            self._say(f"{ended} of {len(self.tally.todo)} finished, {running} running")
            for run_id, seconds in self.tally.silent(SILENT_SECONDS).items():
                name, silence = self.names.get(run_id, run_id), duration(seconds)
                reason = "replaying a non-finite step, or hanging (--timeout SECONDS ends such runs)"
                self._say(f"{name}: no step for {silence}: {reason}")

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
        """Return the part below the progress bar: the active runs."""
        return RunLines(self.tally, self.names, self.tally.silent(SILENT_SECONDS))

    def _head(self) -> Iterator[RenderableType]:
        """Yield the progress with the time left, and the counts of outcomes."""
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
    """Map each run id to the values of its first point, `position post, lr 0.003`, or to the id if nothing varies."""
    names, labels = dict[str, str](), plan.labels
    for point in plan.points:
        run_id = point.config.run_id
        names.setdefault(run_id, values_text({"label": point.label, **point.values}, labels) or run_id)
    return names


@dataclass(frozen=True, slots=True)
class Seen:
    """The last state of a network; `death` is set if it became non-finite."""

    config: RunConfig
    run: Running
    death: Death | None = None
    until: float = math.inf
    """When the next network replaces it, in monotonic seconds."""


class CollapseView(View):
    """A listener with one column per norm, showing the run that trains now or that just became non-finite."""

    def event(self, event: Event) -> None:
        """Update the view, and keep the last state of finished runs."""
        if isinstance(event, Finished):
            record = event.record
            run = self.tally.running.get(record.run_id)
            death = record.result.death if record.result is not None else None
            if run is not None:
                run.rms_by_layer = _last_sizes(record) or run.rms_by_layer
                until = time.monotonic() + HOLD_SECONDS if death is not None else 0.0
                self._last[record.config.norm] = Seen(record.config, run, death, until)
        super().event(event)

    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None:
        """Forget the networks of an earlier sweep, and begin."""
        self._last: dict[str, Seen] = {}
        super().begin(todo, done=done, failed=failed, reused=reused)

    def body(self) -> RenderableType:
        """Return the columns if they fit the terminal, otherwise lines."""
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
        """Return the state or outcome of each seed."""
        seeds = {config.run_id: config.seed for config in self.tally.todo if config.norm == norm}
        ended = {record.run_id: _fate(record) for record in list(self.tally.finished)}
        active = set(self.tally.running)
        return {
            seed: ended.get(run_id, "training" if run_id in active else "waiting") for run_id, seed in seeds.items()
        }


def _last_sizes(record: RunRecord) -> tuple[float, ...]:
    """Return the RMS of the residual stream by layer at the step where a run became non-finite; empty for others."""
    steps = sizes_by_step(record.traces.death_layers, "stream", "rms") if record.traces is not None else {}
    return tuple(size for _, size in sorted(steps[max(steps)].items())) if steps else ()


def _fate(record: RunRecord) -> str:
    result = record.result
    if result is None:
        return str(record.status)
    if result.death is not None:
        return f"{NONFINITE} at {result.death.step}"
    return f"{record.result_word} {loss_text(result.final_val_loss or math.nan)}"


@dataclass(frozen=True, slots=True)
class Column:
    """The column of one norm, with the state or outcome of each seed in `fates`."""

    norm: str
    seen: Seen | None
    fates: Mapping[int, str]

    def lines(self, width: int, layers: int, *, unicode: bool) -> Iterator[Text]:
        """Yield the lines of the column, at most `layers` of them for the RMS of layers."""
        yield Text(NORM_NAMES.get(self.norm, self.norm), style="bold")
        if self.seen is not None:
            yield from self._head(self.seen, width, unicode=unicode)
            yield from self._layers(self.seen, width, layers, unicode=unicode)

    def ends(self) -> Iterator[Text]:
        """Yield one line per seed."""
        for seed, fate in self.fates.items():
            yield Text(f"seed {seed}: {fate}", style="red" if fate.startswith(NONFINITE) else "dim")

    def _head(self, seen: Seen, width: int, *, unicode: bool) -> Iterator[Text]:
        run, config = seen.run, seen.config
        if seen.death is not None:
            mark = "✝" if unicode else "x"
            yield Text(f"{mark} step {seen.death.step}: {seen.death.fault}", style="bold red")
        elif run.broke:
            yield Text(f"step {run.step}: non-finite", style="bold red")
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
        for layer in reversed(shown):  # the LM head at the top, as networks are drawn
            size = sizes[layer]
            number = f"{size:7.1e}" if math.isfinite(size) else BROKEN * 3
            room = max(1, width - 3 - 1 - 8)
            drawn_bar = bar(size, QUIETEST, LOUDEST_BAR, room, unicode=unicode).ljust(room)
            colour = next((name for most, name in SIZES if size <= most), "red")
            mark = f"{layer:3}" if layer != broken else f"{'✗' if unicode else 'x'}{layer:2}"
            style = "bold red" if layer == broken else "dim"
            yield Text.assemble((mark, style), " ", (drawn_bar, colour), f"{number:>8}", no_wrap=True)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Columns of equal width, as high as the terminal, or `narrow` if they do not fit."""

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
