"""How many runs may be executed at a time."""

from __future__ import annotations

import os
from pathlib import Path

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
