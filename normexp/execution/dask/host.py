"""A subprocess of a dask worker, in which runs get processes of their own: the worker may have none, being daemonic.

It does one run after another, so that torch is imported once for all of them, and ends by itself: with the worker at
the other end of its socket, or when it has had nothing to do for a while.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import socket
import sys
import threading
from multiprocessing import connection
from typing import Any

from normexp.config import plugins
from normexp.errors import UserError
from normexp.execution.dask import wire
from normexp.execution.events import Finished, Progress
from normexp.execution.pool import launch
from normexp.execution.pool.child import Inbox, send
from normexp.execution.pool.pool import processes
from normexp.execution.signals import Stopped, stoppable

IDLE_SECONDS = 60.0
RECORD, FAULT, PROGRESS = "record", "fault", "progress"
"""Kinds of messages: a packed record, why this machine cannot start a run, and a step."""


def main(fd: int) -> None:
    """Serve the socket with this descriptor: each message is a pickled (config, work, timeout in seconds)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=fd)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with contextlib.suppress(Stopped, queue.Empty, OSError), stoppable():
        threading.Thread(target=_listen, args=(sock, requests), daemon=True).start()
        while True:
            _serve(sock, requests.get(timeout=IDLE_SECONDS))


def _listen(sock: socket.socket, requests: queue.SimpleQueue[bytes]) -> None:
    """End a run whose worker has gone, as SIGTERM does."""
    inbox = Inbox(sock)
    try:
        while not inbox.ended:
            connection.wait([sock.fileno()])
            for request in inbox.receive():
                requests.put(request)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def _serve(sock: socket.socket, request: bytes) -> None:
    try:
        config, work, timeout_seconds = pickle.loads(request)
        for plugin in getattr(work, "plugins", ()):
            plugins.add(plugin)  # a record knows its config by them
        events = processes([config], jobs=1, timeout_seconds=timeout_seconds, work=work)
        with contextlib.closing(events):
            for event in events:
                if isinstance(event, Progress):
                    send(sock, (PROGRESS, [event.step, event.loss, event.grad_norm, *event.rms_by_layer]))
                elif isinstance(event, Finished):
                    send(sock, (RECORD, wire.pack(event.record)))
    except (UserError, launch.LauncherError, ImportError, AttributeError) as fault:
        _tell(sock, fault)


def _tell(sock: socket.socket, fault: Any) -> None:
    send(sock, (FAULT, str(fault)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
