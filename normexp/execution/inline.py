"""Runs one after another in this process: for debugging, and where processes cannot be started."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator

from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.execution.events import Event, Finished, Progress, Started
from normexp.execution.worker import Work, attempt, throttled
from normexp.records.record import RunRecord


class _Stop(BaseException):
    """Raised in a run whose results nobody waits for any more."""


def inline(
    configs: Iterable[RunConfig], *, jobs: int, timeout_seconds: float | None = None, work: Work
) -> Generator[Event, None, None]:
    """Do each config in a thread of this process, one at a time, so that its progress is seen while it works.

    `jobs` is ignored. A timeout is not supported: there is nothing to kill (UserError). A crash of a run is one of
    this process; prints of a run stay prints. Closing the iterator stops a run at its next step.
    """
    if timeout_seconds is not None:
        raise UserError("timeout: the inline executor has no process to kill: use the executor processes")
    for config in configs:
        yield Started(config)
        yield from _attempt(work, config)


def _attempt(work: Work, config: RunConfig) -> Iterator[Event]:
    messages: queue.SimpleQueue[Progress | RunRecord | BaseException] = queue.SimpleQueue()
    stopped = threading.Event()
    thread = threading.Thread(target=_do, args=(work, config, messages.put, stopped), daemon=True)
    thread.start()
    try:
        while isinstance(message := messages.get(), Progress):
            yield message
    finally:
        stopped.set()
        thread.join()
    if isinstance(message, BaseException):
        raise message
    yield Finished(message)


def _do(
    work: Work,
    config: RunConfig,
    put: Callable[[Progress | RunRecord | BaseException], None],
    stopped: threading.Event,
) -> None:
    send = throttled(put)

    def report(progress: Progress) -> None:
        if stopped.is_set():
            raise _Stop
        send(progress)

    try:
        put(attempt(work, config, report))
    except BaseException as fault:  # for the caller to meet: SystemExit of a run, or our own _Stop
        put(fault)
