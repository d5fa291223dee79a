"""One driver a folder: a lock of the operating system, so that a killed driver leaves nothing to clear away."""

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
"""Who holds the lock; left behind by a killed driver, and then overwritten by the next one."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""What a file system says that has no locks, or whose lock service does not run."""
OTHER_FOLDER = "this file system has no file locks: use a folder on another file system"
OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""A symbolic link is not followed, and a pipe is not waited for."""


class Held(Exception):
    """Another process, or another part of this one, has the lock."""


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
    """Hold the folder. Raises UserError at once, naming the holder, where another driver has it.

    The lock ends with the process, however that ends. The file stays: removing it would let two processes lock two
    files of that name.
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
            write_atomically(folder / HOLDER, to_json(_self()))
            yield
        finally:
            with contextlib.suppress(OSError):
                (folder / HOLDER).unlink(missing_ok=True)


def _self() -> dict[str, Any]:
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _holder(path: Path) -> str:
    try:
        who = from_json(path.read_text("utf-8"))
        return f"pid {who['pid']} on host {who['host']} since {who['since']}"
    except (OSError, ValueError, KeyError):
        return "another process"
