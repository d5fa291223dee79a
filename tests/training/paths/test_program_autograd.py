"""The autograd path, chosen from outside: sweep --autograd, collapse --autograd, and repro of what they made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from normexp.commands.app import app
from normexp.config import grid
from normexp.config.plan import Plan
from normexp.config.run import RunConfig
from normexp.execution.events import Event
from normexp.execution.executors import EXECUTORS
from normexp.records.record import RunRecord, Status
from normexp.report import report
from normexp.runner.run_selection import Options
from normexp.runner.sweep import Swept, run_sweep
from normexp.storage.codec import CHECKSUM, FILES
from normexp.storage.store import Store
from normexp.training.paths.choice import choose

TINY = {"depth": 1, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "batch": 4, "steps": 8, "eval_every": 8}


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "write_figures", lambda store, made: None)
    monkeypatch.setitem(EXECUTORS, "processes", EXECUTORS["inline"])


class Follower:
    """Counts what a sweep has to do."""

    todo, reused = 0, 0

    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None:
        self.todo, self.reused = len(todo), reused

    def event(self, event: Event) -> None:
        pass

    def end(self) -> None:
        pass


def plan(name: str = "tiny") -> Plan:
    return grid.plan_of(name=name, title="Tiny", groups=[("", {**TINY, "lr": [1e-3, 1e-2]})])


def sweep(out: Path, name: str = "tiny", *, autograd: bool, **rest: object) -> tuple[Swept, Follower]:
    follower = Follower()
    options = Options(out=out, jobs=1, executor="inline", autograd=autograd, **rest)  # type: ignore[arg-type]
    return run_sweep(plan(name), options, follower), follower


def losses(swept: Swept) -> list[list[float | None]]:
    return [[row.train_loss for row in swept.store.traces(run_id).curve] for run_id in plan().configs]


class TestSweep:
    def test_stores_that_a_run_was_plain(self, tmp_path: Path) -> None:
        for autograd in (False, True):
            swept, _ = sweep(tmp_path / str(autograd), autograd=autograd)
            assert [record.by_autograd for record in swept.report.records.values()] == [autograd] * 2
            for run_id in plan().configs:
                stored = json.loads((swept.store.folder / "runs" / run_id / "run.json").read_text())
                assert stored["environment"]["step"] == ("plain" if autograd else choose().path)

    def test_runs_again_what_the_other_path_made_and_once_only(self, tmp_path: Path) -> None:
        fast, _ = sweep(tmp_path, autograd=False)
        before = losses(fast)
        swept, follower = sweep(tmp_path, autograd=True)
        assert follower.todo == 2
        after = losses(swept)
        assert before != after
        for one, other in zip(before, after, strict=True):
            assert one[1:] == pytest.approx(other[1:], rel=1e-5)
        _, follower = sweep(tmp_path, autograd=True)
        assert follower.todo == 0

    def test_the_reference_stays_where_either_will_do(self, tmp_path: Path) -> None:
        autograd, _ = sweep(tmp_path, autograd=True)
        before = losses(autograd)
        again, follower = sweep(tmp_path, autograd=False)
        assert follower.todo == 0
        assert losses(again) == before

    def test_takes_nothing_from_other_sweeps(self, tmp_path: Path) -> None:
        sweep(tmp_path, "one", autograd=False)
        _, follower = sweep(tmp_path, "two", autograd=False)
        assert (follower.reused, follower.todo) == (2, 0)
        _, follower = sweep(tmp_path, "three", autograd=True)
        assert (follower.reused, follower.todo) == (0, 2)

    def test_leaves_what_failed_until_it_is_retried(self, tmp_path: Path) -> None:
        swept, _ = sweep(tmp_path, autograd=False)
        config = next(iter(plan().configs.values()))
        swept.store.write(RunRecord(config=config, status=Status.FAILED, error="RuntimeError: no"))
        _, follower = sweep(tmp_path, autograd=True)
        assert follower.todo == 1
        _, follower = sweep(tmp_path, autograd=True, retry_failed=True)
        assert follower.todo == 1


def normexp(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code in (0, 1), result.output
    return result


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[bool, str]:
    """Ids of one run by each path, made by the command in the current folder."""
    monkeypatch.chdir(tmp_path)
    for seed, autograd in enumerate((False, True)):
        values = ", ".join(f"{key}: {value}" for key, value in TINY.items())
        Path(f"{autograd}.yaml").write_text(f"base: {{{values}, lr: 1e-2, seed: {seed}}}\n")
        assert normexp("sweep", f"{autograd}.yaml", *(["--autograd"] if autograd else [])).exit_code == 0
    return {autograd: next(iter(Store(tmp_path / "results" / str(autograd)).records())) for autograd in (False, True)}


class TestRepro:
    @pytest.mark.parametrize("autograd", [False, True])
    def test_repeats_a_run_by_its_own_path(self, made: dict[bool, str], autograd: bool) -> None:
        result = normexp("repro", made[autograd])
        assert result.exit_code == 0, result.output
        assert "bit-identical over 8 steps" in result.output
        assert f"step: {'plain' if autograd else choose().path}" in result.output

    def test_by_the_other_path_it_would_differ(self, made: dict[bool, str], tmp_path: Path) -> None:
        path = tmp_path / "results" / "True" / "runs" / made[True] / "run.json"
        stored = json.loads(path.read_text())
        del stored["environment"]["step"], stored[CHECKSUM], stored[FILES]  # as older versions wrote it
        path.write_text(json.dumps(stored))
        result = normexp("repro", made[True])
        assert result.exit_code == 1
        assert "differs first at step" in result.output


def test_collapse(tmp_path: Path) -> None:
    sizes = ("--layers", 1, "--width", 8, "--hidden", 8, "--heads", 2, "--vocab", 8, "--batch", 4, "--steps", 3)
    for autograd in (False, True):
        arguments = (
            "collapse",
            *sizes,
            "--seed",
            0,
            "--out",
            tmp_path / str(autograd),
            *(["--autograd"] if autograd else []),
        )
        assert normexp(*arguments).exit_code == 0
        (folder,) = (tmp_path / str(autograd)).iterdir()
        assert [record.by_autograd for record in Store(folder).records().values()] == [autograd] * 3
