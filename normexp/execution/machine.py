"""The machine: processor, memory, load, heap settings, standard descriptors, and the home folder.

Libraries are kept from creating folders in the user's home, except in the cache folder: the functions set an
environment variable before the library is imported, unless the user has set it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

PROCESSORS = Path("/proc/cpuinfo")
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""
KEPT_BYTES = 2**30
LARGEST_HEAP_BLOCK_BYTES = 2**25
"""The largest value that glibc accepts. Larger blocks are mapped one by one."""
NO_FOLDER = os.devnull
"""A path where matplotlib cannot create a folder. It then uses a temporary one and removes it at exit."""
DASK_SETTINGS = Path(__file__).parent / "dask" / "dask.yaml"


def processor(cpuinfo: Path = PROCESSORS) -> str:
    """Return the processor's name, or the architecture if the system does not report it."""
    try:
        lines = cpuinfo.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine() or "unknown processor"


def memory_bytes() -> int | None:
    """Return the size of the machine's memory; None if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def load() -> float | None:
    """Return the load average of the last minute; None if unknown."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def default_jobs() -> int:
    """Return the number of processors that this process may use, by its affinity and its cgroup (version 2) quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(count, round(_cgroup_processors(OWN_CGROUP, CGROUPS))))


def _cgroup_processors(own: Path, root: Path) -> float:
    """Return the smallest quota from the process's cgroup up to the root; a large number without quotas."""
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


def keep_freed_memory() -> None:
    """Let glibc keep freed memory. Does nothing with other C libraries.

    Returning memory to the system and taking it again can cost thousands of page faults per training step.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_MMAP_THRESHOLD, LARGEST_HEAP_BLOCK_BYTES)


def open_closed() -> None:
    """Open closed standard descriptors on the null device, for this process and its children.

    Otherwise, the next file, lock or socket would get descriptor 0, 1 or 2, and printed text would go there.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is fd


def redirect_matplotlib() -> None:
    """Let matplotlib use only its cache folder, or a temporary folder if there is no home.

    By default, it creates ~/.config/matplotlib and ~/.cache/matplotlib, and even a missing home. If
    ~/.config/matplotlib exists, it may contain the user's settings, and nothing is changed. Only Linux is affected.
    """
    if "matplotlib" in sys.modules or os.environ.get("MPLCONFIGDIR") or not sys.platform.startswith("linux"):
        return
    settings, cache = _folder("XDG_CONFIG_HOME", ".config"), _folder("XDG_CACHE_HOME", ".cache")
    if settings is None or not os.path.isdir(settings / "matplotlib"):
        os.environ["MPLCONFIGDIR"] = NO_FOLDER if cache is None else str(cache / "matplotlib")


def redirect_dask() -> None:
    """Keep dask from writing its default settings to ~/.config/dask. Existing settings are still read."""
    if "dask" not in sys.modules:
        os.environ.setdefault("DASK_CONFIG", str(DASK_SETTINGS))


def _folder(variable: str, name: str) -> Path | None:
    """Return the folder of an XDG variable, or its default in the home folder; None without a home."""
    value = os.environ.get(variable, "")
    if os.path.isabs(value):  # the specification says to ignore relative paths
        return Path(value)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / name if os.path.isdir(home) else None
