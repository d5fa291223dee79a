"""One driver a folder: a lock of the operating system, so that a killed driver leaves nothing to clear away."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from normexp.errors import UserError
from normexp.results.atomic import storage_errors, write_atomically
from normexp.results.codec import from_json, to_json

LOCK = ".lock"
HOLDER = ".driver.json"
"""Who holds the lock; left behind by a killed driver, and then overwritten by the next one."""


@contextlib.contextmanager
def driver_lock(folder: Path) -> Iterator[None]:
    """Hold the folder. Raises UserError at once, naming the holder, where another driver has it."""
    import filelock  # slow, and not needed for reading

    lock = filelock.FileLock(folder / LOCK)
    with storage_errors(folder / LOCK, "lock"):
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise UserError(f"{folder} is in use by {_holder(folder / HOLDER)}") from None
    try:
        write_atomically(folder / HOLDER, to_json(_self()))
        yield
    finally:
        with contextlib.suppress(OSError):
            (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def _self() -> dict[str, Any]:
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _holder(path: Path) -> str:
    try:
        who = from_json(path.read_text("utf-8"))
        return f"pid {who['pid']} on host {who['host']} since {who['since']}"
    except (OSError, ValueError, KeyError):
        return "another process"
