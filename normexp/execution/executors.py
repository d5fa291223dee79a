"""The table of executors, and how many runs they execute in parallel."""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable, Mapping
from typing import Protocol

from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.execution import inline
from normexp.execution.dask import driver
from normexp.execution.dask.driver import LOCAL
from normexp.execution.events import Event
from normexp.execution.machine import default_jobs
from normexp.execution.pool import pool
from normexp.execution.worker import Work


class Executor(Protocol):
    """Runs at most `jobs` configs in parallel. Each run is Started, makes Progress, and is Finished exactly once."""

    def __call__(
        self, configs: Iterable[RunConfig], *, jobs: int, timeout_seconds: float | None = None, work: Work
    ) -> Generator[Event, None, None]:
        """Yield the events as they happen. A config is taken from the iterable when it is started."""


NO_LIMIT = 100_000
"""Number of jobs that leaves the limit to the workers of a remote scheduler."""
EXECUTORS: Mapping[str, Executor] = {"processes": pool.processes, "inline": inline.inline, "dask": driver.dask}
"""Executors by name, the default first."""


def jobs_or_default(jobs: int | None, scheduler: str | None) -> int:
    """Return `jobs` or the default: the available processors, or no limit with a remote scheduler.

    Raises UserError if `jobs` is less than 1.
    """
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs: {jobs} parallel runs: write 1 or more")
    return jobs or (default_jobs() if scheduler in (None, LOCAL) else NO_LIMIT)


def workers_to_count_on(jobs: int | None, scheduler: str | None) -> int:
    """Return the number of workers for estimates: `jobs_or_default`, or 1 if a remote scheduler sets the limit."""
    most = jobs_or_default(jobs, scheduler)
    return most if most < NO_LIMIT else 1


def chosen(name: str, scheduler: str | None) -> Executor:
    """Return the executor with this name, bound to its scheduler. Raises UserError."""
    if name not in EXECUTORS:
        raise UserError(f"executor {name}: write one of {', '.join(EXECUTORS)}")
    if name != "dask":
        if scheduler is not None:
            raise UserError(f"scheduler {scheduler}: only executor dask uses a scheduler")
        return EXECUTORS[name]
    if scheduler is None:
        raise UserError(f"executor dask: needs a scheduler, tcp://HOST:8786, or {LOCAL} for workers on this machine")
    return functools.partial(driver.dask, scheduler=scheduler)
