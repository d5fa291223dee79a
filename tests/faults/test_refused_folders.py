"""Results folders that cannot be written are refused with their path before the first run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import program
from nursery import Ended
from sweeps import ONE, TWO, arguments, finished, sweep, write_configs


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    write_configs(tmp_path)
    yield tmp_path
    for path in [tmp_path, *tmp_path.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)


def refused(ended: Ended, path: Path, reason: str) -> None:
    """Check exit code 2 and one line with path and reason."""
    assert ended.code == 2, ended.err
    (line,) = ended.err.splitlines()
    assert line.startswith("normexp: cannot "), line
    assert str(path) in line
    assert reason in line


@pytest.mark.parametrize(
    "closed",
    ["results/two", *(pytest.param(path, marks=pytest.mark.slow) for path in (".", "results", "results/two/runs"))],
)
def test_a_folder_whose_modes_forbid_it(closed: str, folder: Path) -> None:
    (folder / closed).mkdir(parents=True, exist_ok=True)
    (folder / closed).chmod(0o555)
    before = sorted(folder.rglob("*"))
    ended = sweep(program, folder, TWO, obeys_modes=True)
    if closed == "results/two/runs":
        assert ended.code in (1, 2), ended.err
        assert f"cannot write {folder / closed}" in ended.err
        assert "Permission denied" in ended.err
    else:
        refused(ended, folder / closed, "Permission denied")
        assert sorted(folder.rglob("*")) == before
    (folder / closed).chmod(0o755)
    finished(program, folder, TWO, obeys_modes=True)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["list", "report", "explain", "repro", "pack", "convert", "sweep"])
@pytest.mark.parametrize("closed", ["one", "one/runs", "one/runs/*", "one/runs/*/run.json", "one/manifest.json"])
def test_unreadable_files_are_reported(command: str, closed: str, folder: Path, undisturbed: Path) -> None:
    shutil.copytree(undisturbed / "results" / ONE, folder / "results" / ONE)
    run_id = sorted(os.listdir(folder / "results/one/runs"))[0]
    (path,) = [path for path in (folder / "results").glob(closed) if "*" not in closed or run_id in str(path)]
    given = {
        "list": ["--out", "results"],
        "report": ["results/one"],
        "explain": [run_id, "--out", "results"],
        "repro": [run_id, "--out", "results"],
        "pack": ["results/one"],
        "convert": [run_id, "converted.safetensors", "--to", "rms", "--out", "results"],
        "sweep": arguments(folder, TWO)[1:],
    }
    mode = path.stat().st_mode
    path.chmod(0)
    ended = program(command, *given[command], cwd=folder, obeys_modes=True)
    path.chmod(mode)
    assert "Traceback" not in ended.err
    if command == "pack" and closed.startswith("one/runs"):  # it packs the others, and says which it left out
        assert ended.code == 1, ended.err
        assert re.search(rf"^warning: \S*{run_id}\S* cannot be used .*Permission denied", ended.err, re.MULTILINE)
        others = 0 if closed == "one/runs" else 1
        assert f"runs.tar.xz: {others} run{'s' * (others != 1)}, " in ended.out
        return
    assert ended.code in (0, 2), ended.err
    if ended.code:
        assert "results" in ended.err


@pytest.mark.slow
def test_a_file_system_that_is_mounted_read_only(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("may not mount a file system")
    try:
        write_configs(disk)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        refused(sweep(program, disk, ONE), disk / "results/one", "Read-only file system")
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        finished(program, disk, ONE)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        refused(sweep(program, disk, ONE), disk / "results/one", "Read-only file system")
        refused(program("report", "results/one", cwd=disk), Path("results/one"), "Read-only file system")
        for command in (["list"], ["explain", "s1"], ["repro", "s1"]):
            ended = program(*command, "--out", "results", cwd=disk)
            assert ended.code == 0, ended.err
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("out", ["file", "file/below", "file/below/it", "dangling", "dangling/below", "x" * 300])
def test_an_out_that_can_be_no_folder(out: str, folder: Path) -> None:
    (folder / "file").write_text("mine")
    (folder / "dangling").symlink_to(folder / "nowhere" / "at all")
    before = sorted(folder.rglob("*"))
    ended = program("sweep", "one.yaml", "--executor", "inline", "--out", out, cwd=folder)
    refused(ended, Path(out), "")
    assert sorted(folder.rglob("*")) == before
    for command in (["list"], ["explain", "d1"], ["convert", "d1", "new.safetensors", "--to", "rms"]):
        ended = program(*command, "--out", out, cwd=folder)
        assert "Traceback" not in ended.err
        assert ended.code == 2, ended.err


def test_an_id_longer_than_a_name_may_be(folder: Path) -> None:
    for command in (["explain", "x" * 300], ["explain", "runs/" + "x" * 300], ["repro", "runs/" + "x" * 300]):
        ended = program(*command, cwd=folder)
        assert (ended.code, "Traceback" in ended.err) == (2, False), ended.err
