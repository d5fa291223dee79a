"""The lock of a results folder. It is a lock of the operating system, so killed processes leave no stale lock."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from normexp.errors import UserError
from normexp.storage.codec import from_json, to_json
from normexp.storage.files import ADVICE, storage_errors, write_atomically

LOCK = ".lock"
HOLDER = ".driver.json"
"""Describes the process that holds the lock. A killed process leaves it behind; the next one overwrites it."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of file systems without locks, or without a running lock service."""
OTHER_FOLDER = "this file system has no file locks: use a folder on another file system"
OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags that do not follow symbolic links and do not wait for pipes."""


class Held(Exception):
    """The lock is held by another process, or by another part of this one."""


if sys.platform == "win32":
    import msvcrt

    def take(fd: int) -> None:
        """Lock an open file, without waiting. Raises Held, or OSError where the file system has no locks."""
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise Held from error
else:
    import fcntl

    def take(fd: int) -> None:
        """Lock an open file, without waiting. Raises Held, or OSError where the file system has no locks."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Held from error


@contextlib.contextmanager
def driver_lock(folder: Path) -> Iterator[None]:
    """Lock a folder. Raises UserError immediately, naming the holder, if another process has locked it.

    The lock ends with the process, however it ends. The file is never removed: otherwise two processes could lock two
    files of this name.
    """
    with contextlib.ExitStack() as held:
        with storage_errors(folder / LOCK, "lock", ADVICE | dict.fromkeys(NO_LOCKS, OTHER_FOLDER)):
            fd = os.open(folder / LOCK, OPEN, 0o666)
            held.callback(os.close, fd)
            try:
                take(fd)
            except Held:
                raise UserError(f"{folder} is in use by {_holder(folder / HOLDER)}") from None
        try:
            write_atomically(folder / HOLDER, to_json(_this_process()))
            yield
        finally:
            with contextlib.suppress(OSError):
                (folder / HOLDER).unlink(missing_ok=True)


def _this_process() -> dict[str, Any]:
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _holder(path: Path) -> str:
    try:
        process = from_json(path.read_text("utf-8"))
        return f"pid {process['pid']} on host {process['host']} since {process['since']}"
    except (OSError, ValueError, KeyError):
        return "another process"
