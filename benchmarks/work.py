"""Work that benchmarks have workers do: imported by these, so it stands in a module of its own."""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from benchmarks.harness import seconds
from normexp.config.run import RunConfig
from normexp.data.tasks import Task
from normexp.execution.worker import Job, Report
from normexp.records.record import RunRecord


@dataclass(frozen=True, slots=True)
class WithData:
    """A run as in a sweep; its record's `data` are the seconds of drawing its data once more, and nothing else."""

    job: Job

    def __call__(self, config: RunConfig, report: Report) -> RunRecord:
        record = self.job(config, report)
        return replace(record, seconds={**record.seconds, "data": seconds(partial(_draw, config))})


def _draw(config: RunConfig) -> None:
    task = Task(config)
    task.check()
    for _ in islice(task.batches(config.seed, config.batch), config.steps):
        pass
    assert len(task.validation.inputs_nt)


def with_memory(config: RunConfig, report: Report) -> RunRecord:
    """A run whose record's environment has, in KiB, its process's peak (shared pages too) and private pages at the end.

    Private pages are 0 where the system does not tell.
    """
    record = Job()(config, report)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return replace(record, environment={**record.environment, "peak": peak, "private": _private()})


def _private() -> int:
    rollup = Path("/proc/self/smaps_rollup")
    lines = rollup.read_text().splitlines() if rollup.is_file() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
