"""After SIGKILL to a driver at any moment, the same command continues to the same results."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import program
from drivers import HERE, SEED, driver, session, wait_until_gone
from nursery import Nursery
from patience import HOURS, wait_until
from sweeps import ONE, TWO, Run, arguments, finished, leftovers, numbers, sweep, write_configs

"""Seed of the random moments. Each failure names its moment."""
RANDOM_KILLS = 100
KILLS_A_FOLDER = 10
DRIVERS = 8


def prepared(folder: Path, undisturbed: Path) -> Path:
    """A folder in which sweep `one` is finished."""
    folder.mkdir()
    write_configs(folder)
    shutil.copytree(undisturbed / "results" / ONE, folder / "results" / ONE)
    return folder


def same_as_undisturbed(folder: Path, undisturbed: Path, context: str, *, norms: bool = True) -> None:
    """Check that all runs equal those of an undisturbed sweep, and that no temporary files are left."""
    assert leftovers(folder) == [], context
    assert numbers(folder, TWO, norms=norms) == numbers(undisturbed, TWO, norms=norms), context
    assert not (folder / "results" / TWO / ".driver.json").exists(), context


def arguments_of(name: str, folder: Path) -> list[str]:
    two = str(folder / "results" / TWO)
    return arguments(folder, TWO) if name == "sweep" else [name, two]


def before(name: str, folder: Path, undisturbed: Path) -> None:
    """Prepare a folder in which a command has all of its work to do."""
    two = folder / "results" / TWO
    shutil.rmtree(two, ignore_errors=True)
    if name in ("report", "pack"):
        shutil.copytree(undisturbed / "results" / TWO, two)
        (two / "runs.tar.xz").unlink()
    if name == "unpack":
        two.mkdir()
        shutil.copy(undisturbed / "results" / TWO / "runs.tar.xz", two)


def kill_before_operation(number: int, name: str, run: Run, folder: Path, undisturbed: Path) -> bool:
    """Kill a command, repeat it and check. Return False if it ended before this file operation."""
    before(name, folder, undisturbed)
    ended = run(*arguments_of(name, folder), cwd=folder, kill_at=number)
    context = f"{name} killed before file operation {number}"
    if ended.code != -signal.SIGKILL:
        assert ended.code == 0, (context, ended.err)
        return False
    ended = run(*arguments_of(name, folder), cwd=folder)
    assert ended.code == 0, (context, ended.err)
    if name == "pack":
        pack = Path("results", TWO, "runs.tar.xz")
        assert (folder / pack).read_bytes() == (undisturbed / pack).read_bytes(), context
    if name == "unpack":  # which makes no tables
        assert leftovers(folder) == [], context
        assert program("report", f"{folder}/results/{TWO}", cwd=folder).code == 0, context
    same_as_undisturbed(folder, undisturbed, context, norms=name != "unpack")
    return True


def test_a_kill_before_some_file_operations(light: Nursery, undisturbed: Path, tmp_path: Path) -> None:
    folder = prepared(tmp_path / "folder", undisturbed)
    for number in (4, 34):
        assert kill_before_operation(number, "unpack", light.run, folder, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "step"), [("sweep", 7), ("report", 2), ("pack", 1), ("unpack", 4)])
def test_a_kill_before_every_file_operation(
    name: str, step: int, nursery: Nursery, undisturbed: Path, tmp_path: Path
) -> None:
    folder, number = prepared(tmp_path / "folder", undisturbed), 1
    while kill_before_operation(number, name, nursery.run, folder, undisturbed):
        number += step
    assert number > 5


@pytest.mark.slow
def test_kills_at_random_moments_of_a_sweep(nursery: Nursery, undisturbed: Path, tmp_path: Path) -> None:
    """Kill at start, while copying from another sweep, in runs, tables and figures, until the sweep is done."""
    moments = random.Random(SEED)
    fresh = prepared(tmp_path / "measured", undisturbed)
    longest = finished(nursery.run, fresh, TWO, figures=True).seconds
    kills, folders = 0, 0
    while kills < RANDOM_KILLS:
        folders += 1
        folder, delays = prepared(tmp_path / f"folder{folders}", undisturbed), []
        for _ in range(KILLS_A_FOLDER):
            delays.append(longest * moments.random() ** 3)  # figures take most of the time
            ended = sweep(nursery.run, folder, TWO, kill_after=delays[-1], figures=True)
            if ended.code != -signal.SIGKILL:
                break
            kills += 1
        context = f"seed {SEED}, folder {folders}: killed after {delays} s"
        finished(nursery.run, folder, TWO, figures=True)
        same_as_undisturbed(folder, undisturbed, context)
        figures = Path("results", TWO, "figures")
        assert sorted(os.listdir(folder / figures)) == sorted(os.listdir(fresh / figures)), context
        shutil.rmtree(folder)


BEGAN = "import ctypes, pathlib, sys, time; pathlib.Path(__file__).with_name('began').touch()\n"
DEEP = f"import ctypes; ctypes.PyDLL(None).sleep({HOURS})\n"
"""Like the import of a large library: the interpreter's lock is held, and no thread runs."""
JUST_BEGUN = "import sys\nif 'forkserver' in sys.orig_argv[-1]:\n    " + BEGAN + "    time.sleep(1.5)\n"


@pytest.mark.parametrize(
    "modules",
    [{"sitecustomize": JUST_BEGUN, "torch": DEEP}, {"torch": BEGAN + DEEP}],
    ids=["has just begun", "imports"],
)
def test_a_driver_killed_while_its_server(modules: dict[str, str], tmp_path: Path) -> None:
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text)
    path = os.pathsep.join([str(tmp_path), str(HERE), os.environ.get("PYTHONPATH", "")])
    with driver(tmp_path, "paced", PYTHONPATH=path) as process:
        wait_until((tmp_path / "began").exists)
        process.kill()
        wait_until_gone(process.pid)


@pytest.mark.slow
def test_a_killed_driver_of_processes_leaves_none_of_them(undisturbed: Path, tmp_path: Path) -> None:
    """Kill the installed program with two workers: soon none of its processes is alive."""
    moments = random.Random(SEED)
    folder = prepared(tmp_path / "folder", undisturbed)
    program = [sys.executable, "-m", "normexp", "sweep", f"{folder}/{TWO}.yaml", "--out", f"{folder}/results", "-j2"]
    start = time.monotonic()
    subprocess.run(program, check=True, capture_output=True)
    longest = time.monotonic() - start
    killed = 0
    while killed < DRIVERS:
        delay = longest * moments.random()
        with subprocess.Popen(
            program, start_new_session=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        ) as driving:
            time.sleep(delay)
            done = driving.poll() is not None
            driving.kill()
            wait_until_gone(driving.pid)
            assert session(driving.pid) == [], f"seed {SEED}: killed after {delay} s"
        killed += not done
        if done:
            shutil.rmtree(folder / "results" / TWO)
    subprocess.run(program, check=True, capture_output=True)
    same_as_undisturbed(folder, undisturbed, f"seed {SEED}")
