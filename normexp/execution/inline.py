"""The inline executor: runs one after another in this process, for debugging and where processes cannot be started."""

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
    """Raised in a run to stop it, when its iterator is closed."""


def inline(
    configs: Iterable[RunConfig], *, jobs: int, timeout_seconds: float | None = None, work: Work
) -> Generator[Event, None, None]:
    """Run each config in a thread of this process, one at a time, so that progress is reported meanwhile.

    `jobs` is ignored. Closing the iterator stops a run at its next step. A crash of a run crashes this process, and its
    output is not captured. Raises UserError for a timeout, since there is no process to kill.
    """
    if timeout_seconds is not None:
        raise UserError("timeout: the inline executor cannot stop runs: use the executor processes")
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
    except BaseException as fault:  # raised again in the caller: SystemExit of a run, or _Stop
        put(fault)
