"""Execute runs in separate processes, several at a time. A worker that fails costs only its own run."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import signal
import socket
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import IO

from normexp.config.run import RunConfig
from normexp.execution.events import Event, Finished, Progress, Started
from normexp.execution.pool import child, launch
from normexp.execution.pool.child import Garbled, Inbox
from normexp.execution.worker import Work
from normexp.records.record import RunRecord, Status

GRACE_SECONDS = 1.0
"""Time between SIGTERM and SIGKILL, in which a worker writes a traceback to its log."""
LOG_BYTES = 2**20
"""Maximum size of a log; its beginning is dropped."""
SERVER_DIED = 255
"""What multiprocessing gives as the exit code of a worker whose fork server has died, though the worker lives."""


class RunProcess:
    """Start it once, `look` at it when one of its `sources` is ready or `due` (monotonic seconds) has come.

    A run has `ended` once its record arrives or its process exits. Then call `record`, `close`, and `is_released` until
    it returns True. Creating and starting it may raise LauncherError.
    """

    def __init__(self, config: RunConfig, timeout_seconds: float | None) -> None:
        self.config = config
        self.due = math.inf
        self.ended = False
        self._timeout_seconds = timeout_seconds
        self._began = time.monotonic()
        self._timed_out = False
        self._orphaned = False
        self._fault: str | None = None
        self._record: RunRecord | None = None
        self._log, self._sock, self._theirs = _channels()
        self._inbox = Inbox(self._sock)
        self._process: BaseProcess | None = None

    def start(self, work: bytes) -> None:
        """Start the process."""
        arguments = (self._theirs, child.Handle(self._log.fileno()), self.config, work)
        with launch.launcher_errors(), self._theirs:
            launch.start(child.serve, arguments, self._adopt)
        self._began = time.monotonic()
        if self._timeout_seconds is not None:
            self.due = self._began + self._timeout_seconds

    def _adopt(self, process: BaseProcess) -> None:
        self._process = process

    @property
    def sentinel(self) -> int | None:
        """Ready when the process has ended; None when it was never started."""
        return None if self._process is None or self._process.pid is None else self._process.sentinel

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self.sentinel is not None and self._process is not None and self._process.is_alive()

    @property
    def _exit_code(self) -> int | None:
        return None if self._process is None or self.sentinel is None else self._process.exitcode

    def sources(self) -> list[int]:
        """What to wait for."""
        sources = [] if self._inbox.ended else [self._sock.fileno()]
        return sources if self.sentinel is None or self._orphaned else [*sources, self.sentinel]

    def look(self) -> Iterator[Progress]:
        """The progress that has arrived; notes the record, the end, and the end of its time."""
        gone = not self.alive
        yield from self._receive()
        self._orphaned = gone and self._exit_code == SERVER_DIED and not self._inbox.ended
        self.ended = self.ended or self._record is not None or (gone and not self._orphaned)
        if not self.ended and time.monotonic() >= self.due:
            self._end_overdue()

    def _end_overdue(self) -> None:
        if self._orphaned:  # its number may be another's by now
            self.hang_up()
            self.ended = True
        elif self._timed_out:
            self.kill()
        else:
            self.terminate()
        self.due = math.inf if self._timed_out else time.monotonic() + GRACE_SECONDS
        self._timed_out = True

    def _receive(self) -> Iterator[Progress]:
        try:
            for message in self._inbox.receive():
                if isinstance(message, Progress) and message.config == self.config:
                    yield message
                elif isinstance(message, RunRecord) and message.config == self.config:
                    self._record = message
                else:
                    raise Garbled(f"a {type(message).__name__}")
        except Garbled as fault:
            self._fault = f"its process sent what is no message of this run: {fault}"
            self._inbox.ended = True
            self.kill()

    def terminate(self) -> None:
        """Send SIGTERM if the process is alive."""
        if self._process is not None and self.alive:
            self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL if the process is alive."""
        if self._process is not None and self.alive:
            self._process.kill()

    def hang_up(self) -> None:
        """Close the connection: the worker then exits by itself, even if its process id is not known yet."""
        self._inbox.ended = True
        self._theirs.close()
        self._sock.close()

    def record(self) -> RunRecord:
        """Return the record that the run sent, or one on how its process ended, with everything that it printed."""
        size = os.fstat(self._log.fileno()).st_size
        start = max(0, size - LOG_BYTES)
        printed = os.pread(self._log.fileno(), LOG_BYTES, start).decode(errors="replace")
        if start:
            printed = f"[{start} bytes before this are left out]\n{printed}"
        record = self._record if self._record is not None and self._fault is None else self._judge()
        return dataclasses.replace(record, log=printed + (record.log or ""))

    def _judge(self) -> RunRecord:
        status, error = self._how_it_ended()
        seconds = {"total": time.monotonic() - self._began}
        return RunRecord(config=self.config, status=status, error=error, seconds=seconds)

    def _how_it_ended(self) -> tuple[Status, str]:
        code = self._exit_code
        if self._fault is not None or code is None:
            return Status.FAILED, self._fault or "its process was lost"
        if self._timed_out:
            return Status.TIMEOUT, f"not done after {self._timeout_seconds:g} seconds"
        if code == SERVER_DIED:
            return Status.KILLED, "lost: its exit status is unknown, because the server that started it died"
        if code >= 0:
            return Status.FAILED, f"ended by itself with exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
        memory = ", perhaps out of memory" if -code == signal.SIGKILL else ""
        return Status.KILLED, f"killed by signal {-code} ({name}){memory}"

    def close(self) -> None:
        """Close the connection and the log; the process exits if it has not done so."""
        self.hang_up()
        self._log.close()

    def is_released(self, wait_seconds: float) -> bool:
        """Release the process if it exits within this time, and return whether it has."""
        if self._process is not None and self.sentinel is not None:
            self._process.join(wait_seconds)
            if self._process.is_alive():
                return False
            self._process.close()
            self._process = None
        return True


def _channels() -> tuple[IO[bytes], socket.socket, socket.socket]:
    """Return an unnamed file for output, and both ends of a socket pair for messages."""
    with launch.launcher_errors():
        log = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            return log, *socket.socketpair()
        except OSError:
            log.close()
            raise


LONGEST_WAIT_SECONDS = 86400.0
"""A wait is split at this length, since the system's limit is less than a month."""


def processes(
    configs: Iterable[RunConfig], *, jobs: int, timeout_seconds: float | None = None, work: Work
) -> Generator[Event, None, None]:
    """Run each config in a separate process, at most `jobs` at a time, in order. Configs are consumed lazily.

    A run that takes longer than `timeout_seconds` is killed. Closing the iterator or an exception in its consumer ends
    every worker. Raises LauncherError, which also ends every worker, if the machine cannot start another one, and
    ValueError for jobs < 1 or a `work` that a worker cannot import.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs}")
    message = pickled(work)
    launch.prepare()
    queue = iter(configs)
    running: list[RunProcess] = []
    exiting: list[RunProcess] = []  # they have delivered their records; the next runs need not wait for them
    try:
        while True:
            exiting = [run for run in exiting if not run.is_released(0)]
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
                    run.close()
                    running.remove(run)
                    exiting.append(run)
                    yield Finished(record)
    finally:
        _stop([*running, *exiting])


def pickled(work: Work) -> bytes:
    """Return the pickled work. Raises ValueError if a worker could not import it."""
    if getattr(work, "__module__", None) == "__main__":
        raise ValueError(f"{work!r} is defined in __main__, which workers do not import: move it into a module")
    try:
        return pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError) as fault:
        raise ValueError(f"{work!r} cannot be named to a worker: define it at the top of a module ({fault})") from fault


def _wait(running: Sequence[RunProcess]) -> None:
    """Wait for an event or a deadline of any process, at most LONGEST_WAIT_SECONDS."""
    if any(run.ended for run in running):
        return
    due = min(run.due for run in running)
    seconds = None if math.isinf(due) else min(max(0.0, due - time.monotonic()), LONGEST_WAIT_SECONDS)
    connection.wait([fd for run in running for fd in run.sources()], seconds)


def _stop(running: Sequence[RunProcess]) -> None:
    """End every worker: close its connection, then SIGTERM, then SIGKILL."""
    try:
        for run in running:
            run.hang_up()
        for run in running:
            run.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        while (alive := [run.sentinel for run in running if run.alive]) and (left := deadline - time.monotonic()) > 0:
            connection.wait([sentinel for sentinel in alive if sentinel is not None], left)
    finally:  # even after a second Ctrl-C
        for run in running:
            run.kill()
    for run in running:
        run.close()
        run.is_released(GRACE_SECONDS)
