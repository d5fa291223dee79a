"""The runs that a sweep executes: missing, outdated, forced or selected ones, unless other folders have them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tinysweeps import plan, sweep

from normexp.errors import UserError

pytestmark = pytest.mark.usefixtures("no_figures")


def test_a_second_start_has_nothing_to_do(tmp_path: Path) -> None:
    first, listener = sweep(tmp_path, plan())
    assert (first.exit_code, len(listener.todo)) == (0, 4)
    before = (first.store.folder / "runs.csv").read_bytes()
    second, listener = sweep(tmp_path, plan())
    assert (second.exit_code, len(listener.todo), listener.events) == (0, 0, [])
    assert (first.store.folder / "runs.csv").read_bytes() == before


def test_only_missing_runs_are_executed(tmp_path: Path) -> None:
    straight, _ = sweep(tmp_path / "a", plan())
    swept, _ = sweep(tmp_path / "b", plan())
    removed = list(plan().configs)[2]
    shutil.rmtree(swept.store.folder / "runs" / removed)
    again, listener = sweep(tmp_path / "b", plan())
    assert [config.run_id for config in listener.todo] == [removed]
    for name in ("runs.csv", "points.csv", "summary.csv"):
        assert (again.store.folder / name).read_bytes() == (straight.store.folder / name).read_bytes()


def test_a_rerun_outdated_run_is_copied_by_other_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        sweep(tmp_path, plan(name))
    monkeypatch.setattr("normexp.records.numerics.CHANGES", {99: lambda run: True})
    _, first = sweep(tmp_path, plan("one"), rerun_outdated=True)
    _, second = sweep(tmp_path, plan("two"), rerun_outdated=True)
    assert (first.reused, len(first.todo)) == (0, 4)
    assert (second.reused, len(second.todo)) == (4, 0)


def test_outdated_runs_draw_a_warning_and_are_rerun_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(tmp_path, plan())
    monkeypatch.setattr("normexp.records.numerics.CHANGES", {99: lambda run: True})
    swept, listener = sweep(tmp_path, plan())
    assert listener.todo == []
    assert any("outdated" in warning for warning in swept.report.warnings)
    _, listener = sweep(tmp_path, plan(), rerun_outdated=True)
    assert len(listener.todo) == 4


class TestOnly:
    def test_runs_the_points_that_match(self, tmp_path: Path) -> None:
        swept, listener = sweep(tmp_path, plan(), only=("lr=1e-2", "seed=1"))
        assert [(config.lr, config.seed) for config in listener.todo] == [(1e-2, 1)]
        assert len(swept.report.plan.points) == 4
        assert int(swept.report.summary["pending"].sum()) == 3

    def test_matches_every_point_of_a_run(self, tmp_path: Path) -> None:
        requested = plan(norm="none", position=["pre", "post"], lr=1e-3, seed=0)
        assert len(requested.points) == 2
        _, listener = sweep(tmp_path, requested, only=("position=post",))
        assert len(listener.todo) == 1

    def test_takes_several_values_of_a_key(self, tmp_path: Path) -> None:
        _, listener = sweep(tmp_path, plan(), only=("lr=1e-2", "lr=1e-3", "seed=0"))
        assert [(config.lr, config.seed) for config in listener.todo] == [(1e-3, 0), (1e-2, 0)]

    @pytest.mark.parametrize("text", ["lr=5", "nosuch=1", "lr", "lr=", "depth=x"])
    def test_is_refused_if_it_matches_nothing(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(UserError, match=r"^only "):
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

    def test_with_force_everything_is_rerun_and_nothing_is_copied(self, tmp_path: Path) -> None:
        sweep(tmp_path, plan("one"))
        for name in ("one", "two"):
            _, listener = sweep(tmp_path, plan(name), force=True)
            assert (listener.reused, len(listener.todo)) == (0, 4)

    def test_a_sweep_that_shares_no_run_is_refused_with_a_difference(self, tmp_path: Path) -> None:
        swept, _ = sweep(tmp_path, plan())
        before = sorted((path, path.stat().st_mtime_ns) for path in swept.store.folder.rglob("*") if path.is_file())
        with pytest.raises(UserError, match=r"steps.*3.*4"):
            sweep(tmp_path, plan(steps=4))
        after = sorted((path, path.stat().st_mtime_ns) for path in swept.store.folder.rglob("*") if path.is_file())
        assert [entry for entry in after if entry[0].name not in (".lock", ".driver.json")] == [
            entry for entry in before if entry[0].name not in (".lock", ".driver.json")
        ]

    def test_points_gained_and_lost_continue(self, tmp_path: Path) -> None:
        sweep(tmp_path, plan())
        swept, listener = sweep(tmp_path, plan(lr=[1e-2, 3e-2]))
        assert [config.lr for config in listener.todo] == [3e-2, 3e-2]
        assert len(swept.store.strays()) == 2


def test_duplicate_configs_run_once_and_are_shown_in_each_cell(tmp_path: Path) -> None:
    requested = plan(norm=["none", "ln"], position=["pre", "post"], lr=1e-3, seed=0)
    swept, listener = sweep(tmp_path, requested)
    assert len(listener.todo) == 3
    assert swept.report.summary["done"].tolist() == [1, 1, 1, 1]
