"""A sweep's course: interrupted, with failed runs, on a full disk, or refused before anything is written."""

from __future__ import annotations

import weakref
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import golden_texts
import pytest
from tinysweeps import Silent, StopsAfter, fails, losses, options, plan, sweep

from normexp.config.run import RunConfig
from normexp.data.tasks import Task, remember
from normexp.errors import UserError
from normexp.execution.events import Event, Finished, Started
from normexp.execution.executors import EXECUTORS
from normexp.execution.pool.launch import LauncherError
from normexp.execution.worker import Job
from normexp.records.record import Losses, RunRecord
from normexp.runner.run_selection import Options
from normexp.runner.sweep import Swept, check_tasks, run_sweep
from normexp.storage.store import StorageError, Store

pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.mark.with_figures
def test_figures_are_drawn_at_the_end(tmp_path: Path) -> None:
    swept, _ = sweep(tmp_path, plan(seed=0))
    names = {path.name for path in (swept.store.folder / "figures").iterdir()}
    drawn = ("curves", "lr_sensitivity", "signal")
    assert names == {f"{name}.{suffix}" for name in drawn for suffix in ("svg", "png", "csv")}


def test_an_interrupted_sweep_continues_to_the_same_numbers(tmp_path: Path) -> None:
    straight, _ = sweep(tmp_path / "a", plan())
    stopped, listener = sweep(tmp_path / "b", plan(), StopsAfter(1))
    assert stopped.exit_code == 130
    assert stopped.message == golden_texts.STOPPED
    assert listener.ended == 1
    assert stopped.stopped
    assert len(stopped.report.records) == 1
    assert (stopped.store.folder / "summary.md").exists()
    continued, listener = sweep(tmp_path / "b", plan())
    assert len(listener.todo) == 3
    assert losses(continued) == losses(straight)


class TestFailedRuns:
    @pytest.fixture(autouse=True)
    def _failing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(
            EXECUTORS, "failing", lambda configs, **how: EXECUTORS["inline"](configs, **how | {"work": fails})
        )

    def failing(self, out: Path, **rest: object) -> tuple[Swept, Silent]:
        listener = Silent()
        given = Options(out=out, jobs=1, executor="failing", **rest)
        return run_sweep(plan(), given, listener), listener

    def test_give_exit_code_1_and_stay_until_retried(self, tmp_path: Path) -> None:
        swept, _ = self.failing(tmp_path)
        assert swept.exit_code == 1
        again, listener = sweep(tmp_path, plan())
        assert (again.exit_code, len(listener.todo)) == (1, 0)
        assert listener.counts == (0, 4)
        retried, listener = sweep(tmp_path, plan(), retry_failed=True)
        assert (retried.exit_code, len(listener.todo)) == (0, 4)

    def test_do_not_stop_the_others_unless_asked(self, tmp_path: Path) -> None:
        _, listener = self.failing(tmp_path / "a")
        assert sum(isinstance(event, Finished) for event in listener.events) == 4
        swept, listener = self.failing(tmp_path / "b", fail_fast=True)
        assert sum(isinstance(event, Finished) for event in listener.events) == 1
        assert swept.exit_code == 1
        assert listener.ended == 1


def test_an_interrupted_forced_sweep_counts_only_new_runs(tmp_path: Path) -> None:
    sweep(tmp_path, plan())
    stopped, _ = sweep(tmp_path, plan(), StopsAfter(1), force=True)
    assert "SIGINT: 1 done, 3 to do" in stopped.message
    assert "without --force" in stopped.message


def test_display_errors_are_ignored(tmp_path: Path) -> None:
    class Gone(Silent):
        def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None:
            raise BrokenPipeError

        def event(self, event: Event) -> None:
            raise OSError(28, "No space left on device")

        def end(self) -> None:
            raise BrokenPipeError

    swept, _ = sweep(tmp_path, plan(), Gone())
    assert (swept.exit_code, len(swept.report.records)) == (0, 4)


@pytest.mark.parametrize(
    ("axes", "rest", "fact"),
    [
        ({"sharpness": [4.0, 0.01]}, {}, "sharpness"),
        ({}, {"jobs": 0}, "jobs: 0"),
        ({}, {"timeout_seconds": 3.0}, "timeout: "),
        ({}, {"executor": "magic"}, "magic: .*processes, inline"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(
    axes: dict[str, object], rest: dict[str, object], fact: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=fact):
        run_sweep(plan(**axes), replace(options(tmp_path), **rest), Silent())
    assert not list(tmp_path.iterdir())


def test_jobs_default_to_the_number_of_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr("normexp.execution.executors.default_jobs", lambda: 7)
    monkeypatch.setitem(EXECUTORS, "counting", lambda configs, *, jobs, **how: seen.append(jobs) or (_ for _ in ()))
    for jobs in (None, 3):
        run_sweep(plan(), Options(out=tmp_path, jobs=jobs, executor="counting"), Silent())
    assert seen == [7, 3]


def test_tasks_are_checked_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[weakref.ref[Task]] = []

    def check(task: Task) -> None:
        assert not any(earlier() for earlier in checked)
        checked.append(weakref.ref(task))

    monkeypatch.setattr(Task, "check", check)
    check_tasks(plan(sharpness=[4.0, 5.0, 6.0], seed=0).configs.values())
    assert len(checked) == 3


def test_the_reference_losses_of_a_task_are_estimated_once_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimate, estimated = Task._estimate, []

    def counted(task: Task) -> Losses:
        estimated.append(task.name)
        return estimate(task)

    remember({})
    monkeypatch.setattr(Task, "_estimate", counted)
    swept, _ = sweep(tmp_path, plan(sharpness=[4.0, 5.0]))
    assert len(estimated) == len(set(estimated)) == 2
    for record in swept.report.records.values():
        assert record.result is not None
        assert record.result.losses == estimate(Task(record.config))


def test_a_task_beyond_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(task: Task) -> None:
        raise MemoryError

    monkeypatch.setattr(Task, "check", too_large)
    with pytest.raises(UserError, match="memory"):
        sweep(tmp_path, plan())
    assert not list(tmp_path.iterdir())


def test_a_full_disk_stops_the_sweep_and_keeps_stored_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Store.write
    count = 0

    def full(store: Store, record: RunRecord) -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise StorageError("no space left on device: results/tiny")
        written(store, record)

    def full_too(store: Store, name: str, content: object) -> None:
        raise StorageError("no space left on device: results/tiny/runs.csv")

    monkeypatch.setattr(Store, "write", full)
    monkeypatch.setattr(Store, "write_derived", full_too)
    swept, listener = sweep(tmp_path, plan())
    assert swept.exit_code == 1
    assert "no space left" in swept.message
    assert "1 done, 3 to do" in swept.message
    assert sum(isinstance(event, Started) for event in listener.events) == 2
    monkeypatch.undo()
    _, listener = sweep(tmp_path, plan())
    assert len(listener.todo) == 3


def test_a_machine_that_cannot_start_processes_stops_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(configs: Iterable[RunConfig], **rest: object) -> Generator[Event, None, None]:
        yield from islice(EXECUTORS["inline"](configs, jobs=1, work=Job()), 4)
        raise LauncherError("no file descriptors left")

    monkeypatch.setitem(EXECUTORS, "breaks", breaks)
    swept = run_sweep(plan(), replace(options(tmp_path), executor="breaks"), Silent())
    assert swept.exit_code == 1
    assert swept.message.startswith("no file descriptors left: ")
    assert "failed" not in swept.message
