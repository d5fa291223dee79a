"""Folders that a sweep may not have: in use, in the way, of somebody else, or of another sweep."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import records as made
from stored import write_all

from normexp.config.plan import Plan
from normexp.errors import UserError
from normexp.storage.store import Store


def test_another_sweep_with_garbled_configs_is_refused(store: Store, plan: Plan) -> None:
    write_all(store, plan)
    path = store.folder / "manifest.json"
    path.write_text(path.read_text("utf-8").replace('"width": 64', '"width": "wide"', 1), "utf-8")
    with pytest.raises(UserError, match="width: 64, wide there, 64 now"):
        store.begin(made.plan({"lr": [0.5]}), [], force=False)


def test_the_second_driver_is_refused_at_once(store: Store) -> None:
    with store.lock():
        message = rf"results/made_up is in use by pid {os.getpid()} on host .+ since \d{{4}}-"
        with pytest.raises(UserError, match=message), Store(store.folder).lock():
            pass
    with Store(store.folder).lock():
        pass


HOLD = "import sys, time; from pathlib import Path; from normexp.storage.store import Store\n" + (
    "with Store(Path(sys.argv[1])).lock(): print('held', flush=True); time.sleep(60)"
)


def test_a_killed_driver_releases_the_lock(store: Store) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(store.folder)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            with pytest.raises(UserError, match=f"in use by pid {holder.pid} "), store.lock():
                pass
        finally:
            holder.send_signal(signal.SIGKILL)
    assert (store.folder / ".driver.json").exists()
    with store.lock():
        assert json.loads((store.folder / ".driver.json").read_text())["pid"] == os.getpid()
    assert not (store.folder / ".driver.json").exists()


@pytest.mark.parametrize("blocked", ["results", "results/made_up"])
def test_a_file_in_the_way_is_found_before_any_run(tmp_path: Path, plan: Plan, blocked: str) -> None:
    (tmp_path / blocked).parent.mkdir(exist_ok=True)
    (tmp_path / blocked).write_text("in the way")
    store = Store(tmp_path / "results" / "made_up")
    with pytest.raises(UserError, match=r"cannot make .*results/made_up"):
        store.begin(plan, [], force=False)
    with pytest.raises(UserError, match="cannot make"), store.lock():
        pass


@pytest.mark.parametrize("name", ["runs", "manifest.json", "sweep.yaml"])
def test_conflicting_files_and_folders_are_named(tmp_path: Path, plan: Plan, name: str) -> None:
    store = Store(tmp_path)
    (tmp_path / name).write_text("x") if name == "runs" else (tmp_path / name / "y").mkdir(parents=True)
    with pytest.raises(UserError, match=str(tmp_path / name)):
        store.begin(plan, [], force=False)


def test_a_folder_with_other_files_is_refused_even_with_force(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    for force in (False, True):
        with pytest.raises(UserError, match=r"thesis\.tex.*--out"):
            Store(tmp_path).begin(plan, [], force=force)
    with pytest.raises(UserError, match=r"thesis\.tex"), Store(tmp_path).lock():
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "thesis.tex"]


def test_other_files_in_a_sweep_s_folder_are_accepted(store: Store, plan: Plan) -> None:
    (store.folder / "notes.txt").write_text("mine")
    store.begin(plan, [], force=False)
    assert (store.folder / "notes.txt").exists()


def test_another_sweep_is_refused_with_a_diff(store: Store, plan: Plan) -> None:
    write_all(store, plan)
    other = made.plan({"norm": ["ln", "rms"], "lr": [3e-3]}, depth=3)
    with pytest.raises(UserError) as refused:
        store.begin(other, [], force=False)
    complaints = "\n".join(refused.value.complaints)
    assert "4 stored runs" in complaints
    assert "depth: 2 there, 3 now" in complaints
    assert "norm: ln, none there, ln, rms now" in complaints
    assert "lr: 0.001, 0.01 there, 0.003 now" in complaints
    assert "width" not in complaints
    assert store.read_plan() == plan
    store.begin(other, [], force=True)
    assert store.read_plan() == other


def test_another_sweep_without_stored_runs_is_replaced(store: Store) -> None:
    other = made.plan({"lr": [3e-3]}, depth=3)
    store.begin(other, [], force=False)
    assert store.read_plan() == other


def test_gained_and_lost_points_continue(store: Store, plan: Plan) -> None:
    records = write_all(store, plan)
    grown = made.plan({"norm": ["ln", "rms"], "lr": [1e-3, 1e-2]}, depth=2)
    store.begin(grown, [], force=False)
    assert list(store.records()) == [point.config.run_id for point in plan.points if point.values["norm"] == "ln"]
    assert store.strays() == sorted(key for key, record in records.items() if record.config.norm == "none")
