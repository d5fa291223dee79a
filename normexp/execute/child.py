"""The first and last function of a worker process."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import socket
import sys
import threading
from multiprocessing import reduction
from typing import Any

from normexp.execute.channel import send
from normexp.execute.worker import Report, attempt, throttled
from normexp.record import RunRecord
from normexp.run import RunConfig


class Handle:
    """A file descriptor that travels with the arguments of a process."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (reduction.DupFd(self.fd),)


def _arrived(handle: Any) -> Handle:
    return Handle(handle.detach())


def serve(sock: socket.socket, log: Handle, config: RunConfig, work: bytes) -> None:
    """Do one run and send its record; `work` is a pickled Work. Does not return.

    What is printed goes to `log`. The process ends at once when the other end of `sock` closes.
    """
    _print_to(log.fd)
    _set_signals()
    threading.Thread(target=_end_with_driver, args=(sock,), daemon=True).start()

    def unpickled(config: RunConfig, report: Report) -> RunRecord:
        record: RunRecord = pickle.loads(work)(config, report)
        return record

    send(sock, attempt(unpickled, config, throttled(lambda progress: send(sock, progress))))
    sys.stdout.flush()
    os._exit(0)


def _print_to(fd: int) -> None:
    """Make `fd` the standard output and error of Python, of C code and of crashes."""
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    sys.stdout = sys.stderr = open(  # noqa: SIM115
        1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    faulthandler.enable(file=2)


def _set_signals() -> None:
    """Ctrl-C goes to the whole group, and the driver decides; SIGTERM ends, leaving in the log where it struck."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGTERM, file=2, chain=True)


def _end_with_driver(sock: socket.socket) -> None:
    try:
        while sock.recv(64):
            pass
    finally:
        os._exit(1)
