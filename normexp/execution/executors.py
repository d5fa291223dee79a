"""The table of executors: from configs to a stream of Started, Progress and Finished."""

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
    """Starts at most `jobs` runs at a time; each is Started, makes Progress, and is Finished exactly once."""

    def __call__(
        self, configs: Iterable[RunConfig], *, jobs: int, timeout_seconds: float | None = None, work: Work
    ) -> Generator[Event, None, None]:
        """The events, as they come; configs are taken when their turn comes."""


NO_LIMIT = 100_000
"""As jobs: as many as the workers of a scheduler elsewhere take."""
EXECUTORS: Mapping[str, Executor] = {"processes": pool.processes, "inline": inline.inline, "dask": driver.dask}
"""By name, the default first; dask with a scheduler and workers of its own."""


def jobs_or_default(jobs: int | None, scheduler: str | None) -> int:
    """The processors that this process may use, or with a scheduler elsewhere no limit, unless told otherwise.

    Raises UserError for less than one.
    """
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs: {jobs} runs at a time: write 1 or more")
    return jobs or (default_jobs() if scheduler in (None, LOCAL) else NO_LIMIT)


def workers_to_count_on(jobs: int | None, scheduler: str | None) -> int:
    """As many as `jobs_or_default` tells; one where a scheduler elsewhere sets the limit. Raises UserError."""
    most = jobs_or_default(jobs, scheduler)
    return most if most < NO_LIMIT else 1


def chosen(name: str, scheduler: str | None) -> Executor:
    """The executor that a command asks for, with the scheduler that it is to use. Raises UserError."""
    if name not in EXECUTORS:
        raise UserError(f"executor {name}: there are {', '.join(EXECUTORS)}")
    if name != "dask":
        if scheduler is not None:
            raise UserError(f"scheduler {scheduler}: only executor dask has one")
        return EXECUTORS[name]
    if scheduler is None:
        raise UserError(f"executor dask: name its scheduler, tcp://HOST:8786, or {LOCAL} for workers on this machine")
    return functools.partial(driver.dask, scheduler=scheduler)
