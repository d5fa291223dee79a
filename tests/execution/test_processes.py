"""The executor of processes: workers do not affect each other, and none is left behind."""

from __future__ import annotations

import ctypes
import errno
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import workloads
from commandline import TINY, run
from patience import wait_until
from workloads import tiny

from normexp.config.run import RunConfig
from normexp.execution.events import Event, Finished, Progress, Started
from normexp.execution.inline import inline
from normexp.execution.machine import _cgroup_processors, default_jobs
from normexp.execution.pool import launch
from normexp.execution.pool.launch import LauncherError
from normexp.execution.pool.pool import processes
from normexp.execution.worker import Work
from normexp.records.record import RunRecord, Status


def records(events: Iterator[Event]) -> dict[int, RunRecord]:
    return {event.record.config.seed: event.record for event in events if isinstance(event, Finished)}


@pytest.mark.slow
def test_a_worker_of_30_layers_stays_under_600_mebibytes() -> None:
    (record,) = records(processes([RunConfig(depth=30, steps=2)], jobs=1, work=workloads.measured)).values()
    assert record.status is Status.DONE
    assert 100 < int(record.log or 0) / 1024 < 600


def test_a_timed_out_run_that_ignores_sigterm_is_killed() -> None:
    (record,) = records(processes([tiny(0)], jobs=1, timeout_seconds=0.3, work=workloads.silent)).values()
    assert record.status is Status.TIMEOUT


def test_the_time_of_a_run_starts_with_the_run() -> None:
    configs = [tiny(seed, steps=40) for seed in range(4)]
    done = records(processes(configs, jobs=1, timeout_seconds=1.2, work=workloads.paced))
    assert [record.status for record in done.values()] == [Status.DONE] * 4


def test_all_output_goes_to_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    (record,) = records(processes([tiny(0, steps=3)], jobs=1, work=workloads.prints)).values()
    log = record.log or ""
    assert log.splitlines()[:3] == ["from Python", "from C", "from a child"]
    assert len(log.splitlines()) == 6
    assert capfd.readouterr() == ("", "")


def test_the_end_of_a_long_log_is_kept() -> None:
    (record,) = records(processes([tiny(0, steps=15_000)], jobs=1, work=workloads.prints)).values()
    log = record.log or ""
    assert 2**20 < len(log) < 2**20 + 100
    assert log.startswith("[")
    assert log.endswith(f"{14_999:099}\n")


def test_no_process_and_no_descriptor_is_left() -> None:
    list(processes([tiny(0)], jobs=1, work=workloads.quick))
    before = len(os.listdir("/dev/fd"))
    list(processes([tiny(seed) for seed in range(6)], jobs=3, work=partial(workloads.one_bad, "sigkill")))
    events = processes([tiny(seed, steps=workloads.ENDLESS) for seed in range(3)], jobs=3, work=workloads.paced)
    while not isinstance(next(events), Progress):
        pass
    events.close()
    assert len(os.listdir("/dev/fd")) == before
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("work", [workloads.stubborn, workloads.frozen])
def test_closing_ends_workers_that_do_not_heed_sigterm(work: Work) -> None:
    events = processes([tiny(seed, steps=workloads.ENDLESS) for seed in range(2)], jobs=2, work=work)
    begun: set[int] = set()
    while len(begun) < 2:
        if isinstance(event := next(events), Progress):
            begun.add(event.config.seed)
    pids = [child.pid or 0 for child in multiprocessing.active_children()]
    if work is workloads.frozen and sys.platform == "linux":
        wait_until(lambda: [state(pid) for pid in pids] == ["T", "T"])
    events.close()
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def state(pid: int) -> str:
    """Of a process, as /proc tells it: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_driver_sleeps_while_it_waits() -> None:
    before = time.process_time()
    list(processes([tiny(0, steps=100)], jobs=1, timeout_seconds=60, work=workloads.paced))
    assert time.process_time() - before < 0.3


def test_workers_import_nothing_of_torch() -> None:
    done = records(processes([tiny(seed) for seed in range(2)], jobs=1, work=workloads.imports))
    for record in done.values():
        story = json.loads(record.log or "")
        assert story["had"]
        assert [name for name in story["new"] if name.split(".")[0] in ("torch", "numpy", "normexp")] == []


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_workers_keep_freed_memory() -> None:
    (record,) = records(processes([tiny(0)], jobs=1, work=workloads.faults)).values()
    assert int(record.log or "") < 3 * 4096  # ten turns of 4096 pages, were each given back


def test_workers_do_not_hear_ctrl_c() -> None:
    (record,) = records(processes([tiny(0)], jobs=1, work=workloads.interrupts)).values()
    assert record.status is Status.DONE


def test_a_machine_that_cannot_start_processes_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    start, calls = launch.start, []

    def fail_second(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        start(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(launch, "start", fail_second)
    events = processes([tiny(seed) for seed in range(3)], jobs=2, work=workloads.silent)
    assert isinstance(next(events), Started)
    with pytest.raises(LauncherError) as caught:
        next(events)
    (complaint,) = caught.value.complaints
    facts = ("Resource temporarily unavailable", "--jobs", "ulimit -u")
    assert [fact for fact in facts if fact not in complaint] == []
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ENOENT], ids=errno.errorcode.get
)
def test_an_unusable_temporary_folder_is_reported(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(LauncherError, match=f"{os.strerror(code)}: .*TMPDIR"):
        list(processes([tiny(0)], jobs=1, work=workloads.quick))


@pytest.mark.slow
def test_a_temporary_folder_with_a_long_path_is_reported(tmp_path: Path) -> None:
    long = tmp_path / ("t" * 150)
    long.mkdir()
    (tmp_path / "tiny.yaml").write_text(TINY)
    done = run("sweep", "tiny.yaml", cwd=tmp_path, TMPDIR=str(long))
    assert done.returncode == 1
    assert [fact for fact in ("AF_UNIX path too long", "TMPDIR") if fact not in done.stderr] == []


def test_a_server_that_keeps_ending_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise EOFError

    monkeypatch.setattr(launch, "_start", fail)
    with pytest.raises(LauncherError, match="fork server"):
        list(processes([tiny(0)], jobs=1, work=workloads.quick))


def test_a_timeout_may_be_longer_than_the_system_can_wait() -> None:
    (record,) = records(processes([tiny(0)], jobs=1, timeout_seconds=1e10, work=workloads.quick)).values()
    assert record.status is Status.DONE


def test_a_lost_server_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    start, calls = launch._start, []

    def fail_once(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            raise EOFError
        start(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(launch, "_start", fail_once)
    done = records(processes([tiny(seed) for seed in range(2)], jobs=1, work=workloads.quick))
    assert [record.status for record in done.values()] == [Status.DONE] * 2


def test_spawned_processes_without_a_fork_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "METHOD", "spawn")
    done = records(processes([tiny(seed) for seed in range(2)], jobs=2, work=partial(workloads.one_bad, "exit 3")))
    assert done[0].status is Status.DONE
    assert done[1].error == "ended by itself with exit code 3"


def test_inline_gives_the_caller_its_threads_back() -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        (record,) = records(inline([tiny(0)], jobs=1, work=workloads.threads)).values()
        assert json.loads(record.log or "") == [2, 1]
        assert torch.get_num_threads() == 2
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 2
    finally:
        torch.set_num_threads(before)


def test_jobs_by_default(tmp_path: Path) -> None:
    assert 1 <= default_jobs() <= len(os.sched_getaffinity(0))
    own, root = tmp_path / "own", tmp_path / "root"
    group = root / "user" / "job"
    group.mkdir(parents=True)
    own.write_text("0::/user/job\n")
    assert _cgroup_processors(own, root) > 1000
    (group / "cpu.max").write_text("max 100000\n")
    (root / "user" / "cpu.max").write_text("150000 100000\n")
    assert _cgroup_processors(own, root) == 1.5
