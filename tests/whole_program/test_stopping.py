"""A sweep that receives a signal or is killed ends soon, leaves no process, and can be continued."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import PROGRAM, TINY, run
from patience import PATIENCE_SECONDS, wait_until


def children(pid: int) -> list[int]:
    """Return all descendants of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found += [int(entry.name), *children(int(entry.name))]
    return found


def wait_until_ended(pids: list[int]) -> None:
    """Wait until all processes have ended or are zombies."""

    def alive(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    wait_until(lambda: not any(map(alive, pids)), lambda: [pid for pid in pids if alive(pid)])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
class TestStopping:
    """Signal the driver or its process group when two runs are done and two would run for hours."""

    @pytest.fixture
    def driver(self, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
        (tmp_path / "long.yaml").write_text(
            TINY.replace("steps: 3, ", "") + "grid: {steps: [3, 100000000], seed: [0, 1]}\n"
        )
        process = subprocess.Popen(
            [*PROGRAM, "sweep", "long.yaml", "--jobs", "3"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with process:
            try:
                done = tmp_path / "results" / "long" / "runs"
                wait_until(lambda: len(list(done.glob("*/run.json"))) == 2 or process.poll() is not None)
                assert process.poll() is None
                yield process
            finally:
                process.kill()

    @pytest.mark.parametrize(
        ("signum", "code"),
        [
            pytest.param(signal.SIGINT, 130, id="ctrl-c"),
            pytest.param(signal.SIGTERM, 143, id="sigterm", marks=pytest.mark.slow),
        ],
    )
    def test_a_signal_to_the_group(
        self, driver: subprocess.Popen[str], tmp_path: Path, signum: signal.Signals, code: int
    ) -> None:
        below = children(driver.pid)
        assert below
        os.killpg(driver.pid, signum)
        _, errors = driver.communicate(timeout=PATIENCE_SECONDS)
        assert driver.returncode == code
        wait_until_ended(below)
        assert "2 done, 2 to do" in errors
        assert "Traceback" not in errors
        assert not list((tmp_path / "results").rglob("*.tmp"))
        assert "pending" in (tmp_path / "results" / "long" / "summary.csv").read_text()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("signum", "code", "times", "group"),
        [
            (signal.SIGINT, 130, 2, True),
            (signal.SIGINT, 130, 1, False),
            (signal.SIGTERM, 143, 1, False),
            (signal.SIGTERM, 143, 2, True),
            (signal.SIGHUP, 129, 1, True),
        ],
    )
    def test_impatient_and_single_signals(
        self, driver: subprocess.Popen[str], tmp_path: Path, signum: signal.Signals, code: int, times: int, group: bool
    ) -> None:
        below = children(driver.pid)
        for _ in range(times):
            (os.killpg if group else os.kill)(driver.pid, signum)
            time.sleep(0.2)
        _, errors = driver.communicate(timeout=PATIENCE_SECONDS)
        assert driver.returncode == code
        wait_until_ended(below)
        assert "Traceback" not in errors
        assert not list((tmp_path / "results").rglob("*.tmp"))
        statuses = [json.loads(path.read_text())["status"] for path in (tmp_path / "results").rglob("run.json")]
        assert statuses == ["done", "done"]
        done = run("sweep", "long.yaml", "--only", "steps=3", cwd=tmp_path)
        assert (done.returncode, "2 done, nothing to do" in done.stderr) == (0, True), done.stderr

    @pytest.mark.slow
    def test_a_killed_driver_leaves_no_process_and_continues(
        self, driver: subprocess.Popen[str], tmp_path: Path
    ) -> None:
        below = children(driver.pid)
        driver.kill()
        driver.wait()
        wait_until_ended(below)
        done = run("sweep", "long.yaml", "--only", "steps=3", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "2 done, nothing to do" in done.stderr

    @pytest.mark.slow
    def test_a_second_driver_on_the_folder_is_refused_at_once(
        self, driver: subprocess.Popen[str], tmp_path: Path
    ) -> None:
        done = run("sweep", "long.yaml", cwd=tmp_path)
        assert done.returncode == 2
        assert f"in use by pid {driver.pid}" in done.stderr
        assert driver.poll() is None
