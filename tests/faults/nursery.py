"""A process that has imported everything, and forks the program as often as it is asked to: 0.1 s a command, not 2.

Told on standard input, answered on standard output, a line of JSON each. Run as a script; `Nursery` is its other end.
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
"""Audit events, each raised before the file operation of that name."""
CAPABILITIES = 0x20080522
"""Version 3 of the structures that capset takes."""


@dataclass(frozen=True)
class Order:
    """A command, and what befalls it. Times in seconds; `kill_at` counts file operations under `cwd`."""

    argv: tuple[str, ...]
    cwd: str
    kill_after: float | None = None
    kill_at: int | None = None
    figures: bool = False
    file_bytes: int | None = None


@dataclass(frozen=True)
class Ended:
    """`code` as of subprocess: negative for a signal."""

    code: int
    seconds: float
    operations: int
    out: str
    err: str


class Nursery:
    """Runs commands of the program one after another, each in a fork of a process that has imported it all.

    A `light` one is there sooner, for commands that neither train nor make tables.
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
        """Run `normexp ARGV` until it ends, by itself or as ordered."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(Order(argv, str(cwd), **befalls))) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        told = {name: (self._folder / name).read_text("utf-8", "replace") for name in ("out", "err")}
        return Ended(**answer, **told)

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def main(folder: Path, *, light: bool) -> None:
    """Answer orders until there are no more."""
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
    """What else a sweep imports; and it estimates once what each command would estimate anew."""
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
    """From here on, root is refused what the modes of its own files refuse."""
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
