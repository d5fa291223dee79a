"""After SIGKILL to a worker, its run is `killed`, others are not affected, and --retry-failed repairs it."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from drivers import SEED, parent, session
from patience import PATIENCE_SECONDS

KILLS = 4
CONFIG = (
    "base: {depth: 2, width: 16, hidden: 16, heads: 2, vocab: 8, order: 1, batch: 8, steps: 700, eval_every: 350}\n"
    "grid: {lr: [1e-3, 1e-2], seed: [0, 1, 2, 3, 4]}\n"
)


def program(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "normexp", "sweep", f"{folder}/many.yaml", "--out", f"{folder}/results", "-j2", *more]


def statuses(folder: Path) -> dict[str, str]:
    with (folder / "results" / "many" / "runs.csv").open() as file:
        return {row["run_id"]: row["status"] for row in csv.DictReader(file)}


def curves(folder: Path) -> dict[str, str]:
    return {path.parent.name: path.read_text() for path in (folder / "results").glob("many/runs/*/curve.csv")}


def workers(driver: int) -> list[int]:
    """Return the driver's grandchildren. The fork server is between them."""
    family = {}
    for pid in session(driver):
        try:
            family[pid] = parent(pid)
        except OSError:
            continue
    return sorted(pid for pid, above in family.items() if family.get(above) == driver)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trial", "fault", "found"),
    [
        ("compiled_works", "SIGKILL", "None"),
        ("compiled_works", "SIGTERM", "None"),
        ("compiled_works", "SIGSEGV", "tape"),
        ("works", "SIGKILL", "None"),
        ("works", "SIGSEGV", "autograd"),
    ],
)
def test_a_kill_of_the_trial_of_a_path_decides_nothing_and_a_crash_rules_it_out(
    trial: str, fault: str, found: str
) -> None:
    """A kill must not change the execution path: otherwise, other runs of the sweep would differ."""
    code = (
        "import os, signal\nfrom normexp.training.paths import choice as paths\n"
        f"paths.{trial} = lambda: os.kill(os.getpid(), signal.{fault})\n"
        "import normexp.execution.pool.preload\nprint(paths._settled and paths._settled.path)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == f"{found}\n", done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_killed_workers_affect_only_their_runs(tmp_path: Path) -> None:
    moments = random.Random(SEED)
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "many.yaml").write_text(CONFIG)
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(program(whole), check=True, capture_output=True)
    context = f"seed {SEED}"
    driver = subprocess.Popen(
        program(folder), start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    killed: set[int] = set()
    while driver.poll() is None and len(killed) < KILLS:
        # The first is killed as it appears, before its run can have ended: at least one run is lost.
        time.sleep(moments.uniform(0.05, 0.4) if killed else 0.01)
        if there := [pid for pid in workers(driver.pid) if pid not in killed]:
            victim = moments.choice(there)
            killed.add(victim)
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(victim, signal.SIGKILL)
    output, _ = driver.communicate(timeout=PATIENCE_SECONDS)
    assert driver.returncode == 1, (context, output)
    found = statuses(folder)
    assert set(found.values()) == {"done", "killed"}, (context, output)
    assert 1 <= list(found.values()).count("killed") <= KILLS, (context, output)
    reference = curves(whole)
    for run_id, status in found.items():
        record = json.loads((folder / "results" / "many" / "runs" / run_id / "run.json").read_text())
        if status == "done":
            assert curves(folder)[run_id] == reference[run_id], context
        else:
            assert re.search(r"killed by signal 9 \(SIGKILL\)", record["error"]), context
    assert subprocess.run(program(folder), capture_output=True).returncode == 1, "left so until asked"
    subprocess.run(program(folder, "--retry-failed"), check=True, capture_output=True)
    assert set(statuses(folder).values()) == {"done"}, context
    assert curves(folder) == reference, context
    for table in ("runs.csv", "summary.csv", "points.csv"):
        assert (folder / "results/many" / table).read_bytes() == (whole / "results/many" / table).read_bytes(), context
    shutil.rmtree(folder)
