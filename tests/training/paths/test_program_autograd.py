"""The --autograd option of sweep and collapse, and repro of such runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tinysweeps
from tinysweeps import TINY, Silent
from typer.testing import CliRunner, Result

from normexp.commands.app import app
from normexp.config.plan import Plan
from normexp.execution.executors import EXECUTORS
from normexp.records.record import RunRecord, Status
from normexp.runner.sweep import Swept
from normexp.storage.codec import CHECKSUM, FILES
from normexp.storage.store import Store
from normexp.training.paths.choice import choose

SIZES = {**TINY, "steps": 8, "eval_every": 8}


@pytest.fixture(autouse=True)
def _in_this_process(no_figures: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXECUTORS, "processes", EXECUTORS["inline"])


def plan(name: str = "tiny") -> Plan:
    return tinysweeps.plan(name, **SIZES, seed=[0])


def sweep(out: Path, name: str = "tiny", *, autograd: bool, **rest: object) -> tuple[Swept, Silent]:
    return tinysweeps.sweep(out, plan(name), autograd=autograd, **rest)


def losses(swept: Swept) -> list[list[float | None]]:
    return [[row.train_loss for row in swept.store.traces(run_id).curve] for run_id in plan().configs]


class TestSweep:
    def test_stores_the_path_of_a_run(self, tmp_path: Path) -> None:
        for autograd in (False, True):
            swept, _ = sweep(tmp_path / str(autograd), autograd=autograd)
            assert [record.by_autograd for record in swept.report.records.values()] == [autograd] * 2
            for run_id in plan().configs:
                stored = json.loads((swept.store.folder / "runs" / run_id / "run.json").read_text())
                assert stored["environment"]["step"] == ("plain" if autograd else choose().path)

    def test_repeats_runs_of_another_path_once(self, tmp_path: Path) -> None:
        fast, _ = sweep(tmp_path, autograd=False)
        before = losses(fast)
        swept, listener = sweep(tmp_path, autograd=True)
        assert len(listener.todo) == 2
        after = losses(swept)
        assert before != after
        for first, second in zip(before, after, strict=True):
            assert first[1:] == pytest.approx(second[1:], rel=1e-5)
        _, listener = sweep(tmp_path, autograd=True)
        assert len(listener.todo) == 0

    def test_keeps_runs_of_autograd_if_any_path_is_allowed(self, tmp_path: Path) -> None:
        autograd, _ = sweep(tmp_path, autograd=True)
        before = losses(autograd)
        again, listener = sweep(tmp_path, autograd=False)
        assert len(listener.todo) == 0
        assert losses(again) == before

    def test_reuses_no_runs_of_other_sweeps(self, tmp_path: Path) -> None:
        sweep(tmp_path, "one", autograd=False)
        _, listener = sweep(tmp_path, "two", autograd=False)
        assert (listener.reused, len(listener.todo)) == (2, 0)
        _, listener = sweep(tmp_path, "three", autograd=True)
        assert (listener.reused, len(listener.todo)) == (0, 2)

    def test_skips_failed_runs_until_they_are_retried(self, tmp_path: Path) -> None:
        swept, _ = sweep(tmp_path, autograd=False)
        config = next(iter(plan().configs.values()))
        swept.store.write(RunRecord(config=config, status=Status.FAILED, error="RuntimeError: no"))
        for rest in ({}, {"retry_failed": True}):
            _, listener = sweep(tmp_path, autograd=True, **rest)
            assert len(listener.todo) == 1


def normexp(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code in (0, 1), result.output
    return result


@pytest.fixture
def run_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[bool, str]:
    """Make one run by each path in the current folder, and return their ids."""
    monkeypatch.chdir(tmp_path)
    for seed, autograd in enumerate((False, True)):
        values = ", ".join(f"{key}: {value}" for key, value in SIZES.items())
        Path(f"{autograd}.yaml").write_text(f"base: {{{values}, lr: 1e-2, seed: {seed}}}\n")
        assert normexp("sweep", f"{autograd}.yaml", *(["--autograd"] if autograd else [])).exit_code == 0
    return {autograd: next(iter(Store(tmp_path / "results" / str(autograd)).records())) for autograd in (False, True)}


class TestRepro:
    @pytest.mark.parametrize("autograd", [False, True])
    def test_repeats_a_run_by_its_path(self, run_ids: dict[bool, str], autograd: bool) -> None:
        result = normexp("repro", run_ids[autograd])
        assert result.exit_code == 0, result.output
        assert f"step: {'plain' if autograd else choose().path}" in result.output

    def test_another_path_gives_another_result(self, run_ids: dict[bool, str], tmp_path: Path) -> None:
        path = tmp_path / "results" / "True" / "runs" / run_ids[True] / "run.json"
        stored = json.loads(path.read_text())
        del stored["environment"]["step"], stored[CHECKSUM], stored[FILES]  # as written by older versions
        path.write_text(json.dumps(stored))
        assert normexp("repro", run_ids[True]).exit_code == 1


def test_collapse(tmp_path: Path) -> None:
    options = [f"--{key}={SIZES[key]}" for key in ("width", "hidden", "heads", "vocab", "batch")]
    for autograd in (False, True):
        out = ("--out", tmp_path / str(autograd), *(["--autograd"] if autograd else []))
        assert normexp("collapse", "--layers=1", "--steps=3", "--seed=0", *options, *out).exit_code == 0
        (folder,) = (tmp_path / str(autograd)).iterdir()
        assert [record.by_autograd for record in Store(folder).records().values()] == [autograd] * 3
