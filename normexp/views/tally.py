"""Where a sweep stands, as its events tell."""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from normexp.estimate import work
from normexp.execute.events import Event, Progress, Started
from normexp.record import RunRecord
from normexp.run import RunConfig

MOST_LOSSES = 512
EVIDENCE_SECONDS = 3.0
"""Seconds of training, of all runs together, before anything is said of those to come."""


@dataclass
class Running:
    """A run under way, as last heard of."""

    started: float
    heard: float
    step: int = 0
    measured: float = math.nan
    """When its first step was heard of, `from_step`: what came before says nothing of how fast it is."""
    from_step: int = 0
    prompt: bool = False
    """Whether the workers were there when it began: the first runs wait for them."""
    loss: float = math.nan
    grad_norm: float = math.nan
    rms_by_layer: tuple[float, ...] = ()
    losses: list[float] = field(default_factory=list)
    """By the steps heard of; every other one is let go where they are many."""

    @property
    def broke(self) -> bool:
        """Whether its last step was not finite: its death is being replayed."""
        return self.step > 0 and not (math.isfinite(self.loss) and math.isfinite(self.grad_norm))


@dataclass
class Tally:
    """Where a sweep stands, updated by its events."""

    todo: Sequence[RunConfig] = ()
    started: float = field(default_factory=time.monotonic)
    running: dict[str, Running] = field(default_factory=dict)
    finished: list[RunRecord] = field(default_factory=list)
    _spans: list[tuple[float, float]] = field(default_factory=list)
    """Seconds that a finished run trained, and those guessed."""
    _beside: list[float] = field(default_factory=list)
    """Seconds of a finished run beside them."""
    _most_running: int = 0

    def update(self, event: Event) -> None:
        """Take note of an event."""
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
        """Take note of what a finished run took: for its steps and evaluations, and beside them."""
        trained = record.seconds.get("steps", 0.0) + record.seconds.get("eval", 0.0)
        if record.result is not None and trained > 0:
            self._spans.append((trained, work(record.config, 0, record.result.steps_done)))
            if run is not None and run.prompt:
                self._beside.append(max(0.0, time.monotonic() - run.started - trained))

    def silent(self, seconds: float) -> dict[str, float]:
        """Run id to the seconds since its last step, or its start, of those under way for which they are so many."""
        now = time.monotonic()
        heard = {run_id: now - run.heard for run_id, run in list(self.running.items())}
        return {run_id: since for run_id, since in heard.items() if since >= seconds}

    @property
    def counts(self) -> Counter[str]:
        """Finished runs by what became of them."""
        return Counter(record.result_word for record in list(self.finished))

    @property
    def seconds_left(self) -> float | None:
        """From the pace of the steps and evaluations made so far; None before they have taken some seconds.

        Never less than the run under way that will take longest. What comes before a run's first step, and behind its
        last, counts as often as there are runs left.
        """
        configs = {config.run_id: config for config in self.todo}
        running = [(configs[run_id], run) for run_id, run in list(self.running.items())]
        ended, spans = list(self.finished), list(self._spans)
        spans += [(run.heard - run.measured, work(config, run.from_step, run.step)) for config, run in running]
        seconds, made = (sum(part) for part in zip(*spans, strict=True)) if spans else (0.0, 0.0)
        if seconds < EVIDENCE_SECONDS or not made:
            return None
        pace, beside = seconds / made, statistics.median(self._beside) if self._beside else 0.0
        now = time.monotonic()
        own = [max(0.0, pace * _rest(config, run) - (now - run.heard)) for config, run in running]
        gone = {record.run_id for record in ended} | {config.run_id for config, _ in running}
        waiting = [pace * work(config) + beside for config in self.todo if config.run_id not in gone]
        if not own and not waiting:
            return 0.0
        return max((sum(own) + sum(waiting)) / max(1, self._most_running), *own, *waiting)


def _rest(config: RunConfig, run: Running) -> float:
    """What a run under way still has to do, as guessed; one that broke trains once more up to there."""
    return work(config, 0, run.step) if run.broke else work(config, run.step)
