"""Merging: every run once, nothing overwritten by other numbers, and what is missing is named."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import records as made
from typer.testing import CliRunner

from normexp.cli.app import app
from normexp.config import grid
from normexp.errors import UserError
from normexp.execute.events import Event
from normexp.interrupt import Stopped
from normexp.merge import Merged, merge
from normexp.plan import Plan
from normexp.record import RunRecord, Status
from normexp.results.pack import pack
from normexp.results.store import Store
from normexp.run import RunConfig
from normexp.shard import Shard, of_run
from normexp.sweep import run_sweep
from normexp.work import Options

TABLES = ("points.csv", "runs.csv", "summary.csv", "summary.md")
SHARDS = [Shard(1, 3), Shard(2, 3), Shard(3, 3)]
ARGV = ("/bin/normexp", "sweep", "configs/a b.yaml", "--shard", "1/3", "--jobs", "2")


class Silent:
    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None: ...

    def event(self, event: Event) -> None: ...

    def end(self) -> None: ...


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("normexp.views.report.write_figures", lambda store, report: None)


@pytest.fixture
def plan() -> Plan:
    return made.plan({"lr": [1e-3, 1e-2], "seed": [0, 1, 2, 3, 4, 5]}, depth=2)


def record(config: RunConfig, **rest: object) -> RunRecord:
    return made.dead(config, 7, **rest) if config.lr == 1e-2 and config.seed == 0 else made.done(config, 2.0, **rest)


def filled(out: Path, plan: Plan, name: str | None = None, **rest: object) -> Store:
    """A folder with all runs of a plan, as an undisturbed sweep would leave it, but for its tables."""
    store = Store(out / (name or plan.folder))
    store.begin(plan, ARGV, force=False)
    for config in plan.configs.values():
        store.write(record(config, **rest))
    return store


@pytest.fixture
def shards(tmp_path: Path, plan: Plan) -> list[Store]:
    return [filled(tmp_path, plan.part(shard)) for shard in SHARDS]


def joined(stores: Sequence[Store], out: Path | None = None) -> Merged:
    return merge([store.folder for store in stores], out, ("normexp", "merge"))


def files(folder: Path) -> dict[str, bytes]:
    """All but what says who holds the folder."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_merged_shards_of_real_runs_give_the_bytes_of_the_sweep_done_in_one_go(tmp_path: Path) -> None:
    tiny = {"depth": 1, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "batch": 4, "steps": 3, "eval_every": 2}
    groups = [
        ("", {**tiny, "norm": ["none", "ln"], "position": ["pre", "post"], "seed": [0, 1]}),
        ("wild", {**tiny, "norm": "none", "optimizer": "sgd", "lr": [1e-2, 1e30]}),
    ]
    whole = grid.plan_of(name="tiny", title="Tiny", groups=groups)
    one = run_sweep(whole, Options(out=tmp_path / "one", jobs=1, executor="inline"), Silent())
    many = tmp_path / "many"
    for shard in SHARDS:
        run_sweep(whole.part(shard), Options(out=many, jobs=1, executor="inline"), Silent())
    merged = joined([Store(many / shard.folder("tiny")) for shard in reversed(SHARDS)])
    assert (merged.exit_code, merged.copied, merged.told) == (0, 8, [])
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


def test_a_missing_shard_and_one_that_has_not_ended_are_named_with_what_makes_them(shards: list[Store]) -> None:
    shutil.rmtree(shards[0].folder / "runs" / sorted(shards[0].ended())[0])
    merged = joined(shards[:2])
    lost = len(shards[2].ended())
    assert merged.exit_code == 1
    assert merged.told == [
        f"{lost + 1} of 12 runs are missing:",
        "  shard 1 of 3 has not ended (1 run): "
        "`normexp sweep 'configs/a b.yaml' --jobs 2 --shard 1/3` makes what it lacks",
        f"  shard 3 of 3 has not been merged ({lost} runs): "
        "`normexp sweep 'configs/a b.yaml' --jobs 2 --shard 3/3` makes what it lacks",
        "then merge again",
    ]
    rest = joined(shards[2:])
    assert rest.copied == lost
    assert rest.told[0] == "1 of 12 runs is missing:"


def test_folders_that_are_no_shards_are_joined_and_what_is_missing_is_told_by_its_id(
    tmp_path: Path, plan: Plan
) -> None:
    one, other = filled(tmp_path / "a", plan), filled(tmp_path / "b", plan)
    ids = sorted(plan.configs)
    for store, lost in ((one, ids[:6]), (other, ids[5:])):
        for run_id in lost:
            shutil.rmtree(store.folder / "runs" / run_id)
    merged = joined([one, other], tmp_path / "c")
    assert (merged.copied, merged.exit_code) == (11, 1)
    assert merged.told == [
        f"1 of 12 runs is missing: {ids[5]}: `normexp sweep 'configs/a b.yaml' --jobs 2` makes them; then merge again"
    ]


def test_other_numbers_are_told_and_nothing_is_written(tmp_path: Path, plan: Plan, shards: list[Store]) -> None:
    merged = joined(shards[:1])
    before = files(merged.store.folder)
    run_id, config = next(iter(plan.part(SHARDS[0]).configs.items()))
    wrong = filled(tmp_path / "other", plan.part(SHARDS[0]))
    wrong.write(made.done(config, 2.5, environment={**made.ENVIRONMENT, "torch": "2.14.0"}))
    with pytest.raises(UserError) as told:
        joined([wrong, *shards[1:]], merged.store.folder)
    text = str(told.value)
    assert f"{run_id} in {merged.store.folder} and {wrong.folder}: " in text
    assert "final_val_loss 2.0 and 2.5" in text
    assert "made with torch 2.13.0 and 2.14.0" in text
    assert files(merged.store.folder) == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda row: replace(row, train_loss=9.0) if row.step == 17 else row, "train_loss of step 17 .* and 9.0"),
        (lambda row: replace(row, grad_norm=2.0) if row.step == 17 else row, "grad_norm of step 17 1.0 and 2.0"),
    ],
)
def test_other_curves_are_conflicts(tmp_path: Path, plan: Plan, change: Callable[[object], object], told: str) -> None:
    one, other = filled(tmp_path / "a", plan), filled(tmp_path / "b", plan)
    changed = made.done(next(iter(plan.configs.values())), 2.0)
    assert changed.traces is not None
    other.write(replace(changed, traces=replace(changed.traces, curve=[change(row) for row in changed.traces.curve])))
    with pytest.raises(UserError, match=told):
        joined([one, other], tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_another_machine_another_time_and_what_a_pack_leaves_out_are_no_conflict(tmp_path: Path, plan: Plan) -> None:
    one = filled(tmp_path / "a", plan)
    other = filled(tmp_path / "b", plan, seconds={"total": 9.0}, environment={"torch": "2.14.0"}, reused_from="x")
    third = tmp_path / "c" / "made_up"
    third.mkdir(parents=True)
    shutil.copy(pack(other).path, third)
    waiting = pytest.raises(UserError, match=r"a pack alone: restore them with `normexp unpack")
    with waiting:
        joined([one, other, Store(third)], tmp_path / "d")
    CliRunner().invoke(app, ["unpack", str(third)])
    merged = joined([one, other, Store(third)], tmp_path / "d")
    assert (merged.copied, merged.exit_code) == (12, 0)


def test_done_goes_before_failed_and_this_program_s_numbers_before_an_older_one_s(tmp_path: Path, plan: Plan) -> None:
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
    assert old.stale
    again = joined([other], tmp_path / "c")
    assert again.copied == 1
    assert again.report is not None
    assert not again.report.records[first.run_id].stale


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


@pytest.mark.parametrize("axes", [{"lr": [1e-3, 1e-2], "seed": [0, 1, 2, 3, 4, 6]}, {"lr": [1e-3], "seed": [0, 1]}])
def test_folders_of_different_sweeps_are_refused_with_what_differs(
    tmp_path: Path, shards: list[Store], axes: dict[str, list[float]]
) -> None:
    other = filled(tmp_path / "other", made.plan(axes, depth=2))
    key = "seed: 0, 1, 2, 3, 4, 5 in"
    with pytest.raises(UserError, match=rf"are not of one sweep(.*\n)+.*{key}"):
        joined([shards[0], other], tmp_path / "c")
    with pytest.raises(UserError, match=r"are not of one sweep"):
        joined(shards, other.folder)
    assert not (tmp_path / "c").exists()


def test_sweeps_of_the_same_values_in_other_combinations_or_under_another_title_differ(
    tmp_path: Path, plan: Plan
) -> None:
    one = filled(tmp_path / "a", plan)
    fewer = filled(tmp_path / "b", replace(plan, points=plan.points[1:]))
    with pytest.raises(UserError, match="1 run in one of them only"):
        joined([one, fewer], tmp_path / "d")
    titled = filled(tmp_path / "c", replace(plan, title="Else"))
    with pytest.raises(UserError, match=r"title: 'A made-up sweep' in .*, 'Else' in"):
        joined([one, titled], tmp_path / "d")


def test_damaged_runs_are_told_and_left_out(tmp_path: Path, shards: list[Store]) -> None:
    garbled, cut, linked = sorted(shards[0].ended())[:3]
    runs = shards[0].folder / "runs"
    (runs / garbled / "run.json").write_text('{"schema": 1, "run_')
    (runs / cut / "curve.csv").write_text("step,lr\n")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (runs / linked / "log.txt").unlink()
    (runs / linked / "log.txt").symlink_to(secret)
    merged = joined(shards)
    told = "\n".join(merged.warnings)
    assert merged.copied == 9
    assert merged.exit_code == 1
    assert f"{garbled}/run.json cannot be used" in told
    assert f"{cut}/curve.csv: line 1 is not" in told
    assert f"{linked}/log.txt is a symbolic link" in told
    assert merged.told[0] == "3 of 12 runs are missing:"
    assert not any(b"secret" in content for content in files(merged.store.folder).values())


def test_a_good_copy_is_taken_where_another_is_damaged(tmp_path: Path, plan: Plan) -> None:
    one, other = filled(tmp_path / "a", plan), filled(tmp_path / "b", plan)
    run_id = next(iter(plan.configs))
    (one.folder / "runs" / run_id / "curve.csv").unlink()
    merged = joined([one, other], tmp_path / "c")
    assert (merged.copied, merged.exit_code) == (12, 0)
    assert len(merged.warnings) == 1
    assert merged.store.traces(run_id) == other.traces(run_id)


def test_what_is_no_results_folder_is_refused_all_at_once(tmp_path: Path, shards: list[Store]) -> None:
    (shards[0].folder / "manifest.json").unlink()
    (shards[1].folder / "manifest.json").write_text("{")
    (tmp_path / "notes").mkdir()
    with pytest.raises(UserError) as told:
        merge([*(store.folder for store in shards), tmp_path / "notes", tmp_path / "gone"], None, ())
    assert len(told.value.complaints) == 4
    assert not (tmp_path / "made_up").exists()


def test_a_shard_is_no_target_and_the_target_alone_is_nothing_to_merge(tmp_path: Path, shards: list[Store]) -> None:
    before = files(tmp_path)
    with pytest.raises(UserError, match=r"is shard 1 of 3 alone: merge into another folder"):
        joined(shards, shards[0].folder)
    with pytest.raises(UserError, match=r"is shard 1 of 3 alone"):
        joined(shards[1:], tmp_path / "." / shards[0].folder.name)
    assert files(tmp_path) == before
    merged = joined(shards)
    with pytest.raises(UserError, match=r"is the only folder to merge"):
        joined([merged.store], merged.store.folder)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="not normexp's"):
        joined(shards, tmp_path / "thesis")


@pytest.mark.parametrize("place", ["source", "target"])
def test_a_folder_that_a_driver_writes_is_refused(shards: list[Store], place: str) -> None:
    target = joined(shards[:1]).store
    held = shards[1] if place == "source" else target
    with held.lock(), pytest.raises(UserError, match=f"{held.folder} is in use by pid {os.getpid()}"):
        joined(shards)
    assert joined(shards).exit_code == 0


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
    assert merged.told == ["stopped by SIGTERM: 5 of 12 runs merged; the same command continues"]
    monkeypatch.undo()
    monkeypatch.setattr("normexp.views.report.write_figures", lambda store, report: None)
    again = joined(shards)
    assert (again.copied, again.kept, again.exit_code) == (7, 5, 0)


def test_the_command(tmp_path: Path, shards: list[Store], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = [store.folder.name for store in shards]
    told = CliRunner().invoke(app, ["merge", *names])
    assert told.exit_code == 0, told.output
    assert "made_up: 12 runs copied, 0 there already" in told.output
    assert CliRunner().invoke(app, ["merge", names[0], "--out", "elsewhere"]).exit_code == 1
    assert of_run(next(iter(shards[0].ended())), 3) == SHARDS[0]
