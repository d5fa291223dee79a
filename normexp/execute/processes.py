"""Runs in processes of their own, several at a time: whatever becomes of a worker costs its own run alone."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Generator, Iterable, Sequence
from multiprocessing import connection

from normexp.execute import launch
from normexp.execute.events import Event, Finished, Started
from normexp.execute.process import GRACE_SECONDS, RunProcess
from normexp.execute.worker import Work
from normexp.run import RunConfig

LONGEST_WAIT_SECONDS = 86400.0
"""The system's limit is less than a month."""


def processes(
    configs: Iterable[RunConfig], *, jobs: int, timeout_seconds: float | None = None, work: Work
) -> Generator[Event, None, None]:
    """Do each config in a process of its own, at most `jobs` at a time, in the order given; configs are taken lazily.

    A run that takes longer than `timeout_seconds` is killed. Closing the iterator, or an exception at its consumer,
    ends every worker; so does LauncherError, raised where the machine cannot start a further one.
    ValueError for jobs < 1 or a `work` that a worker could not import.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs}")
    message = pickled(work)
    launch.prepare()
    queue = iter(configs)
    running: list[RunProcess] = []
    try:
        while True:
            while len(running) < jobs and (config := next(queue, None)) is not None:
                run = RunProcess(config, timeout_seconds)
                running.append(run)
                run.start(message)
                yield Started(config)
            if not running:
                return
            _wait(running)
            for run in list(running):
                yield from run.look()
                if run.ended:
                    record = run.record()
                    run.release()
                    running.remove(run)
                    yield Finished(record)
    finally:
        _stop(running)


def pickled(work: Work) -> bytes:
    """As a worker gets it. Raises ValueError where that could not import it."""
    if getattr(work, "__module__", None) == "__main__":
        raise ValueError(f"{work!r} is defined in __main__, which workers do not import: move it into a module")
    try:
        return pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError) as fault:
        raise ValueError(f"{work!r} cannot be named to a worker: define it at the top of a module ({fault})") from fault


def _wait(running: Sequence[RunProcess]) -> None:
    """Until something has happened to one of them, or is due; or LONGEST_WAIT_SECONDS, for the caller to come back."""
    if any(run.ended for run in running):
        return
    due = min(run.due for run in running)
    seconds = None if math.isinf(due) else min(max(0.0, due - time.monotonic()), LONGEST_WAIT_SECONDS)
    connection.wait([fd for run in running for fd in run.sources()], seconds)


def _stop(running: Sequence[RunProcess]) -> None:
    """End every worker: by the loss of its driver, by SIGTERM, by SIGKILL."""
    try:
        for run in running:
            run.hang_up()
        for run in running:
            run.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        while (alive := [run.sentinel for run in running if run.alive]) and (left := deadline - time.monotonic()) > 0:
            connection.wait([sentinel for sentinel in alive if sentinel is not None], left)
    finally:  # a second Ctrl-C does not wait
        for run in running:
            run.kill()
    for run in running:
        run.release()
