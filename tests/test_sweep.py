"""What a sweep runs, what it leaves alone, and what it leaves behind."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from normexp.config import grid
from normexp.errors import UserError
from normexp.execute.events import Event, Finished, Started
from normexp.execute.executors import EXECUTORS
from normexp.execute.launch import LauncherError
from normexp.interrupt import Stopped
from normexp.plan import Plan
from normexp.record import Losses, RunRecord, Status
from normexp.results.store import StorageError, Store
from normexp.run import RunConfig
from normexp.sweep import Swept, check_tasks, run_sweep
from normexp.tasks import Task, remember
from normexp.work import Options

TINY = {"depth": 1, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "batch": 4, "steps": 3, "eval_every": 2}


class Silent:
    """Remembers what a sweep did."""

    def __init__(self) -> None:
        self.todo: Sequence[RunConfig] = ()
        self.reused = 0
        self.events: list[Event] = []
        self.ended = 0

    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None:
        self.todo, self.reused, self.counts = todo, reused, (done, failed)

    def event(self, event: Event) -> None:
        self.events.append(event)

    def end(self) -> None:
        self.ended += 1


class StopsAfter(Silent):
    """Ctrl-C after so many finished runs."""

    def __init__(self, finished: int) -> None:
        super().__init__()
        self.left = finished

    def event(self, event: Event) -> None:
        super().event(event)
        self.left -= isinstance(event, Finished)
        if self.left == 0:
            raise Stopped(2)


def plan(name: str = "tiny", **axes: object) -> Plan:
    values = {**TINY, "lr": [1e-3, 1e-2], "seed": [0, 1], **axes}
    return grid.plan_of(name=name, title="Tiny", groups=[("", values)])


def options(out: Path, **rest: object) -> Options:
    return Options(out=out, jobs=1, executor="inline", **rest)


def sweep(out: Path, asked: Plan, listener: Silent | None = None, **rest: object) -> tuple[Swept, Silent]:
    listener = listener or Silent()
    return run_sweep(asked, options(out, **rest), listener), listener


def losses(swept: Swept) -> dict[str, list[str]]:
    return {run_id: [repr(row) for row in swept.store.traces(run_id).curve] for run_id in swept.report.plan.configs}


def fails(config: RunConfig, report: object) -> RunRecord:
    return RunRecord(config=config, status=Status.FAILED, error="RuntimeError: no")


@pytest.fixture(autouse=True)
def _no_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "with_figures" not in request.keywords:
        monkeypatch.setattr("normexp.views.report.write_figures", lambda store, report: None)


@pytest.mark.with_figures
def test_figures_are_drawn_at_the_end(tmp_path: Path) -> None:
    swept, _ = sweep(tmp_path, plan(seed=0))
    names = {path.name for path in (swept.store.folder / "figures").iterdir()}
    drawn = ("curves", "lr_sensitivity", "signal")
    assert names == {f"{name}.{suffix}" for name in drawn for suffix in ("svg", "png", "csv")}


def test_a_second_start_has_nothing_to_do(tmp_path: Path) -> None:
    first, listener = sweep(tmp_path, plan())
    assert (first.exit_code, len(listener.todo)) == (0, 4)
    before = (first.store.folder / "runs.csv").read_bytes()
    second, listener = sweep(tmp_path, plan())
    assert (second.exit_code, len(listener.todo), listener.events) == (0, 0, [])
    assert (first.store.folder / "runs.csv").read_bytes() == before


def test_only_what_is_missing_runs(tmp_path: Path) -> None:
    straight, _ = sweep(tmp_path / "a", plan())
    swept, _ = sweep(tmp_path / "b", plan())
    gone = list(plan().configs)[2]
    shutil.rmtree(swept.store.folder / "runs" / gone)
    again, listener = sweep(tmp_path / "b", plan())
    assert [config.run_id for config in listener.todo] == [gone]
    for name in ("runs.csv", "points.csv", "summary.csv"):
        assert (again.store.folder / name).read_bytes() == (straight.store.folder / name).read_bytes()


def test_an_interrupted_sweep_continues_to_the_same_numbers(tmp_path: Path) -> None:
    straight, _ = sweep(tmp_path / "a", plan())
    stopped, listener = sweep(tmp_path / "b", plan(), StopsAfter(1))
    assert stopped.exit_code == 130
    assert stopped.message == "stopped by SIGINT: 1 done, 3 to do; the same command continues"
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


def test_an_interrupted_force_counts_what_it_has_done_itself(tmp_path: Path) -> None:
    sweep(tmp_path, plan())
    stopped, _ = sweep(tmp_path, plan(), StopsAfter(1), force=True)
    assert stopped.message == "stopped by SIGINT: 1 done, 3 to do; the same command without --force continues"


def test_a_display_that_has_gone_costs_no_run(tmp_path: Path) -> None:
    class Gone(Silent):
        def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None:
            raise BrokenPipeError

        def event(self, event: Event) -> None:
            raise OSError(28, "No space left on device")

        def end(self) -> None:
            raise BrokenPipeError

    swept, _ = sweep(tmp_path, plan(), Gone())
    assert (swept.exit_code, len(swept.report.records)) == (0, 4)


def test_force_runs_everything_again(tmp_path: Path) -> None:
    sweep(tmp_path, plan())
    _, listener = sweep(tmp_path, plan(), force=True)
    assert len(listener.todo) == 4


def test_a_refreshed_run_is_taken_from_a_sweep_that_has_it_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        sweep(tmp_path, plan(name))
    monkeypatch.setattr("normexp.numerics.CHANGES", {99: lambda run: True})
    _, first = sweep(tmp_path, plan("one"), refresh=True)
    _, second = sweep(tmp_path, plan("two"), refresh=True)
    assert (first.reused, len(first.todo)) == (0, 4)
    assert (second.reused, len(second.todo)) == (4, 0)


def test_stale_runs_are_told_and_refreshed_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(tmp_path, plan())
    monkeypatch.setattr("normexp.numerics.CHANGES", {99: lambda run: True})
    swept, listener = sweep(tmp_path, plan())
    assert listener.todo == []
    assert any("stale" in warning for warning in swept.report.warnings)
    _, listener = sweep(tmp_path, plan(), refresh=True)
    assert len(listener.todo) == 4


class TestOnly:
    def test_runs_the_points_that_match(self, tmp_path: Path) -> None:
        swept, listener = sweep(tmp_path, plan(), only=("lr=1e-2", "seed=1"))
        assert [(config.lr, config.seed) for config in listener.todo] == [(1e-2, 1)]
        assert len(swept.report.plan.points) == 4
        assert int(swept.report.summary["pending"].sum()) == 3

    def test_matches_what_was_asked_where_a_run_answers_several_points(self, tmp_path: Path) -> None:
        asked = plan(norm="none", position=["pre", "post"], lr=1e-3, seed=0)
        assert len(asked.points) == 2
        _, listener = sweep(tmp_path, asked, only=("position=post",))
        assert len(listener.todo) == 1

    def test_takes_several_values_of_a_key(self, tmp_path: Path) -> None:
        _, listener = sweep(tmp_path, plan(), only=("lr=1e-2", "lr=1e-3", "seed=0"))
        assert [(config.lr, config.seed) for config in listener.todo] == [(1e-3, 0), (1e-2, 0)]

    @pytest.mark.parametrize("text", ["lr=5", "nosuch=1", "lr", "lr=", "depth=x"])
    def test_is_refused_where_it_matches_nothing_and_nothing_is_written(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(UserError, match="--only"):
            sweep(tmp_path, plan(), only=(text,))
        assert not list(tmp_path.iterdir())


class TestOtherFolders:
    def test_a_run_stored_by_another_sweep_is_copied(self, tmp_path: Path) -> None:
        first, _ = sweep(tmp_path, plan("one"))
        second, listener = sweep(tmp_path, plan("two", lr=[1e-3, 3e-3]))
        assert (listener.reused, len(listener.todo)) == (2, 2)
        shared = [record for record in second.report.records.values() if record.reused_from]
        assert {record.reused_from for record in shared} == {"one"}
        for record in shared:
            assert second.store.traces(record.run_id) == first.store.traces(record.run_id)

    def test_a_run_whose_stored_traces_are_broken_is_run_here(self, tmp_path: Path) -> None:
        first, _ = sweep(tmp_path, plan("one"))
        broken = sorted(first.store.ended())[0]
        (first.store.folder / "runs" / broken / "curve.csv").write_text("garbage\n1,2,3\n")
        second, listener = sweep(tmp_path, plan("two"))
        assert [config.run_id for config in listener.todo] == [broken]
        assert listener.reused == 3
        assert second.exit_code == 0

    def test_with_force_nothing_is_copied(self, tmp_path: Path) -> None:
        sweep(tmp_path, plan("one"))
        _, listener = sweep(tmp_path, plan("two"), force=True)
        assert (listener.reused, len(listener.todo)) == (0, 4)

    def test_a_sweep_that_shares_no_run_is_refused_with_a_difference(self, tmp_path: Path) -> None:
        swept, _ = sweep(tmp_path, plan())
        before = sorted((path, path.stat().st_mtime_ns) for path in swept.store.folder.rglob("*") if path.is_file())
        with pytest.raises(UserError, match=r"steps.*3.*4"):
            sweep(tmp_path, plan(steps=4))
        after = sorted((path, path.stat().st_mtime_ns) for path in swept.store.folder.rglob("*") if path.is_file())
        assert [entry for entry in after if entry[0].name not in (".lock", "driver.json")] == [
            entry for entry in before if entry[0].name not in (".lock", "driver.json")
        ]

    def test_points_gained_and_lost_continue(self, tmp_path: Path) -> None:
        sweep(tmp_path, plan())
        swept, listener = sweep(tmp_path, plan(lr=[1e-2, 3e-2]))
        assert [config.lr for config in listener.todo] == [3e-2, 3e-2]
        assert len(swept.store.strays()) == 2


def test_a_task_with_nothing_to_learn_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to learn"):
        sweep(tmp_path, plan(sharpness=[4.0, 0.01]))
    assert not list(tmp_path.iterdir())


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
    with pytest.raises(UserError, match="does not fit into memory"):
        sweep(tmp_path, plan())
    assert not list(tmp_path.iterdir())


def test_a_timeout_inline_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--executor processes"):
        sweep(tmp_path, plan(), timeout_seconds=3.0)
    assert not list(tmp_path.iterdir())


def test_an_unknown_executor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="processes, inline"):
        run_sweep(plan(), replace(options(tmp_path), executor="magic"), Silent())


def test_a_full_disk_stops_the_sweep_and_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        yield from islice(EXECUTORS["inline"](configs, jobs=1), 4)
        raise LauncherError("no file descriptors left")

    monkeypatch.setitem(EXECUTORS, "breaks", breaks)
    swept = run_sweep(plan(), replace(options(tmp_path), executor="breaks"), Silent())
    assert swept.exit_code == 1
    assert swept.message.startswith("no file descriptors left: ")
    assert "failed" not in swept.message


def test_redundant_points_are_run_once_and_shown_in_each_cell(tmp_path: Path) -> None:
    asked = plan(norm=["none", "ln"], position=["pre", "post"], lr=1e-3, seed=0)
    swept, listener = sweep(tmp_path, asked)
    assert len(listener.todo) == 3
    assert swept.report.summary["done"].tolist() == [1, 1, 1, 1]
