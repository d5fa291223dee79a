"""Shards: which runs are whose, what a shard's folder is, and how it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from normexp.commands.app import app
from normexp.config import grid
from normexp.config.plan import Plan, Shard, of_run, parse_shard
from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.execution.events import Event
from normexp.runner.run_selection import Options
from normexp.runner.sweep import Swept, run_sweep
from normexp.storage import index
from normexp.storage.store import Store

TINY = {"depth": 1, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "batch": 4, "steps": 2, "eval_every": 2}


class Listener:
    """Remembers what there was to do."""

    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None:
        self.todo, self.reused = [config.run_id for config in todo], reused

    def event(self, event: Event) -> None: ...

    def end(self) -> None: ...


def plan(seeds: int = 6) -> Plan:
    return grid.plan_of(name="tiny", title="Tiny", groups=[("", {**TINY, "lr": [1e-3, 1e-2], "seed": [*range(seeds)]})])


def sweep(out: Path, asked: Plan, **rest: object) -> tuple[Swept, Listener]:
    listener = Listener()
    return run_sweep(asked, Options(out=out, jobs=1, executor="inline", **rest), listener), listener


@pytest.fixture(autouse=True)
def _no_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "with_figures" not in request.keywords:
        monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0/4", r"counted from 1: write 1/4 to 4/4"),
        ("5/4", r"counted from 1: write 1/4 to 4/4"),
        ("1/0", r"1 to 10000 shards"),
        ("1/99999", r"1 to 10000 shards"),
        *(
            (text, r"write 2/4 for shard 2 of 4")
            for text in ("a/b", "", "2", "1/2/3", "-1/4", "1.0/4", "1/४", "/", "1/")
        ),
    ],
)
def test_what_is_no_shard_is_refused_with_what_to_write(text: str, told: str) -> None:
    with pytest.raises(UserError, match=rf"^shard {text[:40]}: .*{told}"):
        parse_shard(text)


def test_a_shard_is_read() -> None:
    assert parse_shard("2/4") == Shard(2, 4)
    assert parse_shard("1/1") == Shard(1, 1)


def test_where_a_run_belongs_is_fixed_for_ever() -> None:
    """Golden values: shards that machines made with different versions must fit together."""
    ids = ["d1-ln-pre-attention-lr0.001-w0-s0-00000000", "d20-none-pre-attention-lr0.003-w200-s7-0a1b2c3d"]
    assert [of_run(run_id, 4).number for run_id in ids] == [1, 2]
    assert [of_run(run_id, 7).number for run_id in ids] == [2, 5]


def test_each_run_is_in_one_shard_and_more_points_move_none() -> None:
    few, many = plan(20).configs, plan(40).configs
    shards = [Shard(number, 4) for number in range(1, 5)]
    owners = {run_id: [shard for shard in shards if shard.has(run_id)] for run_id in many}
    assert {len(found) for found in owners.values()} == {1}
    assert len({found[0] for found in owners.values()}) == 4
    for shard in shards:
        part = plan(20).part(shard).configs.keys()
        assert part == plan(40).part(shard).configs.keys() & few.keys()


def test_shards_are_of_about_one_size() -> None:
    counts = Counter(of_run(f"run-{number}", 8) for number in range(8000))
    assert len(counts) == 8
    assert all(850 < count < 1150 for count in counts.values())


def test_a_shard_has_a_folder_that_knows_what_it_is(tmp_path: Path) -> None:
    whole = plan()
    part = whole.part(Shard(2, 3))
    swept, listener = sweep(tmp_path, part)
    assert swept.store.folder.name == "tiny.shard-2-of-3"
    assert 0 < len(listener.todo) < 12
    assert set(listener.todo) == {run_id for run_id in whole.configs if of_run(run_id, 3).number == 2}
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


def test_a_second_start_has_nothing_to_do_and_the_whole_sweep_copies(tmp_path: Path) -> None:
    sweep(tmp_path, plan().part(Shard(1, 3)))
    _, again = sweep(tmp_path, plan().part(Shard(1, 3)))
    assert again.todo == []
    _, other = sweep(tmp_path, plan().part(Shard(1, 2)))
    assert other.reused > 0
    whole, listener = sweep(tmp_path, plan())
    assert listener.reused == len({*plan().part(Shard(1, 3)).configs, *plan().part(Shard(1, 2)).configs})
    assert len(listener.todo) == 12 - listener.reused
    assert whole.report.plan.shard is None


def test_only_that_leaves_a_shard_nothing_is_no_fault_but_only_that_matches_nowhere_is(tmp_path: Path) -> None:
    part = plan().part(Shard(2, 3))
    elsewhere = next(config for run_id, config in plan().configs.items() if run_id not in part.configs)
    alone = {config.seed for config in part.configs.values() if config.lr == elsewhere.lr}
    assert elsewhere.seed not in alone
    swept, listener = sweep(tmp_path, part, only=(f"seed={elsewhere.seed}", f"lr={elsewhere.lr}"))
    assert (listener.todo, swept.exit_code) == ([], 0)
    with pytest.raises(UserError, match="no point of tiny matches"):
        sweep(tmp_path, part, only=("seed=77",))


@pytest.mark.with_figures
def test_a_shard_without_a_run_ends_well(tmp_path: Path) -> None:
    whole = plan(1)
    taken = {of_run(run_id, 8) for run_id in whole.configs}
    free = next(shard for shard in (Shard(number, 8) for number in range(1, 9)) if shard not in taken)
    swept, listener = sweep(tmp_path, whole.part(free))
    assert (listener.todo, swept.exit_code) == ([], 0)
    assert swept.report.conclusion.startswith(f"No runs. This is {free} of tiny, 0 of 2 runs")
    again, _ = sweep(tmp_path, whole.part(free))
    assert again.exit_code == 0


def test_a_shard_s_folder_takes_points_gained(tmp_path: Path) -> None:
    sweep(tmp_path, plan(6).part(Shard(2, 3)))
    swept, listener = sweep(tmp_path, plan(12).part(Shard(2, 3)))
    gained = plan(12).part(Shard(2, 3)).configs.keys() - plan(6).part(Shard(2, 3)).configs.keys()
    assert set(listener.todo) == gained
    assert swept.store.strays() == []


def test_the_command_takes_a_shard_and_says_how_much_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base = ", ".join(f"{key}: {value}" for key, value in TINY.items())
    Path("tiny.yaml").write_text(f"base: {{{base}}}\ngrid: {{seed: {{range: [0, 11, 1]}}}}\n")
    told = CliRunner().invoke(app, ["sweep", "tiny.yaml", "lr=1e-2", "--shard", "2/3", "--dry-run"])
    configs = grid.plan_of(name="t", title="T", groups=[("", {**TINY, "lr": 1e-2, "seed": [*range(12)]})]).configs
    count = sum(Shard(2, 3).has(run_id) for run_id in configs)
    assert "tiny: 12 points, 12 runs, 0 redundant" in told.output
    assert f"shard 2 of 3: {count} of these runs" in told.output
    assert f"{count} to do" in told.output
    assert "folder: results/tiny+lr=0.01.shard-2-of-3" in told.output
    assert not Path("results").exists()
    refused = CliRunner().invoke(app, ["sweep", "tiny.yaml", "--shard", "0/3"])
    assert isinstance(refused.exception, UserError)
