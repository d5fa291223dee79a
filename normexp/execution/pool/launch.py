"""Starting a worker process: from a server that has imported torch, and without running the user's script again."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any

from normexp.errors import UserError
from normexp.execution.machine import open_closed

METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
PRELOAD = "normexp.execution.pool.preload"
DRIVER = "NORMEXP_DRIVER"
"""In the environment of a fork server that starts: the process number of its driver, which may end before it looks."""
DYING_SECONDS = 0.2
"""What a killed fork server has to be gone."""
SPARE_PIPES = 4
"""More than a start takes."""

_starting = threading.RLock()
"""Held while `__main__` is hidden: two threads at it would leave it so."""

ADVICE = {
    errno.EMFILE: "give fewer --jobs, or raise `ulimit -n`",
    errno.ENFILE: "give fewer --jobs",
    errno.EAGAIN: "give fewer --jobs, or raise `ulimit -u`",
    errno.ENOMEM: "give fewer --jobs",
    errno.ENOSPC: "free some in the temporary folder, or name another in TMPDIR",
    errno.EDQUOT: "free some in the temporary folder, or name another in TMPDIR",
    errno.ENOENT: "name a folder that can be written in TMPDIR",
    errno.EACCES: "name a folder that can be written in TMPDIR",
    errno.EROFS: "name a folder that can be written in TMPDIR",
    errno.ENAMETOOLONG: "name a folder with a shorter path in TMPDIR",
}
"""What helps, by what the system said."""
SOCKET_NAME_TOO_LONG = "AF_UNIX path too long"
"""Python's words, without an error number, where the temporary folder's path leaves no room for a socket's name."""


class LauncherError(UserError):
    """This machine starts no further worker: no descriptors, no space for a log, no fork server. No run's fault."""


@contextmanager
def launcher_errors() -> Iterator[None]:
    """Turn what prevents a start into a LauncherError that names it."""
    try:
        yield
    except (ConnectionError, EOFError) as fault:
        raise LauncherError("cannot start a worker process: the fork server that starts them ends itself") from fault
    except OSError as fault:
        code = errno.ENAMETOOLONG if str(fault) == SOCKET_NAME_TOO_LONG else fault.errno
        advice = f": {ADVICE[code]}" if code in ADVICE else ""
        raise LauncherError(f"cannot start a worker process: {fault.strerror or fault}{advice}") from fault


def prepare() -> None:
    """Start the fork server if there is none yet; it imports while the driver goes on. Raises LauncherError."""
    open_closed()  # the server and its sockets would get these numbers
    if METHOD == "forkserver":
        multiprocessing.get_context(METHOD).set_forkserver_preload([PRELOAD])
        with launcher_errors(), _main_hidden():
            _ensure_server()


def start(target: Callable[..., None], arguments: tuple[Any, ...], adopt: Callable[[BaseProcess], None]) -> None:
    """Make a process, hand it to `adopt`, start it. Raises OSError or EOFError where that fails."""
    try:
        _start(target, arguments, adopt)
    except (ConnectionError, EOFError):  # the server is just dying: have another
        time.sleep(DYING_SECONDS)
        _start(target, arguments, adopt)


def _start(target: Callable[..., None], arguments: tuple[Any, ...], adopt: Callable[[BaseProcess], None]) -> None:
    process: BaseProcess
    if METHOD == "forkserver":
        process = multiprocessing.get_context("forkserver").Process(target=target, args=arguments, daemon=True)
    else:
        process = multiprocessing.get_context("spawn").Process(target=target, args=arguments, daemon=True)
    adopt(process)
    _check_descriptors()
    with _main_hidden():
        if METHOD == "forkserver":
            _ensure_server()
            process.start()  # waits for the server's imports, so Ctrl-C stays open
        else:
            with _interrupts_blocked():
                process.start()


def _check_descriptors() -> None:
    """Raise OSError if a start would lack some: amid one, that ends the fork server with a traceback."""
    taken: list[int] = []
    try:
        for _ in range(SPARE_PIPES):
            taken += os.pipe()
    finally:
        for fd in taken:
            os.close(fd)


def _ensure_server() -> None:
    resource_tracker.ensure_running()  # first, for it unblocks SIGINT
    os.environ[DRIVER] = str(os.getpid())
    try:
        with _interrupts_blocked():
            forkserver.ensure_running()
    finally:
        os.environ.pop(DRIVER, None)


@contextmanager
def _main_hidden() -> Iterator[None]:
    """multiprocessing has each child import `__main__`: give it an empty one."""
    with _starting:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process started in here never sees Ctrl-C, not even before it can say that it ignores it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
