"""What a worker process runs, and its messages to the driver.

The messages travel over a socket pair. End of file tells each side that the other is gone.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import socket
import struct
import sys
import threading
from multiprocessing import reduction
from typing import Any

from normexp.config.run import RunConfig
from normexp.execution.worker import Report, attempt, throttled
from normexp.records.record import RunRecord

MAGIC = b"nxp1"
HEADER = struct.Struct("!4sI")
PART = 2**18


class Garbled(Exception):
    """The received bytes are not a message."""


def send(sock: socket.socket, message: object) -> None:
    """Send one picklable object; block while the other side does not read. Raises OSError if it is gone."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    sock.sendall(HEADER.pack(MAGIC, len(body)) + body)


class Inbox:
    """The driver's side, which never blocks. `ended` is True once the other side is gone."""

    def __init__(self, sock: socket.socket) -> None:
        self.ended = False
        self._sock = sock
        self._data = bytearray()

    def receive(self) -> list[Any]:
        """Return the messages that are complete by now. Raises Garbled."""
        self._read()
        messages = []
        while len(self._data) >= HEADER.size:
            magic, size = HEADER.unpack_from(self._data)
            if magic != MAGIC:
                raise Garbled(f"{bytes(self._data[:40])!r}")
            if len(self._data) < HEADER.size + size:
                break
            body = bytes(self._data[HEADER.size : HEADER.size + size])
            del self._data[: HEADER.size + size]
            try:
                messages.append(pickle.loads(body))
            except Exception as fault:
                raise Garbled(f"{type(fault).__name__}: {fault}") from fault
        return messages

    def _read(self) -> None:
        while not self.ended:
            try:
                part = self._sock.recv(PART, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except ConnectionError:
                part = b""
            self.ended = not part
            self._data += part


class Handle:
    """A file descriptor that can be passed among the arguments of a process."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (reduction.DupFd(self.fd),)


def _arrived(handle: Any) -> Handle:
    return Handle(handle.detach())


def serve(sock: socket.socket, log: Handle, config: RunConfig, work: bytes) -> None:
    """Do one run, send its record, and exit; `work` is a pickled Work.

    Output goes to `log`. The process exits at once if the other end of `sock` closes.
    """
    _print_to(log.fd)
    _set_signals()
    threading.Thread(target=_end_with_driver, args=(sock,), daemon=True).start()

    def unpickled(config: RunConfig, report: Report) -> RunRecord:
        record: RunRecord = pickle.loads(work)(config, report)
        return record

    record = attempt(unpickled, config, throttled(lambda progress: send(sock, progress)))
    sys.stdout.flush()  # the driver reads the log when the record arrives
    send(sock, record)
    os._exit(0)


def _print_to(fd: int) -> None:
    """Redirect standard output and error of Python, C code and crash reports to `fd`."""
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    sys.stdout = sys.stderr = open(  # noqa: SIM115
        1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    faulthandler.enable(file=2)


def _set_signals() -> None:
    """Ignore Ctrl-C, which reaches the whole process group. SIGTERM writes a traceback to the log."""
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
