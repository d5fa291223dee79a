"""Starting a worker process: from a server that has imported torch, and without running the user's script again."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any

METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
PRELOAD = "normexp.execute.preload"
DYING_SECONDS = 0.2
"""What a killed fork server has to be gone."""


def prepare() -> None:
    """Start the fork server if there is none yet; it imports while the driver goes on."""
    if METHOD == "forkserver":
        multiprocessing.get_context(METHOD).set_forkserver_preload([PRELOAD])
        with _main_hidden():
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
    with _main_hidden():
        if METHOD == "forkserver":
            _ensure_server()
            process.start()  # waits for the server's imports, so Ctrl-C stays open
        else:
            with _interrupts_blocked():
                process.start()


def _ensure_server() -> None:
    resource_tracker.ensure_running()  # first, for it unblocks SIGINT
    with _interrupts_blocked():
        forkserver.ensure_running()


@contextmanager
def _main_hidden() -> Iterator[None]:
    """multiprocessing has each child import `__main__`: give it an empty one."""
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
