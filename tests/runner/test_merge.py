"""Merging: every run once, the best copy of each, and what is missing is named."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import records as made
from commandline import invoke
from sharded import SHARDS, files, filled, joined, record, twelve_runs
from tinysweeps import TINY, Silent

from normexp.config import grid
from normexp.config.plan import Plan, of_run
from normexp.execution.signals import Stopped
from normexp.records.record import RunRecord, Status
from normexp.runner.run_selection import Options
from normexp.runner.sweep import run_sweep
from normexp.storage.store import Store

pytestmark = pytest.mark.usefixtures("no_figures")

TABLES = ("points.csv", "runs.csv", "summary.csv", "summary.md")


@pytest.fixture
def plan() -> Plan:
    return twelve_runs()


def test_merged_shards_are_byte_identical_to_the_complete_sweep(tmp_path: Path) -> None:
    groups = [
        ("", {**TINY, "norm": ["none", "ln"], "position": ["pre", "post"], "seed": [0, 1]}),
        ("wild", {**TINY, "norm": "none", "optimizer": "sgd", "lr": [1e-2, 1e30]}),
    ]
    whole = grid.plan_of(name="tiny", title="Tiny", groups=groups)
    one = run_sweep(whole, Options(out=tmp_path / "one", jobs=1, executor="inline"), Silent())
    many = tmp_path / "many"
    for shard in SHARDS:
        run_sweep(whole.part(shard), Options(out=many, jobs=1, executor="inline"), Silent())
    merged = joined([Store(many / shard.folder("tiny")) for shard in reversed(SHARDS)])
    assert (merged.exit_code, merged.copied, merged.messages) == (0, 8, [])
    assert merged.store.folder == many / "tiny"
    assert one.report.runs["outcome"].nunique() > 1
    for name in TABLES:
        assert (many / "tiny" / name).read_bytes() == (one.store.folder / name).read_bytes()
    for run_id in whole.configs:
        for name in ("curve.csv", "layers.csv", "log.txt"):
            here, there = (folder / "runs" / run_id / name for folder in (many / "tiny", one.store.folder))
            assert here.read_bytes() == there.read_bytes()


def test_merging_twice_changes_nothing(shards: list[Store]) -> None:
    first = joined(shards)
    before = files(first.store.folder)
    again = joined([*shards, shards[0], first.store])
    assert (again.copied, again.kept, again.exit_code) == (0, 12, 0)
    assert files(first.store.folder) == before


def test_missing_and_unfinished_shards_are_named_with_their_commands(shards: list[Store]) -> None:
    shutil.rmtree(shards[0].folder / "runs" / sorted(shards[0].ended())[0])
    merged = joined(shards[:2])
    lost = len(shards[2].ended())
    assert merged.exit_code == 1
    missing, first, third, *_ = merged.messages
    assert f"{lost + 1} of 12 runs" in missing
    for number, runs, line in ((1, "1 run", first), (3, f"{lost} runs", third)):
        facts = (f"shard {number} of 3", runs, f"`normexp sweep 'configs/a b.yaml' --jobs 2 --shard {number}/3`")
        assert [fact for fact in facts if fact not in line] == []
    rest = joined(shards[2:])
    assert rest.copied == lost
    assert "1 of 12 runs" in rest.messages[0]


def test_other_folders_are_merged_and_missing_runs_are_named(tmp_path: Path, plan: Plan) -> None:
    one, other = filled(tmp_path / "a", plan), filled(tmp_path / "b", plan)
    ids = sorted(plan.configs)
    for store, lost in ((one, ids[:6]), (other, ids[5:])):
        for run_id in lost:
            shutil.rmtree(store.folder / "runs" / run_id)
    merged = joined([one, other], tmp_path / "c")
    assert (merged.copied, merged.exit_code) == (11, 1)
    (message,) = merged.messages
    facts = ("1 of 12 runs", ids[5], "`normexp sweep 'configs/a b.yaml' --jobs 2`")
    assert [fact for fact in facts if fact not in message] == []


def test_done_wins_over_failed_and_recent_over_outdated_numerics(tmp_path: Path, plan: Plan) -> None:
    first, second, third, *_ = plan.configs.values()
    one, other = filled(tmp_path / "a", plan), filled(tmp_path / "b", plan)
    one.write(made.failed(first))
    other.write(made.failed(second, Status.KILLED))
    one.write(made.failed(third))
    other.write(made.failed(third))
    merged = joined([one, other], tmp_path / "c")
    assert merged.report is not None
    assert merged.exit_code == 1
    assert [record.run_id for record in merged.report.records.values() if record.status is not Status.DONE] == [
        third.run_id
    ]
    old = made.done(first, 3.0, numerics=1)
    merged.store.write(old)
    assert old.outdated
    again = joined([other], tmp_path / "c")
    assert again.copied == 1
    assert again.report is not None
    assert not again.report.records[first.run_id].outdated


def test_weights_come_along(tmp_path: Path, plan: Plan) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    weights = len(header).to_bytes(8, "little") + header + bytes(4)
    one, other = filled(tmp_path / "a", plan), filled(tmp_path / "b", plan)
    run_id, config = next(iter(plan.configs.items()))
    other.write(replace(record(config), weights=weights))
    merged = joined([one], tmp_path / "c")
    assert not merged.store.has_weights(run_id)
    again = joined([one, other], tmp_path / "c")
    assert (again.copied, again.kept) == (1, 11)
    assert again.store.weights(run_id)[1] == weights


def test_damaged_runs_are_left_out_with_a_warning(tmp_path: Path, shards: list[Store]) -> None:
    garbled, cut, linked = sorted(shards[0].ended())[:3]
    runs = shards[0].folder / "runs"
    (runs / garbled / "run.json").write_text('{"schema": 1, "run_')
    (runs / cut / "curve.csv").write_text("step,lr\n")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (runs / linked / "log.txt").unlink()
    (runs / linked / "log.txt").symlink_to(secret)
    merged = joined(shards)
    text = "\n".join(merged.warnings)
    assert merged.copied == 9
    assert merged.exit_code == 1
    assert [
        name for name in (f"{garbled}/run.json", f"{cut}/curve.csv: line 1", f"{linked}/log.txt") if name not in text
    ] == []
    assert "3 of 12 runs" in merged.messages[0]
    assert not any(b"secret" in content for content in files(merged.store.folder).values())


def test_an_undamaged_copy_is_preferred(tmp_path: Path, plan: Plan) -> None:
    one, other = filled(tmp_path / "a", plan), filled(tmp_path / "b", plan)
    run_id = next(iter(plan.configs))
    (one.folder / "runs" / run_id / "curve.csv").unlink()
    merged = joined([one, other], tmp_path / "c")
    assert (merged.copied, merged.exit_code) == (12, 0)
    assert len(merged.warnings) == 1
    assert merged.store.traces(run_id) == other.traces(run_id)


def test_an_interrupted_merge_goes_on(shards: list[Store], monkeypatch: pytest.MonkeyPatch) -> None:
    write, left = Store.write, 5

    def stops(store: Store, record: RunRecord) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Stopped(15)
        write(store, record)

    monkeypatch.setattr(Store, "write", stops)
    merged = joined(shards)
    assert (merged.exit_code, merged.copied, merged.report) == (143, 5, None)
    assert "SIGTERM: 5 of 12 runs" in merged.messages[0]
    monkeypatch.undo()
    monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)
    again = joined(shards)
    assert (again.copied, again.kept, again.exit_code) == (7, 5, 0)


def test_the_command(tmp_path: Path, shards: list[Store], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = [store.folder.name for store in shards]
    done = invoke("merge", *names)
    assert (done.code, "made_up: 12 runs copied, 0 " in done.out) == (0, True), done
    assert invoke("merge", names[0], "--out", "elsewhere").code == 1
    assert of_run(next(iter(shards[0].ended())), 3) == SHARDS[0]
