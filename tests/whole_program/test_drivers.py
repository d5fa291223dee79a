"""Start and end of a driver: a script without a `__main__` guard, in a separate session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import workloads
from drivers import HERE, driver, parent, session, wait_for, wait_until_gone
from patience import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_script_without_a_guard_runs_once_and_its_workers_use_one_thread(tmp_path: Path) -> None:
    with driver(tmp_path, "threads", steps=5, OMP_NUM_THREADS="4") as process:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    lines = out.splitlines()
    assert lines.count("top") == 1
    assert sum(line.startswith("Started") for line in lines) == 3
    threads = [json.loads(line.split(" ", 1)[1]) for line in lines if line.startswith("Finished")]
    assert [during for _, during in threads] == [1] * 3
    assert [before for before, _ in threads] == [min(4, os.cpu_count() or 1)] * 3
    assert json.loads(lines[-1]) == []
    assert err == ""


def test_a_killed_driver_leaves_no_process(tmp_path: Path) -> None:
    with driver(tmp_path, "silent") as process:
        wait_for(process, "Progress")
        wait_for(process, "Progress")
        assert len(session(process.pid)) == 5  # driver, resource tracker, fork server, two workers
        process.kill()
        wait_until_gone(process.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_may_end_while_its_server_still_imports(tmp_path: Path, number: signal.Signals) -> None:
    with driver(tmp_path, "paced") as process:
        wait_for(process, "top")
        wait_until(lambda: len(session(process.pid)) >= 3)
        time.sleep(0.4)
        if number == signal.SIGKILL:
            process.kill()
        else:
            os.killpg(process.pid, number)
        wait_until_gone(process.pid)
        out, err = process.communicate()
    assert err == ""
    assert "Started" not in out


@pytest.mark.slow
@pytest.mark.parametrize(("work", "times"), [("silent", 1), ("frozen", 2)])
def test_ctrl_c_ends_everything_quietly(tmp_path: Path, work: str, times: int) -> None:
    with driver(tmp_path, work) as process:
        wait_for(process, "Progress")
        wait_for(process, "Progress")
        for _ in range(times):
            time.sleep(0.3)  # until they are frozen; then, while the driver waits for them to end
            os.killpg(process.pid, signal.SIGINT)
        wait_until_gone(process.pid)
        out, err = process.communicate()
    assert out.splitlines()[-1] == "interrupted"
    assert err == ""
    assert process.returncode == 130


@pytest.mark.slow
def test_runs_outlive_the_fork_server(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with driver(tmp_path, "gated", **{workloads.GATE: str(gate)}) as process:
        wait_for(process, "Progress")
        wait_for(process, "Progress")
        family = {pid: parent(pid) for pid in session(process.pid)}
        (server,) = {above for above in family.values() if family.get(above) == process.pid}
        worker = next(pid for pid, above in family.items() if above == server)
        os.kill(server, signal.SIGKILL)
        os.kill(worker, signal.SIGKILL)
        gate.touch()
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    ends = [line for line in out.splitlines() if line.startswith("Finished")]
    assert len([line for line in ends if not line.split()[1].isdigit()]) == 1
    assert len(ends) == 3
    assert err == ""


def test_modules_of_the_server_may_be_noisy_or_broken(tmp_path: Path) -> None:
    for name in ("numpy", "torch"):
        (tmp_path / f"{name}.py").write_text(
            "import os\nprint('noise')\nos.write(2, b'noise')\nraise OSError('broken')\n"
        )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", "import normexp.execution.pool.preload; print('ready')"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")


@pytest.mark.slow
def test_a_driver_whose_streams_are_closed(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys, workloads\n"
        "from normexp.execution.pool.pool import processes\n"
        "events = list(processes([workloads.tiny(0)], jobs=1, work=workloads.prints))\n"
        "open(sys.argv[1], 'w').write(repr(events[-1].record.error or events[-1].record.log))\n"
    )
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = f"{sys.executable} script.py out <&- >&- 2>&-"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0
    assert "from Python\\nfrom C\\nfrom a child" in (tmp_path / "out").read_text()


@pytest.mark.slow
def test_the_server_itself_may_start_with_closed_streams(tmp_path: Path) -> None:
    code = "import normexp.execution.pool.preload; open('out', 'w').write('ready')"
    command = f'{sys.executable} -c "{code}" <&- >&- 2>&-'
    subprocess.run(["bash", "-c", command], cwd=tmp_path, timeout=PATIENCE_SECONDS, check=True)
    assert (tmp_path / "out").read_text() == "ready"


@pytest.mark.slow
def test_descriptors_that_run_out_stop_the_workers_with_one_message(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import multiprocessing, workloads\n"
        "from normexp.execution.pool.launch import LauncherError\n"
        "from normexp.execution.pool.pool import processes\n"
        "try:\n"
        "    list(processes([workloads.tiny(seed) for seed in range(30)], jobs=30, work=workloads.silent))\n"
        "except LauncherError as fault:\n"
        "    print(fault, multiprocessing.active_children())\n"
    )
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        ["bash", "-c", f"ulimit -n 40; {sys.executable} script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.stderr, done.stdout.count("\n"), done.stdout.endswith(" []\n")) == ("", 1, True)
    assert [fact for fact in ("Too many open files", "--jobs", "ulimit -n") if fact not in done.stdout] == []
