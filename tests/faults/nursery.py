"""A process that has imported everything and forks to run commands, which takes 0.1 s per command instead of 2 s.

It reads orders from standard input and writes answers to standard output, one line of JSON each. `Nursery` starts it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}
"""Audit events that are raised before file operations."""
CAPABILITIES = 0x20080522
"""Version 3 of the structures of capset."""


@dataclass(frozen=True)
class Order:
    """A command and its fault. `kill_after` is in seconds; `kill_at` counts file operations under `cwd`."""

    argv: tuple[str, ...]
    cwd: str
    kill_after: float | None = None
    kill_at: int | None = None
    figures: bool = False
    file_bytes: int | None = None


@dataclass(frozen=True)
class Ended:
    """The end of a command. `code` is negative for a signal, as in subprocess."""

    code: int
    seconds: float
    operations: int
    out: str
    err: str


class Nursery:
    """Runs commands one after another, each in a fork of a process that has imported everything.

    A `light` nursery starts faster, for commands that neither train nor write tables.
    """

    def __init__(self, folder: Path, *, light: bool = False) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(folder), *["light"] * light],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )

    def run(self, *argv: str, cwd: Path, **befalls: Any) -> Ended:
        """Run `normexp ARGV` until it ends or is killed as ordered."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(Order(argv, str(cwd), **befalls))) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        output = {name: (self._folder / name).read_text("utf-8", "replace") for name in ("out", "err")}
        return Ended(**answer, **output)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def main(folder: Path, *, light: bool) -> None:
    """Execute orders until there are no more."""
    if light:
        import normexp.storage.packs
    else:
        _load()
    import normexp.terminal.show

    assert normexp
    for line in sys.stdin:
        order = Order(**json.loads(line))
        start = time.monotonic()
        child = os.fork()
        if not child:
            _obey(order, folder)
        status = _wait(child, None if order.kill_after is None else start + order.kill_after)
        seconds = time.monotonic() - start
        counted = folder / f"operations.{child}"
        operations = int(counted.read_text()) if counted.exists() else 0
        answer = {"code": os.waitstatus_to_exitcode(status), "seconds": seconds, "operations": operations}
        print(json.dumps(answer), flush=True)


def _load() -> None:
    """Import the other modules of a sweep, and estimate reference losses once for all commands."""
    import torch

    from normexp.config.run import RunConfig
    from normexp.data.tasks import Task, remember

    assert torch
    task = Task(RunConfig(vocab=8, order=1))  # that of all sweeps here
    remember({task.name: task.check()})


def _wait(child: int, deadline: float | None) -> int:
    while deadline is not None and time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.0005)
    if deadline is not None:
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _obey(order: Order, folder: Path) -> None:
    os.setsid()
    os.chdir(order.cwd)
    for fd, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), fd)
    if order.file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order.file_bytes, order.file_bytes))
    if not order.figures:
        import normexp.report.report

        normexp.report.report.write_figures = lambda store, report: None
    from normexp.commands import app

    sys.argv = ["normexp", *order.argv]
    count = _count_operations(order)
    code: Any = 1
    try:
        app.main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        (folder / f"operations.{os.getpid()}").write_text(str(count[0]))
        os._exit(code)


def drop_capabilities() -> None:
    """Drop the privileges of root, so that file modes apply to it."""
    header, data = (ctypes.c_uint32 * 2)(CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")


def _count_operations(order: Order) -> list[int]:
    count = [0]

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event in OPERATIONS and str(arguments[0]).startswith(order.cwd):
            count[0] += 1
            if count[0] == order.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)
    return count


if __name__ == "__main__":
    main(Path(sys.argv[1]), light="light" in sys.argv)
