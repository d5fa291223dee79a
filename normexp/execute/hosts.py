"""The hosts of a dask worker, as it sees them: one for each run at a time, kept for the next run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import connection
from typing import Any

from normexp.execute.channel import Garbled, Inbox, send

MODULE = "normexp.execute.host"
LOOK_SECONDS = 0.2
"""How often is asked whether a run is still wanted."""
END_SECONDS = 3.0
"""What a host has to end its run before it is killed."""


class Unwanted(Exception):
    """Nobody waits for the run any more."""


class Host:
    """A subprocess that does runs, see `normexp.execute.host`."""

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
