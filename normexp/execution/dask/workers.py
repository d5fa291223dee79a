"""What a dask worker does for a run: hand it to a host, pass on what that says, and end it when nobody asks for it.

The hosts of a dask worker, as it sees them: one for each run at a time, kept for the next run.
"""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from multiprocessing import connection
from typing import Any

import normexp
from normexp.execution.dask.host import FAULT, PROGRESS
from normexp.execution.pool.child import Garbled, Inbox, send
from normexp.records.numerics import CHANGES

MODULE = "normexp.execution.dask.host"
LOOK_SECONDS = 0.2
"""How often is asked whether a run is still wanted."""
END_SECONDS = 3.0
"""What a host has to end its run before it is killed."""


class Unwanted(Exception):
    """Nobody waits for the run any more."""


class Host:
    """A subprocess that does runs, see `normexp.execution.dask.host`."""

    def __init__(self) -> None:
        """Start it, with the modules that this process would find, and out of reach of its terminal's Ctrl-C."""
        self._sock, theirs = socket.socketpair()
        path = os.pathsep.join(part for part in sys.path if part)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        self._inbox = Inbox(self._sock)

    def run(self, request: bytes, wanted: Callable[[], bool]) -> Iterator[tuple[str, Any]]:
        """The messages of a run as they come, until its host ends. Raises Unwanted."""
        with suppress(OSError):
            send(self._sock, request)
        while not self._inbox.ended:
            if not wanted():
                raise Unwanted
            connection.wait([self._sock.fileno()], LOOK_SECONDS)
            yield from self._messages()

    def _messages(self) -> list[Any]:
        try:
            return self._inbox.receive()
        except Garbled:
            self._inbox.ended = True
            return []

    @property
    def alive(self) -> bool:
        """It has not hung up."""
        self._messages()
        return not self._inbox.ended

    def end(self) -> None:
        """Let it end its run and itself; kill it if it does not."""
        self._sock.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Hosts:
    """Those that wait for a run; several threads take and keep them."""

    def __init__(self) -> None:
        self._idle: list[Host] = []
        self._lock = threading.Lock()

    def take(self) -> Host:
        """An idle host, or a new one. Raises OSError where none can be started."""
        while True:
            with self._lock:
                host = self._idle.pop() if self._idle else None
            if host is None:
                return Host()
            if host.alive:
                return host
            host.end()

    def keep(self, host: Host) -> None:
        """Have it wait for the next run."""
        with self._lock:
            self._idle.append(host)

    def end(self) -> None:
        """End all that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
        for host in idle:
            host.end()


VERSIONS, GONE = "versions", "gone"
"""Kinds of answers besides those of a host: this worker has other versions than the driver; the host was lost."""
WANTED = ("executing", "long-running")
"""States of a task that its scheduler waits for."""
SERVING = ("running", "paused", "closing_gracefully")
"""States of a worker that still delivers results."""

hosts = Hosts()
"""Those of this process."""


def versions() -> dict[str, str]:
    """What numbers, and the messages between a driver and its workers, depend on."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in ("torch", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found | {"normexp": normexp.__version__, "numerics": str(max(CHANGES))}


def run_there(expected: Mapping[str, str], request: bytes, topic: str, number: int) -> tuple[str, Any]:
    """Do a run: the kind of its answer, and the answer; `request` as in `host`, `number` its name under the topic.

    Raises Reschedule where the run is not wanted any more, or not here.
    """
    from distributed import Reschedule, get_worker

    worker = get_worker()
    found = versions()
    if found != expected:
        return VERSIONS, found
    key = worker.get_current_task()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state in WANTED and worker.status.name in SERVING

    def report(progress: list[float]) -> None:
        worker.log_event(topic, {"run": number, "progress": progress})

    try:
        # A host that was idle may be just ending: then another.
        answer = _attended(request, wanted, report) or _attended(request, wanted, report)
    except OSError as fault:
        return FAULT, f"cannot start a process: {fault.strerror or fault}"
    except Unwanted:
        raise Reschedule from None
    return answer or (GONE, "the process that starts runs ends itself")


def _attended(
    request: bytes, wanted: Callable[[], bool], report: Callable[[list[float]], None]
) -> tuple[str, Any] | None:
    """The answer of a host; None where it was lost without a word."""
    host, answer = hosts.take(), None
    try:
        for kind, content in host.run(request, wanted):
            if kind != PROGRESS:
                answer = kind, content
                break
            report(content)
            answer = GONE, "the process that watched it was lost"
    except BaseException:
        host.end()
        raise
    if answer is None or answer[0] == GONE:
        host.end()
    else:
        hosts.keep(host)
    return answer
