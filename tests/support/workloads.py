"""Work functions for executors. Worker processes import this module."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from patience import HOURS

from normexp.config.run import RunConfig
from normexp.execution import worker
from normexp.execution.events import Event, Finished, Progress
from normexp.records.record import RunRecord, Status

GATE = "NORMEXP_TEST_GATE"
ENDLESS = HOURS * 100
"""Steps of `paced` that take hours."""
BAD = 1
"""The seed of the faulty run."""


def tiny(seed: int, **keys: Any) -> RunConfig:
    """Return a config of a few milliseconds."""
    small = {"depth": 1, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "seq_len": 4, "order": 1, "steps": 5}
    return RunConfig(**{**small, "seed": seed, **keys})


def records(events: Iterator[Event]) -> dict[int, RunRecord]:
    """Return the records by seed."""
    return {event.record.config.seed: event.record for event in events if isinstance(event, Finished)}


def quick(config: RunConfig, report: worker.Report) -> RunRecord:
    """Report once and return."""
    report(Progress(config=config, step=1, loss=1.0, grad_norm=1.0))
    return RunRecord(config=config, status=Status.DONE)


def measured(config: RunConfig, report: worker.Report) -> RunRecord:
    """Train. The log is the peak memory of the process in KiB."""
    record = worker.Job()(config, report)
    return replace(record, log=str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def paced(config: RunConfig, report: worker.Report) -> RunRecord:
    """Make `steps` steps of 10 ms. The log is the process id."""
    for step in range(1, config.steps + 1):
        report(Progress(config=config, step=step, loss=1.0, grad_norm=1.0))
        time.sleep(0.01)
    return RunRecord(config=config, status=Status.DONE, log=str(os.getpid()))


def gated(config: RunConfig, report: worker.Report) -> RunRecord:
    """Report once, then wait until the file named by GATE exists. The log is the process id."""
    report(Progress(config=config, step=1, loss=1.0, grad_norm=1.0))
    while not os.path.exists(os.environ[GATE]):
        time.sleep(0.01)
    return RunRecord(config=config, status=Status.DONE, log=str(os.getpid()))


def told(path: str, config: RunConfig, report: worker.Report) -> RunRecord:
    """Like `paced`, but write a line to a file at the start."""
    with open(path, "a") as file:
        file.write(f"{config.seed}\n")
    return paced(config, report)


def stubborn(config: RunConfig, report: worker.Report) -> RunRecord:
    """Like `paced`, but ignore SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return paced(config, report)


def silent(config: RunConfig, report: worker.Report) -> RunRecord:
    """Report once, then sleep for hours and ignore SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    record = quick(config, report)
    time.sleep(HOURS)
    return record


def frozen(config: RunConfig, report: worker.Report) -> RunRecord:
    """Report once, then stop the process, which can no longer end by itself."""
    record = quick(config, report)
    os.kill(os.getpid(), signal.SIGSTOP)
    return record


def _raise() -> None:
    raise RuntimeError("first line\nsecond line")


def _garble() -> None:
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                os.write(int(name), b"not a message, but long enough to be looked at")


def _kill_dask_worker() -> None:
    """Kill the dask worker, the parent of the host, which is the parent of this process's fork server."""
    pid = os.getpid()
    for _ in range(3):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(pid, signal.SIGKILL)
    time.sleep(HOURS)


FAULTS: Mapping[str, Callable[[], object]] = {
    "raise": _raise,
    "sigkill": partial(signal.raise_signal, signal.SIGKILL),
    "segfault": partial(ctypes.string_at, 0),
    "exit 0": partial(os._exit, 0),
    "exit 3": partial(os._exit, 3),
    "sys.exit": partial(sys.exit, 4),
    "garble": _garble,
    "hang": partial(time.sleep, HOURS),
    "kill the dask worker": _kill_dask_worker,
}


def one_bad(fault: str, config: RunConfig, report: worker.Report) -> RunRecord:
    """Like `quick`, but the run with seed BAD has the fault after its report."""
    record = quick(config, report)
    if config.seed == BAD:
        FAULTS[fault]()
    return record


def prints(config: RunConfig, report: worker.Report) -> RunRecord:
    """Print from Python, from C and from a child, then `steps` lines of 100 characters."""
    print("from Python")
    os.write(1, b"from C\n")
    os.system("echo from a child >&2")
    for line in range(config.steps):
        print(f"{line:099}")
    return quick(config, report)


def imports(config: RunConfig, report: worker.Report) -> RunRecord:
    """Train. The log lists the modules that were imported, and whether torch was imported before."""
    before = set(sys.modules)
    record = worker.Job()(config, report)
    assert record.status is Status.DONE, record.log
    new = sorted(set(sys.modules) - before)
    return RunRecord(config=config, status=Status.DONE, log=json.dumps({"had": "torch" in before, "new": new}))


def threads(config: RunConfig, report: worker.Report) -> RunRecord:
    """Train. The log contains torch's number of threads before and during the run."""
    import torch

    seen = [torch.get_num_threads()]
    record = worker.Job()(config, lambda progress: seen.append(torch.get_num_threads()))
    return RunRecord(config=config, status=record.status, log=json.dumps([seen[0], seen[-1]]))


def interrupts(config: RunConfig, report: worker.Report) -> RunRecord:
    """Send SIGINT to the own process, which must ignore it."""
    os.kill(os.getpid(), signal.SIGINT)
    return quick(config, report)


def faults(config: RunConfig, report: worker.Report) -> RunRecord:
    """Allocate and free 16 MiB repeatedly. The log is the number of page faults after the first time."""
    size, before = 2**24, 0
    for turn in range(11):
        if turn == 1:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        _ = b"x" * size
    count = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return RunRecord(config=config, status=Status.DONE, log=str(count))
