"""A subprocess of a dask worker that starts the processes of runs. Daemonic workers cannot start processes themselves.

A host executes one run after another, so that torch is imported only once. It ends when the worker at the other end of
its socket ends, or after IDLE_SECONDS without a run. It sends records as plain data (`pack`), which the driver parses
like a file (`unpack`) and never unpickles.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import queue
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from multiprocessing import connection
from typing import Any

from normexp.config import plugins
from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.execution.events import Finished, Progress
from normexp.execution.pool import launch
from normexp.execution.pool.child import Inbox, send
from normexp.execution.pool.pool import processes
from normexp.execution.signals import Stopped, stoppable
from normexp.records.record import RunRecord, Traces
from normexp.storage import codec

APART = ("traces", "log", "weights")
"""Parts of a record that are sent beside its JSON."""
SIGNALS = ("layers", "death_layers")


def pack(record: RunRecord) -> dict[str, Any]:
    """Return a record as JSON, CSV for each trace, and log and weights unchanged."""
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    packed = {name: fields.pop(name) for name in APART}
    packed["json"] = codec.to_json(fields)
    if record.traces is not None:
        signals = {name: codec.signal_to_csv(getattr(record.traces, name)) for name in SIGNALS}
        packed["traces"] = {"curve": codec.curve_to_csv(record.traces.curve)} | signals
    return packed


def unpack(packed: Mapping[str, Any], config: RunConfig) -> RunRecord:
    """Return the bit-identical record. Raises ValueError if it is incomplete or has another config."""
    try:
        fields = codec.from_json(packed["json"]) | {name: packed[name] for name in APART}
        traces = fields["traces"] and Traces(
            curve=tuple(codec.curve_from_csv(fields["traces"]["curve"])),
            **{name: tuple(codec.signal_from_csv(fields["traces"][name])) for name in SIGNALS},
        )
        record: RunRecord = codec.typed(RunRecord, fields | {"traces": None}, "")
    except (AttributeError, KeyError, TypeError) as fault:
        raise ValueError(f"{type(fault).__name__}: {fault}") from fault
    if record.config != config:
        raise ValueError("it has another config")
    return dataclasses.replace(record, traces=traces or None)


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
                    send(sock, (RECORD, pack(event.record)))
    except (UserError, launch.LauncherError, ImportError, AttributeError) as fault:
        send(sock, (FAULT, str(fault)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
