"""Work for executors to do, and what comes of it: imported by worker processes, so it stands in a module."""

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
"""Steps of `paced` that last for hours."""
BAD = 1
"""The seed of the run that suffers."""


def tiny(seed: int, **keys: Any) -> RunConfig:
    """A run of a few milliseconds."""
    small = {"depth": 1, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "seq_len": 4, "order": 1, "steps": 5}
    return RunConfig(**{**small, "seed": seed, **keys})


def records(events: Iterator[Event]) -> dict[int, RunRecord]:
    """By seed."""
    return {event.record.config.seed: event.record for event in events if isinstance(event, Finished)}


def quick(config: RunConfig, report: worker.Report) -> RunRecord:
    """One report, and done."""
    report(Progress(config=config, step=1, loss=1.0, grad_norm=1.0))
    return RunRecord(config=config, status=Status.DONE)


def measured(config: RunConfig, report: worker.Report) -> RunRecord:
    """A training, whose log is the peak of its process's memory in KiB."""
    record = worker.Job()(config, report)
    return replace(record, log=str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def paced(config: RunConfig, report: worker.Report) -> RunRecord:
    """`steps` steps of 10 ms."""
    for step in range(1, config.steps + 1):
        report(Progress(config=config, step=step, loss=1.0, grad_norm=1.0))
        time.sleep(0.01)
    return RunRecord(config=config, status=Status.DONE, log=str(os.getpid()))


def gated(config: RunConfig, report: worker.Report) -> RunRecord:
    """One report; then it waits until the file that GATE names is there. Its log is its process number."""
    report(Progress(config=config, step=1, loss=1.0, grad_norm=1.0))
    while not os.path.exists(os.environ[GATE]):
        time.sleep(0.01)
    return RunRecord(config=config, status=Status.DONE, log=str(os.getpid()))


def told(path: str, config: RunConfig, report: worker.Report) -> RunRecord:
    """`paced`, and a line in a file when it starts."""
    with open(path, "a") as file:
        file.write(f"{config.seed}\n")
    return paced(config, report)


def stubborn(config: RunConfig, report: worker.Report) -> RunRecord:
    """Deaf to SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return paced(config, report)


def silent(config: RunConfig, report: worker.Report) -> RunRecord:
    """`stubborn`, and after its report not a word for hours."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    record = quick(config, report)
    time.sleep(HOURS)
    return record


def frozen(config: RunConfig, report: worker.Report) -> RunRecord:
    """Stopped after its report: it does nothing any more, not even end."""
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
    """Which is above the host that is above the fork server that is above this process."""
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
    """`quick`, but the run with seed BAD suffers the fault after its report."""
    record = quick(config, report)
    if config.seed == BAD:
        FAULTS[fault]()
    return record


def prints(config: RunConfig, report: worker.Report) -> RunRecord:
    """By Python, by C, and by a child; `steps` lines of 100 characters."""
    print("from Python")
    os.write(1, b"from C\n")
    os.system("echo from a child >&2")
    for line in range(config.steps):
        print(f"{line:099}")
    return quick(config, report)


def imports(config: RunConfig, report: worker.Report) -> RunRecord:
    """The real run; its log tells what it had to import, and whether torch was there before."""
    before = set(sys.modules)
    record = worker.Job()(config, report)
    assert record.status is Status.DONE, record.log
    new = sorted(set(sys.modules) - before)
    return RunRecord(config=config, status=Status.DONE, log=json.dumps({"had": "torch" in before, "new": new}))


def threads(config: RunConfig, report: worker.Report) -> RunRecord:
    """The real run; its log gives torch's threads before it, and during it."""
    import torch

    seen = [torch.get_num_threads()]
    record = worker.Job()(config, lambda progress: seen.append(torch.get_num_threads()))
    return RunRecord(config=config, status=record.status, log=json.dumps([seen[0], seen[-1]]))


def interrupts(config: RunConfig, report: worker.Report) -> RunRecord:
    """Lives through Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)
    return quick(config, report)


def faults(config: RunConfig, report: worker.Report) -> RunRecord:
    """Takes and frees 16 MiB, again and again; its log is the number of page faults after the first time."""
    size, before = 2**24, 0
    for turn in range(11):
        if turn == 1:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        _ = b"x" * size
    count = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return RunRecord(config=config, status=Status.DONE, log=str(count))
