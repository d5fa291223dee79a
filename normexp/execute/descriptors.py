"""The descriptors 0, 1 and 2, which whoever started this program may have left closed."""

from __future__ import annotations

import os


def open_closed() -> None:
    """Open the null device on those that are closed, for this process and its children.

    Else the next file, lock or socket would get such a number, and with it what is printed.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is fd
