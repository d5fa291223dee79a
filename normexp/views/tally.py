"""Where a sweep stands, as its events tell."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from normexp.execute.events import Event, Progress, Started
from normexp.record import RunRecord
from normexp.run import RunConfig


@dataclass
class Running:
    """A run under way, as last heard of."""

    started: float
    step: int = 0
    loss: float = math.nan
    grad_norm: float = math.nan
    rms_by_layer: tuple[float, ...] = ()


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
            self.running[event.config.run_id] = Running(time.monotonic())
        elif isinstance(event, Progress):
            run = self.running[event.config.run_id]
            run.step, run.loss, run.grad_norm = event.step, event.loss, event.grad_norm
            run.rms_by_layer = event.rms_by_layer
        else:
            self.running.pop(event.record.run_id, None)
            self.finished.append(event.record)

    @property
    def words(self) -> str:
        """Finished runs counted by what became of them."""
        counts = Counter(record.result_word for record in self.finished)
        return ", ".join(f"{count} {word}" for word, count in counts.most_common())

    @property
    def seconds_left(self) -> float | None:
        """From the work (blocks times steps) done so far; None before there is any."""
        ended = sum(_work(record.config, record.config.steps) for record in self.finished)
        configs = {config.run_id: config for config in self.todo}
        ended += sum(_work(configs[run_id], run.step) for run_id, run in self.running.items())
        total = sum(_work(config, config.steps) for config in self.todo)
        return (time.monotonic() - self.started) * (total - ended) / ended if ended else None


def _work(config: RunConfig, steps: int) -> float:
    return (config.depth + 1) * steps
