"""Where a sweep stands, as its events tell."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from normexp.estimate import guess
from normexp.execute.events import Event, Progress, Started
from normexp.record import RunRecord
from normexp.run import RunConfig

MOST_LOSSES = 512


@dataclass
class Running:
    """A run under way, as last heard of."""

    started: float
    heard: float
    step: int = 0
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

    def update(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, Started):
            now = time.monotonic()
            self.running[event.config.run_id] = Running(now, now)
        elif isinstance(event, Progress):
            run = self.running[event.config.run_id]
            run.heard = time.monotonic()
            run.step, run.loss, run.grad_norm = event.step, event.loss, event.grad_norm
            run.rms_by_layer = event.rms_by_layer
            run.losses.append(event.loss)
            if len(run.losses) > MOST_LOSSES:
                del run.losses[::2]
        else:
            self.running.pop(event.record.run_id, None)
            self.finished.append(replace(event.record, traces=None))

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
        """From the time that the steps made so far took; None before there are any.

        Never less than the run under way that will take longest.
        """
        now = time.monotonic()
        configs = {config.run_id: config for config in self.todo}
        running = [(configs[run_id], run) for run_id, run in list(self.running.items())]
        ended = list(self.finished)
        made = sum(guess(record.config, record.result.steps_done) for record in ended if record.result is not None)
        made += sum(guess(config, run.step) for config, run in running)
        if not made:
            return None
        rest = sum(guess(config, config.steps) for config in self.todo)
        rest -= sum(guess(record.config, record.config.steps) for record in ended)
        rest -= sum(guess(config, run.step) for config, run in running)
        own = [(run.heard - run.started) * (config.steps / run.step - 1) for config, run in running if run.step]
        return max((now - self.started) * rest / made, *own, 0.0)
