"""The dask worker's side of the executor: pass runs to hosts, forward their messages, and stop unwanted runs.

A worker has one host per parallel run, and keeps it for the next run.
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
"""Interval of checking whether a run is still wanted."""
END_SECONDS = 3.0
"""Time for a host to end its run before it is killed."""
VERSIONS, GONE = "versions", "gone"
"""Kinds of answers besides those of a host: this worker has other versions than the driver; the host was lost."""
WANTED = ("executing", "long-running")
"""States of a task that the scheduler waits for."""
SERVING = ("running", "paused", "closing_gracefully")
"""States of a worker that still delivers results."""


class Unwanted(Exception):
    """The scheduler no longer waits for the run."""


class Host:
    """A subprocess that executes runs, see `normexp.execution.dask.host`."""

    def __init__(self) -> None:
        """Start the subprocess with this process's module path, in a new session that Ctrl-C does not reach."""
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
        """Yield the messages of a run until its host ends. Raises Unwanted."""
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
        """Whether the host's end of the socket is open."""
        self._messages()
        return not self._inbox.ended

    def end(self) -> None:
        """Let the host stop its run and end; kill it after END_SECONDS."""
        self._sock.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Hosts:
    """The idle hosts of this process. The methods are thread-safe."""

    def __init__(self) -> None:
        self._idle: list[Host] = []
        self._lock = threading.Lock()

    def take(self) -> Host:
        """Return an idle host or a new one. Raises OSError if none can be started."""
        while True:
            with self._lock:
                host = self._idle.pop() if self._idle else None
            if host is None:
                return Host()
            if host.alive:
                return host
            host.end()

    def keep(self, host: Host) -> None:
        """Keep a host for the next run."""
        with self._lock:
            self._idle.append(host)

    def end(self) -> None:
        """End all idle hosts."""
        with self._lock:
            idle, self._idle = self._idle, []
        for host in idle:
            host.end()


hosts = Hosts()


def versions() -> dict[str, str]:
    """Return the versions on which results and messages between driver and workers depend."""
    versions = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in ("torch", "numpy"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "none"
    return versions | {"normexp": normexp.__version__, "numerics": str(max(CHANGES))}


def run_there(expected: Mapping[str, str], request: bytes, topic: str, number: int) -> tuple[str, Any]:
    """Execute a run on this worker. Return the kind of the answer and the answer.

    `request` is that of a host, `number` identifies the run in events of `topic`. Raises Reschedule if the run is no
    longer wanted, or not on this worker.
    """
    from distributed import Reschedule, get_worker

    worker = get_worker()
    actual = versions()
    if actual != expected:
        return VERSIONS, actual
    key = worker.get_current_task()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state in WANTED and worker.status.name in SERVING

    def report(progress: list[float]) -> None:
        worker.log_event(topic, {"run": number, "progress": progress})

    try:
        # An idle host may be about to end. In that case, try another one.
        answer = _run_on_host(request, wanted, report) or _run_on_host(request, wanted, report)
    except OSError as fault:
        return FAULT, f"cannot start a process: {fault.strerror or fault}"
    except Unwanted:
        raise Reschedule from None
    return answer or (GONE, "the process that starts runs keeps ending")


def _run_on_host(
    request: bytes, wanted: Callable[[], bool], report: Callable[[list[float]], None]
) -> tuple[str, Any] | None:
    """Return the answer of a host, or None if it was lost before its first message."""
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
