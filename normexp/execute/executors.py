"""The table of executors: from configs to a stream of Started, Progress and Finished."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Protocol

from normexp.execute import inline, processes
from normexp.execute.events import Event
from normexp.execute.worker import Work
from normexp.run import RunConfig


class Executor(Protocol):
    """Starts at most `jobs` runs at a time; each is Started, makes Progress, and is Finished exactly once."""

    def __call__(
        self, configs: Iterable[RunConfig], *, jobs: int, timeout_seconds: float | None = None, work: Work = ...
    ) -> Generator[Event, None, None]:
        """The events, as they come; configs are taken when their turn comes."""


EXECUTORS: Mapping[str, Executor] = {"processes": processes.processes, "inline": inline.inline}
"""By name, the default first."""
