"""Start worker processes from a server that has imported torch, without running the user's script again."""

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
"""The environment variable with the driver's process id for a starting fork server, since the driver may end early."""
DYING_SECONDS = 0.2
"""Time for a killed fork server to exit."""
SPARE_PIPES = 4
"""More pipes than a start needs."""

_starting = threading.RLock()
"""Held while `__main__` is hidden: two threads could otherwise leave it hidden."""

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
"""Advice by error number."""
SOCKET_NAME_TOO_LONG = "AF_UNIX path too long"
"""Python's message, without an error number, if the temporary folder's path is too long for a socket in it."""


class LauncherError(UserError):
    """This machine cannot start another worker: no descriptors, no space for a log, or no fork server."""


@contextmanager
def launcher_errors() -> Iterator[None]:
    """Turn errors that prevent a start into a LauncherError with advice."""
    try:
        yield
    except (ConnectionError, EOFError) as fault:
        raise LauncherError("cannot start a worker process: the fork server exits by itself") from fault
    except OSError as fault:
        code = errno.ENAMETOOLONG if str(fault) == SOCKET_NAME_TOO_LONG else fault.errno
        advice = f": {ADVICE[code]}" if code in ADVICE else ""
        raise LauncherError(f"cannot start a worker process: {fault.strerror or fault}{advice}") from fault


def prepare() -> None:
    """Start the fork server unless it runs already; it imports torch in the background. Raises LauncherError."""
    open_closed()  # otherwise the server and its sockets get these descriptors
    if METHOD == "forkserver":
        multiprocessing.get_context(METHOD).set_forkserver_preload([PRELOAD])
        with launcher_errors(), _main_hidden():
            _ensure_server()


def start(target: Callable[..., None], arguments: tuple[Any, ...], adopt: Callable[[BaseProcess], None]) -> None:
    """Create a process, pass it to `adopt`, and start it. Raises OSError or EOFError on failure."""
    try:
        _start(target, arguments, adopt)
    except (ConnectionError, EOFError):  # the server is exiting: start another
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
            process.start()  # waits for the server's imports; Ctrl-C stays enabled
        else:
            with _interrupts_blocked():
                process.start()


def _check_descriptors() -> None:
    """Raise OSError if descriptors are short: running out during a start would end the fork server with a traceback."""
    taken: list[int] = []
    try:
        for _ in range(SPARE_PIPES):
            taken += os.pipe()
    finally:
        for fd in taken:
            os.close(fd)


def _ensure_server() -> None:
    resource_tracker.ensure_running()  # first, since it unblocks SIGINT
    os.environ[DRIVER] = str(os.getpid())
    try:
        with _interrupts_blocked():
            forkserver.ensure_running()
    finally:
        os.environ.pop(DRIVER, None)


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Replace `__main__` by an empty module, since multiprocessing makes each child import it."""
    with _starting:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT, so that a process started here never receives it, even before it can ignore it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
