"""Messages between a worker and its driver over a socket pair; its end of file tells each that the other is gone."""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

MAGIC = b"nxp1"
HEADER = struct.Struct("!4sI")
PART = 2**18


class Garbled(Exception):
    """What arrived is no message."""


def send(sock: socket.socket, message: object) -> None:
    """Send one picklable object whole; waits while the other side does not read. Raises OSError when it is gone."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    sock.sendall(HEADER.pack(MAGIC, len(body)) + body)


class Inbox:
    """The driver's side: what has arrived, never waiting for more. `ended`: the other side is gone."""

    def __init__(self, sock: socket.socket) -> None:
        self.ended = False
        self._sock = sock
        self._data = bytearray()

    def receive(self) -> list[Any]:
        """The messages that are complete by now. Raises Garbled."""
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
