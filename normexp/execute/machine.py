"""The machine that times are measured on, and how busy it is."""

from __future__ import annotations

import os
import platform
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
