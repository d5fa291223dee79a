"""What a dask worker does for a run: hand it to a host, pass on what that says, and end it when nobody asks for it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

import normexp
from normexp.execute.host import FAULT, PROGRESS
from normexp.execute.hosts import Hosts, Unwanted
from normexp.numerics import CHANGES

VERSIONS, GONE = "versions", "gone"
"""Kinds of answers besides those of a host: this worker has other versions than the driver; the host was lost."""
WANTED = ("executing", "long-running")
"""States of a task that its scheduler waits for."""
SERVING = ("running", "paused", "closing_gracefully")
"""States of a worker that still delivers results."""

hosts = Hosts()
"""Those of this process."""


def versions() -> dict[str, str]:
    """What numbers, and the messages between a driver and its workers, depend on."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in ("torch", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found | {"normexp": normexp.__version__, "numerics": str(max(CHANGES))}


def run_there(expected: Mapping[str, str], request: bytes, topic: str, number: int) -> tuple[str, Any]:
    """Do a run: the kind of its answer, and the answer; `request` as in `host`, `number` its name under the topic.

    Raises Reschedule where the run is not wanted any more, or not here.
    """
    from distributed import Reschedule, get_worker

    worker = get_worker()
    found = versions()
    if found != expected:
        return VERSIONS, found
    key = worker.get_current_task()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state in WANTED and worker.status.name in SERVING

    def report(progress: list[float]) -> None:
        worker.log_event(topic, {"run": number, "progress": progress})

    try:
        # A host that was idle may be just ending: then another.
        answer = _attended(request, wanted, report) or _attended(request, wanted, report)
    except OSError as fault:
        return FAULT, f"cannot start a process: {fault.strerror or fault}"
    except Unwanted:
        raise Reschedule from None
    return answer or (GONE, "the process that starts runs ends itself")


def _attended(
    request: bytes, wanted: Callable[[], bool], report: Callable[[list[float]], None]
) -> tuple[str, Any] | None:
    """The answer of a host; None where it was lost without a word."""
    host, answer = hosts.take(), None
    try:
        for kind, content in host.run(request, wanted):
            if kind != PROGRESS:
                answer = kind, content
                break
            report(content)
            answer = GONE, "the process that watched it was lost"
    except BaseException:
        host.end()
        raise
    if answer is None or answer[0] == GONE:
        host.end()
    else:
        hosts.keep(host)
    return answer
