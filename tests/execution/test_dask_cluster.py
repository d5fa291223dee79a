"""Runs on a dask cluster: loss of a worker, the scheduler or the driver, and refused workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import workloads
from clusters import Cluster, cluster
from patience import PATIENCE_SECONDS, wait_until
from workloads import records, tiny

from normexp.errors import UserError
from normexp.execution.dask import workers
from normexp.execution.dask.driver import ClusterError, dask
from normexp.execution.events import Finished, Progress, Started
from normexp.records.record import RunRecord, Status

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
slow = pytest.mark.slow
SWEEP = """
name: small
base: {depth: 1, width: 8, hidden: 8, heads: 2, vocab: 8, seq_len: 4, order: 1, eval_every: 500}
zip: [{seed: [0, 1, 2, 3], steps: [100000000, 500, 400, 300]}]
"""
"""The first run would take hours, so it is in flight when the others have ended."""
SHORT = ("--only", "steps=500,400,300")


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, workers=2) as running:
        running.wait_for_workers(2)
        yield running


def sweep(two: Cluster, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    (folder / "small.yaml").write_text(SWEEP)
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "normexp",
            "sweep",
            "small.yaml",
            "--executor",
            "dask",
            "--scheduler",
            two.address,
            *arguments,
        ],
        cwd=folder,
        env=two.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(folder: Path) -> set[str]:
    return {path.parent.name for path in (folder / "results" / "small" / "runs").glob("*/run.json")}


def wait_for_runs(folder: Path, count: int) -> None:
    wait_until(lambda: len(finished(folder)) >= count)


def table(folder: Path) -> str:
    return (folder / "results" / "small" / "runs.csv").read_text()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the table of the same sweep in processes, without the endless run."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "small.yaml").write_text(SWEEP)
    command = [sys.executable, "-m", "normexp", "sweep", "small.yaml", *SHORT]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return table(folder)


@slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_only_the_active_run_of_a_lost_worker_is_repeated(two: Cluster, tmp_path: Path, number: signal.Signals) -> None:
    started = tmp_path / "started"
    work = partial(workloads.told, str(started))
    events = dask([tiny(seed, steps=150) for seed in range(6)], jobs=2, work=work, scheduler=two.address)
    done: list[RunRecord] = []
    flying: dict[str, bool] = {}
    for event in events:
        if isinstance(event, Finished):
            done.append(event.record)
            del flying[event.record.run_id]
        else:
            flying[event.config.run_id] = isinstance(event, Progress)
        if len(done) == 2 and two.workers[0].poll() is None and [*flying.values()] == [True, True]:
            os.killpg(two.workers[0].pid, number)
            two.workers[0].wait(PATIENCE_SECONDS)
    assert [record.status for record in done] == [Status.DONE] * 6
    assert len({record.run_id for record in done}) == 6
    starts = started.read_text().split()
    assert len(starts) == 7
    assert set(starts) == {str(seed) for seed in range(6)}


@slow
def test_a_run_that_loses_every_worker_is_killed(two: Cluster) -> None:
    work = partial(workloads.one_bad, "kill the dask worker")
    done = records(dask([tiny(seed) for seed in range(3)], jobs=2, work=work, scheduler=two.address))
    bad = done.pop(workloads.BAD)
    assert (bad.status, "4 workers" in (bad.error or "")) == (Status.KILLED, True)
    assert [record.status for record in done.values()] == [Status.DONE] * 2


@slow
def test_a_lost_scheduler_ends_the_driver_and_the_same_command_continues(
    two: Cluster, tmp_path: Path, undisturbed: str
) -> None:
    driver = sweep(two, tmp_path)
    wait_for_runs(tmp_path, 1)
    os.killpg(two.scheduler.pid, signal.SIGKILL)
    _, err = driver.communicate(timeout=PATIENCE_SECONDS)
    assert driver.returncode == 1, err
    assert "the connection to the dask scheduler was lost: " in err
    assert "the same command continues" in err
    assert "Traceback" not in err
    two.wait_until_gone("normexp")
    before = finished(tmp_path)
    assert 1 <= len(before) < 4
    with cluster(tmp_path, workers=1) as other:
        driver = sweep(other, tmp_path, *SHORT)
        _, err = driver.communicate(timeout=PATIENCE_SECONDS)
        assert driver.returncode == 0, err
    assert table(tmp_path) == undisturbed


@slow
def test_a_killed_driver_stops_its_runs_and_can_be_continued(two: Cluster, tmp_path: Path, undisturbed: str) -> None:
    driver = sweep(two, tmp_path)
    wait_for_runs(tmp_path, 1)
    driver.kill()
    driver.communicate()
    stored = {
        run_id: (tmp_path / f"results/small/runs/{run_id}/run.json").stat().st_mtime_ns for run_id in finished(tmp_path)
    }
    assert 1 <= len(stored) < 4
    two.wait_until_no_run()
    driver = sweep(two, tmp_path, *SHORT)
    _, err = driver.communicate(timeout=PATIENCE_SECONDS)
    assert driver.returncode == 0, err
    assert table(tmp_path) == undisturbed
    assert all(
        (tmp_path / f"results/small/runs/{run_id}/run.json").stat().st_mtime_ns == when
        for run_id, when in stored.items()
    )


@slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_driver_keeps_finished_runs(
    two: Cluster, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    driver = sweep(two, tmp_path)
    wait_for_runs(tmp_path, 1)
    driver.send_signal(number)
    _, err = driver.communicate(timeout=PATIENCE_SECONDS)
    assert driver.returncode == code, err
    assert f"stopped by {number.name}: " in err
    assert "the same command continues" in err
    assert "Traceback" not in err
    assert len(table(tmp_path).splitlines()) >= 2
    two.wait_until_no_run()
    assert len(two.processes("dask")) >= 3


@slow
def test_ctrl_c_ends_a_cluster_of_this_process(tmp_path: Path, two: Cluster) -> None:
    (tmp_path / "small.yaml").write_text(SWEEP)
    command = [sys.executable, "-m", "normexp", "sweep", "small.yaml", "--executor", "dask", "--scheduler", "local"]
    driver = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=two.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for_runs(tmp_path, 1)
    os.killpg(driver.pid, signal.SIGINT)
    _, err = driver.communicate(timeout=PATIENCE_SECONDS)
    assert driver.returncode == 130, err
    assert "Traceback" not in err
    two.wait_until_gone("normexp")


@slow
def test_a_worker_of_another_version_is_refused_at_once_and_when_it_comes_later(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("import normexp\nnormexp.__version__ = '9.9'\n")
    (tmp_path / "without.py").write_text("import sys\nsys.modules['normexp'] = None\n")
    difference = f"normexp 9.9 (here {workers.versions()['normexp']})"
    with cluster(tmp_path, workers=1) as running:
        running.wait_for_workers(1)
        events = dask(
            [tiny(seed, steps=50) for seed in range(100)], jobs=2, work=workloads.paced, scheduler=running.address
        )
        assert isinstance(next(events), Started)
        running.add_worker("--preload", str(tmp_path / "other.py"))
        with pytest.raises(ClusterError) as caught:
            list(events)
        assert [difference in complaint for complaint in caught.value.complaints] == [True]
        with pytest.raises(UserError, match=r"has normexp 9\.9") as refused:
            next(dask([tiny(0)], jobs=1, work=workloads.quick, scheduler=running.address))
        assert not isinstance(refused.value, ClusterError)
        os.killpg(running.workers[1].pid, signal.SIGKILL)
        running.wait_for_workers(1)
        running.add_worker("--preload", str(tmp_path / "without.py"))
        running.wait_for_workers(2)
        with pytest.raises(UserError, match=r"^the worker tcp://"):
            next(dask([tiny(0)], jobs=1, work=workloads.quick, scheduler=running.address))
    with (
        cluster(tmp_path, 0, "--preload", str(tmp_path / "without.py")) as running,
        pytest.raises(UserError, match=r"^the scheduler "),
    ):
        next(dask([tiny(0)], jobs=1, work=workloads.quick, scheduler=running.address))


@slow
def test_it_waits_for_workers_and_uses_new_ones(tmp_path: Path) -> None:
    with cluster(tmp_path, workers=0) as running:
        events = dask(
            [tiny(seed, steps=60) for seed in range(30)], jobs=9, work=workloads.paced, scheduler=running.address
        )
        running.add_worker()
        running.add_worker()
        most = flying = 0
        for event in events:
            flying += isinstance(event, Started) - isinstance(event, Finished)
            most = max(most, flying)
        assert most == 2
