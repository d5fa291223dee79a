"""Shards: which runs belong to which, their folders, and the --shard option."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tinysweeps import TINY, Silent, sweep
from tinysweeps import plan as plan_of
from typer.testing import CliRunner

from normexp.commands.app import app
from normexp.config import grid
from normexp.config.plan import Plan, Shard, of_run, parse_shard
from normexp.errors import UserError
from normexp.storage import index
from normexp.storage.store import Store


def plan(seeds: int = 6) -> Plan:
    return plan_of(seed=[*range(seeds)], steps=2)


def todo(listener: Silent) -> list[str]:
    return [config.run_id for config in listener.todo]


pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("0/4", "1/4 to 4/4"),
        ("5/4", "1/4 to 4/4"),
        ("1/0", "1 to 10000"),
        ("1/99999", "1 to 10000"),
        *((text, "write 2/4") for text in ("a/b", "", "2", "1/2/3", "-1/4", "1.0/4", "1/४", "/", "1/")),
    ],
)
def test_invalid_shards_are_rejected(text: str, fact: str) -> None:
    with pytest.raises(UserError, match=rf"^shard {text[:40]}: .*{fact}"):
        parse_shard(text)


def test_shards_are_read() -> None:
    assert parse_shard("2/4") == Shard(2, 4)
    assert parse_shard("1/1") == Shard(1, 1)


def test_the_shard_of_a_run_never_changes() -> None:
    """Golden values: shards computed on machines with different versions must fit together."""
    ids = ["d1-ln-pre-attention-lr0.001-w0-s0-00000000", "d20-none-pre-attention-lr0.003-w200-s7-0a1b2c3d"]
    assert [of_run(run_id, 4).number for run_id in ids] == [1, 2]
    assert [of_run(run_id, 7).number for run_id in ids] == [2, 5]


def test_each_run_is_in_one_shard_and_added_points_move_none() -> None:
    few, many = plan(20).configs, plan(40).configs
    shards = [Shard(number, 4) for number in range(1, 5)]
    owners = {run_id: [shard for shard in shards if shard.has(run_id)] for run_id in many}
    assert {len(shards) for shards in owners.values()} == {1}
    assert len({found[0] for found in owners.values()}) == 4
    for shard in shards:
        part = plan(20).part(shard).configs.keys()
        assert part == plan(40).part(shard).configs.keys() & few.keys()


def test_shards_have_similar_sizes() -> None:
    counts = Counter(of_run(f"run-{number}", 8) for number in range(8000))
    assert len(counts) == 8
    assert all(850 < count < 1150 for count in counts.values())


def test_a_shard_has_a_separate_folder_that_records_it(tmp_path: Path) -> None:
    whole = plan()
    part = whole.part(Shard(2, 3))
    swept, listener = sweep(tmp_path, part)
    assert swept.store.folder.name == "tiny.shard-2-of-3"
    assert 0 < len(listener.todo) < 12
    assert set(todo(listener)) == {run_id for run_id in whole.configs if of_run(run_id, 3).number == 2}
    read = Store(swept.store.folder).read_plan()
    assert (read.shard, read.configs, read.folder, read.title) == (Shard(2, 3), part.configs, part.folder, part.title)
    assert read.whole is not None
    assert (read.whole.points, read.whole.folder, read.whole.title) == (whole.points, "tiny", "Tiny")
    assert set(swept.report.runs["run_id"]) == set(part.configs)
    assert swept.report.summary["planned"].sum() == len(part.configs)
    assert f"{len(part.configs)} of 12 runs" in swept.report.conclusion
    assert f"`normexp merge {tmp_path}/tiny.shard-*-of-3`" in swept.report.conclusion
    assert swept.store.strays() == []
    assert [(shelf.runs, shelf.ended) for shelf in index.statuses(tmp_path)] == [(len(part.configs),) * 2]


def test_a_finished_shard_is_not_repeated_and_the_whole_sweep_copies_it(tmp_path: Path) -> None:
    sweep(tmp_path, plan().part(Shard(1, 3)))
    _, again = sweep(tmp_path, plan().part(Shard(1, 3)))
    assert again.todo == []
    _, other = sweep(tmp_path, plan().part(Shard(1, 2)))
    assert other.reused > 0
    whole, listener = sweep(tmp_path, plan())
    assert listener.reused == len({*plan().part(Shard(1, 3)).configs, *plan().part(Shard(1, 2)).configs})
    assert len(listener.todo) == 12 - listener.reused
    assert whole.report.plan.shard is None


def test_only_may_match_no_run_of_a_shard_but_must_match_one_of_the_sweep(tmp_path: Path) -> None:
    part = plan().part(Shard(2, 3))
    elsewhere = next(config for run_id, config in plan().configs.items() if run_id not in part.configs)
    alone = {config.seed for config in part.configs.values() if config.lr == elsewhere.lr}
    assert elsewhere.seed not in alone
    swept, listener = sweep(tmp_path, part, only=(f"seed={elsewhere.seed}", f"lr={elsewhere.lr}"))
    assert (listener.todo, swept.exit_code) == ([], 0)
    with pytest.raises(UserError, match=r"seed=77.*tiny"):
        sweep(tmp_path, part, only=("seed=77",))


@pytest.mark.with_figures
def test_a_shard_without_a_run_succeeds(tmp_path: Path) -> None:
    whole = plan(1)
    taken = {of_run(run_id, 8) for run_id in whole.configs}
    free = next(shard for shard in (Shard(number, 8) for number in range(1, 9)) if shard not in taken)
    swept, listener = sweep(tmp_path, whole.part(free))
    assert (listener.todo, swept.exit_code) == ([], 0)
    assert f"{free} of tiny, 0 of 2 runs" in swept.report.conclusion
    again, _ = sweep(tmp_path, whole.part(free))
    assert again.exit_code == 0


def test_a_shards_folder_accepts_added_points(tmp_path: Path) -> None:
    sweep(tmp_path, plan(6).part(Shard(2, 3)))
    swept, listener = sweep(tmp_path, plan(12).part(Shard(2, 3)))
    gained = plan(12).part(Shard(2, 3)).configs.keys() - plan(6).part(Shard(2, 3)).configs.keys()
    assert set(todo(listener)) == gained
    assert swept.store.strays() == []


def test_the_sweep_command_takes_a_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base = ", ".join(f"{key}: {value}" for key, value in TINY.items())
    Path("tiny.yaml").write_text(f"base: {{{base}}}\ngrid: {{seed: {{range: [0, 11, 1]}}}}\n")
    output = CliRunner().invoke(app, ["sweep", "tiny.yaml", "lr=1e-2", "--shard", "2/3", "--dry-run"]).output
    configs = grid.plan_of(name="t", title="T", groups=[("", {**TINY, "lr": 1e-2, "seed": [*range(12)]})]).configs
    count = sum(Shard(2, 3).has(run_id) for run_id in configs)
    for fact in ("tiny: 12 configs, 12 runs", f"shard 2 of 3: {count} of ", "results/tiny+lr=0.01.shard-2-of-3"):
        assert fact in output
    assert f"{count} to do" in output
    assert not Path("results").exists()
    refused = CliRunner().invoke(app, ["sweep", "tiny.yaml", "--shard", "0/3"])
    assert isinstance(refused.exception, UserError)
