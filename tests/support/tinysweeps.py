"""Sweeps of four short runs, and listeners that remember what they did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from normexp.config import grid
from normexp.config.plan import Plan
from normexp.config.run import RunConfig
from normexp.execution.events import Event, Finished
from normexp.execution.signals import Stopped
from normexp.records.record import RunRecord, Status
from normexp.runner.run_selection import Options
from normexp.runner.sweep import Swept, run_sweep

TINY = {"depth": 1, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "batch": 4, "steps": 3, "eval_every": 2}


class Silent:
    """Remembers what a sweep did."""

    def __init__(self) -> None:
        self.todo: Sequence[RunConfig] = ()
        self.reused = 0
        self.events: list[Event] = []
        self.ended = 0

    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None:
        self.todo, self.reused, self.counts = todo, reused, (done, failed)

    def event(self, event: Event) -> None:
        self.events.append(event)

    def end(self) -> None:
        self.ended += 1


class StopsAfter(Silent):
    """Ctrl-C after so many finished runs."""

    def __init__(self, finished: int) -> None:
        super().__init__()
        self.left = finished

    def event(self, event: Event) -> None:
        super().event(event)
        self.left -= isinstance(event, Finished)
        if self.left == 0:
            raise Stopped(2)


def plan(name: str = "tiny", **axes: object) -> Plan:
    values = {**TINY, "lr": [1e-3, 1e-2], "seed": [0, 1], **axes}
    return grid.plan_of(name=name, title="Tiny", groups=[("", values)])


def options(out: Path, **rest: object) -> Options:
    return Options(out=out, jobs=1, executor="inline", **rest)


def sweep(out: Path, asked: Plan, listener: Silent | None = None, **rest: object) -> tuple[Swept, Silent]:
    listener = listener or Silent()
    return run_sweep(asked, options(out, **rest), listener), listener


def losses(swept: Swept) -> dict[str, list[str]]:
    return {run_id: [repr(row) for row in swept.store.traces(run_id).curve] for run_id in swept.report.plan.configs}


def fails(config: RunConfig, report: object) -> RunRecord:
    return RunRecord(config=config, status=Status.FAILED, error="RuntimeError: no")
