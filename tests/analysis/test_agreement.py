"""Folders that disagree, or that cannot be merged, are reported, and nothing is overwritten by other numbers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import records as made
from sharded import SHARDS, files, filled, joined, twelve_runs
from typer.testing import CliRunner

from normexp.commands.app import app
from normexp.config.plan import Plan
from normexp.errors import UserError
from normexp.runner.merge import merge
from normexp.storage.packs import pack
from normexp.storage.store import Store

pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.fixture
def plan() -> Plan:
    return twelve_runs()


def test_other_numbers_are_told_and_nothing_is_written(tmp_path: Path, plan: Plan, shards: list[Store]) -> None:
    merged = joined(shards[:1])
    before = files(merged.store.folder)
    run_id, config = next(iter(plan.part(SHARDS[0]).configs.items()))
    wrong = filled(tmp_path / "other", plan.part(SHARDS[0]))
    wrong.write(made.done(config, 2.5, environment={**made.ENVIRONMENT, "torch": "2.14.0"}))
    with pytest.raises(UserError, match=f"{run_id} in .*final_val_loss 2.0 and 2.5.*torch 2.13.0 and 2.14.0"):
        joined([wrong, *shards[1:]], merged.store.folder)
    assert files(merged.store.folder) == before


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda row: replace(row, train_loss=9.0) if row.step == 17 else row, "train_loss of step 17 .* and 9.0"),
        (lambda row: replace(row, grad_norm=2.0) if row.step == 17 else row, "grad_norm of step 17 1.0 and 2.0"),
    ],
)
def test_different_curves_are_conflicts(
    tmp_path: Path, plan: Plan, change: Callable[[object], object], difference: str
) -> None:
    one, other = filled(tmp_path / "a", plan), filled(tmp_path / "b", plan)
    changed = made.done(next(iter(plan.configs.values())), 2.0)
    assert changed.traces is not None
    other.write(replace(changed, traces=replace(changed.traces, curve=[change(row) for row in changed.traces.curve])))
    with pytest.raises(UserError, match=difference):
        joined([one, other], tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_another_machine_another_time_and_what_a_pack_leaves_out_are_no_conflict(tmp_path: Path, plan: Plan) -> None:
    one = filled(tmp_path / "a", plan)
    other = filled(tmp_path / "b", plan, seconds={"total": 9.0}, environment={"torch": "2.14.0"}, reused_from="x")
    third = tmp_path / "c" / "made_up"
    third.mkdir(parents=True)
    shutil.copy(pack(other).path, third)
    with pytest.raises(UserError, match="`normexp unpack"):
        joined([one, other, Store(third)], tmp_path / "d")
    CliRunner().invoke(app, ["unpack", str(third)])
    merged = joined([one, other, Store(third)], tmp_path / "d")
    assert (merged.copied, merged.exit_code) == (12, 0)


@pytest.mark.parametrize("axes", [{"lr": [1e-3, 1e-2], "seed": [0, 1, 2, 3, 4, 6]}, {"lr": [1e-3], "seed": [0, 1]}])
def test_folders_of_different_sweeps_are_refused_with_what_differs(
    tmp_path: Path, shards: list[Store], axes: dict[str, list[float]]
) -> None:
    other = filled(tmp_path / "other", made.plan(axes, depth=2))
    for folders, target in (([shards[0], other], tmp_path / "c"), (shards, other.folder)):
        with pytest.raises(UserError, match="seed: 0, 1, 2, 3, 4, 5 in"):
            joined(folders, target)
    assert not (tmp_path / "c").exists()


def test_sweeps_of_the_same_values_in_other_combinations_or_under_another_title_differ(
    tmp_path: Path, plan: Plan
) -> None:
    one = filled(tmp_path / "a", plan)
    fewer = filled(tmp_path / "b", replace(plan, points=plan.points[1:]))
    with pytest.raises(UserError, match="1 run in only one"):
        joined([one, fewer], tmp_path / "d")
    titled = filled(tmp_path / "c", replace(plan, title="Else"))
    with pytest.raises(UserError, match=r"title: 'A made-up sweep' in .*, 'Else' in"):
        joined([one, titled], tmp_path / "d")


def test_what_is_no_results_folder_is_refused_all_at_once(tmp_path: Path, shards: list[Store]) -> None:
    (shards[0].folder / "manifest.json").unlink()
    (shards[1].folder / "manifest.json").write_text("{")
    (tmp_path / "notes").mkdir()
    with pytest.raises(UserError) as error:
        merge([*(store.folder for store in shards), tmp_path / "notes", tmp_path / "gone"], None, ())
    assert len(error.value.complaints) == 4
    assert not (tmp_path / "made_up").exists()


def test_a_shard_is_no_target_and_the_target_alone_is_nothing_to_merge(tmp_path: Path, shards: list[Store]) -> None:
    before = files(tmp_path)
    for sources, target in ((shards, shards[0].folder), (shards[1:], tmp_path / "." / shards[0].folder.name)):
        with pytest.raises(UserError, match="shard 1 of 3"):
            joined(sources, target)
    assert files(tmp_path) == before
    merged = joined(shards)
    with pytest.raises(UserError, match=str(merged.store.folder)):
        joined([merged.store], merged.store.folder)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="thesis"):
        joined(shards, tmp_path / "thesis")
    assert (tmp_path / "thesis" / "thesis.tex").read_text() == "x"


@pytest.mark.parametrize("place", ["source", "target"])
def test_a_folder_that_a_driver_writes_is_refused(shards: list[Store], place: str) -> None:
    target = joined(shards[:1]).store
    held = shards[1] if place == "source" else target
    with held.lock(), pytest.raises(UserError, match=f"{held.folder} .*pid {os.getpid()}"):
        joined(shards)
    assert joined(shards).exit_code == 0
