"""`sweep --save-weights` stores weights, reruns what lacks them, and changes nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tinysweeps
from commandline import TINY, invoke
from tinysweeps import Silent

from normexp.config.plan import Plan
from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.execution.events import Finished
from normexp.records.record import Outcome, Status
from normexp.runner.run_selection import Options, Work, work_of
from normexp.runner.sweep import Swept, run_sweep
from normexp.storage import codec, outputs
from normexp.storage.codec import CHECKSUM
from normexp.storage.store import Store
from normexp.training.trainer import Trainer
from normexp.training.weights import network_from

WEIGHTS = "weights.safetensors"
pytestmark = pytest.mark.usefixtures("no_figures")


Counts = tuple[int, int, int, int]
"""Numbers of runs to do, done, failed and reused."""


def plan(name: str = "tiny", **axes: object) -> Plan:
    return tinysweeps.plan(name, **{"seed": 0, "order": 1, **axes})


def sweep(out: Path, plan: Plan, **rest: Any) -> tuple[Swept, Counts]:
    listener = Silent()
    swept = run_sweep(plan, options(out, **rest), listener)
    records = [event.record for event in listener.events if isinstance(event, Finished)]
    assert all(record.weights is None for record in records), "weights are not kept in memory"
    return swept, (len(listener.todo), *listener.counts, listener.reused)


def options(out: Path, **rest: Any) -> Options:
    return Options(out=out, jobs=1, **{"executor": "inline", **rest})


def work(out: Path, plan: Plan, **rest: Any) -> Work:
    store = Store(out / plan.folder)
    return work_of(plan, store, store.records(), options(out, **rest))


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def timeless(path: Path) -> dict[str, Any]:
    """Return run.json without times, and without the stamp of the weights."""
    stored = json.loads(path.read_text("utf-8"))
    stored["files"].pop(WEIGHTS, None)
    return {**stored, "seconds": None, CHECKSUM: None}


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_the_stored_weights_are_those_the_run_ended_with(tmp_path: Path, executor: str) -> None:
    swept, _ = sweep(tmp_path, plan(lr=1e-2, norm=["ln", "bn"]), executor=executor, save_weights=True)
    assert len(swept.report.records) == 2
    for run_id, record in swept.report.records.items():
        path, data = swept.store.weights(run_id)
        assert data is not None
        assert path == swept.store.folder / "runs" / run_id / WEIGHTS
        config, network = network_from(data, origin="")
        assert config == record.config
        trainer = Trainer(config, network)
        assert trainer.evaluate() == pytest.approx(record.result.final_val_loss, abs=1e-6)
        assert Trainer(config).evaluate() != pytest.approx(record.result.final_val_loss, abs=1e-3)


def test_nothing_else_changes(tmp_path: Path) -> None:
    (one, _), (other, _) = (sweep(tmp_path / str(save), plan(), save_weights=save) for save in (False, True))
    without, with_weights = files(one.store.folder), files(other.store.folder)
    assert [name for name in with_weights if not name.endswith(WEIGHTS)] == without
    assert len(with_weights) == len(without) + 2
    for name in without:
        old, new = one.store.folder / name, other.store.folder / name
        if name.endswith("run.json"):
            assert timeless(old) == timeless(new)
        elif "timings" not in name and name.endswith((".csv", ".md", ".txt", "sweep.yaml")):
            assert old.read_bytes() == new.read_bytes(), name


def test_only_done_runs_without_weights_are_rerun(tmp_path: Path) -> None:
    swept, _ = sweep(tmp_path, plan())
    assert (work(tmp_path, plan()).done, work(tmp_path, plan()).without_weights) == (2, 0)
    needed = work(tmp_path, plan(), save_weights=True)
    assert (len(needed.todo), needed.without_weights, needed.done) == (2, 2, 0)
    few = work(tmp_path, plan(), save_weights=True, only=("lr=1e-3",))
    assert (len(few.todo), few.without_weights, few.done, few.skipped) == (1, 1, 1, 0)
    forced = work(tmp_path, plan(), save_weights=True, force=True)
    assert (len(forced.todo), forced.without_weights) == (2, 0)
    assert sweep(tmp_path, plan(), save_weights=True)[1] == (2, 0, 0, 0)
    assert sweep(tmp_path, plan(), save_weights=True)[1] == (0, 2, 0, 0)
    first = next(iter(swept.report.records))
    (swept.store.folder / "runs" / first / WEIGHTS).unlink()
    assert sweep(tmp_path, plan(), save_weights=True)[1] == (1, 1, 0, 0)


def test_a_rerun_without_the_option_removes_old_weights(tmp_path: Path) -> None:
    swept, _ = sweep(tmp_path, plan(), save_weights=True)
    assert sweep(tmp_path, plan())[1] == (0, 2, 0, 0)
    assert all(map(swept.store.has_weights, swept.report.records))
    sweep(tmp_path, plan(), force=True)
    assert not any(map(swept.store.has_weights, swept.report.records))


def test_weights_come_from_another_sweep_that_has_them(tmp_path: Path) -> None:
    sweep(tmp_path, plan("a"))
    other, _ = sweep(tmp_path, plan("b"), save_weights=True)
    assert sweep(tmp_path, plan("c"))[1] == (0, 0, 0, 2)
    assert not any(name.endswith(WEIGHTS) for name in files(tmp_path / "c"))
    for name in ("a", "c", "d"):
        made, told = sweep(tmp_path, plan(name), save_weights=True)
        assert told == (0, 0, 0, 2), name
        for run_id, record in made.report.records.items():
            assert record.reused_from in ("a", "b")
            assert made.store.weights(run_id)[1] == other.store.weights(run_id)[1] is not None


def test_nonfinite_runs_have_weights_and_failed_runs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swept, _ = sweep(tmp_path, plan(optimizer="sgd", norm="none", lr=1e30), save_weights=True)
    ((run_id, record),) = swept.report.records.items()
    assert record.verdict.outcome is Outcome.NONFINITE
    network_from(swept.store.weights(run_id)[1], origin="")

    def breaks(network: object, config: RunConfig) -> bytes:
        raise RuntimeError("no weights")

    monkeypatch.setattr("normexp.training.weights.weights_bytes", breaks)
    failed, _ = sweep(tmp_path, plan("failed", seed=5), save_weights=True)
    assert {record.status for record in failed.report.records.values()} == {Status.FAILED}
    assert not any(map(failed.store.has_weights, failed.report.records))
    assert work(tmp_path, plan("failed", seed=5), save_weights=True).failed == 2


def test_weights_are_written_before_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write = Store.write.__globals__["write_atomically"]

    def watched(path: Path, content: str | bytes) -> None:
        written.append(path.name)
        write(path, content)

    monkeypatch.setitem(Store.write.__globals__, "write_atomically", watched)
    sweep(tmp_path, plan(lr=1e-2), save_weights=True)
    assert written.index(WEIGHTS) < written.index("run.json")


def test_a_run_record_carries_weights_past_its_json(tmp_path: Path) -> None:
    swept, _ = sweep(tmp_path, plan(lr=1e-2), save_weights=True)
    ((run_id, record),) = swept.report.records.items()
    heavy = replace(record, weights=b"many")
    assert codec.record_to_json(heavy) == codec.record_to_json(record)
    swept.store.write(heavy)
    assert swept.store.weights(run_id)[1] == b"many"
    assert swept.store.read(run_id).weights is None
    assert swept.store.strays() == []


class TestByRunId:
    def test_weights_of_any_sweep_are_found(self, tmp_path: Path) -> None:
        sweep(tmp_path, plan("a", lr=1e-2))
        run_id = next(iter(plan(lr=1e-2).configs))
        with pytest.raises(UserError, match="--save-weights"):
            outputs.read(tmp_path, run_id)
        made, _ = sweep(tmp_path, plan("b", lr=1e-2), save_weights=True)
        expected = made.store.weights(run_id)
        for name in (run_id, run_id[-8:], str(made.store.folder / "runs" / run_id)):
            data, origin = outputs.read(tmp_path, name)
            assert (origin, data) == (str(expected[0]), expected[1])

    def test_from_sweep_to_converted_weights(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("tiny.yaml").write_text(TINY.replace("}", ", order: 1, lr: 0.01}"))
        assert invoke("sweep", "tiny.yaml", "--executor", "inline").code == 0
        assert "1 to do (1 of them " in invoke("sweep", "tiny.yaml", "--save-weights", "--dry-run").out
        assert "weights" not in invoke("sweep", "tiny.yaml", "--dry-run").out
        assert invoke("sweep", "tiny.yaml", "--executor", "inline", "--save-weights").code == 0
        assert invoke("convert", "d1-ln-pre", "rms.safetensors", "--to", "rms").code == 0
        config, _ = network_from(Path("rms.safetensors").read_bytes(), origin="")
        assert config.norm == "rms"


def test_damaged_weights_are_not_used(tmp_path: Path) -> None:
    """Neither here, where the run is made again, nor by another sweep that looks for them."""
    swept, _ = sweep(tmp_path, plan(), save_weights=True)
    first, second = (swept.store.folder / "runs" / run_id / WEIGHTS for run_id in plan().configs)
    first.write_bytes(first.read_bytes()[:500])
    second.write_bytes(b"")
    assert len(work(tmp_path, plan(), save_weights=True).todo) == 2
    other, told = sweep(tmp_path, plan("other"), save_weights=True)
    assert told[0] == 2
    assert all(other.store.has_weights(run_id) for run_id in plan().configs)
