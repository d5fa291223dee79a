"""Results folders restore what was written, reuse runs of other sweeps, and ignore incomplete files."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import records as made
from stored import same, write_all

from normexp.config.plan import Plan
from normexp.errors import UserError
from normexp.storage import codec
from normexp.storage.store import StorageError, Store


def test_everything_written_comes_back(store: Store, plan: Plan) -> None:
    records = write_all(store, plan)
    for run_id, record in records.items():
        assert same(store.read(run_id), record)
    assert same(store.records(), {key: replace(record, traces=None, log=None) for key, record in records.items()})
    assert store.warnings == []


def test_death_csv_exists_only_for_nonfinite_runs(store: Store, plan: Plan) -> None:
    for run_id, record in write_all(store, plan).items():
        dead = record.result is not None and record.result.death is not None
        assert (store.folder / "runs" / run_id / "death.csv").exists() == dead


def test_a_younger_key_takes_its_neutral_value(store: Store, plan: Plan) -> None:
    record = made.done(plan.points[0].config, 1.9)
    store.write(record)
    path = store.folder / "runs" / record.run_id / "run.json"
    stored = json.loads(path.read_text("utf-8"))
    del stored["config"]["qk_norm"]
    path.write_text(json.dumps(stored), "utf-8")
    assert store.records()[record.run_id].config == record.config


@pytest.mark.parametrize("run_id", ["../../etc", "a/b", "", ".", "..", ".hidden", "a\\b", "x\n"])
def test_no_run_id_leaves_the_folder(store: Store, run_id: str) -> None:
    for use in (store.read, store.traces, store.log):
        with pytest.raises(UserError, match="not a run id"):
            use(run_id)


def test_a_disk_that_is_full(store: Store, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    config = plan.points[0].config
    store.write(made.done(config, 1.9))

    def full(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match=f"cannot write .*{config.run_id}.*: No space left on device"):
            store.write(made.done(config, 2.5))
    assert store.records() == {}
    assert store.warnings == []
    assert not list(store.folder.rglob("*.tmp"))
    store.write(made.done(config, 2.5))
    assert store.records()[config.run_id].result.final_val_loss == 2.5


def test_a_crash_while_overwriting_leaves_a_pending_run(
    store: Store, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = plan.points[0].config
    store.write(made.done(config, 1.9))

    def crash(text: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(codec, "signal_to_csv", crash)
    with pytest.raises(KeyboardInterrupt):
        store.write(made.done(config, 2.5))
    assert store.records()[config.run_id].result.final_val_loss == 1.9, "nothing had been touched yet"
    monkeypatch.undo()
    replaced = []

    def crash_late(path: Path, target: Path) -> None:
        replaced.append(target.name)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash_late)
    with pytest.raises(KeyboardInterrupt):
        store.write(made.done(config, 2.5))
    assert replaced == ["curve.csv"]
    assert store.records() == {}


def test_a_rerun_removes_the_files_of_a_nonfinite_run(store: Store, plan: Plan) -> None:
    config = plan.points[2].config
    store.write(made.dead(config, 12))
    store.write(made.done(config, 1.9))
    assert store.traces(config.run_id).death_layers == []
    assert len(store.traces(config.run_id).curve) == made.STEPS + 1


def test_temporary_files_of_killed_writers_are_removed(store: Store, plan: Plan) -> None:
    run_id = next(iter(write_all(store, plan)))
    left = [store.folder / ".manifest.json.123.tmp", store.folder / "runs" / run_id / ".run.json.123.tmp"]
    for path in left:
        path.write_text("half")
    store.begin(plan, [], force=False)
    assert not any(path.exists() for path in left)
    assert len(store.records()) == 4


def test_reuse_from_another_sweep(store: Store, plan: Plan, tmp_path: Path) -> None:
    root, config = tmp_path / "results", plan.points[0].config
    other = Store(root / "other")
    other.begin(made.plan({"lr": [1e-3]}, depth=2), [], force=False)
    assert store.find_elsewhere(root, config.run_id) is None
    other.write(made.failed(config))
    assert store.find_elsewhere(root, config.run_id) is None
    other.write(made.done(config, 1.9, numerics=0))
    assert store.find_elsewhere(root, config.run_id) is None, "outdated"
    record = made.done(config, 1.9)
    other.write(record)
    found = store.find_elsewhere(root, config.run_id)
    assert found is not None
    assert store.copy_from(found, config.run_id) == replace(record, reused_from="other")
    assert same(store.read(config.run_id), replace(record, reused_from="other"))
    assert other.find_elsewhere(root / "nowhere", config.run_id) is None
    (other.folder / "runs" / config.run_id / "run.json").unlink()
    assert store.find_elsewhere(root, config.run_id) is None, "this folder itself does not count"


@pytest.mark.parametrize("content", [None, "step,lr,train_loss,grad_norm,val_loss\n"])
def test_a_run_without_its_curve_is_not_reused(store: Store, plan: Plan, tmp_path: Path, content: str | None) -> None:
    config, other = plan.points[0].config, Store(tmp_path / "results" / "other")
    other.begin(made.plan({"lr": [1e-3]}, depth=2), [], force=False)
    other.write(made.done(config, 1.9))
    path = other.folder / "runs" / config.run_id / "curve.csv"
    path.unlink() if content is None else path.write_text(content, "utf-8")
    with pytest.raises(UserError, match=r"curve\.csv is missing or empty"):
        store.copy_from(other, config.run_id)
    assert store.ended() == set()


def test_failures_keep_their_log(store: Store, plan: Plan) -> None:
    config = plan.points[0].config
    store.write(made.failed(config))
    assert store.log(config.run_id) == "started\n"
    store.write(replace(made.failed(config), log=None))
    assert store.log(config.run_id) == "Traceback: it broke"
    store.write(replace(made.failed(config), log="bad byte \udc80, α"))
    assert store.log(config.run_id) == "bad byte \\udc80, α"


def test_files_are_utf8_with_plain_newlines(tmp_path: Path) -> None:
    plan = made.plan({"lr": [1e-3]}, title="dépth α")
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); import records as made; from pathlib import Path;"
        "from normexp.storage.store import Store; from normexp.report import report;"
        "plan = made.plan({'lr': [1e-3]}, title='d\\u00e9pth \\u03b1'); store = Store(Path(sys.argv[1]));"
        "store.begin(plan, [], force=False); store.write(made.done(plan.points[0].config, 1.9)); report.rebuild(store)"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    arguments = [sys.executable, "-c", program, str(tmp_path / "x"), str(Path(__file__).parents[1] / "support")]
    subprocess.run(arguments, env=environment, check=True, timeout=60)
    assert Store(tmp_path / "x").read_plan().title == plan.title
    assert "dépth α" in (tmp_path / "x" / "summary.md").read_text("utf-8")
    for path in (tmp_path / "x").rglob("*"):
        assert path.is_dir() or b"\r" not in path.read_bytes()


def test_names_outside_the_locale_are_refused(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text("name: dépth α\nbase: {depth: 1, width: 8, steps: 5}\ngrid: {lr: [0.001]}\n", "utf-8")
    program = "import sys; from normexp.commands.app import main; sys.exit(main())"
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    arguments = [sys.executable, "-c", program, "sweep", str(sweep), "--out", str(tmp_path / "results")]
    ended = subprocess.run(arguments, env=environment, capture_output=True, timeout=60)
    message = ended.stderr.decode("ascii")
    assert (ended.returncode, "Traceback" in message) == (2, False), message
    assert [fact for fact in ("ascii", "LC_ALL=C.UTF-8") if fact not in message] == []
