"""A full disk stops a sweep, leaves its results valid, and the command continues once there is space."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import program
from nursery import Ended
from sweeps import BASE, finished, leftovers, numbers, sweep

PAGE = 4096
SMALL, LARGE = 40 * PAGE, 2**24
NAME = "wide"
GRID = "grid: {lr: [1e-3, 1e-2], seed: [0, 1, 2, 3]}\n"


def mount(folder: Path, *options: str) -> None:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", folder], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"needs a small file system, and may not mount one: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a separate file system of SMALL bytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        mount(folder, f"size={SMALL}")
    except FileNotFoundError:
        pytest.skip("needs a small file system, and there is no mount")
    (folder / f"{NAME}.yaml").write_text(BASE + GRID)
    yield folder
    subprocess.run(["umount", folder], check=True)


def free(folder: Path, size: int = LARGE) -> None:
    mount(folder, f"remount,size={size}")


def fill(folder: Path, *, but_pages: int) -> Path:
    """Fill the file system except for some pages, and return the file that fills it."""
    ballast = folder / "ballast"
    room = os.statvfs(folder)
    ballast.write_bytes(b"x" * (room.f_bavail * room.f_frsize - but_pages * PAGE))
    return ballast


def reported_once(ended: Ended, reason: str, folder: Path) -> None:
    """Check that one line names a path and the reason."""
    assert "Traceback" not in ended.err
    lines = [line for line in ended.err.splitlines() if reason in line]
    assert len(lines) == 1, ended.err
    assert str(folder / "results" / NAME) in lines[0]


def runs_done(folder: Path) -> int:
    records = [json.loads(path.read_text()) for path in folder.glob(f"results/{NAME}/runs/*/run.json")]
    assert all(record["status"] == "done" for record in records)
    return len(records)


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("reference")
    (folder / f"{NAME}.yaml").write_text(BASE + GRID)
    finished(program, folder, NAME)
    return numbers(folder, NAME)


def test_amid_the_runs(disk: Path, reference: dict[str, str]) -> None:
    ended = sweep(program, disk, NAME)
    assert ended.code == 1, ended.err
    reported_once(ended, "No space left on device", disk)
    done = runs_done(disk)
    assert 0 < done < 8
    assert f"{done} done, {8 - done} to do; the same command continues" in ended.err
    assert ended.err.count(": loss ") == done, "no further run was started"
    assert leftovers(disk) == []
    free(disk)
    assert f"{done} done, {8 - done} to do" in finished(program, disk, NAME).err
    assert numbers(disk, NAME) == reference


@pytest.mark.slow
def test_in_tables_and_figures_after_all_runs(disk: Path, reference: dict[str, str]) -> None:
    free(disk)
    finished(program, disk, NAME)
    (disk / "results" / NAME / ".figures").unlink()  # they were not drawn
    manifest = (disk / "results" / NAME / "manifest.json").stat().st_size
    for pages in (manifest // PAGE + 2, 1 + manifest // PAGE + 6):
        ballast = fill(disk, but_pages=pages)
        ended = sweep(program, disk, NAME, figures=True)
        assert ended.code == 1, ended.err
        reported_once(ended, "No space left on device", disk)
        assert "8 done, 0 to do; the same command continues" in ended.err
        assert leftovers(disk) == []
        assert numbers(disk, NAME) == reference
        ballast.unlink()
    finished(program, disk, NAME, figures=True)
    assert list(disk.glob(f"results/{NAME}/figures/*.png"))


def test_at_the_very_start(disk: Path) -> None:
    for pages in (0, 1, 2):
        ballast = fill(disk, but_pages=pages)
        ended = sweep(program, disk, NAME)
        assert ended.code == 2, ended.err
        reported_once(ended, "No space left on device", disk)
        assert leftovers(disk) == []
        assert runs_done(disk) == 0
        ballast.unlink()
    free(disk)
    finished(program, disk, NAME)
    assert runs_done(disk) == 8


@pytest.mark.slow
@pytest.mark.parametrize("command", ["pack", "report"])
def test_while_packing_or_reporting(command: str, disk: Path) -> None:
    free(disk)
    finished(program, disk, NAME)
    before = sorted(disk.rglob("*"))
    ballast = fill(disk, but_pages=0)
    ended = program(command, f"{disk}/results/{NAME}", cwd=disk)
    assert ended.code == 2, ended.err
    reported_once(ended, "No space left on device", disk)
    ballast.unlink()
    assert sorted(disk.rglob("*")) == before


@pytest.mark.slow
def test_a_file_larger_than_the_system_allows(tmp_path: Path, reference: dict[str, str]) -> None:
    """The size limit refuses the manifest, like a quota."""
    (tmp_path / f"{NAME}.yaml").write_text(BASE + GRID)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        ended = sweep(program, tmp_path, NAME)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ended.code == 2, ended.err
    reported_once(ended, "manifest.json: File too large", tmp_path)
    assert leftovers(tmp_path) == []
    assert runs_done(tmp_path) == 0
    finished(program, tmp_path, NAME)
    assert numbers(tmp_path, NAME) == reference
