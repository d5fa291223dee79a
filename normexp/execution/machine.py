"""The descriptors 0, 1 and 2, which whoever started this program may have left closed.

The machine that times are measured on, and how busy it is.

How many runs may be executed at a time.

The heap of a process that trains keeps what is freed: giving it back to the system, and taking it again, costs
thousands of page faults a step, by luck of the layout.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

PROCESSORS = Path("/proc/cpuinfo")


def processor(cpuinfo: Path = PROCESSORS) -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = cpuinfo.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine() or "unknown processor"


def memory_bytes() -> int | None:
    """Return the size of the machine's memory; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def load() -> float | None:
    """Processes that wanted to run, on average over the last minute; None where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def default_jobs() -> int:
    """Processors that this process may use: its affinity, and its cgroup's share (version 2), rounded; at least 1."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(count, round(_cgroup_processors(OWN_CGROUP, CGROUPS))))


def _cgroup_processors(own: Path, root: Path) -> float:
    """The tightest quota from the process's group up to the root; a large number where there is none."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return 1e6
    path = next((line[3:] for line in lines if line.startswith("0::")), "/")
    group = root / path.lstrip("/")
    return min(_quota(folder / "cpu.max") for folder in (group, *group.parents) if folder.is_relative_to(root))


def _quota(file: Path) -> float:
    try:
        quota, period = file.read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):
        return 1e6


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""
KEPT_BYTES = 2**30
LARGEST_HEAP_BLOCK_BYTES = 2**25
"""The most that glibc accepts; larger blocks are mapped one by one."""


def keep_freed_memory() -> None:
    """Tell glibc so; where there is another C library, nothing changes."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_MMAP_THRESHOLD, LARGEST_HEAP_BLOCK_BYTES)


def open_closed() -> None:
    """Open the null device on those that are closed, for this process and its children.

    Else the next file, lock or socket would get such a number, and with it what is printed.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is fd
