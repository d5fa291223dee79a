"""Set up the fork server. It imports this module once, before its first fork, so workers inherit the result.

A module that cannot be imported is skipped: each run then raises the error itself and has it in its log.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

from normexp.execution.machine import keep_freed_memory, open_closed
from normexp.execution.pool.launch import DRIVER

MODULES = (
    "numpy.random",
    "torch",
    "normexp.training.trainer",
    "normexp.training.loop",
    "normexp.execution.pool.child",
)
FAULT = 100
"""The exit code of a child that could not finish its check."""
WATCH_SECONDS = 0.2
PR_SET_PDEATHSIG = 1
"""The option of Linux's prctl that sends a signal when the parent ends."""


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard what the imports print."""
    open_closed()
    null = os.open(os.devnull, os.O_WRONLY)
    kept = [os.dup(fd) for fd in (1, 2)]
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for fd in (null, *kept):
            os.close(fd)


def _signal_at_parents_end(signum: int) -> None:
    """On Linux, make the kernel send this process a signal (0: none) when its parent ends.

    This works while the interpreter lock is held, as it is for seconds during imports on a busy machine.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)


@contextlib.contextmanager
def _end_with_parent() -> Iterator[None]:
    """End this process with its driver during the imports; after them, the fork server itself takes care of that."""
    _signal_at_parents_end(signal.SIGKILL)
    parent, done = int(os.environ.pop(DRIVER, os.getppid())), threading.Event()
    if os.getppid() != parent:
        os._exit(1)

    def watch() -> None:
        while not done.wait(WATCH_SECONDS):
            if os.getppid() != parent:
                os._exit(1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        _signal_at_parents_end(0)  # the thread that started this server may end before its process does


def _settle() -> None:
    """Choose the execution path once for all workers."""
    from normexp.records.execution_path import ExecutionPath, requested
    from normexp.training.paths import choice
    from normexp.training.paths.compiled.library import UnavailableError, load

    if requested() not in (None, ExecutionPath.COMPILED):
        return
    why = ""
    try:
        load()  # built and loaded once, not by each worker
    except UnavailableError as fault:
        why = str(fault)
    code = _code_of(lambda: list(ExecutionPath).index((choice.without_kernels() if why else choice.fastest()).path))
    if code < 0 and not why:
        why = "the compiled kernels crash in the check at the start"
        code = _code_of(lambda: list(ExecutionPath).index(choice.without_kernels().path))
    if code < 0:
        why, code = "the tape crashes in the check at the start", list(ExecutionPath).index(ExecutionPath.AUTOGRAD)
    if code in range(len(ExecutionPath)):  # otherwise each worker chooses by itself
        path = list(ExecutionPath)[code]
        choice.settle(path, why or choice.REASONS[path])


def _code_of(work: Callable[[], int]) -> int:
    """Return the result of `work`, or the negative number of the signal that ended it.

    `work` runs in a child, because a process that has used autograd must not be forked.
    """
    child = os.fork()
    if not child:
        code = FAULT
        _signal_at_parents_end(signal.SIGKILL)
        with contextlib.suppress(BaseException):
            code = work()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return FAULT if code in (-signal.SIGKILL, -signal.SIGTERM) else code  # sent by something else


def _load() -> None:
    keep_freed_memory()
    # A BLAS that starts its threads at import would have them forked.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with _silence(), _end_with_parent():
        for name in MODULES:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        with contextlib.suppress(Exception):
            importlib.import_module("normexp.execution.worker").machine()
        with contextlib.suppress(Exception):
            _settle()
    gc.collect()
    gc.freeze()  # otherwise a worker's garbage collections write to all objects, which copies shared pages
    # Ctrl-C was blocked by the driver that started this server; from here on it is ignored, by the workers too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


_load()
