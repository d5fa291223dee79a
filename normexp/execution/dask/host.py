"""A subprocess of a dask worker that starts the processes of runs. Daemonic workers cannot start processes themselves.

A host executes one run after another, so that torch is imported only once. It ends when the worker at the other end of
its socket ends, or after IDLE_SECONDS without a run.
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
"""Kinds of messages: a packed record, the reason why this machine cannot start a run, and a step."""


def main(fd: int) -> None:
    """Serve the socket with this descriptor. Each request is a pickled (config, work, timeout in seconds)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=fd)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with contextlib.suppress(Stopped, queue.Empty, OSError), stoppable():
        threading.Thread(target=_listen, args=(sock, requests), daemon=True).start()
        while True:
            _serve(sock, requests.get(timeout=IDLE_SECONDS))


def _listen(sock: socket.socket, requests: queue.SimpleQueue[bytes]) -> None:
    """Queue requests, and terminate this process, including its run, when the worker closes the socket."""
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
            plugins.add(plugin)  # needed to read the config of a record
        events = processes([config], jobs=1, timeout_seconds=timeout_seconds, work=work)
        with contextlib.closing(events):
            for event in events:
                if isinstance(event, Progress):
                    send(sock, (PROGRESS, [event.step, event.loss, event.grad_norm, *event.rms_by_layer]))
                elif isinstance(event, Finished):
                    send(sock, (RECORD, wire.pack(event.record)))
    except (UserError, launch.LauncherError, ImportError, AttributeError) as fault:
        send(sock, (FAULT, str(fault)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
