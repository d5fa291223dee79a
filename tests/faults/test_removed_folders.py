"""A folder is removed or moved during a sweep, or the clock runs backwards."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import program
from sweeps import TWO, arguments, finished, leftovers, numbers, write_configs
from typer.testing import CliRunner

from normexp.commands.app import app
from normexp.execution.events import Event, Finished
from normexp.terminal.live import View


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)
    write_configs(tmp_path)
    return tmp_path


def after_a_run(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Call `do` once, after the first run has been stored."""
    tell, done = View.event, []

    def event(view: View, event: Event) -> None:
        tell(view, event)
        if isinstance(event, Finished) and not done:
            done.append(do())

    monkeypatch.setattr(View, "event", event)


@pytest.mark.parametrize(
    ("gone", "how"),
    [("results/two", "removed")]
    + [
        pytest.param(gone, how, marks=pytest.mark.slow)
        for gone in ("results", "results/two", "results/two/runs")
        for how in ("removed", "moved")
        if (gone, how) != ("results/two", "removed")
    ],
)
def test_a_folder_removed_during_a_sweep(
    gone: str, how: str, folder: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, away = folder / gone, folder / "away"
    with monkeypatch.context() as patch:
        after_a_run(patch, lambda: shutil.rmtree(path) if how == "removed" else path.rename(away))
        ended = CliRunner().invoke(app, arguments(folder, TWO))
    assert ended.exit_code == 1, (ended.output, ended.exception)
    assert isinstance(ended.exception, SystemExit)
    (line,) = [line for line in ended.stderr.splitlines() if "No such file or directory" in line]
    assert str(path) in line
    assert "to do" in line
    assert not (folder / "results/two/runs").exists(), "nothing is written where the folder was"
    if how == "moved":
        if path.exists():
            shutil.rmtree(path)
        away.rename(path)
        assert "1 done, 3 to do" in finished(program, folder, TWO).err
    finished(program, folder, TWO)
    assert numbers(folder, TWO) == numbers(undisturbed, TWO)


@pytest.mark.slow
def test_a_run_folder_removed_during_a_sweep(folder: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def remove() -> None:
        for path in (folder / "results/two/runs").iterdir():
            shutil.rmtree(path)

    with monkeypatch.context() as patch:
        after_a_run(patch, remove)
        ended = CliRunner().invoke(app, arguments(folder, TWO))
    assert ended.exit_code == 0, ended.output
    assert "1 pending" in ended.output or "pending" in (folder / "results/two/summary.csv").read_text()
    assert "3 done, 1 to do" in finished(program, folder, TWO).err
    assert numbers(folder, TWO) == numbers(undisturbed, TWO)


def test_a_clock_that_runs_backwards(undisturbed: Path, tmp_path: Path) -> None:
    """Each reading is a day before the last, and the stored files are in the future."""
    write_configs(tmp_path)
    finished(program, tmp_path, TWO, clock=86400.0)
    shutil.rmtree(next((tmp_path / "results/two/runs").iterdir()))
    for path in tmp_path.rglob("*"):
        os.utime(path, (4e9, 4e9))
    again = finished(program, tmp_path, TWO, clock=86400.0)
    assert "Warning" not in again.err
    assert leftovers(tmp_path) == []
    assert numbers(tmp_path, TWO) == numbers(undisturbed, TWO)
    for path in tmp_path.glob("results/two/runs/*/run.json"):
        seconds = json.loads(path.read_text())["seconds"]
        assert len(seconds) > 3
        assert all(value >= 0 for value in seconds.values()), seconds
    for command in (["list"], ["explain", "lr1e30"], ["sweep", "two.yaml", "--dry-run"]):
        ended = program(*command, "--out", "results", cwd=tmp_path, clock=86400.0)
        assert "-" not in ended.out.partition("about ")[2].partition(" with")[0]
        assert "Traceback" not in ended.err
